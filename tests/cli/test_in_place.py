"""transpose --in-place against NumPy: results, memory, refusals, and wrong levels."""

import json
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
        in_place = self.run_tool(*arguments, "--in-place", "--json")
        self.assertEqual(json.loads(in_place.out)["parts"], 1)
        self.assertGreater(json.loads(self.run_tool(*arguments, "--json").out)["parts"], 1)  # two do not fit
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


class Bench(Case):
    def test_every_level_is_measured_in_place_beside_copies_apart(self):
        bench = self.run_tool("bench", "transpose", "--in-place", "-d", "cpu", "-s", "67,130", "-t", "u8,f64", "-l",
                              "all,auto", "-a", "memcpy,tiled", "--time-limit", "0.01", "--json").json()
        self.assertIs(bench["in_place"], True)
        ladder = [level["name"] for level in levels("transpose")]
        names = [("memcpy", False), ("tiled", False), *((name, True) for name in [*ladder, "auto"])]
        self.assertEqual([(row["level"], row["in_place"]) for row in bench["rows"]], 4 * names)
        size = {"u8": 1, "f64": 8}
        for row in bench["rows"]:
            self.assertEqual((row["verdict"], row["reason"]), ("passed", None), str(row))
            moved = 2 * row["m"] ** 2 * size[row["type"]]
            self.assertAlmostEqual(row["effective_bandwidth_gbps"] * row["median_ms"] * 1e6, moved, delta=moved * 1e-9)
            self.assertGreater(row["share_of_copy"], 0)

    def test_tables_say_that_it_was_in_place(self):
        for option, told in (("--markdown", "| tiled tile=16 in place |"), ("--quiet", "  tiled tile=16 in place  "),
                             ("--csv", ",tiled,tiled,false,true,tile=16,")):
            result = self.run_tool("bench", "transpose", "--in-place", "-d", "cpu", "-s", "40", "-l", "tiled", "--tile",
                                   "16", "--time-limit", "0.01", option)
            self.assertIn(told, result.out)
            if option != "--csv":
                self.assertTrue(result.out.startswith("transpose in place on "), result.out)

    def test_other_shapes_are_rows_with_their_reason(self):
        result = self.run_tool("bench", "transpose", "--in-place", "-d", "cpu", "-s", "30x20,20", "-l", "all,auto",
                               "--time-limit", "0.01", "--json")
        rows = result.json()["rows"]
        for row in rows[: len(rows) // 2]:
            self.assertTrue(row["baseline"] or ("square" in row["reason"] and "30x20" in row["reason"]), str(row))
        self.assertTrue(all(row["verdict"] == "passed" for row in rows[len(rows) // 2 :]))
        self.run_tool("bench", "transpose", "--in-place", "-d", "cpu", "-s", "30x20", "--time-limit", "0.01", code=5)

    def test_half_the_memory_is_enough_without_copies(self):
        arguments = ["bench", "transpose", "-d", "cpu", "-s", "1000", "-t", "f64", "--hot", "-l", "tiled",
                     "--time-limit", "0.01", "--memory-limit", "20MB"]  # the input of 8 MB and what is timed
        self.run_tool(*arguments, "--in-place", "-a", "none")
        self.run_tool(*arguments, "--in-place", code=6)
        self.run_tool(*arguments, "-a", "none", code=6)

    def test_wrong_levels_fail(self):
        self.tool = BROKEN
        for level in ("broken-wrong-element", "broken-swapped-columns"):
            rows = self.run_tool("bench", "transpose", "--in-place", "-d", "cpu", "-s", "20", "-t", "i32", "-l", level,
                                 "--time-limit", "0.01", "--json", code=1).json()["rows"]
            self.assertEqual([row["verdict"] for row in rows if not row["baseline"]], ["failed"])

    def test_only_transposes(self):
        self.assert_says(self.run_tool("bench", "multiply", "--in-place", "-s", "8", code=2), "--in-place")


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
