#!/usr/bin/env python3
"""Draws a record of `gpumat bench --json`, GB/s or GFLOP/s: over many sizes a curve a level, else for each level a bar a problem.

Usage: plot.py RECORD.json PLOT.svg [TYPE]   (TYPE: only its rows; needs gnuplot; for records made where there is none)
"""
import json
import subprocess
import sys

MOST_BARS = 8  # of a level

with open(sys.argv[1]) as file:
    record = json.load(file)
kind = sys.argv[3] if len(sys.argv) > 3 else None
moves = all(row["gflops"] is None for row in record["rows"])
rate = "effective_bandwidth_gbps" if moves else "gflops"
rows = [row for row in record["rows"] if row[rate] is not None and kind in (None, row["type"])]
if not rows:
    sys.exit(f"{sys.argv[1]}: no rows of {kind or 'any type'} that ran")
unit = "GB/s" if moves else "GFLOP/s"


def problem(row):
    extents = [row[key] for key in "mnk" if row.get(key)]
    shape = str(extents[0]) if len(set(extents)) == 1 else "x".join(map(str, extents))
    return row["type"] + " " + shape


def curves():
    """Plot command and data of a curve a level, over n."""
    points = {}
    for row in rows:
        points.setdefault(row["level"] + " " + row["type"], []).append(f"{row['n']} {row[rate]}")
    plots = ", ".join(f'"-" with lines title "{name}"' for name in points)
    return [f'set xlabel "n"; set ylabel "{unit}"; set yrange [0:*]', "plot " + plots], points.values()


def bars():
    """The same of bars, a cluster a level in the order of the record. Rates of a ladder span decades."""
    levels = list(dict.fromkeys(row["level"] for row in rows))
    series = {}
    for row in rows:
        series.setdefault(problem(row), {})[row["level"]] = row[rate]
    data = [[f'"{level}" {values.get(level, "?")}' for level in levels] for values in series.values()]
    plots = ", ".join(f'"-" using 2:xtic(1) title "{name}"' for name in series)
    return [f'set style data histogram; set style fill solid 0.8; set datafile missing "?"; set logscale y; set ylabel "{unit}"',
            "set xtics rotate by 35 right noenhanced", "plot " + plots], data


commands, blocks = bars() if len({problem(row) for row in rows}) <= MOST_BARS else curves()
title = f'{rows[0]["op"]} {", ".join(dict.fromkeys(row["type"] for row in rows))}, {record["device"]["name"]}, {record["time"][:10]}'
script = [f'set terminal svg size 1200,600 background "white"; set output "{sys.argv[2]}"',
          f'set title "{title}"; set key outside right; set grid', *commands]
for block in blocks:
    script += [*block, "e"]
subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)
