"""Values that go from Matrix Market to Matrix Market as the text that they are, beside Python's own reading of it."""

import gzip
import os
import random
import unittest

from harness import Case


def lines_of(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as file:
        return [line.rstrip("\n") for line in file]


def negated(number):
    return number[1:] if number.startswith("-") else "-" + number.lstrip("+")


def mirrored(symmetry, text):
    parts = text.split(" ")
    if symmetry == "skew-symmetric":
        return " ".join(negated(part) for part in parts)
    if symmetry == "hermitian":
        return " ".join(parts[:-1] + [negated(parts[-1])])
    return text


def entries_of(path):
    """(row, column) → text, with symmetry resolved."""
    lines = lines_of(path)
    symmetry = lines[0].split()[-1]
    body = [line for line in lines[1:] if line and not line.startswith("%")][1:]
    found = {}
    for line in body:
        row, col, text = line.split(" ", 2)
        row, col = int(row), int(col)
        found[row, col] = text
        if symmetry != "general" and row != col:
            found[col, row] = mirrored(symmetry, text)
    return found


class ValueTexts(Case):
    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def check(self, *options, given="A.mtx", to="B.mtx"):
        """Both verbs carry the texts of A."""
        wanted = entries_of(self.path(given))
        for verb in ["transpose", "convert"]:
            with self.subTest(verb=verb):
                record = self.record(verb, given, "-o", to, "--force", *options)
                self.assertEqual(record["output"].get("values"), "text")
                across = {(c, r): t for (r, c), t in wanted.items()} if verb == "transpose" else wanted
                found = [line for line in lines_of(self.path(to)) if not line.startswith("%")][1:]
                self.assertEqual(found, [f"{r} {c} {across[r, c]}" for r, c in sorted(across)])
                # The hash is that of the numbers: what the result gives when it is read.
                again = self.record("convert", to, "-o", "again.npz", "--force")
                self.assertEqual(record["output"]["hash"], again["inputs"][0]["hash"])
                if verb == "transpose":
                    self.assertEqual(record["verification"]["verdict"], "passed")
                    self.run_tool("verify", "transpose", given, to)

    def test_what_a_shortest_number_is_not(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n% kept? no\n4 5 12\n"
                   "4 5 1.50\n1 1 +1\n1 2 .5\n2 2 5.\n2 1 1.0000000e+00\n3 5 1E-05\n1 5 0\n2 5 -0.0\n3 3 inf\n3 4 -nan\n"
                   "4 1 0.1000000000000000055511151231257827021181583404541015625\n4 2 -Infinity\n")
        self.check()
        self.check("--threads", "1")
        self.check("-t", "f64")
        self.check(to="B.mtx.gz")

    def test_other_types_are_numbers(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.50\n2 1 3e0\n")
        for verb in ["transpose", "convert"]:
            self.assertNotIn("values", self.record(verb, "A.mtx", "-o", "B.mtx", "-t", "f32", "--force")["output"])
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "-t", "f32", "--force")
        self.assertEqual(lines_of(self.path("B.mtx"))[-2:], ["1 1 1.5", "1 2 3"])

    def test_a_type_that_the_file_says(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n% gpumat_type: f16\n2 2 2\n1 1 1.50\n2 1 3e0\n")
        self.check()
        self.assertIn("% gpumat_type: f16", lines_of(self.path("B.mtx")))

    def test_fields(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate integer general\n3 4 3\n3 4 007\n1 4 +9007199254740993\n2 1 -0\n")
        self.check()
        self.write("A.mtx", "%%MatrixMarket matrix coordinate complex general\n3 4 3\n3 4 1.0 -2.50\n1 4 1e0  +3.\n2 1 0 -0\n")
        self.check()
        self.write("A.mtx", "%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 18446744073709551615\n")
        self.check()
        self.write("A.mtx", "%%MatrixMarket matrix coordinate pattern general\n3 4 2\n3 4\n1 4\n")
        self.assertNotIn("values", self.record("transpose", "A.mtx", "-o", "P.mtx")["output"])

    def test_symmetries(self):
        for head, body in [("real symmetric", "3 1 1.50\n2 2 .5\n3 3 1e0\n"),
                           ("real skew-symmetric", "3 1 1.50\n2 1 -2.0\n3 2 +0.0\n"),
                           ("complex symmetric", "3 1 1.50 2.\n2 2 .5 0\n1 1 0 0\n"),
                           ("complex hermitian", "3 1 1.50 2.\n2 1 .5 -7e0\n3 3 1. 0.0\n"),
                           ("complex skew-symmetric", "3 1 1.50 -2.\n2 1 -.5 +7e0\n3 2 nan inf\n")]:
            with self.subTest(head=head):
                self.write("A.mtx", f"%%MatrixMarket matrix coordinate {head}\n3 3 3\n{body}")
                self.check()
        self.write("A.mtx", "%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 0\n")
        self.record("transpose", "A.mtx", "-o", "B.mtx", "--force")
        self.assertEqual(lines_of(self.path("B.mtx"))[-2:], ["1 2 0", "2 1 0"])

    def test_entries_that_are_added_make_numbers_of_all(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1.50\n2 1 0.25\n1 1 3e0\n")
        result = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "-v")
        self.assertIn("after 1 were added to others", result.err)
        self.assertNotIn("values: the text", result.err)
        self.assertEqual(lines_of(self.path("B.mtx"))[-2:], ["1 1 4.5", "1 2 0.25"])
        self.assertNotIn("values", self.record("convert", "A.mtx", "-o", "C.mtx")["output"])
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n% gpumat_type: f32\n1 2 3\n1 1 16777216\n1 1 0.5\n1 1 0.5\n")
        self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--force")
        self.assertEqual(lines_of(self.path("B.mtx"))[-1], "1 1 16777216")  # 16777217 has none in f32: ties to even

    def test_it_is_told(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1.50\n")
        self.assertIn("values: the text of the input, as it is", self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "-v").err)
        self.assertIn("values: the text of the input, as it is", self.run_tool("convert", "A.mtx", "-o", "C.mtx", "-v").err)
        self.assertIn("values: as text", self.run_tool("transpose", "A.mtx", "-o", "D.mtx", "--dry-run").err)

    def test_what_a_number_is_not_is_refused(self):
        for text, found in [("1.5x", "'1.5x'"), ("--1", "'--1'"), ("1e999", "'1e999'"), ("0x10", "'0x10'")]:
            with self.subTest(text=text):
                self.write("A.mtx", f"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.50\n2 2 {text}\n")
                result = self.run_tool("transpose", "A.mtx", "-o", "B.mtx", code=3)
                self.assertIn(f"A.mtx:4:5: found {found}", result.err)
                self.assertFalse(os.path.exists(self.path("B.mtx")))

    def test_deviations_are_not_carried(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.50D+01\n% between\n2 2 2.50\n")
        self.record("transpose", "A.mtx", "-o", "B.mtx")
        self.assertEqual(lines_of(self.path("B.mtx"))[-2:], ["1 1 1.50e+01", "2 2 2.50"])

    def test_many_entries_in_any_order(self):
        source = random.Random(3)
        rows, cols, count = 3000, 2000, 60000
        places = source.sample(range(rows * cols), count)
        texts = [f"{source.uniform(-1, 1):.{source.randrange(1, 40)}f}" for _ in places]
        self.write("A.mtx", f"%%MatrixMarket matrix coordinate real general\n{rows} {cols} {count}\n" +
                   "".join(f"{p // cols + 1} {p % cols + 1} {t}\n" for p, t in zip(places, texts)))
        self.check()
        with open(self.path("A.mtx"), "rb") as plain, gzip.open(self.path("Z.mtx.gz"), "wb") as file:
            file.write(plain.read())
        self.check(given="Z.mtx.gz")  # of unknown length, and with longer texts than are usual

    def test_long_decimals_of_a_stream(self):
        """How long the texts are is not known beforehand."""
        text = "".join(f"{i} 1 3.{i:0100}\n" for i in range(1, 401))
        with gzip.open(self.path("A.mtx.gz"), "wt") as file:
            file.write(f"%%MatrixMarket matrix coordinate real general\n400 1 400\n{text}")
        self.check(given="A.mtx.gz")

    def test_without_room_for_texts_they_are_numbers(self):
        count = 20000
        self.write("A.mtx", f"%%MatrixMarket matrix coordinate real general\n{count} 3 {count}\n" +
                   "".join(f"{i + 1} 2 {i}.{'0' * 100}\n" for i in range(count)))
        self.record("transpose", "A.mtx", "-o", "B.mtx")
        self.assertTrue(lines_of(self.path("B.mtx"))[-1].endswith(".000" + "0" * 97))
        self.assertNotIn("values", self.record("transpose", "A.mtx", "-o", "C.mtx", "--memory-limit", "3MiB")["output"])
        self.assertEqual(lines_of(self.path("C.mtx"))[-1], f"2 {count} {count - 1}")
        with open(self.path("A.mtx"), "rb") as plain, gzip.open(self.path("Z.mtx.gz"), "wb") as file:
            file.write(plain.read())
        for verb, limit in [("transpose", "5632KiB"), ("convert", "3MiB")]:
            result = self.run_tool(verb, "Z.mtx.gz", "-o", "D.mtx", "--force", "--memory-limit", limit, "-v")
            self.assertIn("there was no room for texts", result.err)
        self.assertEqual(lines_of(self.path("D.mtx"))[-1], f"{count} 2 {count - 1}")


if __name__ == "__main__":
    unittest.main()
