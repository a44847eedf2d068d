"""compare, info --stats and verify go through sparse matrices by ranges of rows or columns: what they find is what they find
of matrices in memory, and what SciPy finds, within the memory limit."""

import json
import os
import re
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import PLAIN, Case, write_h5

LIMIT = 9
FINDINGS = ("verdict", "elements", "equal", "within_tolerance", "differing", "nan", "infinite", "largest", "differences")


class ByRanges(Case):
    SHAPE = (30000, 20000)
    # Sums of some 10⁵ squares in another order: 10⁵ · 2⁻⁵³ apart at most, in decimal places.
    PLACES = 11

    def setUp(self):
        super().setUp()
        self.keep_parts_apart()

    def named_limit_does(self, *command, code=0):
        """Refused within 1 MiB; the record within what that names."""
        said = self.run_tool(*command, "--memory-limit", "1MiB", code=6).err
        needed = re.search(r"needs ([0-9.]+ MiB)", said)
        self.assertTrue(needed, said)
        return self.run_tool(*command, "--json", "--memory-limit", needed[1], code=code).json()

    def matrix(self, seed=1, shape=SHAPE, entries=330_000, dtype=np.float64):
        """Rows with many entries and without any."""
        rng = np.random.default_rng(seed)
        rows = (shape[0] * rng.random(entries) ** 3).astype(np.int64)
        matrix = scipy.sparse.coo_matrix((rng.integers(1, 100, entries).astype(dtype), (rows, rng.integers(0, shape[1], entries))), shape)
        matrix.sum_duplicates()
        return matrix.tocsr()

    def store(self, name, matrix, kind="csr", **storage):
        matrix = matrix.asformat(kind)
        if name.endswith(".npz"):
            scipy.sparse.save_npz(self.path(name), matrix, compressed=False)
        elif name.endswith(".mtx"):
            scipy.io.mmwrite(self.path(name), matrix)
        else:
            with h5py.File(self.path(name), "w") as file:
                group = file.create_group("X")
                for part in ("data", "indices", "indptr"):
                    group.create_dataset(part, data=getattr(matrix, part), **storage)
                group.attrs["encoding-type"] = f"{kind}_matrix"
                group.attrs["shape"] = matrix.shape

    def in_ranges(self, *arguments, said, limit=LIMIT, code=0):
        """Within the limit, by ranges as -v says, and nothing is left behind; the record."""
        result = self.run_within(limit, *arguments, "-v", "--json", code=code)
        self.assertRegex(result.err, said)
        self.assertEqual(os.listdir(self.folder_of_parts), [])
        return result.json()


