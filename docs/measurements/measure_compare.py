#!/usr/bin/env python3
"""Compares stored matrices beside h5diff and NumPy, as Markdown tables: what each says, and how long each takes.

Usage: docs/measurements/measure_compare.py [BINARY [SIDE [ROUNDS]]]    (default: build/release/bin/gpumat 16384 3)

Needs h5py, h5diff (hdf5-tools) and room for six matrices of SIDE² f32 in the folder for temporary files. The runs of a line
take turns. Times are of whole processes: the shortest on the wall, and the median of the processor time (of all threads,
user and system), which hardly depends on what else runs on the machine.
"""
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

BINARY = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/gpumat")
SIDE = int(sys.argv[2]) if len(sys.argv) > 2 else 16384
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 3

ALLCLOSE = """
import h5py, numpy, sys
with h5py.File(sys.argv[1]) as x, h5py.File(sys.argv[2]) as y:
    print(numpy.allclose(x["A"][()], y["A"][()]))
"""
MULTIPLY = """
import h5py, numpy, sys
with h5py.File(sys.argv[1]) as a, h5py.File(sys.argv[2]) as b, h5py.File(sys.argv[3]) as c:
    print(numpy.allclose(a["A"][()] @ b["A"][()], c["A"][()], rtol=1e-3, atol=1e-2))
"""


def run(*command):
    """(exit code, wall seconds, processor seconds)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    code = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def write(path, array, **storage):
    with h5py.File(path, "w") as file:
        file.create_dataset("A", data=array, **storage)


def verdicts():
    """What exit codes say of matrices that are not the same."""
    zeros, ones = np.zeros((3, 4)), np.ones((3, 4))
    rows = [
        ("3×4 against 4×3", zeros, np.zeros((4, 3)), [], []),
        ("2-D 3×4 against 1-D 12", zeros, np.zeros(12), [], []),
        ("2-D 12×1 against 1-D 12", np.zeros((12, 1)), np.zeros(12), [], []),
        ("f64 against i32, equal values", ones, np.ones((3, 4), "i4"), [], []),
        ("f64 against i32, 1.5 against 1", ones * 1.5, np.ones((3, 4), "i4"), [], []),
        ("real against complex, 1 against 1 + 2i", ones, ones + 2j, [], []),
        ("0×4 against 3×4", np.zeros((0, 4)), zeros, [], []),
        ("infinity against 1, within 10⁻³ of it", ones * np.inf, ones, ["-p", "1e-3"], ["--rtol", "1e-3"]),
        ("1 against infinity, within 10⁻³ of it", ones, ones * np.inf, ["-p", "1e-3"], ["--rtol", "1e-3"]),
        ("u64 2⁶³ + 1 against f64 2⁶³", np.full((3, 4), 2**63 + 1, np.uint64), ones * 2.0**63, [], []),
        ("equal", ones, ones, [], []),
        ("one element differs", ones, ones + np.eye(3, 4), [], []),
    ]
    print("| X against Y | h5diff | gpumat compare |\n|---|---|---|")
    for name, x, y, h5diff_options, options in rows:
        write("x.h5", x)
        write("y.h5", y)
        h5diff = run("h5diff", *h5diff_options, "x.h5", "y.h5")[0]
        print(f"| {name} | {h5diff} | {run(BINARY, 'compare', *options, 'x.h5', 'y.h5')[0]} |")


def race(name, first, *others):
    """A line: each command's times, and those of the others over the first one's."""
    times = {command: [] for command in (first, *others)}
    for _ in range(ROUNDS):
        for command, found in times.items():
            code, *seconds = run(*command)
            assert code in (0, 1), command
            found.append(seconds)
    walls = {command: min(wall for wall, _ in found) for command, found in times.items()}
    cpus = {command: statistics.median(cpu for _, cpu in found) for command, found in times.items()}
    cells = [f"{walls[command]:.2f} ({cpus[command]:.2f})" for command in times]
    ratios = [f"{walls[command] / walls[first]:.1f} ({cpus[command] / cpus[first]:.1f})" for command in others]
    print("| " + " | ".join([name, *cells, *ratios]) + " |", flush=True)


def races():
    python = ["/usr/bin/python3", "-c"]
    noise = np.random.default_rng(1).standard_normal((SIDE, SIDE), dtype=np.float32)
    for number in (1, 2):
        write(f"plain{number}.h5", noise)
    write("near.h5", np.nextafter(noise, np.float32(0)))
    write("packed1.h5", noise, compression=4)
    subprocess.run(["cp", "packed1.h5", "packed2.h5"], check=True)
    print(f"\n| {SIDE}² f32, equal unless it says otherwise: seconds (processor seconds) | gpumat compare | h5diff | "
          "NumPy allclose | h5diff / gpumat | NumPy / gpumat |\n|---|---|---|---|---|---|")
    for name, x, y, h5diff_options, options in [
            ("contiguous", "plain1.h5", "plain2.h5", [], []),
            ("deflate 4", "packed1.h5", "packed2.h5", [], []),
            ("contiguous, all one ULP apart, within 10⁻⁵", "plain1.h5", "near.h5", ["-p", "1e-5"], ["--rtol", "1e-5"])]:
        race(name, (BINARY, "compare", *options, x, y), ("h5diff", *h5diff_options, x, y), (*python, ALLCLOSE, x, y))
    for name in ("plain1.h5", "plain2.h5", "near.h5", "packed1.h5", "packed2.h5"):
        os.remove(name)
    side = SIDE // 2
    for name in "ab":
        write(f"{name}.h5", noise[:side, :side] if name == "a" else noise[side:, side:])
    with h5py.File("a.h5") as a, h5py.File("b.h5") as b:
        write("c.h5", a["A"][()] @ b["A"][()])
    print(f"\n| {side}² f32: seconds (processor seconds) | gpumat verify multiply | NumPy, computed again | NumPy / gpumat |\n"
          "|---|---|---|---|")
    race("f32", (BINARY, "verify", "multiply", "a.h5", "b.h5", "c.h5"), (*python, MULTIPLY, "a.h5", "b.h5", "c.h5"))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    verdicts()
    races()
