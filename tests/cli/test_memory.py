"""--memory-limit of the commands that read or write matrices block by block: it is kept, and what is found in blocks is
what is found in memory."""

import json
import os
import unittest
import zlib

import h5py
import numpy as np

from harness import PLAIN, Case, random_values, read_h5, read_mtx, write_h5, write_mtx


def hash_of(array):
    return f"crc32:{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


@unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
class Limits(Case):
    def test_chunks_across_the_blocks_of_the_input(self):
        """Of a chunk that came in pieces the writer kept those that it had: in the end the whole matrix."""
        matrix = random_values("f64", (4000, 2500))  # 76 MiB
        write_h5(self.path("in.h5"), matrix)
        for chunk in ("4000x1", "1x2500", "500x500"):
            self.run_within(8, "convert", "in.h5", "-o", "out.h5", "--force", "--chunk", chunk)
            np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], matrix)

    def test_more_threads_than_the_limit_has_room_for(self):
        """Written with many threads, a contiguous output was mapped as a whole."""
        write_h5(self.path("in.h5"), np.ones((4000, 2500)))
        self.run_within(8, "convert", "in.h5", "-o", "out.h5", "--threads", "8")

    def test_a_chunk_that_does_not_fit_is_refused_before_work_starts(self):
        write_h5(self.path("in.h5"), np.ones((1000, 1000)))
        result = self.run_tool("convert", "in.h5", "-o", "out.h5", "--chunk", "1000x1000", "--deflate", "1", "--memory-limit", "8MiB", code=6)
        self.assert_says(result, "out.h5", "(1000x1000 elements) needs 30.5", "the limit is 8.00 MiB")
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_text(self):
        """Short numbers take four times as much as their text, and entries many times."""
        with open(self.path("array.mtx"), "wb") as file:
            file.write(b"%%MatrixMarket matrix array real general\n4000 2500\n" + b"1\n" * (4000 * 2500))
        with open(self.path("entries.mtx"), "wb") as file:
            file.write(b"%%MatrixMarket matrix coordinate real general\n4000 2500 400000\n")
            for row in range(1, 4001):
                file.write(b"".join(b"%d %d 1\n" % (row, col) for col in range(1, 101)))
        for name, total in (("array.mtx", "10000000"), ("entries.mtx", "400000")):
            self.assertIn(total, self.run_within(8, "reduce", name, "--dense", "-d", "cpu", "--threads", "8").out)
            self.run_within(8, "convert", name, "-o", "out.h5", "--force", "--threads", "8")

    def test_text_that_is_written(self):
        write_h5(self.path("in.h5"), random_values("f64", (1000, 1500)))
        self.run_within(4, "convert", "in.h5", "-o", "out.mtx", "--threads", "16")

    def test_statistics(self):
        write_h5(self.path("in.h5"), random_values("f64", (4000, 2500)))
        self.run_within(8, "info", "--stats", "in.h5")

    def test_stored_products(self):
        a, b = (random_values("f32", shape) for shape in ((4000, 1000), (1000, 4000)))
        for name, matrix in (("a", a), ("b", b), ("c", a @ b)):
            write_h5(self.path(name + ".h5"), matrix)
        self.run_within(8, "verify", "multiply", "a.h5", "b.h5", "c.h5", "--mode", "freivalds")