class Compare(ByRanges):
    def changed(self, matrix, seed=2):
        """Some values are others, some entries are gone, and some are new."""
        rng = np.random.default_rng(seed)
        other = matrix.tocoo()
        values = other.data.copy()
        values[rng.choice(len(values), 50, replace=False)] += 3
        keep = rng.random(len(values)) > 1e-4
        new = 20
        rows = np.concatenate([other.row[keep], rng.integers(0, matrix.shape[0], new)])
        cols = np.concatenate([other.col[keep], rng.integers(0, matrix.shape[1], new)])
        result = scipy.sparse.coo_matrix((np.concatenate([values[keep], np.full(new, 7.0)]), (rows, cols)), matrix.shape)
        return result.tocsr()

    def assert_findings(self, record, x, y):
        difference = (x - y).tocoo()
        there = difference.data != 0
        places = sorted(zip(difference.row[there].tolist(), difference.col[there].tolist()))
        self.assertEqual(record["differing"], len(places))
        self.assertEqual([(found["row"], found["col"]) for found in record["differences"]], places[:10])
        sizes = abs(difference.data)
        first = min(place for *place, size in zip(difference.row.tolist(), difference.col.tolist(), sizes) if size == sizes.max())
        largest = record["largest"]["absolute"]
        self.assertEqual((largest["absolute"], largest["row"], largest["col"]), (sizes.max(), *first))
        for name, matrix in (("x", x), ("y", y), ("difference", difference.tocsr())):
            self.assertEqual(record["norms"][name]["max"], abs(matrix.data).max())
            self.assertAlmostEqual(record["norms"][name]["frobenius"] / np.sqrt((matrix.data ** 2).sum()), 1, places=self.PLACES)

    def test_against_scipy(self):
        x = self.matrix()
        y = self.changed(x)
        for x_file, x_kind, y_file, y_kind, transposed, through_disk in (
                ("X.h5", "csr", "Y.h5", "csr", False, False), ("X.h5", "csr", "Y.h5", "csc", True, False), ("X.h5", "csc", "Y.h5", "csc", False, False),
                ("X.h5", "csc", "Y.h5", "csr", False, True), ("X.npz", "csr", "Y.h5", "csr", False, False), ("X.npz", "coo", "Y.mtx", "coo", False, True),
                ("X.mtx", "coo", "Y.h5", "csr", True, True)):
            with self.subTest(x=x_file + " " + x_kind, y=y_file + " " + y_kind, transposed=transposed):
                chunks = {"chunks": (5000,), "compression": "gzip"} if x_kind == y_kind else {}
                self.store(x_file, x, x_kind)
                self.store(y_file, y.T if transposed else y, y_kind, **(chunks if y_file.endswith(".h5") else {}))
                flags = ("--transposed",) if transposed else ()
                said = r"compared in [0-9]+ ranges of (rows|columns)" + (", .* through a temporary file" if through_disk else "")
                record = self.in_ranges("compare", x_file, y_file, *flags, said=said, code=1)
                self.assert_findings(record, x, y)
                whole = self.run_tool("compare", x_file, y_file, *flags, "--json", code=1).json()
                for key in FINDINGS:
                    self.assertEqual(record[key], whole[key], key)
                self.store(y_file, x.T if transposed else x, y_kind)
                self.in_ranges("compare", x_file, y_file, *flags, said=said)

    def test_indices_that_fall_and_entries_twice(self):
        """What is added and sorted is what SciPy makes of it."""
        x = self.matrix(seed=4)
        y = x.copy()
        for row in range(0, x.shape[0], 7):
            part = slice(y.indptr[row], y.indptr[row + 1])
            y.indices[part] = y.indices[part][::-1].copy()
            y.data[part] = y.data[part][::-1].copy()
        self.store("X.h5", x)
        self.store("Y.h5", y)
        for limit in ((), ("--memory-limit", f"{LIMIT}MiB")):
            self.run_tool("compare", "X.h5", "Y.h5", *limit)
        twice = scipy.sparse.csr_matrix((np.repeat(x.data / 2, 2), np.repeat(x.indices, 2), 2 * x.indptr), x.shape)
        self.store("Y.h5", twice)
        self.run_tool("compare", "X.h5", "Y.h5")
        twice.data[1001] += 1
        self.store("Y.h5", twice)
        twice.sum_duplicates()
        self.assert_findings(self.run_tool("compare", "X.h5", "Y.h5", "--json", code=1).json(), x, twice)

    def test_beside_dense_elements(self):
        """Ranges of rows as dense blocks: beside a dense matrix, and where each element is marked."""
        rng = np.random.default_rng(8)
        x = scipy.sparse.csr_matrix(rng.integers(1, 100, (6000, 1000)) * (rng.random((6000, 1000)) < 0.2).astype(np.float64))
        y = self.changed(x)
        for x_file, kind in (("X.h5", "csr"), ("X.npz", "csc"), ("X.mtx", "coo")):
            with self.subTest(x=x_file, kind=kind):
                self.store(x_file, x, kind)
                write_h5(self.path("Y.h5"), y.toarray())
                said = f"{x_file}.*: dense blocks of ranges of rows"
                self.assert_findings(self.in_ranges("compare", x_file, "Y.h5", said=said, limit=32, code=1), x, y)
                self.store("Y.h5", y)
                self.in_ranges("compare", x_file, "Y.h5", "--save-mismatch", "mask.npy", "--force", said=said, limit=40, code=1)
                np.testing.assert_array_equal(np.load(self.path("mask.npy")), (x != y).toarray())

    def test_threads_find_the_same(self):
        x = self.matrix(seed=5, entries=600_000)
        y = self.changed(x)
        y.data[::3] *= 1 + 1e-9
        self.store("X.h5", x)
        self.store("Y.h5", y)
        found = set()
        for threads in ("1", "2", "3", "3"):
            record = self.run_tool("compare", "X.h5", "Y.h5", "--rtol", "1e-6", "--threads", threads, "--json", code=1).json()
            found.add(json.dumps([record["norms"], *(record[key] for key in FINDINGS)]))
        self.assertEqual(len(found), 1, found)

    def test_damage(self):
        x = self.matrix()
        for part, position, value in (("indices", 200_000, -1), ("indices", 100, 20000), ("indptr", 50, 400_000), ("indptr", 0, 1), ("indptr", 30000, 5)):
            with self.subTest(part=part, value=value):
                self.store("X.h5", x)
                self.store("Y.h5", x)
                with h5py.File(self.path("Y.h5"), "r+") as file:
                    file["X"][part][position] = value
                said = self.run_tool("compare", "X.h5", "Y.h5", code=3).err
                self.assertRegex(said, rf"Y.h5:/X/{part}\[\d+\] is {value}, expected")

    def test_too_little(self):
        """The refusal names a limit that would do."""
        self.store("X.h5", self.matrix())
        self.named_limit_does("compare", "X.h5", "X.h5")

    def test_too_little_for_text(self):
        """Blocks of it would read it hundreds of times."""
        x = self.matrix()
        y = self.changed(x)
        self.store("X.mtx", x)
        self.store("Y.mtx", y)
        self.store("Y.npz", y)
        self.store("T.mtx", y.T)
        for y_file, *flags in (("Y.mtx",), ("Y.npz",), ("T.mtx", "--transposed")):
            with self.subTest(y=y_file):
                self.assert_findings(self.named_limit_does("compare", "X.mtx", y_file, *flags, code=1), x, y)

    def test_too_little_for_text_beside_dense_elements(self):
        x = self.matrix(shape=(3000, 1000), entries=60_000)
        y = self.changed(x)
        self.store("X.mtx", x)
        self.store("T.mtx", x.T)
        self.store("Y.mtx", y)
        write_h5(self.path("Y.h5"), y.toarray())
        for command in (("X.mtx", "Y.h5"), ("X.mtx", "Y.mtx", "--save-mismatch", "mask.npy")):
            with self.subTest(command):
                self.assert_findings(self.named_limit_does("compare", *command, code=1), x, y)
        np.testing.assert_array_equal(np.load(self.path("mask.npy")), (x != y).toarray())
        self.assert_findings(self.named_limit_does("compare", "Y.h5", "T.mtx", "--transposed", code=1), y, x)

    def test_text_that_a_few_blocks_read(self):
        x = self.matrix(shape=(700, 900), entries=30_000)
        y = self.changed(x)
        self.store("X.mtx", x)
        self.store("Y.mtx", y)
        self.assert_findings(self.run_within(1, "compare", "X.mtx", "Y.mtx", "--json", code=1).json(), x, y)

    def test_what_fits_needs_no_ranges(self):
        x = self.matrix(shape=(10, 20), entries=30)
        y = x.copy()
        y.data[3] += 1
        for name in ("X.npz", "X.h5"):
            self.store(name, x)
            self.store("Y.npz", y)
            self.assert_findings(self.run_tool("compare", name, "Y.npz", "--json", "--memory-limit", "512KiB", code=1).json(), x, y)


