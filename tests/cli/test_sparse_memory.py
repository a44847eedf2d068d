"""Sparse matrices larger than --memory-limit go through the disk in parts: the limit is kept, and what is written is what
is written from memory."""

import os
import unittest

import numpy as np

from harness import Case, digest

MIB = 1 << 20
LIMIT = 8


class ThroughTheDisk(Case):
    def setUp(self):
        super().setUp()
        self.folder_of_parts = self.path("parts")
        os.mkdir(self.folder_of_parts)
        os.environ["TMPDIR"] = self.folder_of_parts
        self.addCleanup(os.environ.pop, "TMPDIR")

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
        taken, said = self.peak_bytes(verb, "A.mtx", "-o", "parts.mtx", "--force", "-v", "--memory-limit", f"{LIMIT}MiB")
        self.assertLess(taken, LIMIT * MIB + self.beside_matrices(), said)
        self.assertEqual(digest(self.path("parts.mtx")), digest(self.path("whole.mtx")))
        record = self.run_tool(verb, "A.mtx", "-o", "parts.mtx", "--force", "--json", "--memory-limit", f"{LIMIT}MiB").json()
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

    def test_formats_whose_writers_take_all_at_once(self):
        self.make("--pattern", "uniform", shape="30000x100000")
        for name in ("out.npz", "out.h5"):
            layout = ["--sparse-layout", "anndata"] if name == "out.h5" else []
            for verb in ("transpose", "convert"):
                self.run_tool(verb, "A.mtx", "-o", name, *layout, "--memory-limit", f"{LIMIT}MiB", code=6)
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


if __name__ == "__main__":
    unittest.main()