class TextInBlocks(Case):
    """Blocks of any shape, of text that is parsed in pieces or was kept."""

    def assert_read(self, matrix, *words):
        for output in ("out.h5", "out.mtx"):
            self.run_tool("transpose", "in.mtx", "-d", "cpu", "--dense", "-o", output, "--force", "--memory-limit", "1MiB", *words)
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], matrix.T)
        np.testing.assert_array_equal(read_mtx(self.path("out.mtx")), matrix.T)
        self.run_tool("convert", "in.mtx", "-o", "rows.h5", "--force", "--chunk", f"1x{matrix.shape[1]}", "--memory-limit", "1MiB", *words)
        np.testing.assert_array_equal(read_h5(self.path("rows.h5"))[1], matrix)

    def test_arrays_of_every_symmetry(self):
        square = random_values("f64", (350, 350))
        write_mtx(self.path("in.mtx"), random_values("f64", (300, 500)))
        self.assert_read(read_mtx(self.path("in.mtx")))
        for symmetry, matrix in (("symmetric", square + square.T), ("skew-symmetric", square - square.T)):
            write_mtx(self.path("in.mtx"), matrix, symmetry)
            self.assert_read(matrix)
        complex_one = square[:250, :250] + 1j * square[100:, 100:]
        hermitian = complex_one + complex_one.conj().T
        write_mtx(self.path("in.mtx"), hermitian, "hermitian")
        self.assert_read(hermitian)

    def test_entries_in_any_order(self):
        random = np.random.default_rng(5)
        rows, cols = random.integers(0, 400, 30000), random.integers(0, 300, 30000)  # some elements several times
        values = random.integers(-99, 99, 30000)
        matrix = np.zeros((400, 300))
        np.add.at(matrix, (rows, cols), values)
        for order in (np.lexsort((rows, cols)), np.lexsort((cols, rows)), random.permutation(30000)):
            with open(self.path("in.mtx"), "w", encoding="ascii") as file:
                file.write("%%MatrixMarket matrix coordinate real general\n400 300 30000\n")
                file.writelines(f"{rows[n] + 1} {cols[n] + 1} {values[n]}\n" for n in order)
            self.assert_read(matrix)

    def test_symmetric_entries(self):
        random = np.random.default_rng(6)
        lower = np.tril(np.where(random.random((400, 400)) < 0.1, random.integers(1, 99, (400, 400)), 0)).astype(float)
        rows, cols = np.nonzero(lower)
        with open(self.path("in.mtx"), "w", encoding="ascii") as file:
            file.write(f"%%MatrixMarket matrix coordinate real symmetric\n400 400 {len(rows)}\n")
            file.writelines(f"{row + 1} {col + 1} {lower[row, col]}\n" for row, col in zip(rows, cols))
        self.assert_read(lower + np.tril(lower, -1).T)

    def test_what_is_wrong_in_text_that_is_kept(self):
        good = b"%%MatrixMarket matrix array real general\n300 500\n" + b"1\n" * (300 * 500)
        for text, words in ((good[:-100] + b"x\n" + good[-98:], ("found 'x'",)), (good[:-20], ("expected 150000 values",))):
            with open(self.path("in.mtx"), "wb") as file:
                file.write(text)
            result = self.run_tool("transpose", "in.mtx", "-d", "cpu", "-o", "out.mtx", "--memory-limit", "1MiB", code=3)
            self.assert_says(result, "in.mtx", *words)

    def test_no_room_for_a_temporary_file(self):
        """Then the text is parsed again."""
        matrix = random_values("f64", (300, 500))
        write_mtx(self.path("in.mtx"), matrix)
        self.run_tool("transpose", "in.mtx", "-d", "cpu", "-o", "out.mtx", "--memory-limit", "1MiB",
                      before=["bash", "-c", 'export TMPDIR=/proc; exec "$@"', "-"])
        np.testing.assert_array_equal(read_mtx(self.path("out.mtx")), matrix.T)