class Statistics(ByRanges):
    def check(self, name, matrix, limit=LIMIT):
        found = self.in_ranges("info", "--stats", name, said="in [0-9]+ parts, ranges of (rows|columns)", limit=limit)["matrices"][0]
        whole = self.run_tool("info", "--stats", name, "--json").json()["matrices"][0]
        self.assertEqual(found["hash"], whole["hash"])
        statistics = found["statistics"]
        for key, value in whole["statistics"].items():
            if isinstance(value, float):
                self.assertAlmostEqual(statistics[key] / value if value else statistics[key], 1 if value else 0, places=self.PLACES, msg=key)
            else:
                self.assertEqual(statistics[key], value, key)
        sizes = abs(matrix)
        self.assertEqual(statistics["nonzeros"], matrix.count_nonzero())
        self.assertEqual(float(statistics["one_norm"]), sizes.sum(0).max())
        self.assertEqual(float(statistics["infinity_norm"]), sizes.sum(1).max())
        self.assertAlmostEqual(float(statistics["frobenius_norm"]) / np.sqrt(matrix.multiply(matrix).sum()), 1, places=self.PLACES)
        self.assertEqual(float(statistics["largest"]), matrix.max())
        self.assertEqual(float(statistics["smallest"]), matrix.min())
        return statistics

    def test_against_scipy(self):
        for number, (name, kind) in enumerate((("A.h5", "csr"), ("A.h5", "csc"), ("A.npz", "csr"), ("A.mtx", "coo"))):
            with self.subTest(name=name, kind=kind):
                matrix = self.matrix(seed=number, entries=400_000)
                matrix.data[::5] *= -1
                self.store(name, matrix, kind)
                self.check(name, matrix)

    def test_symmetry(self):
        half = self.matrix(seed=7, shape=(20000, 20000), entries=220_000)
        cases = {"symmetric": half + half.T, "skew_symmetric": half - half.T}
        lonely = (half + half.T).tolil()
        lonely[19990, 3] += 1
        cases["none"] = lonely.tocsr()
        for name, matrix in cases.items():
            matrix.sum_duplicates()
            for kind in ("csr", "csc"):
                with self.subTest(name=name, kind=kind):
                    self.store("A.h5", matrix, kind)
                    statistics = self.check("A.h5", matrix, limit=10)
                    for flag in ("symmetric", "skew_symmetric"):
                        self.assertEqual(statistics[flag], flag == name)

    @unittest.skipUnless(PLAIN, "thousands of blocks")
    def test_too_little(self):
        self.store("A.h5", self.matrix())
        self.named_limit_does("info", "--stats", "A.h5")

    def test_too_little_for_text(self):
        """Blocks of it would read it hundreds of times."""
        square = self.matrix(shape=(20000, 20000), entries=100_000)
        for matrix in (self.matrix(), (square + square.T).tocsr()):
            with self.subTest(shape=matrix.shape):
                self.store("A.mtx", matrix)
                found = self.named_limit_does("info", "--stats", "A.mtx")["matrices"][0]
                whole = self.run_tool("info", "--stats", "A.mtx", "--json").json()["matrices"][0]
                self.assertEqual(found["hash"], whole["hash"])
                self.assertEqual(found["statistics"]["nonzeros"], matrix.count_nonzero())
                self.assertEqual(found["statistics"]["symmetric"], matrix.shape[0] == matrix.shape[1])
                self.assertEqual(found["statistics"]["one_norm"], abs(matrix).sum(0).max())


