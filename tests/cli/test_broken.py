"""Levels that are wrong on purpose (broken.cpp) are caught: nothing wrong is written, and the record says so."""

import os
import re
import unittest

from harness import Case, cases, random_values, read_h5, values_of, write_h5

BROKEN = os.environ["GPUMAT_BROKEN"]

# name, what a level breaks, for which operations; what the first wrong element is at, from 1 (None: any).
WRONG = [
    ("wrong_element", "transpose multiply", (2, 3)),
    ("unwritten_last_row", "transpose multiply", None),
    ("swapped_columns", "transpose multiply", None),
    ("short_k", "multiply", None),
]
SHAPES = {"transpose": (30, 20), "multiply": (20, 30)}  # of A; results are 20×30 and 20×10


class BrokenCase(Case):
    tool = BROKEN

    def write_inputs(self, name):
        write_h5(self.path("transpose.h5"), random_values(name, SHAPES["transpose"], 1), name)
        write_h5(self.path("a.h5"), random_values(name, SHAPES["multiply"], 2), name)
        write_h5(self.path("b.h5"), random_values(name, (30, 10), 3), name)

    def arguments(self, operation, level):
        files = ["transpose.h5"] if operation == "transpose" else ["a.h5", "b.h5"]
        return [operation, *files, "-d", "cpu", "-l", f"broken-{level.replace('_', '-')}"]


@cases([(f"{operation}_{name}_{level}_{mode}", operation, level, place, name, mode)
        for level, operations, place in WRONG for operation in operations.split()
        for name in ("f32", "f16", "c128", "i32") for mode in ("full", "freivalds", "auto")])
class Wrong(BrokenCase):
    def check(self, operation, level, place, name, mode):
        self.write_inputs(name)
        with open(self.path("out.h5"), "w", encoding="ascii") as file:
            file.write("the old content\n")
        arguments = self.arguments(operation, level)
        result = self.run_tool(*arguments, "--verify", mode, "-o", "out.h5", "--force", "--json", code=1)

        with open(self.path("out.h5"), encoding="ascii") as file:
            self.assertEqual(file.read(), "the old content\n")
        self.assertEqual(len(os.listdir(self.folder)), 4, "a temporary file was left")

        record = result.json()
        self.assertEqual((record["exit_code"], record["output"]), (1, None))
        verification = record["verification"]
        self.assertEqual(verification["verdict"], "failed")
        self.assertGreater(verification["mismatches"], 0)
        if operation == "multiply" and mode != "auto":
            self.assertEqual(verification["mode"], mode)
        if operation == "multiply" and verification["worst_ratio"] is not None:  # null stands for infinite
            self.assertGreater(verification["worst_ratio"], 1)
        worst = re.search(r"the worst is row (\d+) of \d+, column (\d+) of \d+: computed (.+), expected (.+), error / bound = \S+",
                          result.err)
        self.assertIsNotNone(worst, str(result))
        self.assertNotEqual(worst[3], worst[4])
        self.assert_says(result, arguments[-1])
        if place:
            self.assertEqual((int(worst[1]), int(worst[2])), place, result.err)


class Kept(BrokenCase):
    def test_keep_failed_writes_what_was_computed(self):
        self.write_inputs("f32")
        record = self.record(*self.arguments("transpose", "wrong_element"), "-o", "out.h5", "--keep-failed", code=1)
        self.assertEqual((record["output"]["path"], record["verification"]["mismatches"]), ("out.h5", 1))
        result = read_h5(self.path("out.h5"))[1]
        self.assertEqual((result != random_values("f32", SHAPES["transpose"], 1).T).sum(), 1)

    def test_verify_none_lets_it_pass_and_says_so(self):
        self.write_inputs("f32")
        record = self.record(*self.arguments("transpose", "wrong_element"), "-o", "out.h5", "--verify", "none")
        self.assertEqual(record["verification"]["verdict"], "skipped")

    def test_unwritten_memory_is_not_a_number(self):
        self.write_inputs("f32")
        self.run_tool(*self.arguments("multiply", "unwritten_last_row"), "-o", "out.h5", "--keep-failed", code=1)
        last_row = values_of("f32", read_h5(self.path("out.h5"))[1])[-1]
        self.assertTrue((last_row != last_row).all())


# name, exit code, words of the message
FAILING = [
    ("other_name", 5, ["'broken-other-name'", "'impostor'"]),
    ("device_error", 7, ["the device caught fire"]),
    ("refusal", 5, ["broken-refusal", "it never works", "not even on Sundays"]),
    ("memory_error", 6, ["memory"]),
    ("thread_error", 6, ["refused another thread", "--threads"]),
    ("system_failure", 7, ["unexpected", "Input/output error"]),
]


@cases([(f"{operation}_{level}", operation, level, code, words)
        for operation in ("transpose", "multiply") for level, code, words in FAILING])
class Failing(BrokenCase):
    """A level that fails, or that is not the one asked for: an error, nothing written, and a record."""

    def check(self, operation, level, code, words):
        self.write_inputs("f64")
        before = os.listdir(self.folder)
        result = self.run_tool(*self.arguments(operation, level), "-o", "out.h5", "--json", code=code)
        self.assert_says(result, *words)
        self.assertEqual((result.json()["exit_code"], result.json()["output"]), (code, None))
        self.assertIn(result.json()["error"], result.err)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(before))


if __name__ == "__main__":
    unittest.main()
