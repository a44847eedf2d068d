#!/usr/bin/env python3
"""Measures reductions of the CPU beside NumPy and math.fsum, as Markdown tables.

Usage: docs/measurements/measure_reduce.py errors|speed [BINARY]    (default: build/release/bin/gpumat)

`errors`: relative errors of sums of hostile numbers. The exact sum is math.fsum's, and what fsum finds to be left of it.
`speed`: the sum of 1 GiB of f32 beside the rate of reading it on all threads, and NumPy's sum of as large an array. On a
machine that does nothing else.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

BINARY = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/release/bin/gpumat")
SIDE = 16384  # of 1 GiB of f32
MANY = 10**7


def to_bf16(values):
    """As 32-bit numbers, rounded to the nearest with an even last bit."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def ill_conditioned(count, condition):
    """Numbers of random signs, with Σ|x| / |Σx| as given."""
    values = np.random.default_rng(1).normal(size=count)
    size = math.fsum(np.abs(values))
    return np.append(values, size / condition - math.fsum(values))


def cases():
    """Name, type, values as NumPy has them (bf16 as f32)."""
    yield "10^16 + 1 − 10^16", "f64", np.array([1e16, 1, -1e16])
    yield "10^16, 1, −10^16, 1, … (10^6)", "f64", np.tile([1e16, 1, -1e16, 1], 250000)
    yield "random signs, condition 10^12 (10^6)", "f64", ill_conditioned(10**6, 1e12)
    yield "normal deviates (10^7)", "f32", np.random.default_rng(2).normal(size=MANY).astype(np.float32)
    yield "0.1 (10^7)", "f64", np.full(MANY, 0.1)
    yield "0.1 (10^7)", "f32", np.full(MANY, 0.1, np.float32)
    yield "0.1 (10^7)", "f16", np.full(MANY, 0.1, np.float16)
    yield "0.1 (10^7)", "bf16", to_bf16(np.full(MANY, 0.1))


def run(*arguments):
    done = subprocess.run([BINARY, *arguments, "--json", "-q"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def write(path, name, values):
    """As 1000 rows, where that divides them, of the type that the tool converts to."""
    with h5py.File(path, "w") as file:
        file["A"] = values.reshape(1000 if values.size % 1000 == 0 else 1, -1)


def errors():
    print("| numbers | type | `serial` | `vectorized` | in parts | NumPy | fsum |")
    print("|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, np.errstate(over="ignore"):
        for title, name, values in cases():
            path = os.path.join(folder, "A.h5")
            write(path, name, values)
            rounded = math.fsum(values)
            left = math.fsum(np.append(values.astype(np.float64), -rounded))

            def error(found):
                found = float(found)
                return "infinite" if math.isinf(found) else f"{abs((found - rounded) - left) / abs(rounded):.1g}"

            words = ["reduce", path, "-d", "cpu", "-t", name]
            cells = [error(run(*words, "-l", level)["answer"]) for level in ("serial", "vectorized")]
            parts = run(*words, "-l", "vectorized", "--memory-limit", str(values.nbytes * 3 // 4)) if values.size > 1000 else None
            assert parts is None or parts["parts"] > 1
            cells.append(error(parts["answer"]) if parts else "–")
            cells.append("–" if name == "bf16" else error(values.sum()))
            print(f"| {title} | {name} | " + " | ".join([*cells, error(rounded)]) + " |", flush=True)


def speed():
    gib = SIDE * SIDE * 4
    rows = run("bench", "reduce", "-t", "f32", "-s", str(SIDE), "-l", "serial,vectorized", "-a", "read", "-d", "cpu")["rows"]
    times = {row["level"]: row["median_ms"] for row in rows}
    values = np.random.default_rng(0).uniform(-1, 1, (SIDE, SIDE)).astype(np.float32)
    samples = []
    for _ in range(11):
        start = time.perf_counter()
        values.sum()
        samples.append((time.perf_counter() - start) * 1e3)
    times["NumPy"] = statistics.median(samples)
    print("| sum of 1 GiB of f32 | ms | GB/s | of read |\n|---|--:|--:|--:|")
    for name, ms in times.items():
        print(f"| {name} | {ms:.1f} | {gib / ms / 1e6:.1f} | {times['read'] / ms:.2f} |")


if __name__ == "__main__":
    {"errors": errors, "speed": speed}[sys.argv[1]]()
