"""Ladders of sparse matrices, measured and explained: bench and levels --size with generated entries."""

import csv
import io
import os
import unittest

from harness import Case

QUICK = ["-d", "cpu", "--threads", "2", "--hot", "--time-limit", "0.001"]


class SparseBench(Case):
    def rows(self, *words):
        return self.run_tool("bench", *words, *QUICK, "--json").json()["rows"]

    def levels(self, *words):
        return self.run_tool("levels", *words, "-d", "cpu", "--json").json()

    def ladders(self):
        """Command words of each ladder, and entries of its inputs and of its result where that is sparse."""
        a = ["--entries", "600"]
        yield "transpose", ["--size", "300x200", *a], 600, 600
        yield "transpose", ["--size", "300x200", "--sparse", "A", "--density", "0.01", "--pattern", "banded"], 600, 600
        yield "multiply", ["--size", "300x7x200", *a], 600, None
        yield "multiply", ["--size", "30x200x300", "--sparse", "B", *a], 600, None
        yield "multiply", ["--size", "300x200x400", "--sparse", "A,B", *a], 1200, "counted"
        yield "reduce", ["--size", "300x200", *a, "--pattern", "power-law"], 600, None

    def test_every_ladder_is_measured_and_verified(self):
        for operation, words, entries, result in self.ladders():
            with self.subTest(operation=operation, words=words):
                rows = self.rows(operation, *words, "--type", "f64,i32")
                explained = self.levels(operation, *words)
                names = [level["name"] for level in explained["levels"]]
                self.assertEqual(explained["problem"]["entries"], entries)
                self.assertIn(explained["problem"]["auto"], names)
                self.assertTrue({row["level"] for row in rows} <= set(names))
                for level in explained["levels"]:
                    self.assertEqual(level["role"] != "vendor" and level["reasons"], [] if level["role"] != "vendor" else False)
                for row in rows:
                    if row["baseline"] and row["reason"]:  # a library that is not here, or not of this type
                        continue
                    self.assertEqual((row["reason"], row["verdict"], row["entries"]), (None, "passed", entries))
                    self.assertAlmostEqual(row["entries_per_s"] * row["median_ms"] / 1e3 / entries, 1)
                    self.assertGreater(row["effective_bandwidth_gbps"], 0)
                    self.assertIsNone(row["share_of_copy"])
                    self.assertEqual(row["settings"]["sparse"], "A,B" if "A,B" in words else "B" if "B" in words else "A")
                results = {row["result_entries"] for row in rows if row["verdict"] == "passed"}
                self.assertEqual(len(results), 1)  # whatever the level and the type
                self.assertTrue(results == {result} if result != "counted" else min(results) > 600)

    def test_bytes_are_those_of_the_arrays(self):
        for row in self.rows("transpose", "--size", "300x200", "--entries", "600", "--levels", "serial,auto"):
            if row["baseline"] and row["reason"]:  # a library that is not here
                continue
            moved = 2 * 600 * (4 + 4) + 8 * (301 + 201)
            self.assertAlmostEqual(row["effective_bandwidth_gbps"] * row["median_ms"] * 1e6 / moved, 1)

    def test_settings_and_transposed_inputs(self):
        for words in (["multiply", "--size", "30x20x40", "--sparse", "A,B", "--transpose-a", "--transpose-b"],
                      ["multiply", "--size", "30x5x40", "--sparse", "A", "--transpose-a"],
                      ["reduce", "--size", "30x20", "--op", "norm", "--axis", "rows", "--entries", "9"],
                      ["transpose", "--size", "20,30x40,10:30:10", "--entries", "0"]):
            with self.subTest(words=words):
                rows = [row for row in self.rows(*words) if not row["baseline"]]
                self.assertEqual({row["verdict"] for row in rows}, {"passed"})

    def test_tables_name_what_is_sparse(self):
        words = ["bench", "transpose", "--size", "30x20", "--entries", "60", *QUICK]
        table = self.run_tool(*words).out
        self.assertIn("transpose of sparse A (entries 60) on ", table)
        self.assertRegex(table, r"Mentries/s +GB/s +of vendor")
        self.assertRegex(self.run_tool(*words, "--markdown").out, r"\| Mentries/s \| GB/s \|.*\n(\| -+:? ?)+\|\n")
        rows = list(csv.DictReader(io.StringIO(self.run_tool(*words, "--csv").out)))
        self.assertTrue(all(row["settings"] == "entries=60;sparse=A" for row in rows))
        self.assertIn("60", {row["result_entries"] for row in rows})

    def test_a_result_that_is_counted_is_not_said_to_be_free(self):
        words = ["levels", "multiply", "--size", "300", "--entries", "900", "-d", "cpu"]
        self.assertRegex(self.run_tool(*words, "--sparse", "A,B").out, "moves at least .* and the result, whose entries")
        self.assertRegex(self.run_tool(*words).out, "moves at least .*, does 5.4e.05 operations")

    def test_each_level_is_explained(self):
        """By the row that the README has of it."""
        for level in self.run_tool("levels", "--json").json()["sparse_levels"]:
            explained = self.run_tool("levels", level["op"], "--explain", level["name"], "--json").json()["levels"]
            for one in explained:
                if (one["device"], one["summary"]) == (level["device"], level["summary"]):
                    self.assertGreater(len(one["section"]), 20, level)
                    self.assertNotIn("|", one["section"])
        said = self.run_tool("levels", "multiply", "--explain", "binned").out
        self.assertIn("Limit: misses on rows of B, and products visited twice", said)

    def test_what_cannot_be(self):
        for words, code, said in [
                (["transpose", "--size", "30x10", "--entries", "301"], 2, "--entries is '301'; expected a number from 0 to rows"),
                (["transpose", "--size", "30x10", "--sparse", "B"], 2, "--sparse is 'B'; the inputs of a transpose are A"),
                (["multiply", "--size", "30", "--sparse", "A,D"], 2, "--sparse is 'D'; the inputs of a multiply are A, B"),
                (["transpose", "--size", "30", "--pattern", "round"], 2, "uniform, banded or power-law"),
                (["transpose", "--size", "1000", "--entries", "10000", "--pattern", "power-law"], 2, "--entries is '10000'; expected fewer of this pattern"),
                (["transpose", "--size", "1000", "--density", "0.01", "--pattern", "power-law"], 2, "--density is '0.01'; expected less of this pattern"),
                (["transpose", "--size", "1000", "--pattern", "power-law"], 2, "--entries or --density must be given with this pattern"),
                (["transpose", "--size", "30", "--entries", "9", "--levels", "blockd"], 2, "did you mean 'blocked'?"),
                (["transpose", "--size", "30", "--entries", "9", "--in-place"], 5, "no level could run")]:
            with self.subTest(words=words):
                self.assert_says(self.run_tool("bench", *words, *QUICK, code=code), said)
        row, = self.rows("transpose", "--size", "30", "--entries", "9", "--levels", "tiled,serial", "--against", "none")[:1]
        self.assertIn("it works on dense matrices, not on sparse ones", row["reason"])
        self.assert_says(self.run_tool("levels", "transpose", "--entries", "9", code=2), "give --size too")
        for size, entries in (("4000000x4000000", "1000000000000"), ("1099511627776", "9")):
            refused = self.run_tool("bench", "transpose", "--size", size, "--entries", entries, "--memory-limit", "1GiB", *QUICK, code=6)
            self.assert_says(refused, "GiB")


if __name__ == "__main__":
    unittest.main()
