#!/usr/bin/env python3
"""Draws a record of `gpumat bench --json`, GB/s or GFLOP/s: over many sizes a curve a level, else for each level a bar a problem.
Of `gpumat probe --json` it draws one probe, as `--plot` does.

Usage: plot.py RECORD.json PLOT.svg [TYPE]   (TYPE: only its rows; needs gnuplot; for records made where there is none)
       plot.py PROBES.json PLOT.svg PROBE
"""
import json
import subprocess
import sys

MOST_BARS = 8  # of a level
PROBES = {  # what x and y are, and a scale
    "coalescing": ("stride or offset in words of 4 bytes", "useful GB/s", "set yrange [0:*]"),
    "banks": ("stride in elements", "clocks of a warp's access", "set yrange [0:*]; set xtics 4"),
    "ilp": ("threads a multiprocessor", "share of 128 multiply-adds a clock", "set yrange [0:*]; set logscale x 2"),
    "roofline": ("operations (elements moved, where nothing is computed) a byte", "10⁹ operations/s", "set logscale xy"),
    "energy": ("ms a run", "joules a run", "set logscale xy"),
}
NO_CURVES = ("share of the first", "Little's law")
BASELINES = ("copy", "copy-kept", "copy-shared", "copy-strided", "memcpy", "read")

with open(sys.argv[1]) as file:
    record = json.load(file)
kind = sys.argv[3] if len(sys.argv) > 3 else None


def problem(row):
    extents = [row[key] for key in "mnk" if row.get(key)]
    shape = str(extents[0]) if len(set(extents)) == 1 else "x".join(map(str, extents))
    return row["type"] + " " + shape


def plot(series, styles):
    return "plot " + ", ".join(f'"-" with {style} title "{name}"' for name, style in zip(series, styles))


def curves(rows, rate, unit):
    """Plot commands and data of a curve a level, over n."""
    series = {}
    for row in rows:
        series.setdefault(row["level"] + " " + row["type"], []).append(f"{row['n']} {row[rate]}")
    return [f'set xlabel "n"; set ylabel "{unit}"; set yrange [0:*]', plot(series, ["lines"] * len(series))], series.values()


def bars(rows, rate, unit):
    """The same of bars, a cluster a level in the order of the record. Rates of a ladder span decades."""
    levels = list(dict.fromkeys(row["level"] for row in rows))
    series = {}
    for row in rows:
        series.setdefault(problem(row), {})[row["level"]] = row[rate]
    data = [[f'"{level}" {values.get(level, "?")}' for level in levels] for values in series.values()]
    plots = ", ".join(f'"-" using 2:xtic(1) title "{name}"' for name in series)
    return [f'set style data histogram; set style fill solid 0.8; set datafile missing "?"; set logscale y; set ylabel "{unit}"',
            "set xtics rotate by 35 right noenhanced", "plot " + plots], data


def bench():
    moves = all(row.get("gflops") is None for row in record["rows"])
    rate = "effective_bandwidth_gbps" if moves else "gflops"
    rows = [row for row in record["rows"] if row[rate] is not None and kind in (None, row["type"])]
    if not rows:
        sys.exit(f"{sys.argv[1]}: no rows of {kind or 'any type'} that ran")
    draw = bars if len({problem(row) for row in rows}) <= MOST_BARS else curves
    return f'{rows[0]["op"]} {", ".join(dict.fromkeys(row["type"] for row in rows))}', *draw(rows, rate, "GB/s" if moves else "GFLOP/s")


def probe():
    """Curves over the first column of each table, or a point a level."""
    x_label, y_label, scale = PROBES[kind]
    tables = [table["rows"] for table in next(one for one in record["probes"] if one["name"] == kind)["tables"]]
    series = {}
    of_levels = "level" in tables[-1][0]
    if of_levels:
        for row in tables[-1]:
            if kind == "energy":
                x, y = row["ms"], row["joules"]
            else:
                x, y = row["W, 10⁹ operations"] / row["Q, MB"] * 1e3, row["W, 10⁹ operations"] / row["measured ms"] * 1e3
            if row["level"] not in BASELINES:
                series.setdefault(row["operation"], []).append(f"{x} {y}")
    else:
        for rows in tables:
            x, *columns = rows[0]
            for column in columns:
                if not column.endswith(NO_CURVES):
                    series[x if len(tables) > 1 else column] = [f"{row[x]} {row[column]}" for row in rows]
    styles = ["points pt 7" if of_levels else "linespoints"] * len(series)
    if kind == "roofline":
        rates = {row["ceiling"]: row["rate"] for row in tables[0]}
        peak, copy = rates["f32"], rates["copy, read and written"]
        series["roof: copy, f32"] = [f"{x} {min(peak, x * copy)}" for x in (0.1, peak / copy, 1000)]
        styles.append("lines")
    return kind, [f'set xlabel "{x_label}"; set ylabel "{y_label}"; {scale}', plot(series, styles)], series.values()


subject, commands, blocks = probe() if "probes" in record else bench()
title = f'{subject}, {record["device"]["name"]}, {record["time"][:10]}'
script = [f'set terminal svg size 1200,600 background "white"; set output "{sys.argv[2]}"', "set encoding utf8",
          f'set title "{title}"; set key outside right; set grid', *commands]
for block in blocks:
    script += [*block, "e"]
subprocess.run(["gnuplot"], input="\n".join(script), text=True, check=True)
