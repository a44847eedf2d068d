"""Sparse matrices larger than --memory-limit go through the disk in parts: the limit is kept, and what is written is what
is written from memory."""

import json
import os
import re
import resource
import subprocess
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import PLAIN, Case, digest, read_h5, write_h5

MIB = 1 << 20
LIMIT = 8


class ThroughTheDisk(Case):
    def setUp(self):
        super().setUp()
        self.keep_parts_apart()

    def make(self, *pattern, shape, entries="330000"):
        """By columns, and then by rows in the order of a shuffle: no order of the file helps."""
        self.run_tool("generate", "sparse", "--shape", shape, "--entries", entries, "-t", "f64", *pattern, "-o", "sorted.mtx", "--force")
        with open(self.path("sorted.mtx"), "rb") as file:
            lines = file.read().splitlines(keepends=True)
        first = next(at for at, line in enumerate(lines) if not line.startswith(b"%")) + 1
        order = np.random.default_rng(3).permutation(len(lines) - first)
        with open(self.path("A.mtx"), "wb") as file:
            file.writelines(lines[:first])
            file.writelines(lines[first + at] for at in order)

    def check(self, verb):
        """The limit is kept, nothing is left behind, and the file is the same byte for byte."""
        whole = self.run_tool(verb, "A.mtx", "-o", "whole.mtx", "--force", "--json").json()
        record = self.run_within(LIMIT, verb, "A.mtx", "-o", "parts.mtx", "--force", "--json").json()
        self.assertEqual(digest(self.path("parts.mtx")), digest(self.path("whole.mtx")))
        for name in ("rows", "cols", "entries", "hash", "bytes"):
            self.assertEqual(record["output"][name], whole["output"][name])
        self.assertEqual(record["inputs"][0]["hash"], whole["inputs"][0]["hash"])
        self.assertEqual(os.listdir(self.folder_of_parts), [])
        return record

    def test_transpose_and_convert(self):
        for pattern in (("--pattern", "uniform"), ("--pattern", "power-law")):
            with self.subTest(pattern):
                self.make(*pattern, shape="30000x100000")
                record = self.check("transpose")
                self.assertGreater(record["parts"], 1)
                self.assertEqual(record["verification"]["verdict"], "passed")
                self.check("convert")

    def test_duplicates_zeros_and_symmetry(self):
        """Entries for one element are added as ever; those of a narrow type are refused, and named."""
        rng = np.random.default_rng(8)
        n, count = 3000, 220_000
        rows = rng.integers(0, n, count)
        cols = (rows * rng.random(count)).astype(int)
        values = rng.integers(-3, 4, count)
        text = f"%%MatrixMarket matrix coordinate real symmetric\n{n} {n} {count}\n" + "".join(
            f"{row + 1} {col + 1} {value}\n" for row, col, value in zip(rows, cols, values))
        with open(self.path("A.mtx"), "w") as file:
            file.write(text)
        self.assertGreater(self.check("transpose")["parts"], 1)
        self.check("convert")
        said = self.run_tool("transpose", "A.mtx", "-o", "f32.mtx", "-t", "f32", "--memory-limit", "6MiB", code=6).err
        self.assertIn("entries for the same element", said)
        self.assertFalse(os.path.exists(self.path("f32.mtx")))
        self.assertEqual(os.listdir(self.folder_of_parts), [])

    def test_layout_whose_writer_takes_all_at_once(self):
        """MATLAB's has columns."""
        self.make("--pattern", "uniform", shape="30000x100000")
        for verb in ("transpose", "convert"):
            self.run_tool(verb, "A.mtx", "-o", "out.h5", "--sparse-layout", "matlab", "--memory-limit", f"{LIMIT}MiB", code=6)
        self.assertEqual(sorted(os.listdir(self.path("."))), ["A.mtx", "parts", "sorted.mtx"])

    def test_what_cannot_be_cut(self):
        """One column has more entries than there is room for."""
        count = 400_000
        with open(self.path("A.mtx"), "w") as file:
            file.write(f"%%MatrixMarket matrix coordinate real general\n{count} 3 {count}\n" + "".join(f"{row} 2 1\n" for row in range(1, count + 1)))
        said = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--memory-limit", "12MiB", code=6).err
        self.assertRegex(said, "400000 entries of 400000x1 elements need .* at once, and there are")
        self.assertFalse(os.path.exists(self.path("B.mtx")))
        self.assertEqual(os.listdir(self.folder_of_parts), [])


