"""transpose --in-place against NumPy: results, memory, refusals, and wrong levels."""

import os
import unittest

import numpy as np

from harness import Case, cases, levels, random_bits, read_h5, write_h5, write_mtx

BROKEN = os.environ["GPUMAT_BROKEN"]


@cases([(f"{level['name'].replace('-', '_')}_{name}", level["name"], name) for level in levels("transpose")
        for name in ("u8", "f16", "f32", "f64", "c128")])
class Levels(Case):
    def check(self, level, name):
        for index, size in enumerate((0, 1, 17, 64, 129)):
            matrix = random_bits(name, (size, size), seed=size)
            write_h5(self.path("in.h5"), matrix, name)
            # An even number of runs in place would give the input again.
            repeat, warmup = [(1, 0), (2, 0), (1, 1), (2, 1), (3, 2)][index]
            mode = ["auto", "full", "freivalds"][index % 3]
            record = self.record("transpose", "in.h5", "-o", "out.h5", "--force", "-d", "cpu", "-l", level,
                                 "--in-place", "--verify", mode, "--repeat", str(repeat), "--warmup", str(warmup))
            self.assertEqual((record["level"], len(record["kernel_ms"]["samples"])), (level, repeat))
            verification = record["verification"]
            self.assertEqual((verification["mode"], verification["verdict"]),
                             ("hash" if mode == "auto" else "full", "passed"))
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy(), f"{size}")


class InPlace(Case):
    def test_standard_input_and_no_verification(self):
        matrix = np.arange(12.0 * 12).reshape(12, 12)
        write_mtx(self.path("in.mtx"), matrix)
        with open(self.path("in.mtx"), "rb") as file:
            text = file.read()
        for mode in ("auto", "full", "none"):
            self.run_tool("transpose", "-", "-o", "out.h5", "--force", "--in-place", "--verify", mode, stdin=text)
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy(), mode)

    def test_it_takes_half_the_memory(self):
        write_h5(self.path("in.h5"), np.ones((1000, 1000)))  # 8 MB
        arguments = ["transpose", "in.h5", "-d", "cpu", "--memory-limit", "12MB"]
        self.run_tool(*arguments, "--in-place")
        self.run_tool(*arguments, code=6)
        self.run_tool(*arguments, "--in-place", "--verify", "full", code=6)

    def test_only_square_matrices(self):
        write_h5(self.path("in.h5"), np.ones((30, 20)))
        for level in ("auto", *(level["name"] for level in levels("transpose"))):
            result = self.run_tool("transpose", "in.h5", "-o", "out.h5", "-d", "cpu", "-l", level, "--in-place", code=5)
            self.assert_says(result, "square", "30x20")
        self.assertEqual(os.listdir(self.folder), ["in.h5"])

    def test_multiply_has_no_such_option(self):
        write_h5(self.path("in.h5"), np.ones((3, 3)))
        self.assert_says(self.run_tool("multiply", "in.h5", "in.h5", "--in-place", code=2), "--in-place")


@cases([(f"{level.replace('-', '_')}_{mode}", level, mode)
        for level in ("broken-wrong-element", "broken-swapped-columns") for mode in ("auto", "full")])
class Wrong(Case):
    tool = BROKEN

    def check(self, level, mode):
        write_h5(self.path("in.h5"), random_bits("i32", (20, 20)))
        record = self.record("transpose", "in.h5", "-o", "out.h5", "-d", "cpu", "-l", level, "--in-place",
                             "--verify", mode, code=1)
        self.assertEqual(record["verification"]["verdict"], "failed")
        self.assertFalse(os.path.exists(self.path("out.h5")))


if __name__ == "__main__":
    unittest.main()
