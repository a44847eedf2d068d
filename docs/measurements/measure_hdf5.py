#!/usr/bin/env python3
"""Measures reading and transposing HDF5 files on the CPU beside h5py and NumPy, as Markdown tables.

Usage: docs/measurements/measure_hdf5.py [BINARY …]     (default: build/release/bin/gpumat)

Needs h5py, 2 GiB in /dev/shm, where all files are, and libdeflate for its floor. Each line is of runs that take turns:
h5py, the first binary, the second …, five times. A ratio is the median of the five ratios of neighbours, so that what
else runs on the machine slows both sides; processor time (of all threads, user and system) hardly depends on it.
"""
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROUNDS = 5
BINARIES = sys.argv[1:] or ["build/release/bin/gpumat"]
SIDE = 8192  # of the transposed matrix
READ_SIDE = 4096  # of the compressed ones
COMPRESSED = {"random": lambda noise: noise, "smooth": lambda noise: np.cumsum(noise, axis=1),
              "rounded": lambda noise: np.round(np.cumsum(noise, axis=1) * 4) / 4}


def processor_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def timed(action, who=resource.RUSAGE_SELF):
    """(wall seconds, processor seconds, what the action returned)"""
    wall, cpu = time.perf_counter(), processor_seconds(who)
    result = action()
    return time.perf_counter() - wall, processor_seconds(who) - cpu, result


def gpumat(binary, *arguments):
    command = [binary, "transpose", *arguments, "--device", "cpu", "--quiet", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["stages_ms"]


def median(values):
    return statistics.median(values)


def rate_of(action, size, rounds=ROUNDS):
    return size / median([timed(action)[1] for _ in range(rounds)]) / 1e9


def inflate_rate(path):
    """GB/s of one thread of libdeflate on the chunks of the dataset."""
    library = ctypes.CDLL("libdeflate.so.0")
    library.libdeflate_alloc_decompressor.restype = ctypes.c_void_p
    with h5py.File(path) as file:
        data = file["A"]
        size = int(np.prod(data.chunks)) * data.dtype.itemsize
        chunks = [data.id.read_direct_chunk(data.id.get_chunk_info(i).chunk_offset)[1]
                  for i in range(data.id.get_num_chunks())]
    tool = ctypes.c_void_p(library.libdeflate_alloc_decompressor())
    out = ctypes.create_string_buffer(size)

    def inflate():
        for chunk in chunks:
            library.libdeflate_zlib_decompress(tool, chunk, ctypes.c_size_t(len(chunk)), out, ctypes.c_size_t(size),
                                               None)

    return rate_of(inflate, size * len(chunks), 3)


def make(folder):
    rng = np.random.default_rng(1)
    with h5py.File(f"{folder}/plain.h5", "w") as file:
        file["A"] = rng.standard_normal((SIDE, SIDE), dtype=np.float32)
    noise = rng.standard_normal((READ_SIDE, READ_SIDE))
    for name, shape in COMPRESSED.items():
        with h5py.File(f"{folder}/{name}.h5", "w") as file:
            file.create_dataset("A", data=shape(noise).astype(np.float32), compression=4, shuffle=True)


def measure_floor(folder):
    size = SIDE * SIDE * 4
    one, two = np.ones(size, np.uint8), np.ones(size, np.uint8)
    plain = os.open(f"{folder}/plain.h5", os.O_RDONLY)

    def first_touch():
        np.empty(size, np.uint8).fill(1)

    def read():
        os.preadv(plain, [one], 0)

    def write():
        out = os.open(f"{folder}/floor", os.O_CREAT | os.O_WRONLY, 0o600)
        os.pwrite(out, one, 0)
        os.close(out)
        os.unlink(f"{folder}/floor")

    print("| one thread, 256 MiB | GB/s |\n|---|---|")
    for name, action in (("memcpy", lambda: np.copyto(two, one)), ("first touch of fresh memory", first_touch),
                         ("pread from the page cache", read), ("pwrite into a new file", write)):
        print(f"| {name} | {rate_of(action, size):.2f} |")
    for name in COMPRESSED:
        print(f"| libdeflate, {name} | {inflate_rate(f'{folder}/{name}.h5'):.2f} |")
    print()


def h5py_read(path):
    with h5py.File(path) as file:
        return file["A"][()]


def measure_reads(folder):
    size = READ_SIDE * READ_SIDE * 4
    print("| gzip-4 + shuffle, 4096² f32 | stored | h5py, s (GB/s) | gpumat read + hash, s (GB/s) | ratio (all five) |")
    print("|---|---|---|---|---|")
    for name in COMPRESSED:
        path = f"{folder}/{name}.h5"
        stored = os.path.getsize(path) / size
        rounds = []
        for _ in range(ROUNDS):
            peer = timed(lambda: h5py_read(path))[0]
            rounds.append([peer] + [gpumat(binary, path, "--verify", "none")["read"] / 1e3 for binary in BINARIES])
        peer = median([times[0] for times in rounds])
        for i, binary in enumerate(BINARIES, 1):
            own = median([times[i] for times in rounds])
            ratios = sorted(times[0] / times[i] for times in rounds)
            print(f"| {name}, {os.path.basename(binary)} | {stored:.0%} | {peer:.3f} ({size / peer / 1e9:.2f}) | "
                  f"{own:.3f} ({size / own / 1e9:.2f}) | {median(ratios):.2f} "
                  f"({', '.join(f'{ratio:.2f}' for ratio in ratios)}) |")
    print()


def h5py_transpose(folder):
    with h5py.File(f"{folder}/plain.h5") as file:
        values = file["A"][()]
    with h5py.File(f"{folder}/peer.h5", "w") as file:
        file["A"] = values.T


def measure_transposes(folder):
    rounds = []
    for _ in range(ROUNDS):
        times = [timed(lambda: h5py_transpose(folder))]
        os.unlink(f"{folder}/peer.h5")
        for binary in BINARIES:
            times.append(timed(lambda: gpumat(binary, f"{folder}/plain.h5", "-o", f"{folder}/own.h5"),
                               resource.RUSAGE_CHILDREN))
            os.unlink(f"{folder}/own.h5")
        rounds.append(times)
    print("| transpose file to file, 8192² f32 | wall s | processor s | ratio of walls (all five) | ratio of processor "
          "times |\n|---|---|---|---|---|")
    for i, name in enumerate(["h5py + NumPy", *map(os.path.basename, BINARIES)]):
        walls = sorted(times[0][0] / times[i][0] for times in rounds)
        cpus = [times[0][1] / times[i][1] for times in rounds]
        print(f"| {name} | {median([times[i][0] for times in rounds]):.3f} | "
              f"{median([times[i][1] for times in rounds]):.3f} | {median(walls):.2f} "
              f"({', '.join(f'{ratio:.2f}' for ratio in walls)}) | {median(cpus):.2f} |")
    print("\n| stages, ms | read + hash | kernel | verify | write | other | total |\n|---|---|---|---|---|---|---|")
    for i, binary in enumerate(BINARIES, 1):
        stages = [times[i][2] for times in rounds]
        named = [[stage[key] for stage in stages] for key in ("read", "kernel", "verify", "write")]
        other = [stage["total"] - sum(stage[key] for key in ("read", "kernel", "verify", "write")) for stage in stages]
        cells = [*named, other, [stage["total"] for stage in stages]]
        print(f"| {os.path.basename(binary)} | " + " | ".join(f"{median(cell):.0f}" for cell in cells) + " |")


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        make(folder)
        start = time.time()
        measure_floor(folder)
        measure_reads(folder)
        measure_transposes(folder)
        print(f"\n{time.time() - start:.0f} s; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
