#!/usr/bin/env python3
"""Measures reading and writing Matrix Market files beside fast_matrix_market and SciPy, and prints a table.

Usage: measure_matrix_market.py GPUMAT FOLDER [ROUNDS]   (FOLDER in memory, such as one in /dev/shm; 1 GB of it is used)

Needs NumPy, SciPy and fast_matrix_market (all three from PyPI). The contenders take turns, round by round, so that
other work on the machine meets all of them. Before each, memory is taken and given back, so that none of them waits
for the host of a virtual machine to find some. GB/s are 10^9 bytes of text in a second: median, and best in brackets.
"""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import fast_matrix_market as fmm
import numpy as np
import scipy
import scipy.io
import scipy.sparse

gpumat, folder = sys.argv[1], pathlib.Path(sys.argv[2])
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
array, narrow, coordinate, out = (str(folder / name) for name in ("array.mtx", "narrow.mtx", "coordinate.mtx", "out.mtx"))
rates = {}


def note(what, who, path, seconds):
    rates.setdefault(what, {}).setdefault(who, []).append(os.path.getsize(path) / seconds / 1e9)


def find_memory():
    np.ones(700 << 20, dtype=np.uint8)


def stages(path, threads, *more):
    """The seconds that a run of the tool took to read and to write, from its own record."""
    find_memory()
    command = [gpumat, "transpose", path, "--device", "cpu", "--verify", "none", "--threads", str(threads), "--json", "-q", *more]
    stages_ms = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["stages_ms"]
    return stages_ms["read"] / 1e3, (stages_ms["write"] or 0) / 1e3


def timed(action):
    find_memory()
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def round_of(values, values32):
    for threads in (1, 2):
        who = f"gpumat, {threads} thread{'s' * (threads > 1)}"
        peer = f"fast_matrix_market, {threads} thread{'s' * (threads > 1)}"
        read, write = stages(array, threads, "-o", out, "--force")
        note("array f64, read", who, array, read)
        note("array f64, write", who, out, write)
        note("array f64, read", peer, array, timed(lambda: fmm.mmread(array, parallelism=threads))[0])
        seconds = timed(lambda: fmm.mmwrite(out, values, parallelism=threads))[0]
        note("array f64, write", peer, out, seconds)
        _, write = stages(narrow, threads, "--type", "f32", "-o", out, "--force")
        note("array f32, write", who, out, write)
        seconds = timed(lambda: fmm.mmwrite(out, values32, parallelism=threads))[0]
        note("array f32, write", peer, out, seconds)
        note("coordinate f64, read", who, coordinate, stages(coordinate, threads)[0])
        seconds = timed(lambda: fmm.mmread(coordinate, parallelism=threads))[0]
        note("coordinate f64, read", peer, coordinate, seconds)
    note("array f64, read", "SciPy", array, timed(lambda: scipy.io.mmread(array))[0])
    note("array f64, write", "SciPy", out, timed(lambda: scipy.io.mmwrite(out, values))[0])
    note("coordinate f64, read", "SciPy", coordinate, timed(lambda: scipy.io.mmread(coordinate))[0])


state = np.random.default_rng(1)
values = state.standard_normal((2500, 4000))
values32 = values.astype(np.float32)
n, entries = 4000, 10_000_000
fmm.mmwrite(array, values)
fmm.mmwrite(narrow, values32)
places = state.integers(0, n, (2, entries))
fmm.mmwrite(coordinate, scipy.sparse.coo_matrix((state.standard_normal(entries), places), (n, n)))
for _ in range(rounds):
    round_of(values, values32)

with open("/proc/cpuinfo", encoding="ascii") as info:
    model = next(line.split(":")[1].strip() for line in info if line.startswith("model name"))
print(f"{model}, {len(os.sched_getaffinity(0))} processors; Python {platform.python_version()}, SciPy {scipy.__version__}, "
      f"fast_matrix_market {fmm.__version__}; {rounds} rounds; load {os.getloadavg()[0]:.1f}.\n")
print(f"Arrays of {values.shape[0]} x {values.shape[1]} ({os.path.getsize(array) / 1e6:.0f} MB of text in f64), {entries} "
      f"entries in {n} x {n} ({os.path.getsize(coordinate) / 1e6:.0f} MB), standard normal values.\n")
print("| what | who | GB/s |\n|---|---|---|")
for what, contenders in rates.items():
    for who, samples in contenders.items():
        print(f"| {what} | {who} | {statistics.median(samples):.2f} ({max(samples):.2f}) |")
