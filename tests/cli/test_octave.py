"""Matrices that Octave saves are read as what they are, and Octave loads what gpumat writes.

Octave need not be there: a file that it saved is kept in tests/data, and the tests that run it are skipped.
"""

import gzip
import os
import shutil
import subprocess
import unittest

import numpy as np

from harness import DTYPES, TIMEOUT_S, Case, random_bits, random_values, read_h5, values_of, write_any

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
OCTAVE = shutil.which("octave-cli")

A = np.array([[1, 2, 3], [4, 5, 6]], np.float64)
SPARSE = np.zeros((4, 3))
SPARSE[0, 0], SPARSE[3, 0], SPARSE[1, 2] = 1.5, 2.5, -np.inf
SPARSE_COMPLEX = np.zeros((4, 3), np.complex128)
SPARSE_COMPLEX[0, 0], SPARSE_COMPLEX[3, 0], SPARSE_COMPLEX[1, 2] = 1.5 + 1j, 2.5j, -3

# The variables of octave.m.
SAVED = {
    "A": A,
    "F": (A / 4).astype(np.float32),
    "C": A - 1j * A / 8,
    "Z": A.astype(np.complex128),
    "B": (A > 2).astype(np.uint8),
    "i1": A.astype(np.int8) - np.int8(7),
    "i2": (A * 1000).astype(np.int16),
    "i4": (A * -1e6).astype(np.int32),
    "i8": A.astype(np.int64) << 60,
    "u1": (A * 40).astype(np.uint8),
    "u2": (A * 1e4).astype(np.uint16),
    "u4": (A * 7e8).clip(max=2**32 - 1).astype(np.uint32),
    "u8": np.uint64(2**64 - 1) - A.astype(np.uint64),
    "row": A[:1, :],
    "column": A[:, :1],
    "scalar": np.array([[2.5]]),
    "single_scalar": np.array([[1.5]], np.float32),
    "complex_scalar": np.array([[1 + 2j]]),
    "integer_scalar": np.array([[-7]], np.int32),
    "truth": np.array([[1.0]]),  # stored as a double
    "diagonal": np.diag([1.0, 2.0, 3.0]),
    "permutation": np.eye(3)[[1, 2, 0]],
    "special": np.array([[np.nan, np.inf], [-np.inf, -0.0]]),
    "no_rows": np.zeros((0, 3)),
    "no_columns": np.zeros((3, 0), np.float32),
    "nothing": np.zeros((0, 0)),
    "no_truth": np.zeros((0, 2), np.uint8),
    "no_integers": np.zeros((2, 0), np.int8),
    "sparse_real": SPARSE,
    "sparse_complex": SPARSE_COMPLEX,
    "sparse_truth": (SPARSE != 0).astype(np.uint8),
    "sparse_empty": np.zeros((4, 3)),
    "record/value/inner": A,
    "cells/value/_0": np.array([[1.0]]),
    "cells/value/_1": np.array([[2.0]]),
}
NO_MATRICES = {"text": "string", "cells": "cell", "record": "struct", "cube": "3 dimensions", "range": "range"}


class Saved(Case):
    def check(self, file):
        found = {matrix["dataset"] for matrix in self.run_tool("info", file, "--json").json()["matrices"]}
        self.assertEqual(found, {"/" + name for name in SAVED})
        for name, expected in SAVED.items():
            self.run_tool("transpose", f"{file}:/{name}", "-o", "out.h5", "--dense", "--force")
            self.assert_same_bits(np.ascontiguousarray(read_h5(self.path("out.h5"))[1].T), expected, name)
        for name, words in NO_MATRICES.items():
            self.assert_says(self.run_tool("info", f"{file}:/{name}", code=3), words)

    def test_kept(self):
        with gzip.open(os.path.join(DATA, "octave.h5.gz")) as kept, open(self.path("kept.h5"), "wb") as file:
            shutil.copyfileobj(kept, file)
        self.check("kept.h5")

    @unittest.skipUnless(OCTAVE, "there is no octave-cli")
    def test_now(self):
        octave(os.path.join(DATA, "octave.m"), self.path("now.h5"))
        self.check("now.h5")


# What Octave loads an HDF5 dataset of a type as.
LOADED = {**{name: name for name in DTYPES if name[0] in "iu"}, **{name: "f64" for name in ("f16", "bf16", "f32", "f64")}}
CLASSES = {"double": "f64", **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
           **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}}


def octave(*arguments):
    return subprocess.run([OCTAVE, "--norc", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=TIMEOUT_S).stdout


def printed(program):
    """(type name, array) of the variable x of an Octave program."""
    lines = octave("--eval", program + r"printf('%s\n%d\n%d\n', class(x), size(x)); "
                   r"printf('%d\n', typecast(x(:)', 'uint8'))").split()
    name = CLASSES[lines[0]]
    values = np.frombuffer(bytes(int(line) for line in lines[3:]), DTYPES[name])
    return name, np.ascontiguousarray(values.reshape(int(lines[1]), int(lines[2]), order="F"))


@unittest.skipUnless(OCTAVE, "there is no octave-cli")
class Loaded(Case):
    """Octave counts dimensions from the last one: it shows the transpose of the matrix in an HDF5 file. So
    the transpose that gpumat writes is shown as the matrix that was transposed."""

    def test_hdf5(self):
        for name, loaded in LOADED.items():
            matrix = random_bits(name, (3, 2)) if name[0] in "iu" else random_values(name, (3, 2))
            write_any(self.path("in.h5"), matrix, name)
            for storage in ((), ("--chunk", "2x2", "--deflate", "4", "--shuffle")):
                self.run_tool("transpose", "in.h5", "-o", "out.h5", "--force", *storage)
                found, values = printed(f"x = load('{self.path('out.h5')}').A; ")
                self.assertEqual(found, loaded, name)
                self.assert_same_bits(values, values_of(name, matrix).astype(DTYPES[loaded]), name)

    def test_there_and_back(self):
        octave("--eval", f"A = [1 2 3; 4 5 6]; save('-hdf5', '{self.path('in.h5')}', 'A')")
        self.run_tool("transpose", "in.h5", "-o", "transposed.h5")
        self.run_tool("multiply", "in.h5", "transposed.h5", "-o", "square.h5")
        self.assert_same_bits(read_h5(self.path("square.h5"))[1], A @ A.T)
        _, shown = printed(f"x = load('{self.path('transposed.h5')}').A; ")
        self.assert_same_bits(shown, A)

    def test_matrix_market(self):
        """Octave has no functions for Matrix Market, but array files are its numbers in its order."""
        matrix = random_values("f64", (3, 2))
        write_any(self.path("in.mtx"), matrix, "f64")
        self.run_tool("transpose", "in.mtx", "-o", "out.mtx")
        program = (f"f = fopen('{self.path('out.mtx')}'); do line = fgetl(f); until line(1) != '%'; "
                   "x = fscanf(f, '%f', sscanf(line, '%d')'); fclose(f); ")
        self.assert_same_bits(printed(program)[1], np.ascontiguousarray(matrix.T))
        octave("--eval", program + f"f = fopen('{self.path('back.mtx')}', 'w'); fprintf(f, "
               "'%%%%MatrixMarket matrix array real general\\n%d %d\\n', size(x)); fprintf(f, '%.17g\\n', x); fclose(f);")
        self.run_tool("transpose", "back.mtx", "-o", "again.h5")
        self.assert_same_bits(read_h5(self.path("again.h5"))[1], matrix)


if __name__ == "__main__":
    unittest.main()
