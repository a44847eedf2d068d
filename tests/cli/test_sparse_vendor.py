"""The vendor's library of sparse matrices, SuiteSparse:GraphBLAS: beside SciPy where it is, refused by name where not."""

import ctypes
import os
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import Case
from test_sparse import random_sparse


def is_here():
    try:
        ctypes.CDLL("libgraphblas.so.7")
    except OSError:
        return False
    return True


class SparseVendor(Case):
    def setUp(self):
        super().setUp()
        self.a = random_sparse((60, 40), 300, 1).tocsr()
        self.b = random_sparse((40, 50), 200, 2).tocsr()
        for name, matrix in (("A.mtx", self.a), ("B.mtx", self.b)):
            scipy.io.mmwrite(self.path(name), matrix, precision=17)
        self.dense = np.random.default_rng(3).normal(size=(40, 5))
        with h5py.File(self.path("D.h5"), "w") as file:
            file["A"] = self.dense

    @unittest.skipUnless(is_here(), "there is no libgraphblas.so.7")
    def test_results_are_those_of_scipy(self):
        def result(*words):
            record = self.record(*words, "-o", "C.mtx", "--force", "--level", "vendor", "--threads", "2")
            self.assertEqual((record["level"], record["verification"]["verdict"]), ("vendor", "passed"))
            self.assertRegex(record["parameters"]["library version"], r"^GraphBLAS 7\.")
            return scipy.sparse.csr_matrix(scipy.io.mmread(self.path("C.mtx"))).toarray()

        np.testing.assert_array_equal(result("transpose", "A.mtx"), self.a.T.toarray())
        np.testing.assert_allclose(result("multiply", "A.mtx", "B.mtx"), (self.a @ self.b).toarray(), atol=1e-12)
        np.testing.assert_allclose(result("multiply", "A.mtx", "A.mtx", "--transpose-a"), (self.a.T @ self.a).toarray(), atol=1e-12)
        np.testing.assert_allclose(result("multiply", "A.mtx", "D.h5"), self.a @ self.dense, atol=1e-12)
        np.testing.assert_allclose(result("multiply", "D.h5", "A.mtx", "--transpose-a", "--transpose-b"), self.dense.T @ self.a.T, atol=1e-12)
        # A child writes each of the arrays, beside no thread of the library that it would wait for.
        self.run_tool("transpose", "A.mtx", "-o", "C.h5", "--sparse-layout", "anndata", "--level", "vendor")
        self.run_tool("transpose", "A.mtx", "-o", "S.mtx", "--level", "serial")
        self.run_tool("compare", "C.h5", "S.mtx")

    def test_what_it_cannot_do(self):
        wanted = ["-o", "C.mtx", "--level", "vendor"]
        said = self.run_tool("multiply", "A.mtx", "B.mtx", "-t", "f16", *wanted, code=5)
        self.assert_says(said, "it works on f32, f64, c64, c128, i32, i64, u64, not on f16")
        said = self.run_tool("multiply", "A.mtx", "B.mtx", "--alpha", "2", *wanted, code=5)
        self.assert_says(said, "GraphBLAS multiplies without factors")
        self.assertFalse(os.path.exists(self.path("C.mtx")))

    def test_a_library_that_is_missing_is_named(self):
        wanted = ["transpose", "A.mtx", "-o", "C.mtx", "--level", "vendor"]
        said = self.run_tool(*wanted, env={"GPUMAT_GRAPHBLAS": "/nowhere.so"}, code=5)
        self.assert_says(said, "GPUMAT_GRAPHBLAS names cannot be loaded", "/nowhere.so")
        if not is_here():
            self.assert_says(self.run_tool(*wanted, code=5), "package libgraphblas7", "is not installed")
        bench = self.run_tool("bench", "transpose", "--size", "30", "--entries", "9", "-d", "cpu", "--hot", "--time-limit", "0.001",
                              "--json", env={"GPUMAT_GRAPHBLAS": "/nowhere.so"}).json()["rows"]
        self.assertEqual([row["level"] for row in bench if row["reason"]], ["vendor"])


if __name__ == "__main__":
    unittest.main()
