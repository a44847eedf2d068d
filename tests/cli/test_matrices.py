"""Whole matrices of the kinds that people store, transposed and multiplied, in HDF5 and Matrix Market, as NumPy has them.

The environment variable GPUMAT_TEST_MATRICES may name a folder of .mtx files to run as well.
"""

import glob
import os
import unittest

import numpy as np
import scipy.sparse

from harness import Case, cases, levels, multiply_reference, read_any, read_mtx, write_mtx


def laplacian(n):
    """Five-point Laplacian of an n×n grid: symmetric, stored as its lower triangle."""
    line = scipy.sparse.diags([-1, 2, -1], [-1, 0, 1], (n, n))
    eye = scipy.sparse.identity(n)
    return scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line)


def convection(n):
    """Convection and diffusion on a line, upwind: not symmetric, values over many magnitudes."""
    widths = np.geomspace(1e-6, 1, n)
    return scipy.sparse.diags([-(1 / widths[1:] + 1), 2 / widths, -1 / widths[:-1]], [-1, 0, 1])


def constraints(rows, cols):
    """Constraints of a linear program: a wide rectangle, some values in every column."""
    return scipy.sparse.random(rows, cols, 0.08, random_state=7, data_rvs=lambda n: np.round(np.linspace(-9, 9, n), 2))


def graph(n):
    """Edges of a directed graph, as integers."""
    random = np.random.default_rng(11)
    return scipy.sparse.coo_matrix(
        (np.ones(4 * n, int), (random.integers(0, n, 4 * n), random.integers(0, n, 4 * n))), (n, n))


def fourier(n):
    """The unitary Fourier matrix: dense and complex."""
    return np.exp(-2j * np.pi * np.outer(range(n), range(n)) / n) / np.sqrt(n)


MADE = {
    "laplacian": (laplacian(16), "symmetric"),
    "convection": (convection(120), "general"),
    "constraints": (constraints(60, 150), "general"),
    "graph": (graph(90), "general"),
    "fourier": (fourier(64), "general"),
}
FOLDER = os.environ.get("GPUMAT_TEST_MATRICES", "")
FOUND = {os.path.basename(path)[:-4].replace("-", "_"): path
         for path in sorted(glob.glob(os.path.join(FOLDER, "*.mtx"))) if FOLDER}


@cases([(name, name) for name in [*MADE, *FOUND]])
class Matrices(Case):
    def check(self, name):
        source = FOUND.get(name) or self.path("in.mtx")
        if name in MADE:
            write_mtx(source, MADE[name][0], MADE[name][1])
        expected = read_mtx(source)
        for output in ("t.h5", "t.mtx"):
            self.run_tool("transpose", source, "-o", output)
            self.assert_same_bits(read_any(self.path(output))[1], expected.T.copy(), output)
        self.run_tool("transpose", "t.h5", "-o", "back.mtx")
        self.assert_same_bits(read_mtx(self.path("back.mtx")), expected)
        self.check_multiply(source, expected)

    def check_multiply(self, source, matrix):
        """A·Aᵀ, from text and from HDF5, verified in full by the tool and against NumPy here."""
        auto = self.record("multiply", source, source, "--transpose-b", "-o", "c.h5", "--verify", "full")
        self.assertEqual(auto["verification"]["verdict"], "passed")
        name, product = read_any(self.path("c.h5"))
        if max(matrix.shape) <= 300:  # beyond that, extended precision takes NumPy too long
            expected = multiply_reference(name if name[0] != "i" else "f64", matrix, matrix.T)
            self.assert_close(name, product, *expected)
            for level in (level for level in levels("multiply") if name in level["types"]):
                self.record("multiply", source, "t.h5", "--dense", "-l", level["name"], "-d", "cpu", "-o", "l.h5", "--force")
                self.assert_close(name, read_any(self.path("l.h5"))[1], *expected)
        else:
            magnitudes = np.abs(matrix)
            bound = 4 * matrix.shape[1] * 2.0**-53 * (magnitudes @ magnitudes.T)  # γ of both sides, twice over
            self.assert_close(name, product, matrix @ matrix.T, bound)

    def assert_close(self, name, result, reference, bound):
        if name[0] == "i":
            bound = 0  # integers as small as these are exact in extended precision
        self.assertTrue(np.all(np.abs(result.astype(reference.dtype) - reference) <= bound))


if __name__ == "__main__":
    unittest.main()
