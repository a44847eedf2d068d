#!/usr/bin/env python3
"""Draws a record of `gpumat bench --json` over several square sizes: one curve a level, GB/s or GFLOP/s against n.

Usage: plot.py RECORD.json PLOT.svg   (needs gnuplot; for records made where there is none)
"""
import json
import subprocess
import sys

with open(sys.argv[1]) as file:
    record = json.load(file)
transpose = record["rows"][0]["op"] == "transpose"
rate = "effective_bandwidth_gbps" if transpose else "gflops"
curves = {}
for row in record["rows"]:
    if row[rate] is not None:
        curves.setdefault(row["level"], []).append((row["n"], row[rate]))

script = [f'set terminal svg size 1200,600 background "white"; set output "{sys.argv[2]}"',
          f'set title "{record["rows"][0]["op"]} {record["rows"][0]["type"]}, {record["device"]["name"]}, {record["time"][:10]}"',
          'set xlabel "n"; set ylabel "' + ("GB/s" if transpose else "GFLOP/s") + '"; set key outside right; set grid; set yrange [0:*]',
          "plot " + ", ".join(f'"-" with lines title "{name}"' for name in curves)]
for points in curves.values():
    script += [f"{n} {value}" for n, value in points] + ["e"]
subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)