class Statistics(Case):
    def statistics(self, *words):
        entry = json.loads(self.run_tool("info", "--stats", "--json", *words).out)["matrices"][0]
        return entry["statistics"], entry["hash"]

    def assert_same(self, matrix, **storage):
        write_h5(self.path("in.h5"), matrix, **storage)
        whole, in_blocks = self.statistics("in.h5"), self.statistics("in.h5", "--memory-limit", "256KiB")
        self.assertEqual(in_blocks[1], hash_of(matrix))
        for name, value in whole[0].items():
            if name.endswith("_norm") and isinstance(value, float):
                self.assertAlmostEqual(in_blocks[0][name] / (value or 1), value / (value or 1), delta=1e-12)
            else:
                self.assertEqual(in_blocks[0][name], value, name)
        return in_blocks[0]

    def test_every_storage(self):
        for shape in ((300, 700), (700, 300), (1, 90000), (90000, 1)):
            for storage in ({}, {"chunks": (min(64, shape[0]), min(100, shape[1]))}):
                matrix = random_values("f64", shape)
                found = self.assert_same(matrix, **storage)
                self.assertEqual(found["largest"], matrix.max())
                np.testing.assert_allclose(found["one_norm"], np.abs(matrix).sum(0).max(), rtol=1e-12)
                np.testing.assert_allclose(found["infinity_norm"], np.abs(matrix).sum(1).max(), rtol=1e-12)

    def test_symmetry_across_blocks(self):
        square = random_values("f64", (400, 400))
        self.assertTrue(self.assert_same(square + square.T)["symmetric"])
        self.assertTrue(self.assert_same(square - square.T, chunks=(37, 50))["skew_symmetric"])
        broken = square + square.T
        broken[399, 1] += 1
        self.assertFalse(self.assert_same(broken)["symmetric"])
        hermitian = square[:300, :300] + 1j * square[100:, 100:]
        self.assertTrue(self.assert_same(hermitian + hermitian.conj().T)["hermitian"])
        square[7, 7] = np.nan
        self.assertEqual(self.assert_same(square)["nans"], 1)

    def test_text(self):
        square = random_values("f64", (300, 300))
        write_mtx(self.path("in.mtx"), square + square.T)
        found, content = self.statistics("in.mtx", "--memory-limit", "512KiB")
        self.assertTrue(found["symmetric"])
        self.assertEqual(content, hash_of(square + square.T))

    def test_a_stream_that_does_not_fit_is_refused(self):
        text = b"%%MatrixMarket matrix array real general\n300 300\n" + b"1\n" * 90000
        result = self.run_tool("info", "--stats", "-", "--memory-limit", "512KiB", stdin=text, code=6)
        self.assert_says(result, "the statistics of a 300x300 matrix of f64 needs", "the limit is 512.00 KiB")


