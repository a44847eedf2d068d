"""Products of sparse matrices, beside SciPy."""

import json
import os
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import PLAIN, Case
from test_sparse import crc, random_sparse


def whole(shape, entries, seed):
    """Small whole numbers, whose products and sums are exact."""
    matrix = random_sparse(shape, entries, seed)
    matrix.data = np.rint(4 * matrix.data)
    return matrix


class SparseMultiply(Case):
    def sparse(self, name, matrix):
        scipy.io.mmwrite(self.path(name), matrix, precision=17)
        return matrix.tocsr()

    def dense(self, name, matrix):
        with h5py.File(self.path(name), "w") as file:
            file["A"] = matrix
        return matrix

    def result(self, name):
        with h5py.File(self.path(name)) as file:
            return file["C"][()]

    def multiply(self, *options):
        record = self.record("multiply", *options, "--force")
        self.assertEqual(record["verification"]["verdict"], "passed")
        return record

    def test_sparse_times_dense(self):
        rng = np.random.default_rng(1)
        for columns in (1, 7, 64, 100):
            a = self.sparse("A.mtx", whole((300, 200), 2500, columns))
            b = self.dense("B.h5", np.rint(4 * rng.normal(size=(200, columns))))
            for level in ("auto", "serial", "rows", "merge", "tiled", "3"):
                with self.subTest(columns=columns, level=level):
                    record = self.multiply("A.mtx", "B.h5", "-o", "C.h5", "--level", level, "--threads", "2")
                    np.testing.assert_array_equal(self.result("C.h5"), a @ b)
                    self.assertEqual(record["level"], {"auto": "tiled", "3": "merge"}.get(level, level))
                    self.assertEqual(record["inputs"][0]["entries"], a.nnz)
                    self.assertNotIn("entries", record["inputs"][1])
                    self.assertNotIn("structure", record["output"])
                    self.assertEqual(record["output"]["hash"], crc(a @ b))
        self.run_tool("multiply", "A.mtx", "B.h5")  # nothing is written

    def test_dense_times_sparse(self):
        rng = np.random.default_rng(2)
        a = self.dense("A.h5", np.rint(4 * rng.normal(size=(37, 200))))
        b = self.sparse("B.mtx", whole((200, 150), 2500, 3))
        for level in ("auto", "serial", "rows", "tiled"):
            self.multiply("A.h5", "B.mtx", "-o", "C.h5", "--level", level)
            np.testing.assert_array_equal(self.result("C.h5"), a @ b)

    def test_sparse_times_sparse(self):
        a = self.sparse("A.mtx", whole((300, 200), 2500, 4))
        b = self.sparse("B.mtx", whole((200, 400), 3000, 5))
        ones = [scipy.sparse.csr_matrix((np.ones(m.nnz), m.indices, m.indptr), m.shape) for m in (a, b)]
        structure = (ones[0] @ ones[1]).tocoo()
        products = ones[0].sum(axis=0) @ ones[1].sum(axis=1)
        for level in ("auto", "expand", "hash", "binned", "2"):
            for threads in ("1", "2"):
                with self.subTest(level=level, threads=threads):
                    record = self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "--level", level, "--threads", threads)
                    found = scipy.io.mmread(self.path("C.mtx"))
                    np.testing.assert_array_equal(found.toarray(), (a @ b).toarray())
                    # Sums that cancel stay as entries.
                    self.assertEqual(sorted(zip(found.row, found.col)), sorted(zip(structure.row, structure.col)))
                    self.assertEqual(list(zip(found.row, found.col)), sorted(zip(found.row, found.col)))
                    self.assertEqual(record["output"]["structure"], "sparse")
                    self.assertEqual(record["output"]["entries"], structure.nnz)
                    self.assertEqual(record["kernel_flops"], 2 * products[0, 0])
                    self.assertEqual(record["output"]["hash"], crc((a @ b).toarray()))
        dense = self.multiply("A.mtx", "B.mtx", "-o", "C.h5", "--dense")
        np.testing.assert_array_equal(self.result("C.h5"), (a @ b).toarray())
        self.assertNotIn("structure", dense["output"])

    def test_factors_transposes_and_what_is_added(self):
        a = self.sparse("A.mtx", whole((200, 300), 2500, 6))
        b = self.sparse("B.mtx", whole((400, 200), 3000, 7))
        d = self.sparse("D.mtx", whole((300, 400), 900, 8))
        options = ("--transpose-a", "--transpose-b", "--alpha", "2", "--beta", "-3", "--add", "D.mtx")
        expected = (2 * (a.T @ b.T) - 3 * d).toarray()
        for level in ("expand", "hash", "binned"):
            record = self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "--level", level, *options)
            np.testing.assert_array_equal(scipy.io.mmread(self.path("C.mtx")).toarray(), expected)
            self.assertEqual(record["kernel_flops"], 2 * np.diff(a.tocsr().indptr) @ np.diff(b.tocsc().indptr))
        # A dense D, or a dense factor, makes a dense product.
        self.dense("D.h5", d.toarray())
        self.dense("B.h5", b.toarray())
        for second in ("B.mtx", "B.h5"):
            for third in ("D.mtx", "D.h5"):
                if (second, third) == ("B.mtx", "D.mtx"):
                    continue
                self.multiply("A.mtx", second, "-o", "C.h5", *options[:-1], third)
                np.testing.assert_array_equal(self.result("C.h5"), expected)
        # Without the product there is D alone.
        self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "--transpose-a", "--transpose-b", "--alpha", "0", "--add", "D.mtx")
        found = scipy.io.mmread(self.path("C.mtx"))
        self.assertEqual(found.nnz, d.nnz)
        np.testing.assert_array_equal(found.toarray(), d.toarray())
        # Without D there is the product alone, and a dense D makes nothing dense.
        self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "--transpose-a", "--transpose-b", "--beta", "0", "--add", "D.h5")
        np.testing.assert_array_equal(scipy.io.mmread(self.path("C.mtx")).toarray(), (a.T @ b.T).toarray())

    def test_types(self):
        a = self.sparse("A.mtx", whole((60, 50), 400, 9))
        b = self.sparse("B.mtx", whole((50, 70), 400, 10))
        for kind in ("f16", "bf16", "f32", "f64", "i32", "i64"):
            self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "-t", kind)
            np.testing.assert_array_equal(scipy.io.mmread(self.path("C.mtx")).toarray(), (a @ b).toarray())
        self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "-t", "i8", "--result", "i32")
        np.testing.assert_array_equal(scipy.io.mmread(self.path("C.mtx")).toarray(), (a @ b).toarray())
        self.run_tool("multiply", "A.mtx", "B.mtx", "-o", "C.mtx", "-t", "i8", "--force", code=5)
        left = random_sparse((60, 50), 400, 1).astype(complex)
        left.data = left.data + 1j * np.arange(left.nnz)
        self.sparse("A.mtx", left)
        self.multiply("A.mtx", "A.mtx", "-o", "C.mtx", "--transpose-a", "--conjugate-a", "--type", "c128")
        found = scipy.io.mmread(self.path("C.mtx")).toarray()
        np.testing.assert_allclose(found, (left.conj().T @ left).toarray(), rtol=1e-13, atol=1e-10)

    def test_what_does_not_fit_is_refused_first(self):
        side = 200_000
        self.sparse("A.mtx", scipy.sparse.coo_matrix(([1.0], ([0], [side - 1])), shape=(side, side)))
        self.dense("B.h5", np.ones((side, 1)))
        said = self.run_tool("multiply", "A.mtx", "B.h5", "-o", "C.h5", "--memory-limit", "1M", code=6).err
        self.assertIn("this multiply of sparse matrices", said)
        self.assertFalse(os.path.exists(self.path("C.h5")))
        # A sparse result is counted before there is memory for it: 1000 entries of one column and one row.
        tall = scipy.sparse.coo_matrix((np.ones(3000), (np.arange(3000), np.zeros(3000, int))), shape=(3000, 1))
        self.sparse("A.mtx", tall)
        # MATLAB's layout, which has columns, is not written in parts of rows.
        said = self.run_tool("multiply", "A.mtx", "A.mtx", "--transpose-b", "--sparse", "-o", "C.mat", "--memory-limit", "50M", code=6).err
        self.assertIn("has a result of 9000000 entries", said)
        self.assertFalse(os.path.exists(self.path("C.mat")))

    @unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
    def test_the_check_of_a_heavy_row_takes_little(self):
        """A row of 1.5 million products, each of which was held with its sums."""
        rng = np.random.default_rng(4)
        a = scipy.sparse.coo_matrix((rng.integers(1, 9, 1500).astype(float), (np.zeros(1500, int), np.arange(1500))), shape=(3, 1500))
        b = scipy.sparse.random(1500, 300_000, density=1000 / 300_000, random_state=rng, format="csr")
        self.sparse("A.mtx", a)
        self.sparse("B.mtx", b)
        taken = [self.peak_bytes("multiply", "A.mtx", "B.mtx", "-d", "cpu", "--threads", "2", "--verify", mode)[0] for mode in ("none", "full")]
        self.assertLess(taken[1], taken[0] + (16 << 20))

    def test_more_columns_than_31_bits(self):
        for name, text in (("A", "2 3 3\n1 1 2\n1 3 -1\n2 2 4\n"), ("B", "3 5000000000 3\n1 4999999999 3\n3 7 5\n2 1 1\n")):
            with open(self.path(name + ".mtx"), "w") as file:
                file.write("%%MatrixMarket matrix coordinate integer general\n" + text)
        self.multiply("A.mtx", "B.mtx", "-o", "C.mtx", "--verify", "freivalds")
        with open(self.path("C.mtx")) as file:
            self.assertEqual(file.read().splitlines()[-4:], ["2 5000000000 3", "1 7 -5", "1 4999999999 6", "2 1 4"])

    def test_stored_infinities_and_parts_of_complex_numbers_are_judged_as_such(self):
        def stored(value):
            scipy.io.mmwrite(self.path("C.mtx"), scipy.sparse.coo_matrix(([value], ([0], [0])), shape=(2, 2)), precision=17)

        def one(name, field, value):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(f"%%MatrixMarket matrix coordinate {field} general\n2 2 1\n1 1 {value}\n")

        def verdict(b, kind, code):
            for mode in ("full", "freivalds"):
                self.run_tool("verify", "multiply", "A.mtx", b, "C.mtx", "-t", kind, "--mode", mode, code=code)

        for kind, a, right, wrong in (("f64", np.inf, [np.inf], [-np.inf, np.nan, 5.0]), ("f32", 1e30, [np.inf], [-np.inf, np.nan]),
                                      ("f64", np.nan, [np.nan], [np.inf, 1.0])):
            b = 1e30 if kind == "f32" else 1.0
            one("A.mtx", "real", a)
            one("B.mtx", "real", b)
            for value, code in [(value, 0) for value in right] + [(value, 1) for value in wrong]:
                with self.subTest(kind=kind, a=a, value=value):
                    stored(value)
                    verdict("B.mtx", kind, code)
        one("A.mtx", "complex", "1 0")
        one("B.mtx", "complex", "1e10 1")
        np.save(self.path("B.npy"), (1e10 + 1j) * np.array([[1, 0], [0, 0]], "c8"))
        for factor in ("B.mtx", "B.npy"):
            for value, code in ((1e10 + 1j, 0), (1e10 + 777j, 1)):
                stored(value)
                verdict(factor, "c64", code)

    def test_large_products_are_verified_by_their_entries(self):
        a, b = (self.sparse(name, whole((60000, 60000), 50000, seed)) for name, seed in (("A.mtx", 1), ("B.mtx", 2)))
        self.multiply("A.mtx", "B.mtx", "-o", "C.mtx")
        self.run_tool("verify", "multiply", "A.mtx", "B.mtx", "C.mtx")  # 27 GiB dense
        c = scipy.io.mmread(self.path("C.mtx")).tocsr()
        c.data[7] += 1
        scipy.io.mmwrite(self.path("C.mtx"), c, precision=17)
        self.run_tool("verify", "multiply", "A.mtx", "B.mtx", "C.mtx", code=1)

    def test_levels(self):
        listed = json.loads(self.run_tool("levels", "multiply", "--device", "cpu", "--json").out)["sparse_levels"]
        self.assertEqual([level["name"] for level in listed], ["serial", "rows", "merge", "tiled", "expand", "hash", "binned", "vendor"])
        text = self.run_tool("levels", "multiply").out
        self.assertIn("multiply of a sparse and a dense matrix on a cpu\n", text)
        self.assertIn("multiply of sparse matrices on a cpu\n", text)
        a = self.sparse("A.mtx", whole((20, 20), 50, 1))
        del a
        said = self.run_tool("multiply", "A.mtx", "A.mtx", "-o", "C.mtx", "--level", "tiled", code=5).err
        self.assertIn("levels for sparse matrices: auto, expand, hash, binned", said)


if __name__ == "__main__":
    unittest.main()
