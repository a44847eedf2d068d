"""Matrices without elements may have any number of rows or columns: 2^50 in a file of 2 KB. Every verb ends at once, or says what
it would need."""

import unittest

import h5py
import numpy as np

from harness import Case

MANY = 2**50


class Empty(Case):
    def setUp(self):
        super().setUp()
        with h5py.File(self.path("e.h5"), "w") as file:
            file["A"] = np.zeros((0, 0))  # of other verbs
            del file["A"]
            for name, shape in (("tall", (MANY, 0)), ("wide", (0, MANY)), ("small", (0, 3))):
                file.create_dataset(name, shape, "f8")
        for name, shape in (("tall", (MANY, 0)), ("wide", (0, MANY))):
            with open(self.path(name + ".mtx"), "w", encoding="ascii") as file:
                file.write("%%MatrixMarket matrix array real general\n{} {}\n".format(*shape))

    def shape_of(self, path):
        if path.endswith(".h5"):
            with h5py.File(self.path(path)) as file:
                return next(iter(file.values())).shape
        with open(self.path(path), encoding="ascii") as file:
            return tuple(map(int, [line for line in file if not line.startswith("%")][0].split()))

    def test_transpose(self):
        for tall, wide in (("e.h5:/tall", "e.h5:/wide"), ("tall.mtx", "wide.mtx")):
            for level in ("auto", "serial", "tiled", "per-row"):
                self.assert_says(self.run_tool("transpose", tall, "--level", level, "--device", "cpu"), "passed")
                self.assert_says(self.run_tool("transpose", wide, "--level", level, "--device", "cpu"), "passed")
            for output in ("out.h5", "out.mtx"):
                with self.subTest(tall, output=output):
                    self.run_tool("transpose", tall, "-o", output, "--force")
                    self.assertEqual(self.shape_of(output), (0, MANY))
                    self.run_tool("transpose", wide, "-o", output, "--force")
                    self.assertEqual(self.shape_of(output), (MANY, 0))
                    self.assert_says(self.run_tool("verify", "transpose", wide, output), "passed")
            self.run_tool("transpose", tall, "-o", "out.h5", "--force", "--memory-limit", "20MiB")

    def test_convert(self):
        for name in ("e.h5:/tall", "tall.mtx"):
            for output in ("out.mtx", "out.mtx.gz", "out.h5"):
                with self.subTest(name, output=output):
                    self.run_tool("convert", name, "-o", output, "--force", "--memory-limit", "20MiB")
                    self.run_tool("compare", name, output)
        self.run_tool("convert", "e.h5:/tall", "-o", "out.h5", "--force", "--chunk", "64x64")

    def test_generate(self):
        for output in ("g.h5", "g.mtx"):
            for kind in ("uniform", "identity", "sparse"):
                self.run_tool("generate", kind, "--shape", f"{MANY}x0", "-o", output, "--force")
                self.assertEqual(self.shape_of(output), (MANY, 0))

    def test_reduce(self):
        for name in ("e.h5:/tall", "tall.mtx"):
            for level in ("auto", "serial", "vectorized"):
                with self.subTest(name, level=level):
                    self.assertEqual(float(self.run_tool("reduce", name, "--level", level, "--device", "cpu").out), 0)
            self.run_tool("reduce", name, "--axis", "columns")
            self.assert_says(self.run_tool("reduce", name, "--axis", "rows", code=6), f"{MANY}x1", "8.01 PiB")
            self.run_tool("reduce", name, "--axis", "columns", "-o", "sums.h5", "--force")
            self.run_tool("verify", "reduce", name, "sums.h5", "--axis", "columns")
            self.assert_says(self.run_tool("reduce", name, "--op", "max", code=3), "no elements have no max")

    def test_multiply(self):
        for left, right in (("e.h5:/wide", "e.h5:/tall"), ("wide.mtx", "tall.mtx")):
            for level in ("auto", "naive", "interchanged", "tiled", "outer-product"):
                self.assert_says(self.run_tool("multiply", left, right, "--level", level, "--device", "cpu"), "passed")
            self.run_tool("multiply", left, right, "-o", "c.h5", "--force")
            self.run_tool("verify", "multiply", left, right, "c.h5")
        self.assert_says(self.run_tool("multiply", "e.h5:/tall", "e.h5:/wide", code=6), f"{MANY}x{MANY}")
        self.assert_says(self.run_tool("multiply", "e.h5:/tall", "e.h5:/small", code=6), f"{MANY}x3", "PiB")

    def test_compare_and_info(self):
        self.run_tool("compare", "e.h5:/tall", "tall.mtx", "--save-mismatch", "where.h5")
        self.run_tool("compare", "e.h5:/tall", "tall.mtx", "--save-mismatch", "where.mtx")
        self.run_tool("compare", "e.h5:/tall", "wide.mtx", "--transposed")
        self.run_tool("info", "e.h5", "tall.mtx", "wide.mtx", "--stats")


if __name__ == "__main__":
    unittest.main()