class Verify(ByRanges):
    def check(self, *arguments, limit=LIMIT):
        record = self.in_ranges("verify", *arguments, said="verified in [0-9]+ parts", limit=limit)
        self.assertEqual(record["verification"]["verdict"], "passed")
        whole = self.run_tool("verify", *arguments, "--json").json()
        self.assertEqual(record["result"]["hash"], whole["result"]["hash"])
        self.assertEqual([matrix["hash"] for matrix in record["inputs"]], [matrix["hash"] for matrix in whole["inputs"]])

    def refuse(self, *arguments, row, col, limit=LIMIT):
        record = self.in_ranges("verify", *arguments, said="verified in [0-9]+ parts", limit=limit, code=1)
        self.assertEqual(record["verification"]["verdict"], "failed")
        worst = record["verification"]["worst"]
        self.assertEqual((worst["row"], worst["col"]), (row, col))

    def test_transpose(self):
        a = self.matrix()
        for a_file, kind, result in (("A.h5", "csr", "T.h5"), ("A.h5", "csc", "T.npz"), ("A.mtx", "coo", "T.h5")):
            with self.subTest(a=a_file, kind=kind, result=result):
                self.store(a_file, a, kind)
                transposed = a.T.tocsr()
                self.store(result, transposed)
                self.check("transpose", a_file, result)
                at = transposed.indptr[15000]
                row = np.searchsorted(transposed.indptr, at, side="right") - 1
                transposed.data[at] += 1
                self.store(result, transposed)
                self.refuse("transpose", a_file, result, row=row, col=transposed.indices[at])

    def test_reduce(self):
        a = self.matrix()
        for a_file, kind in (("A.h5", "csr"), ("A.npz", "csr")):
            self.store(a_file, a, kind)
            for axis, along in (("rows", 1), ("columns", 0), ("all", None)):
                with self.subTest(a=a_file, axis=axis):
                    sums = np.asarray(a.sum(along), np.float64).reshape((-1, 1) if axis == "rows" else (1, -1))
                    write_h5(self.path("R.h5"), sums)
                    arguments = ("reduce", a_file, "R.h5", "--op", "sum", "--axis", axis)
                    self.check(*arguments)
                    place = np.unravel_index(sums.size * 2 // 3, sums.shape)
                    sums[place] += 1
                    write_h5(self.path("R.h5"), sums)
                    self.refuse(*arguments, row=place[0], col=place[1])

    def test_multiply(self):
        a = self.matrix(shape=(30000, 4000))
        self.store("A.h5", a)
        dense = np.random.default_rng(5).integers(-3, 4, (4000, 20)).astype(np.float64)
        write_h5(self.path("B.h5"), dense)
        product = a @ dense
        write_h5(self.path("C.h5"), product)
        self.check("multiply", "A.h5", "B.h5", "C.h5")
        product[20000, 7] += 1
        write_h5(self.path("C.h5"), product)
        self.refuse("multiply", "A.h5", "B.h5", "C.h5", row=20000, col=7)
        few = self.matrix(seed=9, shape=(4000, 5000), entries=8_000)
        self.store("F.npz", few)
        product = (a @ few).tocsr()
        product.sort_indices()
        self.store("P.h5", product)
        self.check("multiply", "A.h5", "F.npz", "P.h5", limit=14)


if __name__ == "__main__":
    unittest.main()