class ProductsInBlocks(Case):
    M, N, K = 300, 280, 320

    def verify(self, *words, code=0):
        record = json.loads(self.run_tool("verify", "multiply", *words, "--mode", "freivalds", "--memory-limit", "700KiB", "--json", code=code).out)
        self.assertEqual(record["verification"]["mode"], "freivalds")
        return record

    def matrices(self, name):
        integers = np.random.default_rng(8).integers
        dtype = {"f32": "f4", "f64": "f8", "c64": "c8", "i32": "i4", "i64": "i8"}[name]
        a, b, d = (integers(-9, 10, shape).astype(dtype) for shape in ((self.M, self.K), (self.K, self.N), (self.M, self.N)))
        if name == "c64":
            a += 1j * integers(-9, 10, a.shape)
            b = b + np.complex64(1j) * integers(-9, 10, b.shape)
        return a, b.astype(dtype), d

    def test_every_form(self):
        """Sums of small integers are exact in every type."""
        for name in ("f32", "f64", "c64", "i32", "i64"):
            a, b, d = self.matrices(name)
            c = (2 * a @ b - 3 * d).astype(a.dtype)
            write_h5(self.path("c.h5"), c)
            write_h5(self.path("d.h5"), d)
            for transposed in ((), ("--transpose-a",), ("--transpose-b",), ("--transpose-a", "--transpose-b")):
                storage = {"chunks": (50, 70)} if len(transposed) == 2 else {}
                write_h5(self.path("a.h5"), a.T.copy() if "--transpose-a" in transposed else a, **storage)
                write_h5(self.path("b.h5"), b.T.copy() if "--transpose-b" in transposed else b, **storage)
                form = ["a.h5", "b.h5", "c.h5", "--add", "d.h5", "--alpha", "2", "--beta", "-3", *transposed]
                record = self.verify(*form)
                self.assertEqual(record["verification"]["verdict"], "passed")
                self.assertEqual(record["inputs"][2]["hash"], hash_of(d))
                self.assertEqual(record["result"]["hash"], hash_of(c))
            wrong = c.copy()
            wrong[217, 31] += 1
            write_h5(self.path("c.h5"), wrong)
            found = self.verify(*form, code=1)["verification"]
            self.assertEqual((found["verdict"], found["mismatches"], found["worst"]["row"], found["worst"]["col"]), ("failed", 1, 217, 31), name)

    def test_text(self):
        a, b, _ = self.matrices("f64")
        for name, matrix in (("a", a), ("b", b), ("c", a @ b)):
            write_mtx(self.path(name + ".mtx"), matrix)
        self.assertEqual(self.verify("a.mtx", "b.mtx", "c.mtx", "-t", "f64")["verification"]["verdict"], "passed")

    def test_errors_of_every_kind_are_found(self):
        a, b, _ = self.matrices("f64")
        a, b = a + random_values("f64", a.shape), b + random_values("f64", b.shape)
        write_h5(self.path("a.h5"), a)
        write_h5(self.path("b.h5"), b)
        right = a @ b
        column, coarse, special = right.copy(), right.astype("f4").astype("f8"), right.copy()
        column[:, 5] += 1e-6
        special[9, 9] = np.nan
        for number, wrong in enumerate((column, coarse, special, -right)):
            write_h5(self.path("c.h5"), wrong)
            self.assertEqual(self.verify("a.h5", "b.h5", "c.h5", code=1)["verification"]["verdict"], "failed", number)
        write_h5(self.path("c.h5"), right)
        self.assertEqual(self.verify("a.h5", "b.h5", "c.h5")["verification"]["verdict"], "passed")

    def test_values_that_residuals_cannot_judge(self):
        a, b, _ = self.matrices("f64")
        a[100, 3] = np.inf
        with np.errstate(invalid="ignore"):
            c = a @ b
        for name, matrix in (("a", a), ("b", b), ("c", c)):
            write_h5(self.path(name + ".h5"), matrix)
        self.assertEqual(self.verify("a.h5", "b.h5", "c.h5")["verification"]["verdict"], "passed")
        c[100, 0] = 1
        write_h5(self.path("c.h5"), c)
        found = self.verify("a.h5", "b.h5", "c.h5", code=1)["verification"]
        self.assertEqual((found["worst"]["row"], found["worst"]["col"]), (100, 0))

    def test_too_small_a_limit_names_the_least(self):
        a, b, _ = self.matrices("f64")
        for name, matrix in (("a", a), ("b", b), ("c", a @ b)):
            write_h5(self.path(name + ".h5"), matrix)
        result = self.run_tool("verify", "multiply", "a.h5", "b.h5", "c.h5", "--mode", "freivalds", "--memory-limit", "64KiB", code=6)
        self.assert_says(result, "verifying this multiply block by block needs", "the limit is 64.00 KiB")


class PartsOfProducts(Case):
    def test_parts_that_differ_are_not_all_computed_again(self):
        """The large elements on the diagonal make the residuals of their parts seem small, and all others large."""
        write_h5(self.path("a.h5"), random_values("f64", (1500, 500)) - 0.5)
        record = self.record("multiply", "a.h5", "a.h5", "--transpose-b", "-d", "cpu", "--verify", "freivalds", "--memory-limit", "2500KiB")
        self.assertGreater(record["parts"], 60)
        self.assertLess(record["verification"]["rows_recomputed"], 8 * record["parts"])


if __name__ == "__main__":
    unittest.main()
