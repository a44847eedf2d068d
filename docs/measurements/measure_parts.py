#!/usr/bin/env python3
"""Measures transposes and products larger than the memory limit, as Markdown tables.

Usage: docs/measurements/measure_parts.py speed|memory [BINARY [SIDE]]    (default: build/release/bin/gpumat 32768)

`speed`: f32 transposes of SIDE² with a limit of an eighth of the matrix, on the CPU, beside h5py by blocks of 4096². Medians of
three, on a machine that does nothing else. `memory`: what the process took of memory, by its record and by the operating system.
Both need room for the matrix and its transpose in the folder for temporary files, best a tmpfs.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

BINARY = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/release/bin/gpumat")
SIDE = int(sys.argv[3]) if len(sys.argv) > 3 else 32768
MIB = 1 << 20
LAYOUTS = {"contiguous": {}, "512×512 chunks, deflate 4": {"chunks": (512, 512), "compression": "gzip", "compression_opts": 4}}


def tool(*arguments):
    """The record, seconds, and the largest memory in MiB as the operating system has it."""
    start = time.perf_counter()
    process = subprocess.Popen([BINARY, *arguments, "--json", "-q"], stdout=subprocess.PIPE)
    record = json.load(process.stdout)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, record
    return record, time.perf_counter() - start, usage.ru_maxrss / 1024


def options_of(layout):
    return ["--chunk", "512x512", "--deflate", "4"] if LAYOUTS[layout] else []


def make(path, side, layout="contiguous"):
    tool("generate", "normal", "--shape", f"{side}x{side}", "-o", path, "--force", *options_of(layout))


def h5py_by_blocks(layout):
    start = time.perf_counter()
    with h5py.File("a.h5") as source, h5py.File("p.h5", "w") as target:
        a = source["A"]
        c = target.create_dataset("A", a.shape, a.dtype, **LAYOUTS[layout])
        for i in range(0, SIDE, 4096):
            for j in range(0, SIDE, 4096):
                c[j : j + 4096, i : i + 4096] = np.ascontiguousarray(a[i : i + 4096, j : j + 4096].T)
    os.unlink("p.h5")
    return time.perf_counter() - start


def speed():
    limit = f"{SIDE * SIDE * 4 // 8}B"
    print(f"| {SIDE}² | parts | s | slowest stage | it worked, s | its share | h5py, s | h5py / gpumat |\n|---|--:|--:|---|--:|--:|--:|--:|")
    for layout in LAYOUTS:
        make("a.h5", SIDE, layout)
        runs = []
        for _ in range(3):
            runs.append(tool("transpose", "a.h5", "-o", "o.h5", "-d", "cpu", "--memory-limit", limit, *options_of(layout)))
            os.unlink("o.h5")
        record, seconds, _ = sorted(runs, key=lambda run: run[1])[1]
        name, busy = max(((s["name"], s["busy_ms"] / 1e3) for s in record["stages"]), key=lambda stage: stage[1])
        peer = statistics.median(h5py_by_blocks(layout) for _ in range(3 if layout == "contiguous" else 1))
        print(f"| {layout} | {record['parts']} | {seconds:.2f} | {name} | {busy:.2f} | {busy / seconds:.2f} | {peer:.1f} | {peer / seconds:.1f} |", flush=True)
    os.unlink("a.h5")


def memory():
    print("| what | limit, MiB | parts | peak, MiB | of it above the limit |\n|---|--:|--:|--:|--:|")
    for what in ["transpose, contiguous", "transpose, 512×512 chunks, deflate 4", "multiply, 8192³"]:
        layout = what.removeprefix("transpose, ") if what.startswith("transpose") else "contiguous"
        make("a.h5", SIDE if what.startswith("transpose") else 8192, layout)
        words = ["transpose", "a.h5", *options_of(layout)] if what.startswith("transpose") else ["multiply", "a.h5", "a.h5"]
        for limit in (256, 512, 1024, 2048, 4096, 16384):
            record, _, peak = tool(*words, "-o", "o.h5", "--force", "-d", "cpu", "--memory-limit", f"{limit}MiB")
            peak = max(peak, record["peak_host_bytes"] / MIB)
            print(f"| {what} | {limit} | {record['parts']} | {peak:.0f} | {max(0, peak - limit):.0f} |", flush=True)
        os.unlink("o.h5")
    os.unlink("a.h5")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        {"speed": speed, "memory": memory}[sys.argv[1]]()
        os.chdir("/")
