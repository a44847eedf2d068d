#!/usr/bin/env python3
"""Measures transposes of coordinate files, from file to file, beside SciPy and fast_matrix_market, and prints a table.

Usage: measure_value_texts.py FOLDER ENTRIES ROUNDS GPUMAT [GPUMAT…]

Needs NumPy, SciPy and fast_matrix_market. Each contender is a process of its own, with two threads, and takes its turn round by round: wall times from start
to end, and processor times in brackets; medians, and best.
"""
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

folder, entries, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
given, made = str(folder / "given.mtx"), str(folder / "made.mtx")
rows, cols = (6000, 2000) if entries < 10 ** 6 else (10 ** 6, 5 * 10 ** 5)
PYTHON = {"SciPy": f"import scipy.io; scipy.io.mmwrite({made!r}, scipy.io.mmread({given!r}).T.tocsr())",
          "fast_matrix_market": "import fast_matrix_market as f; f.PARALLELISM = 2; "
                                f"f.mmwrite({made!r}, f.mmread({given!r}).T.tocsr())"}


def write_input():
    rng = np.random.default_rng(1)
    places = np.unique(rng.integers(0, rows * cols, entries + entries // 50 + 100))
    places = np.sort(rng.permutation(places)[:entries])
    values = rng.standard_normal(entries)
    with open(given, "w", encoding="ascii") as file:
        file.write(f"%%MatrixMarket matrix coordinate real general\n{rows} {cols} {entries}\n")
        for at in range(0, entries, 10 ** 5):
            some = slice(at, at + 10 ** 5)
            file.write("".join("%d %d %r\n" % line for line in zip((places[some] // cols + 1).tolist(), (places[some] % cols + 1).tolist(), values[some].tolist())))


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


write_input()
contenders = {tool: [tool, "transpose", given, "-o", made, "--force", "-q", "--threads", "2"] for tool in sys.argv[4:]}
if entries >= 10 ** 6:
    contenders |= {name: [sys.executable, "-c", code] for name, code in PYTHON.items()}
times = {name: [] for name in contenders}
sizes = {}
for _ in range(rounds):
    for name, command in contenders.items():
        times[name].append(seconds(command))
        sizes[name] = os.path.getsize(made)
print(f"{entries} entries of {rows}x{cols}, {os.path.getsize(given)} bytes; load {os.getloadavg()[0]:.1f}")
for name, found in times.items():
    walls, processor = zip(*found)
    print(f"| {name} | {statistics.median(walls):.4f}, best {min(walls):.4f} | {statistics.median(processor):.4f}, best {min(processor):.4f} | {sizes[name]} |")
