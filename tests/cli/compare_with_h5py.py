"""Reads every matrix and vector of numbers in the HDF5 files below some folders with the tool and with h5py, and
tells where they differ: other numbers, or a dataset that one of them reads and the other refuses.

    GPUMAT=build/release/bin/gpumat python3 tests/cli/compare_with_h5py.py FOLDER...

Made for the sample files that HDF5, h5py, netCDF, PyTables and MATLAB come with. Exit code 1 where numbers differ.
They are in HDF5's source release (`test`, `test/testfiles`, `tools/**/testfiles`) and that of netCDF-C (`nc_test4`),
and in the wheels of h5py and PyTables (`pip download --no-deps h5py tables`, `unzip`), the latter with files of MATLAB.
"""

import collections
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile

import h5py
import numpy as np

GPUMAT = os.environ["GPUMAT"]
MOST_BYTES = 1 << 26


def is_numbers(dtype):
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.names in (("real", "imag"), ("re", "im")))


def numbers_in(path, queue):
    """In a process of its own: some files crash HDF5. Puts (name, shape, values or None) into the queue."""
    def visit(name, item):
        if not isinstance(item, h5py.Dataset) or not is_numbers(item.dtype) or item.ndim not in (1, 2):
            return
        if item.size == 0 or item.nbytes > MOST_BYTES:
            return
        try:
            values = item[()]
            if values.dtype.kind == "V":
                values = values[values.dtype.names[0]] + 1j * values[values.dtype.names[1]]
        except Exception as error:  # h5py refuses it: so should the tool
            values = str(error)
        queue.put((name, item.ndim, values))
    os.chdir(os.path.dirname(path))  # where external data are looked for
    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except Exception:
        pass
    queue.put(None)


def read_by_h5py(path):
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=numbers_in, args=(path, queue))
    process.start()
    while True:
        try:
            found = queue.get(timeout=20)
        except Exception:  # h5py crashed or hangs
            break
        if found is None:
            break
        yield found
    process.kill()
    process.join()


def read_by_tool(path, name, rank, folder):
    """The matrix, or what the tool says."""
    output = os.path.join(folder, "out.h5")
    command = [GPUMAT, "transpose", f"{path}:/{name}", "-o", f"{output}:/A", "--force", "--allow-external",
               "--layout", "row", "--verify", "none", *(["--as-column"] if rank == 1 else [])]
    for more in ([], ["-t", "f64"]):  # the latter for 80-bit floats, which fit no type
        if os.path.exists(output):
            os.remove(output)
        result = subprocess.run([*command, *more], capture_output=True, cwd=os.path.dirname(path), timeout=200)
        if result.returncode == 0:
            with h5py.File(output, "r") as file:
                return file["A"][()].T
        if b"fit no type exactly" not in result.stderr:
            break
    return result.stderr.decode(errors="replace").strip()


def same(actual, expected):
    expected = expected.reshape(-1, 1) if expected.ndim == 1 else expected
    if actual.shape != expected.shape:
        return False
    if expected.dtype.itemsize > 8 and expected.dtype.kind == "f":
        expected = expected.astype(np.float64)
    return bool(np.all((actual == expected) | ((actual != actual) & (expected != expected))))


def main():
    counts = collections.Counter()
    reasons = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        for top in sys.argv[1:]:
            for folder, _, files in sorted(os.walk(os.path.abspath(top))):
                for path in (os.path.join(folder, file) for file in sorted(files)):
                    if not os.path.isfile(path) or not h5py.is_hdf5(path):
                        continue
                    counts["files"] += 1
                    for name, rank, expected in read_by_h5py(path):
                        actual = read_by_tool(path, name, rank, scratch)
                        refused = isinstance(actual, str)
                        if isinstance(expected, str):
                            kind = "refused by both" if refused else "read by the tool only"
                            text = expected
                        elif refused:
                            kind, text = "refused by the tool only", actual
                        else:
                            kind = "the same" if same(actual, expected) else "DIFFERENT"
                            text = ""
                        counts[kind] += 1
                        if kind != "the same":
                            text = re.sub(r"^gpumat: ", "", text).replace(path, "FILE").replace(name, "NAME")
                            reasons[kind, re.sub(r"\d+", "#", text)[:200]].append(f"{path}:/{name}")
    for (kind, text), where in sorted(reasons.items(), key=lambda row: (row[0][0], -len(row[1]))):
        print(f"{kind} ({len(where)}): {text}\n    {where[0]}")
    print(dict(counts))
    return 1 if counts["DIFFERENT"] else 0


if __name__ == "__main__":
    sys.exit(main())
