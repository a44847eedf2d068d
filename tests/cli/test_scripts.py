"""What scripts rely on: records and logs of every command, answers of many files, tables, verbs, messages that say what to do."""

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import termios
import unittest

import h5py
import numpy as np

from harness import Case, cases, random_bits, random_values, read_h5, write_h5


@cases([(f"{name}_{limit or 'whole'}", name, limit) for name in ("c64", "c128", "f64", "i32") for limit in (None, "200KiB")])
class ConjugateTranspose(Case):
    def check(self, name, limit):
        matrix = random_bits(name, (133, 201), 3) if name[0] == "c" else random_values(name, (133, 201), 3)
        write_h5(self.path("a.h5"), matrix, name)
        limited = ["--memory-limit", limit] if limit else []
        record = self.record("transpose", "a.h5", "--conjugate", "-o", "ah.h5", "--verify", "full", *limited)
        self.assertEqual(record["settings"], {"conjugate": "yes"})
        self.assert_same_bits(read_h5(self.path("ah.h5"), "A")[1], np.ascontiguousarray(matrix.conj().T))
        # The record's hash is that of the stored input, whatever is made of it.
        self.assertEqual(record["inputs"][0]["hash"], self.record("transpose", "a.h5")["inputs"][0]["hash"])
        self.run_tool("verify", "transpose", "a.h5", "ah.h5", "--conjugate", *limited)
        code = 1 if name[0] == "c" else 0  # the transpose is another matrix, unless it is real
        self.run_tool("verify", "transpose", "a.h5", "ah.h5", *limited, code=code)


@cases([(f"{name}_{a or 'plain'}_{b or 'plain'}", name, a, b) for name in ("c64", "c128") for a in ("", "c", "t", "ct")
        for b in ("", "c", "ct")])
class ConjugateMultiply(Case):
    def check(self, name, a, b):
        def operand(text, matrix):
            return (matrix.conj() if "c" in text else matrix).T if "t" in text else matrix.conj() if "c" in text else matrix

        left = random_values(name, (23, 31) if "t" not in a else (31, 23), 1)
        right = random_values(name, (31, 19) if "t" not in b else (19, 31), 2)
        write_h5(self.path("in.h5"), left, name, "A")
        write_h5(self.path("in.h5"), right, name, "B", "a")
        flags = [f"--{word}-{side}" for side, text in (("a", a), ("b", b))
                 for letter, word in (("c", "conjugate"), ("t", "transpose")) if letter in text]
        self.run_tool("multiply", "in.h5:/A", "in.h5:/B", "-o", "c.h5", "--verify", "full", *flags)
        expected = operand(a, left).astype(np.complex128) @ operand(b, right).astype(np.complex128)
        result = read_h5(self.path("c.h5"), "C")[1]
        # 31 products of values below 9·√2 and 8 roundings each: far within 31·162·64·u.
        unit = 2.0**-24 if name == "c64" else 2.0**-53
        self.assertLess(np.max(np.abs(result - expected)), 31 * 162 * 64 * unit)
        self.run_tool("verify", "multiply", "in.h5:/A", "in.h5:/B", "c.h5", *flags)
        if a or b:
            without = [flag for flag in flags if "transpose" in flag]
            self.run_tool("verify", "multiply", "in.h5:/A", "in.h5:/B", "c.h5", *without,
                          code=0 if without == flags else 1)


class Conjugate(Case):
    def test_in_place_moves_elements_and_changes_none(self):
        write_h5(self.path("a.h5"), random_values("c64", (8, 8)), "c64")
        self.assert_says(self.run_tool("transpose", "a.h5", "--in-place", "--conjugate", code=2), "--in-place", "--conjugate")


