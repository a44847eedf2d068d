#!/usr/bin/env python3
"""Prints the records of `gpumat bench --json` and `gpumat probe --json` as Markdown tables. Usage: tables.py RECORD.json…"""
import json
import os
import shlex
import sys


def number(value, digits=4):
    return "" if value is None else f"{value:.{digits}g}"


def share(value):
    return "" if value is None else f"{value:.3f}"


def gain(value):
    return "" if value is None else f"{value:.2f}×"


def level_name(row):
    run = row.get("level_run")
    name = row["level"] + (f" ({run})" if row["level"] == "auto" and run else "")
    name += "".join(f" {key}={value}" for key, value in (row.get("parameters") or {}).items())
    return name + (" in place" if row.get("in_place") else "")


def print_problem(rows):
    first = rows[0]
    moves = all(row["gflops"] is None for row in rows)  # a rate in GB/s
    shape = "×".join(str(first[key]) for key in "mnk" if first[key])
    print(f"\n**{first['op']} {first['type']} {shape}**\n")
    yardstick = ("read" if first["op"] == "reduce" else "copy") if moves else "vendor"
    print(f"| level | ms | {'GB/s' if moves else 'GFLOP/s'} | of {yardstick} | gain | total gain | verified |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for row in rows:
        rate = row["effective_bandwidth_gbps"] if moves else row["gflops"]
        part = row.get(f"share_of_{yardstick}")
        if part is None and row["median_ms"]:  # a record of before it was there
            part = next((other["median_ms"] / row["median_ms"] for other in rows
                         if other["level"] == yardstick and other["median_ms"]), None)
        print(f"| {level_name(row)} | {number(row['median_ms'])} | {number(rate)} | {share(part)} | "
              f"{gain(row['gain_over_previous'])} | {gain(row['gain_over_first'])} | {row['reason'] or row['verdict']} |")


def print_probe(probe):
    print(f"\n**{probe['name']}**\n")
    for table in probe["tables"]:
        columns = list(table["rows"][0])
        print(f"{table['title'] or ''}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
        for row in table["rows"]:
            cells = (number(value) if isinstance(value, float) else str(value or "") for value in row.values())
            print(f"| {' | '.join(cells)} |")
        print()
    print("\n".join(f"- {sentence}" for sentence in probe["shows"]))


for path in sys.argv[1:]:
    with open(path) as file:
        record = json.load(file)
    device = record["device"]
    facts = [device["name"], f"driver {device['driver']}" if device.get("driver") else "", record["time"][:10],
             f"gpumat {record['version']}"]
    program, *words = record["command"] if "command" in record else shlex.split(record["command_line"])
    print(f"\n{', '.join(fact for fact in facts if fact)}; `{shlex.join([os.path.basename(program), *words])}`")
    for probe in record.get("probes", []):
        print_probe(probe)
    problems = {}
    for row in record.get("rows", []):
        problems.setdefault((row["type"], row["m"], row["n"], row["k"]), []).append(row)
    for rows in problems.values():
        print_problem(rows)