class Compressed(Case):
    """Files of compressed rows and columns, with indices in any order, against SciPy."""

    SHAPE = (30000, 20000)

    def setUp(self):
        super().setUp()
        self.keep_parts_apart()

    def matrix(self, kind, seed=1, shape=SHAPE, entries=330_000, dtype=np.float64):
        """Small whole numbers, so that sums are exact; rows with many entries and without any; indices fall."""
        rng = np.random.default_rng(seed)
        rows = (shape[0] * rng.random(entries) ** 3).astype(np.int64)
        cols = rng.integers(0, shape[1], entries)
        matrix = scipy.sparse.coo_matrix((rng.integers(-9, 10, entries).astype(dtype), (rows, cols)), shape)
        matrix.sum_duplicates()
        matrix = matrix.asformat(kind)
        if kind != "coo":
            for line in range(len(matrix.indptr) - 1):
                part = slice(matrix.indptr[line], matrix.indptr[line + 1])
                matrix.indices[part] = matrix.indices[part][::-1].copy()
                matrix.data[part] = matrix.data[part][::-1].copy()
        return matrix

    def store(self, name, matrix):
        if name.endswith(".npz"):
            scipy.sparse.save_npz(self.path(name), matrix, compressed=matrix.format == "csc")
            return
        with h5py.File(self.path(name), "w") as file:
            group = file.create_group("X")
            chunks = {"chunks": (5000,), "compression": "gzip"} if matrix.format == "csr" else {}
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(matrix, part), **chunks)
            group.attrs["encoding-type"] = f"{matrix.format}_matrix"
            group.attrs["shape"] = matrix.shape

    def load(self, name):
        if name.endswith(".npz"):
            return scipy.sparse.load_npz(self.path(name))
        if name.endswith(".mtx"):
            return scipy.io.mmread(self.path(name)).tocsr()
        with h5py.File(self.path(name)) as file:
            group = next(iter(file.values()))
            if "binsparse" in group.attrs:
                parts = [group[part][()] for part in ("values", "indices_1", "pointers_to_1")]
                return scipy.sparse.csr_matrix(tuple(parts), json.loads(group.attrs["binsparse"])["binsparse"]["shape"])
            parts = [group[part][()] for part in ("data", "indices", "indptr")]
            return scipy.sparse.csr_matrix(tuple(parts), group.attrs["shape"])

    def assert_same(self, name, expected):
        found = self.load(name)
        expected = expected.tocsr()
        expected.sort_indices()
        self.assertEqual(found.shape, expected.shape)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part), part)

    def run_in_parts(self, *arguments, limit=LIMIT):
        """In parts, within the limit, and nothing is left behind; the record."""
        result = self.run_within(limit, *arguments, "--force", "-v", "--json")
        self.assertRegex(result.err, "in [0-9]+ parts")
        self.assertEqual(os.listdir(self.folder_of_parts), [])
        return result.json()

    def test_transpose_and_convert(self):
        for number, (source, kind, target) in enumerate((("A.h5", "csr", "B.h5"), ("A.h5", "csc", "B.npz"), ("A.npz", "csr", "B.h5"), ("A.npz", "csc", "B.mtx"), ("A.npz", "coo", "B.h5"))):
            with self.subTest(source=source, kind=kind, target=target):
                matrix = self.matrix(kind, seed=number)
                self.store(source, matrix)
                layout = ("--sparse-layout", "binsparse") if number == 2 else ("--chunk", "100x70", "--deflate", "1") if number == 4 else ()
                record = self.run_in_parts("transpose", source, "-o", target, *layout)
                self.assert_same(target, matrix.T)
                self.assertEqual(record["verification"]["verdict"], "passed")
                self.assertGreater(record["parts"], 1)
                whole = self.run_tool("transpose", source, "-o", "whole.npz", "--force", "--json").json()
                self.assertEqual(record["output"]["hash"], whole["output"]["hash"])
                self.assertEqual(record["inputs"][0]["hash"], whole["inputs"][0]["hash"])
                self.run_in_parts("convert", source, "-o", target, *layout)
                self.assert_same(target, matrix)

    def test_reduce(self):
        """All, rows and columns, of rows at hand, of columns that go through the disk, and of text in any order."""
        reductions = {"sum": lambda a, axis: a.sum(axis), "min": lambda a, axis: a.min(axis), "max": lambda a, axis: a.max(axis),
                      "absmax": lambda a, axis: abs(a).max(axis), "norm": lambda a, axis: np.sqrt(a.multiply(a).sum(axis)),
                      "mean": lambda a, axis: a.sum(axis) / (a.shape[axis] if axis is not None else a.shape[0] * a.shape[1]), "nan-count": lambda a, axis: (a != a).sum(axis)}
        for number, (source, kind) in enumerate((("A.h5", "csr"), ("A.h5", "csc"), ("A.npz", "csr"), ("A.mtx", "coo"))):
            matrix = self.matrix(kind, seed=number)
            if source == "A.mtx":  # twice, so that there are entries for the same element
                scipy.io.mmwrite(self.path("once.mtx"), matrix)
                lines = open(self.path("once.mtx")).read().splitlines()
                first = next(at for at, line in enumerate(lines) if not line.startswith("%")) + 1
                with open(self.path(source), "w") as file:
                    size = lines[first - 1].split()
                    file.write("\n".join(lines[:first - 1] + [f"{size[0]} {size[1]} {2 * int(size[2])}"] + 2 * lines[first:]) + "\n")
                matrix = 2 * matrix
            else:
                self.store(source, matrix)
            for place, (op, oracle) in enumerate(reductions.items()):
                for axis, along in (("all", None), ("rows", 1), ("columns", 0)):
                    if (place + number + len(axis)) % (3 if PLAIN else 6):
                        continue
                    with self.subTest(source=source, kind=kind, op=op, axis=axis):
                        target = "R.h5" if axis == "all" else "R.npy" if axis == "rows" else "R.mtx"
                        record = self.run_in_parts("reduce", source, "--op", op, "--axis", axis, "-o", target)
                        self.assertGreater(record["parts"], 1)
                        self.assertEqual(record["verification"]["verdict"], "passed")
                        found = (read_h5(self.path(target))[1] if axis == "all" else np.load(self.path(target)) if axis == "rows" else scipy.io.mmread(self.path(target)))
                        expected = oracle(matrix.tocsr(), along)
                        expected = np.asarray(expected.todense() if scipy.sparse.issparse(expected) else expected, np.float64)
                        np.testing.assert_allclose(np.ravel(found), np.ravel(expected), rtol=1e-14)
                        if op in ("sum", "min", "max", "absmax"):
                            np.testing.assert_array_equal(np.ravel(found), np.ravel(expected))

    def check_product(self, arguments, expected, limit=LIMIT):
        record = self.run_in_parts("multiply", *arguments, "-o", "C.npz" if scipy.sparse.issparse(expected) else "C.h5", limit=limit)
        self.assertGreater(record["parts"], 1)
        self.assertEqual(record["verification"]["verdict"], "passed")
        if scipy.sparse.issparse(expected):
            found = self.load("C.npz")
            found.eliminate_zeros()  # of sums that cancel
            expected = expected.tocsr()
            expected.eliminate_zeros()
            self.assert_same_matrix(found, expected)
        else:
            np.testing.assert_array_equal(read_h5(self.path("C.h5"))[1], expected)
        return record

    def assert_same_matrix(self, found, expected):
        self.assertEqual(found.shape, expected.shape)
        self.assertEqual(abs(found - expected).nnz, 0)

    def test_multiply(self):
        rng = np.random.default_rng(5)
        a = self.matrix("csr", shape=(30000, 4000))
        self.store("A.h5", a)
        columns = a.tocsc()
        self.store("T.npz", columns.T.tocsr())
        dense = rng.integers(-3, 4, (4000, 20)).astype(np.float64)
        write_h5(self.path("B.h5"), dense)
        d = rng.integers(-3, 4, (30000, 20)).astype(np.float64)
        write_h5(self.path("D.h5"), d)
        with self.subTest("sparse times dense"):
            self.check_product(("A.h5", "B.h5"), a @ dense)
        with self.subTest("with alpha, beta and D"):
            self.check_product(("A.h5", "B.h5", "--add", "D.h5", "--alpha", "2", "--beta", "-3"), 2 * (a @ dense) - 3 * d)
        with self.subTest("transposed, through the disk"):
            self.check_product(("T.npz", "B.h5", "--transpose-a"), a @ dense)
        few = self.matrix("csr", seed=9, shape=(4000, 5000), entries=8_000)
        self.store("F.npz", few)
        sums = self.matrix("csr", seed=10, shape=(30000, 5000), entries=20_000)
        self.store("S.npz", sums)
        with self.subTest("sparse times sparse"):
            self.check_product(("A.h5", "F.npz"), a @ few, limit=12)
            self.check_product(("A.h5", "F.npz", "--level", "hash", "--add", "S.npz", "--beta", "2"), a @ few + 2 * sums, limit=12)
        with self.subTest("much for whatever rows there are"):  # most of the room is the level's and the check's
            tall = self.matrix("csc", seed=12, shape=(3000, 50000), entries=70_000)
            thin = self.matrix("csr", seed=13, shape=(2000, 3000), entries=3_000)
            self.store("U.h5", tall)
            self.store("V.npz", thin)
            record = self.run_tool("multiply", "U.h5", "V.npz", "--transpose-a", "--transpose-b", "--threads", "2", "-o", "C.npz",
                                   "--force", "--json", "--memory-limit", "6200000").json()
            self.assertIn(record["parts"], range(2, 100))
            self.assertEqual(abs(self.load("C.npz") - tall.T @ thin.T).max(), 0)
        with self.subTest("the result alone does not fit"):
            one = self.matrix("csr", seed=14, shape=(1500, 100), entries=10_000)
            other = self.matrix("csr", seed=15, shape=(100, 2000), entries=10_000)
            self.store("P.npz", one)
            self.store("Q.npz", other)
            record = self.run_in_parts("multiply", "P.npz", "Q.npz", "-o", "C.npz", limit=6)
            self.assertGreater(record["parts"], 1)
            self.assertEqual(abs(self.load("C.npz") - one @ other).max(), 0)
        left = rng.integers(-3, 4, (3000, 400)).astype(np.float64)
        write_h5(self.path("L.h5"), left)
        right = self.matrix("csr", seed=11, shape=(400, 3000), entries=9_000)
        self.store("R.npz", right)
        with self.subTest("dense times sparse"):
            self.check_product(("L.h5", "R.npz"), left @ right)

    def test_what_must_be_in_memory_is_refused(self):
        """B as a whole does not fit."""
        self.store("A.h5", self.matrix("csr", shape=(30000, 20000)))
        write_h5(self.path("B.h5"), np.ones((20000, 100)))
        said = self.run_tool("multiply", "A.h5", "B.h5", "-o", "C.h5", "--memory-limit", f"{LIMIT}MiB", code=6).err
        self.assertIn("MiB", said)
        self.assertFalse(os.path.exists(self.path("C.h5")))

    def test_the_limit_that_is_named_would_do(self):
        """What parts take, not the whole; where a row turns out to take more than was known, how much more."""
        self.store("A.h5", self.matrix("csr", shape=(30000, 4000)))
        write_h5(self.path("B.h5"), np.ones((4000, 20)))
        units = {"KiB": 1 << 10, "MiB": 1 << 20}
        for arguments in (("transpose", "A.h5", "-o", "C.npz"), ("reduce", "A.h5", "--axis", "rows", "-o", "C.npy"), ("multiply", "A.h5", "B.h5", "-o", "C.h5")):
            with self.subTest(arguments):
                said = self.run_tool(*arguments, "--memory-limit", "1MiB", code=6).err
                found = re.search(r"in parts \(([0-9.]+) MiB as a whole\) needs ([0-9.]+) (KiB|MiB) of memory", said)
                self.assertTrue(found, said)
                limit = int(float(found[2]) * units[found[3]]) + 1
                self.assertLess(limit, float(found[1]) * MIB)
                done = self.attempt(*arguments, limit=limit)
                if done.returncode == 6:
                    more = re.search(r"; ([0-9.]+) (KiB|MiB) more would do", done.stderr)
                    self.assertTrue(more, done.stderr)
                    done = self.attempt(*arguments, limit=limit + int(float(more[1]) * units[more[2]]) + 1)
                self.assertEqual(done.returncode, 0, done.stderr)

    def attempt(self, *arguments, limit):
        return subprocess.run([self.tool, *arguments, "--memory-limit", str(limit), "--force"], cwd=self.folder, text=True, capture_output=True,
                              env={**os.environ, "GPUMAT_CACHE": "", "CUDA_VISIBLE_DEVICES": ""})

    def test_a_full_disk(self):
        """The temporary files take more than may be written: nothing is left, of the output either."""
        self.store("A.npz", self.matrix("csc"))
        self.store("B.h5", self.matrix("csr"))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
        for arguments in (("transpose", "B.h5", "-o", "C.npz"), ("convert", "A.npz", "-o", "C.h5"), ("reduce", "A.npz", "--axis", "rows", "-o", "C.npy")):
            with self.subTest(arguments):
                done = subprocess.run([self.tool, *arguments, "--memory-limit", f"{LIMIT}MiB"], cwd=self.folder, text=True, capture_output=True, preexec_fn=limit,
                                      env={**os.environ, "GPUMAT_CACHE": "", "CUDA_VISIBLE_DEVICES": ""})
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertRegex(done.stderr, f"a temporary file in {self.folder_of_parts}( cannot be written)?: .* \\(TMPDIR names another folder\\)")
                self.assertEqual(sorted(os.listdir(self.folder)), ["A.npz", "B.h5", "parts"])
                self.assertEqual(os.listdir(self.folder_of_parts), [])

    def test_damaged_arrays_are_refused_as_ever(self):
        """The first fault in each array, whichever way it is read."""
        for kind in ("csr", "csc"):
            for part, position, value in (("indices", 200_000, -1), ("indices", 100, 30000), ("indptr", 50, 400_000), ("indptr", 0, 1), ("indptr", -1, 5)):
                with self.subTest(kind=kind, part=part, value=value):
                    self.store("A.h5", self.matrix(kind))
                    with h5py.File(self.path("A.h5"), "r+") as file:
                        array = file["X"][part]
                        array[position if position >= 0 else len(array) - 1] = value
                    for verb in ("transpose", "convert"):
                        said = self.run_tool(verb, "A.h5", "-o", "B.h5", "--force", "--memory-limit", f"{LIMIT}MiB", code=3).err
                        self.assertRegex(said, rf"/X/{part}\[\d+\] is {value}, expected")
                    self.assertEqual(sorted(os.listdir(self.path("."))), ["A.h5", "parts"])
                    self.assertEqual(os.listdir(self.folder_of_parts), [])


if __name__ == "__main__":
    unittest.main()