class Records(Case):
    """When, where and by which version, as runs say it."""

    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), random_values("f64", (4, 5)), "f64")
        self.run_tool("transpose", "a.h5", "-o", "at.h5")

    def check_origin(self, record):
        run = self.record("transpose", "a.h5")
        for name in ("version", "build", "host", "working_folder"):
            self.assertEqual(record[name], run[name])
        self.assertRegex(record["time"], r"^20\d\d-\d\d-\d\dT")
        self.assertRegex(record["run_id"], "^[0-9a-f]{32}$")

    def check(self, *words):
        printed = self.run_tool(*words, "--json").json()
        self.check_origin(printed)
        self.assertIn(words[0], printed["command_line"])
        self.run_tool(*words, "--log", "runs.jsonl")
        self.run_tool(*words, "--log", "runs.jsonl", "-q")
        with open(self.path("runs.jsonl"), encoding="utf-8") as file:
            logged = [json.loads(line) for line in file]
        self.assertEqual([one["schema"] for one in logged], [f"gpumat.{words[0]}/1"] * 2)
        self.check_origin(logged[0])
        self.assertEqual(self.run_tool(*words, "--log", "-").json()["schema"], f"gpumat.{words[0]}/1")
        self.run_tool(*words, "--log", "-", "--json", code=2)
        self.run_tool(*words, "--log", "runs.csv", code=2)
        self.run_tool(*words, "--log", "a.h5", code=4)
        self.run_tool("report", "runs.jsonl")

    def test_verify(self):
        self.check("verify", "transpose", "a.h5", "at.h5")

    def test_compare(self):
        self.check("compare", "a.h5", "a.h5")

    def test_info(self):
        self.check("info", "a.h5", "--stats")

    def test_a_difference_is_logged_and_fails(self):
        for words in (["compare", "a.h5", "at.h5"], ["verify", "transpose", "a.h5", "a.h5"]):
            self.run_tool(*words, "--log", "bad.jsonl", code=8)
        with open(self.path("bad.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["exit_code"] for line in file], [8, 8])


class Answers(Case):
    def setUp(self):
        super().setUp()
        self.matrices = {name: random_values("f64", (3, 4), seed) for seed, name in enumerate(["a.h5", "b.h5", "c.h5"])}
        for name, matrix in self.matrices.items():
            write_h5(self.path(name), matrix, "f64")

    def check_lines(self, result):
        lines = [line.split("  ") for line in result.out.splitlines()]
        self.assertEqual([name for _, name in lines], list(self.matrices))
        for number, name in lines:
            self.assertEqual(float(number), self.matrices[name].max())

    def test_many_files_give_a_line_each(self):
        result = self.run_tool("reduce", *self.matrices, "--op", "max")
        self.check_lines(result)
        found = self.run_tool("reduce", *self.matrices, "--op", "max", "--json").json()
        self.assertEqual([one["answer"] for one in found["answers"]], [one.max() for one in self.matrices.values()])

    def test_batch_prints_answers_in_the_order_of_its_lines(self):
        text = "".join(f"reduce {name} --op max\n" for name in self.matrices)
        self.check_lines(self.run_tool("batch", "-", stdin=text.encode()))

    def test_resume_keeps_answers_and_runs_what_has_changed(self):
        words = ["reduce", *self.matrices, "--op", "max", "--log", "log.jsonl"]
        self.check_lines(self.run_tool(*words))
        again = self.run_tool(*words, "--resume")
        self.assert_says(again, "3 done before")
        self.check_lines(again)
        self.matrices["b.h5"] = self.matrices["b.h5"] + 1
        write_h5(self.path("b.h5"), self.matrices["b.h5"], "f64")
        changed = self.run_tool(*words, "--resume")
        self.assert_says(changed, "1 done, 2 done before")
        self.check_lines(changed)

    def test_resume_knows_verified_products(self):
        write_h5(self.path("d.h5"), random_values("f64", (4, 3), 7), "f64")
        self.run_tool("multiply", "a.h5", "d.h5", "-o", "p.h5")
        jobs = b"multiply a.h5 d.h5\nverify multiply a.h5 d.h5 p.h5\n"
        words = ["batch", "-", "--log", "log.jsonl", "--resume"]
        self.assert_says(self.run_tool(*words, stdin=jobs), "2 done in")
        self.assert_says(self.run_tool(*words, stdin=jobs), "2 done before")
        write_h5(self.path("p.h5"), np.zeros((3, 3)), "f64", "C")
        self.run_tool(*words, stdin=jobs, code=1)

    def test_rows_are_printed(self):
        matrix = self.matrices["a.h5"]
        for axis, expected in (("rows", matrix.max(1)), ("columns", matrix.max(0))):
            lines = self.run_tool("reduce", "a.h5", "--op", "max", "--axis", axis).out.split("\n")
            self.assertEqual(lines[0].split(), [axis.rstrip("s"), "result"])
            self.assertEqual([float(line.split()[1]) for line in lines[1:-1]], list(expected))
        self.assertEqual(self.run_tool("reduce", "a.h5", "--axis", "rows", "-o", "r.h5").out, "")


class Tables(Case):
    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), random_values("f64", (4, 5)), "f64")
        self.run_tool("transpose", "a.h5", "--log", "runs.jsonl")
        self.run_tool("multiply", "a.h5", "a.h5", "--transpose-b", "--log", "runs.jsonl")

    def test_report_prints_the_runs(self):
        lines = [line.split() for line in self.run_tool("report", "runs.jsonl").out.splitlines()]
        self.assertEqual(lines[0][:5], ["operation", "type", "size", "level", "on"])
        self.assertEqual([line[:3] for line in lines[1:]], [["transpose", "f64", "4x5"], ["multiply", "f64", "4x4x5"]])

    def test_report_as_csv(self):
        with open(self.path("runs.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        rows = list(csv.DictReader(io.StringIO(self.run_tool("report", "runs.jsonl", "--csv").out)))
        for row, record in zip(rows, records, strict=True):
            self.assertEqual((row["operation"], row["type"], row["level"]), (record["op"], record["type"], record["level"]))
            self.assertAlmostEqual(float(row["kernel_ms"]) / record["kernel_ms"]["median"], 1, delta=1e-3)
        self.assertEqual([row["unit"] for row in rows], ["GB/s", "GFLOP/s"])

    def test_bench_rows_are_in_it(self):
        with open(self.path("bench.json"), "w", encoding="utf-8") as file:
            file.write(self.run_tool("bench", "transpose", "-d", "cpu", "--size", "64", "--time-limit", "0.01", "--json").out)
        self.assertIn("vectorized", self.run_tool("report", "bench.json").out)


class Words(Case):
    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), random_values("f64", (4, 5)), "f64")

    def test_help_and_version_are_verbs(self):
        self.assertEqual(self.run_tool("help").out, self.run_tool("--help").out)
        self.assertEqual(self.run_tool("help", "verify", "transpose").out, self.run_tool("verify", "transpose", "--help").out)
        self.assertEqual(self.run_tool("version").out, self.run_tool("--version").out)
        self.assert_says(self.run_tool("help", "transposs", code=2), "transpose")

    def test_j_is_jobs(self):
        self.run_tool("transpose", "a.h5", "-o", "{.}_t.h5", "-j", "1")

    def test_help_says_what_names_become(self):
        for words, dataset in ((["transpose"], "/A"), (["multiply"], "/C"), (["convert"], "/A"), (["generate"], "/A")):
            self.assertIn(dataset, self.run_tool(*words, "--help").out)
        for words in (["transpose"], ["reduce"], ["convert"]):
            for placeholder in ("{} ", "{.} ", "{/} ", "{//} ", "{/.} "):
                self.assertIn(placeholder, self.run_tool(*words, "--help").out)

    def test_a_name_too_many_is_an_output(self):
        self.assert_says(self.run_tool("transpose", "a.h5", "x.h5", code=2), "-o x.h5")
        self.assert_says(self.run_tool("multiply", "a.h5", "a.h5", "x.h5", code=2), "-o x.h5")

    def test_a_refused_variable_is_named(self):
        for name, value, code in (("GPUMAT_LEVEL", "bogus", 2), ("GPUMAT_DEVICE", "xpu", 2), ("GPUMAT_LEVEL", "interchanged", 2)):
            result = self.run_tool("transpose", "a.h5", env={name: value}, code=code)
            self.assert_says(result, f"'{value}' is from {name}, before which --{name[7:].lower()} goes")
        with open(self.path("c.toml"), "w", encoding="utf-8") as file:
            file.write('level = "bogus"\n')
        self.assert_says(self.run_tool("transpose", "a.h5", "--config", "c.toml", code=2), "'bogus' is from c.toml: level")
        self.assertNotIn("is from", self.run_tool("transpose", "a.h5", "-l", "bogus", env={"GPUMAT_LEVEL": "tiled"}, code=2).err)

    def test_what_is_wrong_is_said_in_words(self):
        for words, said in (("transpose a.h5 --repeat x", "is 'x'; expected a number from 1 to"),
                            ("transpose a.h5 --repeat", "is without its value; expected --repeat N"),
                            ("transpose a.h5 -l", "is without its value; expected --level LEVEL"),
                            ("transpose a.h5 --verify ful", "expected one of auto, full, freivalds, none; did you mean 'full'?"),
                            ("transpose a.h5 --memory-limit 3Q", "is '3Q'; expected a size"),
                            ("transpose a.h5 --memory-limit 1.2.3MiB", "is '1.2.3MiB'; expected a size"),
                            ("transpose a.h5 --memory-limit 1.5", "is '1.5'; expected a size"),
                            ("transpose a.h5 -l a -l b", "--level is given more than once"),
                            ("tune reduce", "expected one of transpose, multiply"), ("verify", "there is no command; expected one of")):
            result = self.run_tool(*words.split(), code=2)
            self.assert_says(result, said)
            self.assertNotRegex(result.err, "TEXT|INT|required|subcommand|Could not")

    def test_sizes_that_messages_name_can_be_given(self):
        write_h5(self.path("w.h5"), np.ones((300, 300)), "f64")
        for limit in ("0.0MiB", "0.5KiB", "7.25 KiB"):
            result = self.run_tool("transpose", "w.h5", "-d", "cpu", "--memory-limit", limit, code=6)
            needed = re.search(r"needs (\d+\.\d\d \w+)", result.err).group(1)
        self.run_tool("transpose", "w.h5", "-d", "cpu", "--memory-limit", needed)

    def test_a_build_without_gpus_speaks_of_none(self):
        if "none" in self.record("transpose", "a.h5")["build"]["cuda"]:
            self.assertNotIn("gpu ", self.run_tool("transpose", "a.h5").err)

    def test_wrote_says_the_size_of_the_file(self):
        size = r"\(a file of \d[\d.]* \w+\)"
        self.assertRegex(self.run_tool("transpose", "a.h5", "-o", "b.h5").err, f"wrote b.h5:/A from a.h5:/A {size}")
        self.assertRegex(self.run_tool("convert", "a.h5", "-o", "b.mtx").err, f"wrote b.mtx from a.h5:/A {size}")
        self.assertIn("wrote standard output from a.h5:/A\n", self.run_tool("transpose", "a.h5", "-o", "-").err)
        record = self.run_tool("convert", "a.h5", "-o", "c.h5", "--json").json()
        self.assertEqual(record["output"]["file_bytes"], os.path.getsize(self.path("c.h5")))

    def test_datasets_without_a_slash(self):
        write_h5(self.path("a.h5"), np.full((2, 3), 7.0), "f64", "g/B", "a")
        self.assertEqual(self.run_tool("reduce", "a.h5:g/B").out, "42.0\n")
        self.run_tool("transpose", "a.h5:g/B", "-o", "new.h5:Bt")
        self.assertEqual(read_h5(self.path("new.h5"), "Bt")[1].shape, (3, 2))
        os.rename(self.path("new.h5"), self.path("a.h5:g"))  # a file of that name is that file
        self.assertEqual(self.run_tool("reduce", "a.h5:g").out, "42.0\n")

    def test_a_chunk_larger_than_the_matrix_is_clipped(self):
        self.run_tool("convert", "a.h5", "-o", "c.h5", "--chunk", "100x2")
        with h5py.File(self.path("c.h5"), "r") as file:
            self.assertEqual(file["A"].chunks, (4, 2))

    def test_names(self):
        write_h5(self.path("a.h5"), random_values("f64", (4, 5)), "f64", "g/B", "a")
        self.assertEqual(self.run_tool("info", "--names", "a.h5").out, "a.h5:/A\na.h5:/g/B\n")


class Terminal(Case):
    @unittest.skipIf("NO_COLOR" in os.environ, "it switches progress off")
    def test_progress_keeps_within_a_narrow_terminal(self):
        jobs = "\n".join(["reduce a.h5"] * 5)
        write_h5(self.path("a.h5"), random_values("f64", (4, 5)), "f64")
        with open(self.path("jobs"), "w", encoding="utf-8") as file:
            file.write(jobs)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 9, 0, 0))
        with self.start("batch", "jobs", stderr=theirs) as process:
            process.communicate(timeout=60)
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 4096):
                said += piece
        except OSError:
            pass
        os.close(ours)
        lines = [line for line in said.decode().split("\r\x1b[K") if " of " in line and "gpumat" not in line]
        self.assertTrue(lines, said)
        for line in lines:
            self.assertLess(len(line), 9)


if __name__ == "__main__":
    unittest.main()
