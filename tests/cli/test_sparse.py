"""Matrices that stay sparse, beside SciPy."""

import csv
import os
import shutil
import unittest
import zlib
from fractions import Fraction

import numpy as np
import scipy.io
import scipy.sparse

from harness import Case


def crc(dense):
    return f"crc32:{zlib.crc32(np.ascontiguousarray(dense).tobytes()):08x}"


def random_sparse(shape, entries, seed=1):
    rng = np.random.default_rng(seed)
    matrix = scipy.sparse.coo_matrix(
        (rng.normal(size=entries), (rng.integers(0, shape[0], entries), rng.integers(0, shape[1], entries))), shape=shape)
    matrix.sum_duplicates()
    return matrix


class Sparse(Case):
    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def text(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def check_transpose(self, expected, *options):
        """A.mtx becomes B.mtx, whose entries are those of `expected`, transposed."""
        record = self.record("transpose", "A.mtx", "-o", "B.mtx", "--force", *options)
        found = scipy.io.mmread(self.path("B.mtx"))
        self.assertTrue(scipy.sparse.issparse(found))
        wanted = scipy.sparse.csr_matrix(expected.T)
        wanted.sort_indices()
        places = list(zip(found.row, found.col))
        self.assertEqual(places, sorted(places))
        np.testing.assert_array_equal(found.tocsr().toarray(), wanted.toarray())
        self.assertEqual(record["output"]["structure"], "sparse")
        self.assertEqual(record["output"]["entries"], found.nnz)
        self.assertEqual(record["inputs"][0]["entries"], found.nnz)
        self.assertEqual(record["inputs"][0]["hash"], crc(wanted.toarray().T))
        self.assertEqual(record["output"]["hash"], crc(wanted.toarray()))
        self.assertEqual(record["verification"]["verdict"], "passed")
        return record

    def test_every_level_and_number_of_threads(self):
        matrix = random_sparse((700, 300), 9000)
        scipy.io.mmwrite(self.path("A.mtx"), matrix, precision=17)
        for level in ["auto", "serial", "counting", "blocked", "3"]:
            for threads in ["1", "2", "7"]:
                with self.subTest(level=level, threads=threads):
                    record = self.check_transpose(matrix, "--level", level, "--threads", threads, "--repeat", "2")
                    self.assertEqual(record["level"]["used"] if isinstance(record["level"], dict) else record["level"],
                                     {"auto": "blocked", "3": "blocked"}.get(level, level))

    def test_it_is_as_small_as_the_input(self):
        matrix = random_sparse((6000, 2000), 24000)
        scipy.io.mmwrite(self.path("A.mtx"), matrix, precision=17)
        self.check_transpose(matrix)
        self.assertLess(os.path.getsize(self.path("B.mtx")), 1.1 * os.path.getsize(self.path("A.mtx")))

    def test_fields_and_symmetries(self):
        heads = {
            "real general": "3 4 3\n1 4 0.1\n3 2 -2e-300\n2 2 0\n",
            "integer general": "3 4 2\n1 4 9007199254740993\n3 2 -2\n",
            "complex general": "2 3 2\n1 3 1.5 -2\n2 1 0 1\n",
            "pattern general": "3 3 2\n1 3\n2 2\n",
            "real symmetric": "3 3 3\n1 1 4\n3 1 0.5\n3 2 7\n",
            "integer skew-symmetric": "3 3 2\n2 1 4\n3 1 -5\n",
            "complex hermitian": "3 3 2\n2 1 4 -1\n3 3 2 0\n",
            "pattern symmetric": "3 3 2\n2 1\n3 3\n",
        }
        for head, body in heads.items():
            with self.subTest(head):
                self.write("A.mtx", f"%%MatrixMarket matrix coordinate {head}\n{body}")
                dense = scipy.io.mmread(self.path("A.mtx")).toarray()
                kind = {"p": np.int64, "i": np.int64, "r": np.float64, "c": np.complex128}[head[0]]
                self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--force")
                found = scipy.io.mmread(self.path("B.mtx")).toarray()
                np.testing.assert_array_equal(found.astype(kind), dense.T.astype(kind))
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--force", "-t", "u8")
        self.assertIn("% gpumat_type: u8\n3 3 3\n1 2 1\n2 1 1\n3 3 1\n", self.text("B.mtx"))

    def test_zeros_stay_and_duplicates_are_added(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 5\n1 3 1e16\n2 1 0\n1 3 1\n1 3 -1e16\n1 1 -0\n")
        said = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "-v").err
        self.assertIn("sparse: 3 entries, after 2 were added to others, 2 of them zero", said)
        self.assertEqual(self.text("B.mtx"), "%%MatrixMarket matrix coordinate real general\n3 2 3\n1 1 -0\n1 2 0\n3 1 1\n")

    def test_terms_that_round_to_zero_are_added(self):
        """Each is zero in f16, and their sum is not."""
        terms = ["2e-8"] * 1000
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1002\n" +
                   "".join(f"1 1 {term}\n" for term in terms + ["1"]) + "2 1 0\n")
        exact = np.float16(float(sum(map(Fraction, terms + ["1"]))))
        tiny = self.text("A.mtx").replace("1 1 1\n", "1 2 1\n")
        for text, expected in ((self.text("A.mtx"), exact), (tiny, np.float16(2e-5))):
            self.write("A.mtx", text)
            for form in ([], ["--dense"]):
                self.run_tool("transpose", "A.mtx", "-t", "f16", "-o", "B.mtx", "--force", *form)
                found = scipy.io.mmread(self.path("B.mtx"))
                found = found.toarray() if scipy.sparse.issparse(found) else found
                self.assertEqual(np.float16(found[0, 0]), expected)
                self.assertEqual(found[0, 1], 0)

    def test_the_sign_of_sums_is_that_of_the_dense_matrix(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate complex general\n3 3 3\n2 1 -0.0 1.5\n2 1 -0.0 2\n2 1 0 0\n")
        hashes = [self.record("transpose", "A.mtx", "-o", "B.mtx", "--force", *form)["output"]["hash"] for form in ([], ["--dense"])]
        self.assertEqual(hashes[0], hashes[1])

    def test_logs_and_reports(self):
        """Sparse and dense records have the same columns, and are not one measurement."""
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n3 4 1\n2 1 5\n")
        for form in ([], ["--dense"]):
            self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--force", "--level", "serial", "--log", "log.csv", *form)
            self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--force", "--level", "serial", "--log", "".join(["log", *form]) + ".jsonl", *form)
        with open(self.path("log.csv"), newline="") as file:
            sparse, dense = csv.DictReader(file)
        for row, structure, entries in ((sparse, "sparse", "1"), (dense, "", "")):
            self.assertNotIn(None, row)
            self.assertEqual((row["output.structure"], row["inputs.0.entries"], row["exit_code"], row["output.path"]),
                             (structure, entries, "0", "B.mtx"))
        self.assert_says(self.run_tool("report", "log--dense.jsonl", "--against", "log.jsonl", code=3), "nothing in common")

    def test_a_batch_knows_what_is_done(self):
        """Neither matrix would fit into memory dense."""
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n400000 300000 1\n2 1 5\n")
        self.write("jobs.txt", "transpose A.mtx -o B.mtx\n")
        self.run_tool("batch", "jobs.txt", "--log", "log.jsonl")
        self.assert_says(self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", "--resume"), "1 done before")

    def test_empty_ones(self):
        for shape in ["0 0", "0 5", "5 0", "4 6"]:
            with self.subTest(shape):
                self.write("A.mtx", f"%%MatrixMarket matrix coordinate real general\n{shape} 0\n")
                record = self.record("transpose", "A.mtx", "-o", "B.mtx", "--force")
                rows, cols = shape.split()
                self.assertEqual(self.text("B.mtx"), f"%%MatrixMarket matrix coordinate real general\n{cols} {rows} 0\n")
                self.assertEqual(record["output"]["hash"], crc(np.zeros((int(cols), int(rows)))))

    def test_what_no_memory_could_hold_dense(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n300000 400000 3\n"
                            "300000 1 1\n1 400000 2\n7 9 3\n")
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx")
        self.assertEqual(self.text("B.mtx"), "%%MatrixMarket matrix coordinate real general\n400000 300000 3\n"
                                             "1 300000 1\n9 7 3\n400000 1 2\n")
        refused = self.run_tool("transpose", "A.mtx", "-o", "B.h5", code=6)
        self.assert_says(refused, "which --sparse would keep sparse, needs 1.75 TiB of memory")
        self.run_tool("transpose", "A.mtx", "-o", "B.h5", "--sparse")
        self.assert_says(self.run_tool("transpose", "A.mtx", "-o", "C.h5", "--dense", code=6), "all f64) needs")
        if shutil.disk_usage(self.folder).free < 894 << 30:
            refused = self.run_tool("convert", "A.mtx", "-o", "C.h5", code=4)
            self.assert_says(refused, "C.h5:/A: cannot be written: No space left on device, which has ", " for 894.07 GiB")

    def test_conjugate(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate complex general\n2 3 2\n1 3 1.5 -2\n2 1 0 1\n")
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--conjugate")
        self.assertEqual(self.text("B.mtx"), "%%MatrixMarket matrix coordinate complex general\n3 2 2\n1 2 0 -1\n3 1 1.5 2\n")

    def test_compressed_text_and_pipes(self):
        matrix = random_sparse((50, 40), 300)
        scipy.io.mmwrite(self.path("A.mtx"), matrix, precision=17)
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx.gz")
        self.run_tool("transpose", "B.mtx.gz", "-o", "C.mtx")
        np.testing.assert_array_equal(scipy.io.mmread(self.path("C.mtx")).toarray(), matrix.toarray())
        piped = self.run_tool("transpose", "-", "-o", "-", stdin=self.text("A.mtx").encode())
        self.run_tool("transpose", "A.mtx", "-o", "D.mtx")
        self.assertEqual(piped.out, self.text("D.mtx"))

    def test_dense_is_asked_for(self):
        matrix = random_sparse((20, 30), 50)
        scipy.io.mmwrite(self.path("A.mtx"), matrix, precision=17)
        record = self.record("transpose", "A.mtx", "-o", "B.mtx", "--dense", "--level", "tiled")
        self.assertNotIn("structure", record["output"])
        found = scipy.io.mmread(self.path("B.mtx"))
        self.assertFalse(scipy.sparse.issparse(found))
        np.testing.assert_array_equal(found, matrix.toarray().T)
        sparse = self.record("transpose", "A.mtx", "-o", "C.mtx")
        self.assertEqual(sparse["output"]["hash"], record["output"]["hash"])
        self.run_tool("compare", "B.mtx", "C.mtx")
        self.run_tool("verify", "transpose", "A.mtx", "C.mtx")
        for other in ["B.npy", "B.h5"]:
            self.assertEqual(self.record("transpose", "A.mtx", "-o", other)["output"]["hash"], record["output"]["hash"])

    def test_levels_of_dense_matrices_are_refused(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1\n")
        said = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--level", "tiled", code=5).err
        self.assertIn("level 'tiled' cannot serve this problem: it works on dense matrices, not on sparse ones; levels for "
                      "sparse matrices: auto, serial, counting, blocked, vendor; --dense makes the matrices dense", said)
        said = self.run_tool("transpose", "A.mtx", "-o", "B.h5", "--level", "counting", code=5).err
        self.assertIn("it works on sparse matrices, not on dense ones", said)
        for gpu in [["--device", "gpu"], ["--level", "atomic"]]:
            self.assertIn("no GPU", self.run_tool("transpose", "A.mtx", "-o", "B.mtx", *gpu, code=5).err)
        said = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--device", "cpu", "--level", "atomic", code=5).err
        self.assertIn("it runs on a gpu", said)
        said = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--in-place", code=5).err
        self.assertIn("it cannot work in place", said)
        self.assertFalse(os.path.exists(self.path("B.mtx")))

    def test_a_limit_that_is_too_small_names_both_sizes(self):
        scipy.io.mmwrite(self.path("A.mtx"), random_sparse((3000, 2000), 60000), precision=17)
        said = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--memory-limit", "1MiB", code=6).err
        self.assertRegex(said, r"with up to \d+ entries, all f64; dense, which can go in parts, .* for all\) needs .* and the limit is 1")
        self.assertFalse(os.path.exists(self.path("B.mtx")))
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--memory-limit", "16MiB")
        self.run_tool("transpose", "A.mtx", "-o", "C.mtx", "--memory-limit", "4MiB", "--dense")
        self.run_tool("compare", "B.mtx", "C.mtx")

    def test_a_dry_run_writes_nothing(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1\n")
        record = self.record("transpose", "A.mtx", "-o", "B.mtx", "--dry-run")
        self.assertEqual(record["inputs"][0]["structure"], "sparse")
        self.assertFalse(os.path.exists(self.path("B.mtx")))

    def test_what_is_malformed_is_refused_as_ever(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n3 1 1\n")
        self.assertIn("A.mtx:4:1", self.run_tool("transpose", "A.mtx", "-o", "B.mtx", code=3).err)
        self.assertFalse(os.path.exists(self.path("B.mtx")))


if __name__ == "__main__":
    unittest.main()
