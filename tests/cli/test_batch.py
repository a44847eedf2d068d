"""Batches: many jobs in one go give what each would alone; bad jobs harm no others; a killed batch is resumed."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

from harness import (TRACED, Case, can_inject, children, digest, has_open, random_values, read_h5, read_mtx, snapshot, wait_for,
                     wait_for_text, write_h5)

SEED = int(os.environ.get("GPUMAT_TEST_SEED", "1"))
KILLS = int(os.environ.get("GPUMAT_TEST_KILLS", "25"))


class BatchCase(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("in"))
        os.mkdir(self.path("out"))
        self.matrices = {}

    def make_inputs(self, count, shape=(20, 30)):
        for number in range(count):
            self.matrices[number] = random_values("f32", shape, seed=number)
            write_h5(self.path(f"in/{number}.h5"), self.matrices[number])

    def write_jobs(self, *lines, name="jobs.txt"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def records(self, name="log.jsonl"):
        with open(self.path(name), encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
        return [record for record in found if "job" in record]

    def wait_for_job(self, process):
        """Waits until a job has opened its input, the pipe `fifo`. Returns the worker that does the job."""
        def found():
            return [worker for worker in children(process.pid) if has_open(worker, self.path("fifo"))]

        wait_for(found, "a job")
        return found()[0]

    def check_transposed(self, output, number):
        self.assert_same_bits(read_h5(self.path(output))[1], self.matrices[number].T.copy())


class Lines(BatchCase):
    def test_every_kind_of_job(self):
        self.make_inputs(2, (20, 20))
        self.write_jobs("# a comment", "", "transpose in/0.h5 -o 'out/a b.h5'   # another",
                        "multiply in/0.h5 in/1.h5 -o out/c.h5 --level naive -d cpu", "compare in/0.h5 in/0.h5",
                        "verify transpose in/0.h5 'out/a b.h5'", "generate hilbert --shape 4x4 -t f64 -o out/h.mtx",
                        "convert out/h.mtx -o out/h.h5", "info --stats in/1.h5")
        result = self.run_tool("batch", "jobs.txt", "--log", "log.jsonl")
        self.assert_says(result, "7 jobs: 7 done")
        self.check_transposed("out/a b.h5", 0)
        product = self.matrices[0].astype(np.float64) @ self.matrices[1].astype(np.float64)
        np.testing.assert_allclose(read_h5(self.path("out/c.h5"))[1], product, rtol=0, atol=20 * 81 * 20 * 2**-24)
        np.testing.assert_array_equal(read_h5(self.path("out/h.h5"))[1], read_mtx(self.path("out/h.mtx")))
        records = sorted(self.records(), key=lambda record: record["job"]["line"])
        self.assertEqual([record["job"]["line"] for record in records], list(range(3, 10)))
        self.assertEqual([record["schema"] for record in records],
                         ["gpumat.run/1", "gpumat.run/1", "gpumat.compare/1", "gpumat.verify/1", "gpumat.generate/1",
                          "gpumat.convert/1", "gpumat.info/1"])
        self.assertEqual(records[0]["job"]["text"], "transpose in/0.h5 -o 'out/a b.h5'")

    def test_lines_alike(self):
        """What follows a line of the same options has its own values, and names of files that are other words too."""
        self.make_inputs(3, (20, 20))
        write_h5(self.path("sum"), self.matrices[2])
        self.write_jobs("reduce in/0.h5 --op max -o out/0.h5 -d cpu --repeat 1", "reduce in/1.h5 --op max -o out/1.h5 -d cpu --repeat 2",
                        "reduce in/2.h5 --op min -o out/2.h5 -d cpu --repeat 1", "reduce sum --op min -o out/3.h5 -d cpu --repeat 1",
                        "reduce sum --op sum -o out/4.h5 -d cpu --repeat 1", "reduce in/0.h5 --op in/0.h5 -o out/5.h5 -d cpu --repeat 1",
                        "reduce in/0.h5 --op min -o --quiet -d cpu --repeat 1", "reduce in/1.h5 --op min -o out/7.h5 -d cpu --repeat 1",
                        "verify transpose in/0.h5 in/1.h5", "verify transpose in/0.h5 out/0.h5", "verify reduce in/0.h5 out/0.h5 --op max",
                        "verify reduce in/1.h5 out/1.h5 --op max")
        self.run_tool("batch", "jobs.txt", "--jobs", "1", "--log", "log.jsonl", code=1)
        codes = {record["job"]["line"]: record["exit_code"] for record in self.records()}
        self.assertEqual([line for line, code in codes.items() if code == 0], [1, 2, 3, 4, 5, 8, 11, 12])
        repeats = {record["job"]["line"]: record["repeat"] for record in self.records() if "repeat" in record}
        self.assertEqual([repeats[line] for line in (1, 2, 3)], [1, 2, 1])
        for number, (matrix, found) in enumerate([(0, np.max), (1, np.max), (2, np.min), (2, np.min)]):
            self.assertEqual(read_h5(self.path(f"out/{number}.h5"))[1].item(), found(self.matrices[matrix]))
        self.assertEqual(read_h5(self.path("out/7.h5"))[1].item(), np.min(self.matrices[1]))

    def test_a_file_that_another_word_names_too(self):
        """Lines that are alike but for their files: a file that stands in another word as well is a file of the line."""
        self.make_inputs(2)
        before = snapshot(self.path("in"))
        self.write_jobs("transpose in/0.h5 --output=in/0.h5 --force", "transpose in/1.h5 --output=in/0.h5 --force",
                        "transpose in/0.h5 -oin/0.h5 --force", "transpose in/1.h5 -oin/0.h5 --force",
                        "multiply in/0.h5 in/1.h5 --add=in/0.h5 -o out/0.h5", "multiply in/1.h5 in/1.h5 --add=in/0.h5 -o in/0.h5 --force")
        self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", code=None)
        self.assertEqual(snapshot(self.path("in")), before)

    def test_files_behind_two_dashes(self):
        self.make_inputs(2)
        result = self.run_tool("reduce", "--op", "max", "--", "in/0.h5", "in/1.h5")
        self.assertEqual(len(result.out.splitlines()), 2)
        self.write_jobs("transpose -o out/0.h5 -- in/0.h5", "compare -- in/0.h5 in/0.h5")
        self.assert_says(self.run_tool("batch", "jobs.txt"), "2 jobs: 2 done")
        self.check_transposed("out/0.h5", 0)

    def test_from_standard_input(self):
        self.make_inputs(1)
        found = self.run_tool("batch", "-", "--json", stdin=b"transpose in/0.h5 -o out/0.h5\n").json()
        self.assertEqual((found["schema"], found["jobs"], found["done"], found["exit_code"]), ("gpumat.batch/1", 1, 1, 0))
        self.check_transposed("out/0.h5", 0)

    def test_log_on_standard_output(self):
        self.make_inputs(1)
        result = self.run_tool("batch", "-", "--log", "-", stdin=b"transpose in/0.h5 -o out/0.h5\n")
        self.assertEqual([json.loads(line)["op"] for line in result.out.splitlines()], ["transpose"])

    def test_bad_jobs_among_good_ones(self):
        self.make_inputs(3)
        write_h5(self.path("wrong.h5"), self.matrices[0])
        self.write_jobs("transpose in/0.h5 -o out/0.h5", "transpose missing.h5 -o out/x.h5", "frobnicate a b", "bench transpose",
                        "transpose in/1.h5 --frobnicate", "transpose 'in/1.h5 -o out/1.h5", "transpose in/1.h5 -o - ",
                        "transpose in/1.h5 > out/1.h5", "compare in/0.h5 wrong.h5", "transpose in/2.h5 -o nowhere/2.h5",
                        "transpose in/1.h5 -o out/1.h5", "transpose --help", "compare in/0.h5 in/1.h5")
        result = self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", code=1)
        self.assert_says(result, "13 jobs: 3 done, 1 differs, 9 failed (2, 3, 4)", "jobs.txt:2: missing.h5",
                         "jobs.txt:3: 'frobnicate'", "jobs.txt:4: 'bench'", "jobs.txt:5: not expected: --frobnicate", "jobs.txt:6: found '",
                         "jobs.txt:7: standard input and output", "jobs.txt:8: found >", "jobs.txt:10: cannot write nowhere/2.h5", "jobs.txt:13: the result differs")
        codes = {record["job"]["line"]: record["exit_code"] for record in self.records()}
        self.assertEqual(codes, {1: 0, 2: 3, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 0, 10: 4, 11: 0, 12: 2, 13: 1})
        self.check_transposed("out/0.h5", 0)
        self.check_transposed("out/1.h5", 1)

    def test_code_of_the_first_failure(self):
        self.make_inputs(1)
        self.write_jobs("transpose in/0.h5 -o nowhere/0.h5", "transpose missing.h5")
        self.run_tool("batch", "jobs.txt", code=4)
        self.write_jobs("transpose missing.h5", "transpose in/0.h5 -o nowhere/0.h5")
        self.run_tool("batch", "jobs.txt", code=3)

    def test_fail_fast(self):
        self.make_inputs(1)
        self.write_jobs("transpose missing.h5", *[f"transpose in/0.h5 -o out/{i}.h5" for i in range(50)])
        result = self.run_tool("batch", "jobs.txt", "--fail-fast", "--jobs", "1", code=3)
        self.assert_says(result, "1 failed (3)", "not run")
        self.assertLess(len(os.listdir(self.path("out"))), 50)

    def test_no_jobs(self):
        self.write_jobs("# nothing")
        self.assert_says(self.run_tool("batch", "jobs.txt", code=3), "jobs.txt", "no jobs")
        self.assert_says(self.run_tool("batch", "nothing.txt", code=3), "nothing.txt", "No such file")

    def test_damaged_files(self):
        """One damaged file among many that are tried together."""
        self.make_inputs(30)
        with open(self.path("in/7.h5"), "r+b") as file:
            file.truncate(1000)
        self.write_jobs(*[f"transpose in/{i}.h5 -o out/{i}.h5" for i in range(30)])
        self.assert_says(self.run_tool("batch", "jobs.txt", "--jobs", "1", code=3), "jobs.txt:8: in/7.h5", "29 done")
        for number in set(range(30)) - {7}:
            self.check_transposed(f"out/{number}.h5", number)

    def test_a_line_is_one_job(self):
        """What would make a batch of its own is refused: it was ignored otherwise."""
        self.make_inputs(2)
        for words, line in ((["has 2 inputs"], "transpose in/0.h5 in/1.h5 -o out/a.h5"), (["has 2 inputs"], "reduce in/0.h5 in/1.h5"),
                            (["placeholder"], "convert in/0.h5 -o 'out/{/.}.h5'"), (["--timeout"], "transpose in/0.h5 --timeout 1"),
                            (["--keep-going"], "transpose in/0.h5 --keep-going"), (["--resume"], "reduce in/0.h5 --resume"),
                            (["not expected: --bad"], "info in/0.h5 -- --bad")):
            self.write_jobs(line)
            self.assert_says(self.run_tool("batch", "jobs.txt", code=2), "jobs.txt:1: ", *words)
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_control_characters(self):
        """A zero byte would cut a name short: in text there is none, and no other control character in a job."""
        self.make_inputs(1)
        lines = {"NUL": b"transpose in/0.h5 -o out/a.h5\0.h5", "BEL": b"transpose in/0.h5 -o 'out/a\a.h5'", "ESC": b"info in/0.h5 # \x1b[2J",
                 "DEL": b"transpose in/0.h5 -o out/a\x7f", "CR": b"transpose in/0.h5\r -o out/a.h5"}
        for name, line in lines.items():
            with open(self.path("jobs.txt"), "wb") as file:
                file.write(b"# jobs\n" + line + b"\n")
            result = self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", code=None)
            self.assertEqual(result.code, 3 if name == "NUL" else 2, str(result))
            byte = next(byte for byte in line if byte < 32 or byte == 127)
            self.assert_says(result, "jobs.txt:2: ", f"\\x{byte:02x}")
        self.assertEqual(os.listdir(self.path("out")), [])
        with open(self.path("jobs.txt"), "wb") as file:
            file.write(b"transpose\tin/0.h5\t-o out/a.h5\r\n")
        self.assert_says(self.run_tool("batch", "jobs.txt"), "1 done")

    def test_settings_of_the_batch_are_those_of_its_jobs(self):
        self.make_inputs(1)
        for name, op in (("max.toml", "max"), ("min.toml", "min")):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(f'[reduce]\nop = "{op}"\n')
        self.write_jobs("reduce in/0.h5 -o out/a.h5 --force", "reduce in/0.h5 -o out/b.h5 --config min.toml --force")
        for words, env in ((["batch", "jobs.txt", "--config", "max.toml"], {}), (["--config", "max.toml", "batch", "jobs.txt"], {}),
                           (["batch", "jobs.txt", "--config", "max.toml"], {"GPUMAT_CONFIG": "min.toml"}),
                           (["batch", "jobs.txt"], {"GPUMAT_CONFIG": "max.toml"})):
            self.run_tool(*words, env=env)
            self.assertEqual(read_h5(self.path("out/a.h5"))[1], self.matrices[0].max())
            self.assertEqual(read_h5(self.path("out/b.h5"))[1], self.matrices[0].min())

    def test_keep_going_goes_before_a_setting(self):
        self.make_inputs(1)
        with open(self.path("fast.toml"), "w", encoding="ascii") as file:
            file.write("[batch]\nfail-fast = true\n")
        self.write_jobs("transpose missing.h5", "transpose in/0.h5 -o out/0.h5")
        self.run_tool("batch", "jobs.txt", "--jobs", "1", "--config", "fast.toml", code=3)
        self.assertEqual(os.listdir(self.path("out")), [])
        self.run_tool("batch", "jobs.txt", "--jobs", "1", "--config", "fast.toml", "--keep-going", code=3)
        self.check_transposed("out/0.h5", 0)


class Order(BatchCase):
    def test_info_is_a_job_that_reads(self):
        self.make_inputs(1)
        self.write_jobs(*[f"transpose in/0.h5 -o out/{i}.h5" for i in range(10)], *[f"info --stats out/{i}.h5" for i in range(10)])
        self.assert_says(self.run_tool("batch", "jobs.txt", "--jobs", "4"), "20 done")
        self.write_jobs("info --stats in/0.h5", "transpose in/0.h5 -o in/0.h5 --force")
        self.assert_says(self.run_tool("batch", "jobs.txt", code=2), "jobs.txt:2: it writes in/0.h5, which an earlier job reads")

    def test_one_dataset_of_several_spellings(self):
        self.make_inputs(2)
        for other in ("/g//a", "/g/./a", "/g/a/"):
            self.write_jobs("transpose in/0.h5 -o out/m.h5:/g/a --force", f"transpose in/1.h5 -o out/m.h5:{other} --force")
            self.assert_says(self.run_tool("batch", "jobs.txt", code=2), "jobs.txt:2: it writes", "which another job writes too")
            self.assert_same_bits(read_h5(self.path("out/m.h5"), "g/a")[1], self.matrices[0].T.copy())

    def test_what_an_earlier_job_writes_is_waited_for(self):
        self.make_inputs(1, (300, 200))
        self.write_jobs("convert in/0.h5 -o out/a.mtx", "convert out/a.mtx -t f32 -o out/b.h5", "transpose out/b.h5 -o out/c.h5",
                        "convert in/0.h5 -o out/all.h5:/x", "transpose in/0.h5 -o out/all.h5:/y",
                        "compare out/all.h5:/x out/all.h5:/y --transposed")
        for _ in range(5):
            self.run_tool("batch", "jobs.txt", "--jobs", "4")
            self.check_transposed("out/c.h5", 0)
            for name in os.listdir(self.path("out")):
                os.remove(self.path("out/" + name))

    def test_what_would_destroy_is_refused(self):
        self.make_inputs(2)
        before = snapshot(self.path("in"))
        self.write_jobs("transpose in/0.h5 -o out/a.h5", "transpose in/1.h5 -o out/a.h5 --force",
                        "convert in/1.h5 -o in/0.h5 --force")
        result = self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", code=2)
        self.assert_says(result, "jobs.txt:2: it writes out/a.h5, which another job writes too", "jobs.txt:1",
                         "jobs.txt:3: it writes in/0.h5, which an earlier job reads")
        self.check_transposed("out/a.h5", 0)
        self.assertEqual(snapshot(self.path("in")), before)

    def test_one_file_by_several_names(self):
        self.make_inputs(2)
        os.symlink("out", self.path("link"))
        for other in ("./out/a.mtx", "link/a.mtx", self.path("out/a.mtx")):
            self.write_jobs("convert in/0.h5 --force -o out/a.mtx", f"convert in/1.h5 --force -o {other}")
            result = self.run_tool("batch", "jobs.txt", code=2)
            self.assert_says(result, "which another job writes too")
            os.remove(self.path("out/a.mtx"))
        for _ in range(5):
            self.write_jobs("convert in/0.h5 --force -o out/a.h5:/x", f"convert in/1.h5 --force -o {self.path('out/a.h5')}:/y")
            self.run_tool("batch", "jobs.txt", "--jobs", "2")
            for dataset, matrix in (("x", self.matrices[0]), ("y", self.matrices[1])):
                np.testing.assert_array_equal(read_h5(self.path("out/a.h5"), dataset)[1], matrix)
            os.remove(self.path("out/a.h5"))

    def test_a_failed_input_fails_what_reads_it(self):
        self.make_inputs(1)
        write_h5(self.path("out/old.h5"), self.matrices[0])
        self.write_jobs("convert missing.h5 -o out/old.h5 --force", "transpose out/old.h5 -o out/b.h5",
                        "transpose in/0.h5 -o out/c.h5")
        result = self.run_tool("batch", "jobs.txt", code=3)
        self.assert_says(result, "jobs.txt:2: it was not run: the job of jobs.txt:1", "1 done, 2 failed (3)")
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["c.h5", "old.h5"])


class Templates(BatchCase):
    def test_transposes(self):
        self.make_inputs(20)
        names = [f"in/{number}.h5" for number in range(20)]
        self.assert_says(self.run_tool("transpose", *names, "-o", "out/{/.}_t.h5", "--log", "log.jsonl"), "20 done")
        for number in range(20):
            self.check_transposed(f"out/{number}_t.h5", number)
        texts = {record["job"]["text"] for record in self.records()}
        self.assertIn("transpose in/3.h5 -o out/3_t.h5", texts)

    def test_options_are_for_every_input(self):
        self.make_inputs(2)
        self.run_tool("convert", "--deflate", "2", "in/0.h5", "--output={//}/../out/{/}", "in/1.h5", "-t", "f64", "--jobs=2")
        for number in range(2):
            found, matrix = read_h5(self.path(f"out/{number}.h5"))
            self.assertEqual(found, "f64")
            np.testing.assert_array_equal(matrix, self.matrices[number])

    def test_values_of_options_are_no_inputs(self):
        self.make_inputs(2)
        for name, number in (("2", 0), ("tiled", 1), ("transpose", 0), ("f64", 1)):
            write_h5(self.path(name), self.matrices[number])
        for words, names in ((["--threads", "2", "2", "tiled"], ["2", "tiled"]),
                             (["2", "--level", "tiled", "tiled"], ["2", "tiled"]),
                             (["-qltiled", "tiled", "transpose"], ["tiled", "transpose"]),
                             (["-ql", "tiled", "tiled", "transpose"], ["tiled", "transpose"]),
                             (["-t", "f64", "f64", "2"], ["f64", "2"])):
            self.run_tool("transpose", *words, "-o", "out/{}.h5", "--force")
            for name in names:
                number = int(name in ("tiled", "f64"))
                np.testing.assert_array_equal(read_h5(self.path(f"out/{name}.h5"))[1], self.matrices[number].T)

    def test_the_output_among_other_options(self):
        self.make_inputs(2)
        with open(self.path("settings.toml"), "w", encoding="ascii") as file:
            file.write('[transpose]\noutput = "out/{/.}.h5"\n')
        write_h5(self.path("-1.h5"), self.matrices[1])
        for words, name in ((["-qo", "out/{/.}.h5", "in/0.h5", "in/1.h5"], "1"),
                            (["-qoout/{/.}.h5", "in/0.h5", "in/1.h5"], "1"),
                            (["in/0.h5", "in/1.h5", "--config", "settings.toml"], "1"),
                            (["-oout/{/.}.h5", "--", "in/0.h5", "-1.h5"], "-1")):
            self.run_tool("transpose", *words)
            self.check_transposed("out/0.h5", 0)
            self.check_transposed(f"out/{name}.h5", 1)
            for file in os.listdir(self.path("out")):
                os.remove(self.path(f"out/{file}"))

    def test_no_input_is_an_output(self):
        self.make_inputs(2)
        os.symlink("1.h5", self.path("in/0_t.h5"))
        before = snapshot(self.path("in"))
        for template, words in (("{//}/../in/{/}", "the file of an input; inputs are never replaced"),
                                ("{//}/{/.}_t.h5", "the file of an input; inputs are never replaced"),
                                ("{//}/{/.}_t.h5:/T", "the file of another input; only its own run adds to it")):
            result = self.run_tool("transpose", "in/0.h5", "in/1.h5", "-o", template, "--force", code=2)
            self.assert_says(result, words)
            self.assertEqual(snapshot(self.path("in")), before)

    def test_each_result_beside_its_input(self):
        self.make_inputs(3)
        inputs = [f"in/{i}.h5" for i in range(3)]
        words = ["transpose", *inputs, "-o", "{}:/At", "--log", "log.jsonl"]
        self.assert_says(self.run_tool(*words), "3 jobs: 3 done in")
        for i in range(3):
            with h5py.File(self.path(f"in/{i}.h5")) as file:
                self.assertEqual(set(file), {"A", "At"})
                np.testing.assert_array_equal(file["At"], file["A"][()].T)
        # The inputs, which are named as files alone, hold two matrices now: one is the job's own.
        before = snapshot(self.path("in"))
        self.assert_says(self.run_tool(*words, "--resume"), "3 jobs: 0 done, 3 done before in")
        self.assertEqual(snapshot(self.path("in")), before)
        with h5py.File(self.path("in/1.h5"), "r+") as file:
            file["A"][0, 0] += 1
        result = self.run_tool(*words, "--resume", code=3)
        self.assert_says(result, "holds 2 matrices", "2 done before, 1 failed (3)")

    def test_into_a_folder(self):
        self.make_inputs(2)
        self.run_tool("transpose", "in/0.h5", "in/1.h5", "-o", "out")
        self.check_transposed("out/1.h5", 1)
        self.run_tool("transpose", "in/0.h5", "-o", "out", "--force")
        self.check_transposed("out/0.h5", 0)
        self.run_tool("transpose", "in/0.h5", "in/1.h5", "-o", "out/", "--to", "npy")
        with h5py.File(self.path("in/1.h5")) as file:
            np.testing.assert_array_equal(np.load(self.path("out/1.npy")), file["A"][()].T)
        self.assertEqual(set(os.listdir(self.path("out"))), {"0.h5", "1.h5", "0.npy", "1.npy"})

    def test_one_input(self):
        self.make_inputs(1)
        self.run_tool("transpose", "in/0.h5", "-o", "out/{/.}_t.h5")
        self.check_transposed("out/0_t.h5", 0)
        arguments = ("transpose", "in/0.h5", "-o", "out/b.h5", "--log", "log.jsonl", "--resume")
        self.run_tool(*arguments)
        self.assert_says(self.run_tool(*arguments), "1 done before")
        self.check_transposed("out/b.h5", 0)

    def test_refusals(self):
        self.make_inputs(2)
        write_h5(self.path("0.h5"), self.matrices[0])
        for words, line in [(["two inputs", "in/0.h5", "0.h5"], ["in/0.h5", "0.h5", "-o", "out/{/}"]),
                            (["placeholder"], ["in/0.h5", "in/1.h5", "-o", "out/a.h5"]),
                            (["placeholder"], ["in/0.h5", "in/1.h5"]),
                            (["--log"], ["in/0.h5", "in/1.h5", "-o", "out", "--resume"]),
                            ([".csv"], ["in/0.h5", "in/1.h5", "-o", "out", "--log", "a.csv"])]:
            self.assert_says(self.run_tool("transpose", *line, code=2), *words)
        self.assertEqual(os.listdir(self.path("out")), [])
        self.assert_says(self.run_tool("transpose", "in/*.h5", "-o", "out/{/}", code=3), "in/*.h5")


class Control(BatchCase):
    def test_timeout(self):
        """A job that waits for a pipe is ended; the others run."""
        self.make_inputs(2)
        os.mkfifo(self.path("fifo"))
        keep = os.open(self.path("fifo"), os.O_RDWR)
        self.write_jobs("transpose fifo -o out/x.h5", "transpose in/0.h5 -o out/0.h5", "transpose in/1.h5 -o out/1.h5")
        result = self.run_tool("batch", "jobs.txt", "--timeout", "0.5", "--jobs", "1", "--log", "log.jsonl", code=143)
        os.close(keep)
        self.assert_says(result, "jobs.txt:1: it was ended after 0.5 s", "2 done, 1 failed (143)")
        self.assertEqual({record["job"]["line"]: record["exit_code"] for record in self.records()}, {1: 143, 2: 0, 3: 0})
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["0.h5", "1.h5"])

    def test_a_job_that_crashes(self):
        self.make_inputs(2)
        os.mkfifo(self.path("fifo"))
        keep = os.open(self.path("fifo"), os.O_RDWR)
        self.write_jobs("transpose fifo -o out/x.h5", "transpose in/0.h5 -o out/0.h5", "transpose in/1.h5 -o out/1.h5")
        plain = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"}  # it would exit instead
        process = self.start("batch", "jobs.txt", "--jobs", "1", env=plain)
        os.kill(self.wait_for_job(process), signal.SIGSEGV)
        _, err = process.communicate()
        os.close(keep)
        self.assertEqual(process.returncode, 139, err)
        self.assertIn(b"jobs.txt:1: its process was ended by signal 11", err)
        self.check_transposed("out/1.h5", 1)

    def test_signal_ends_everything(self):
        self.make_inputs(1)
        os.mkfifo(self.path("fifo"))
        keep = os.open(self.path("fifo"), os.O_RDWR)
        self.write_jobs("transpose fifo -o out/x.h5")
        process = self.start("batch", "jobs.txt")
        self.wait_for_job(process)
        process.terminate()
        process.communicate()
        os.close(keep)
        self.assertEqual((process.returncode, os.listdir(self.path("out"))), (-signal.SIGTERM, []))


    @unittest.skipUnless(can_inject(), "strace is not installed, or may not trace here")
    def test_a_job_that_ends_by_itself_when_its_time_is_over(self):
        """The signal that ends it is late: it has ended by itself, and the next ones have begun."""
        self.make_inputs(6)
        with open(self.path("in/0.h5"), "rb") as file:
            data = file.read()
        os.mkfifo(self.path("fifo"))
        keep = os.open(self.path("fifo"), os.O_RDWR)
        self.write_jobs("transpose --from hdf5 fifo", *[f"transpose in/{i}.h5 -o out/{i}.h5" for i in range(1, 6)])
        strace = ["strace", "-qq", "-o", self.path("calls"), "-e", "trace=kill", "-e", "inject=kill:delay_enter=1500000"]
        process = self.start("batch", "jobs.txt", "--timeout", "0.5", "--jobs", "1", "--log", "log.jsonl", before=strace, env=TRACED)
        wait_for_text(self.path("calls"), "kill(")
        with open(self.path("fifo"), "wb") as fifo:
            fifo.write(data)
        os.close(keep)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(b"6 jobs: 6 done", err)
        self.assertEqual(sorted((record["job"]["line"], record["exit_code"]) for record in self.records()), [(i, 0) for i in range(1, 7)])
        for number in range(1, 6):
            self.check_transposed(f"out/{number}.h5", number)

    @unittest.skipUnless(can_inject(), "strace is not installed, or may not trace here")
    def test_jobs_on_a_gpu(self):
        """On 16 processors, four workers take jobs of a GPU; other jobs have workers beside them."""
        mask = self.path("calls"), "-e", "trace=sched_getaffinity", "-e", "inject=sched_getaffinity:retval=8:poke_exit=@arg3=ffff000000000000"
        expected = 4 + 3
        for env, gpu in ((None, ["-d gpu", "--device=gpu:1", "-dgpu"]), ({"GPUMAT_DEVICE": "gpu"}, [""])):
            os.mkfifo(self.path("fifo"))
            keep = os.open(self.path("fifo"), os.O_RDWR)
            self.write_jobs(*[f"transpose fifo {gpu[i % len(gpu)]}" for i in range(6)], *["transpose fifo -d cpu"] * 3)
            process = self.start("batch", "jobs.txt", before=["strace", "-qq", "-o", *mask], env=env)

            def workers(tracer=process.pid):
                return [worker for tool in children(tracer) for worker in children(tool)]

            wait_for(lambda: len(workers()) >= expected, "the workers")
            time.sleep(0.5)  # for more than there should be
            found = len(workers())
            os.kill(children(process.pid)[0], signal.SIGTERM)
            process.communicate()
            os.close(keep)
            os.remove(self.path("fifo"))
            self.assertEqual(found, expected)


class Memory(BatchCase):
    def test_a_share_is_no_limit(self):
        """A small file that claims a huge matrix is refused, as it is outside of batches."""
        self.make_inputs(1)
        with open(self.path("huge.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix coordinate real general\n1000000 1000000 1\n1 1 1\n")
        self.write_jobs("transpose huge.mtx --dense", "transpose in/0.h5 -o out/0.h5")
        result = self.run_tool("batch", "jobs.txt", "--jobs", "2", "--timeout", "20", code=6)
        self.assert_says(result, "jobs.txt:1: ", "14.56 TiB", "available", "1 done, 1 failed (6)")

    def test_a_limit_that_was_asked_for(self):
        self.make_inputs(2, (600, 500))
        self.write_jobs("transpose in/0.h5 -d cpu -o out/0.h5", "transpose in/1.h5 -d cpu -o out/1.h5 --memory-limit 2MiB")
        self.run_tool("batch", "jobs.txt", "--jobs", "2", "--log", "log.jsonl", env={"GPUMAT_MEMORY_LIMIT": "1MiB"})
        for number in range(2):
            self.check_transposed(f"out/{number}.h5", number)
        self.assertEqual([record["parts"] > 1 for record in self.records()], [True, True])


class Resume(BatchCase):
    def resume(self, *more, **options):
        return self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", "--resume", *more, **options)

    def test_leaves_out_what_is_done(self):
        self.make_inputs(4)
        self.write_jobs(*[f"transpose in/{i}.h5 -o out/{i}.h5 --force" for i in range(4)])
        self.resume()
        times = {i: os.stat(self.path(f"out/{i}.h5")).st_mtime_ns for i in range(4)}
        self.assert_says(self.resume(), "4 jobs: 0 done, 4 done before")
        self.matrices[1] += 1
        write_h5(self.path("in/1.h5"), self.matrices[1])  # another input
        os.remove(self.path("out/2.h5"))  # an output that is gone
        write_h5(self.path("out/3.h5"), self.matrices[0])  # or another one
        self.assert_says(self.resume(), "4 jobs: 3 done, 1 done before")
        for number in range(4):
            self.check_transposed(f"out/{number}.h5", number)
        self.assertEqual(os.stat(self.path("out/0.h5")).st_mtime_ns, times[0])

    def test_runs_again_what_failed(self):
        self.make_inputs(2)
        os.rename(self.path("in/1.h5"), self.path("hidden.h5"))
        self.write_jobs("transpose in/0.h5 -o out/0.h5", "transpose in/1.h5 -o out/1.h5")
        self.resume(code=3)
        os.rename(self.path("hidden.h5"), self.path("in/1.h5"))
        self.assert_says(self.resume(), "1 done, 1 done before")

    def test_a_log_that_is_none(self):
        self.make_inputs(1)
        self.write_jobs("transpose in/0.h5 -o out/0.h5")
        for text, words in [("hello\nworld\n", ["log.jsonl"]), ('{"schema": "gpumat.run/2"}\n', ["log.jsonl:1", "gpumat.run/2"]),
                            ('{"a": 1}\n', ["log.jsonl:1", "schema"]), ('{"schema": "gpumat.run/1"}\nx\n{}\n', ["log.jsonl:2"]),
                            ('{"schema": "gpumat.run/1", "job": 5}\n', ["log.jsonl:1"])]:
            with open(self.path("log.jsonl"), "w", encoding="ascii") as file:
                file.write(text)
            result = self.resume(code=None)
            self.assertIn(result.code, (3, 4), str(result))
            self.assert_says(result, *words)
            self.assertEqual(os.listdir(self.path("out")), [])

    def test_what_reads_a_new_output_runs_again(self):
        self.make_inputs(2)
        self.write_jobs("transpose in/0.h5 -o out/a.h5 --force", "transpose out/a.h5 -o out/b.h5 --force", "convert in/1.h5 -o out/c.h5")
        self.resume()
        self.matrices[0] += 1
        write_h5(self.path("in/0.h5"), self.matrices[0])
        self.assert_says(self.resume(), "2 done, 1 done before")
        np.testing.assert_array_equal(read_h5(self.path("out/b.h5"))[1], self.matrices[0])

    def test_what_is_done_is_not_written_by_another(self):
        self.make_inputs(2)
        self.write_jobs("transpose in/0.h5 -o out/a.h5 --force")
        self.resume()
        self.write_jobs("transpose in/1.h5 -o out/a.h5 --force", "transpose in/0.h5 -o out/a.h5 --force")
        self.assert_says(self.resume(code=2), "jobs.txt:2: it writes out/a.h5, which another job writes too")

    def test_an_input_of_another_type_is_another_one(self):
        self.make_inputs(1)
        self.write_jobs("transpose in/0.h5 -o out/a.h5 --force", "convert in/0.h5 -t f16 -o out/b.h5 --force",
                        "transpose in/0.h5 -t f16 -o out/c.h5 --force")
        self.resume()
        self.assert_says(self.resume(), "3 done before")
        wide = self.matrices[0].astype("f8") + 1e-10
        write_h5(self.path("in/0.h5"), wide)
        self.assert_says(self.resume(), "1 done, 2 done before")  # what is rounded to f16 is as it was
        np.testing.assert_array_equal(read_h5(self.path("out/a.h5"))[1], wide.T)

    def test_the_same_bytes_of_another_shape(self):
        self.make_inputs(1)
        self.write_jobs("transpose in/0.h5 -o out/a.h5 --force")
        self.resume()
        self.matrices[0] = self.matrices[0].reshape(30, 20)
        write_h5(self.path("in/0.h5"), self.matrices[0])
        self.assert_says(self.resume(), "1 job: 1 done")
        self.check_transposed("out/a.h5", 0)

    def test_a_file_that_came_after_a_job_was_ended_stays(self):
        self.make_inputs(1, (900, 900))
        self.write_jobs("multiply in/0.h5 in/0.h5 -l naive --verify none --repeat 1000 -o out/a.h5")
        self.resume("--timeout", "0.1", code=143)
        time.sleep(0.01)  # clocks of file systems are coarse
        write_h5(self.path("out/a.h5"), np.eye(3))
        self.assert_says(self.resume(code=4), "out/a.h5", "--force replaces it")
        np.testing.assert_array_equal(read_h5(self.path("out/a.h5"))[1], np.eye(3))

    def end_while_it_reads(self, *arguments, number=signal.SIGKILL, **options):
        """Ends a batch whose job waits for the pipe `fifo`, by its own --timeout where `number` is None, and gives
        the job a file in its place."""
        os.mkfifo(self.path("fifo"))
        keep = os.open(self.path("fifo"), os.O_RDWR)
        process = self.start(*arguments, **options)
        if number is not None:
            self.wait_for_job(process)
            process.send_signal(number)
        process.communicate()
        os.close(keep)
        os.remove(self.path("fifo"))
        write_h5(self.path("fifo"), self.matrices[0])

    def check_foreign_stays(self, output, resume):
        """A file that the batch never wrote is not replaced; --force does it."""
        before = digest(output)
        self.assert_says(resume(code=4), "out/a.h5", "--force replaces it")
        self.assertEqual(digest(output), before)
        os.remove(output)
        self.assert_says(resume(), "1 done")

    def test_a_file_that_came_after_a_kill_stays(self):
        self.make_inputs(1)
        self.write_jobs("transpose fifo -o out/a.h5")
        self.end_while_it_reads("batch", "jobs.txt", "--log", "log.jsonl")
        write_h5(self.path("out/a.h5"), np.eye(3))
        self.check_foreign_stays(self.path("out/a.h5"), self.resume)

    def test_an_older_file_that_was_moved_there_stays(self):
        self.make_inputs(1)
        self.write_jobs("transpose fifo -o out/a.h5")
        for number, options in ((signal.SIGTERM, []), (None, ["--timeout", "0.1"])):
            write_h5(self.path("older.h5"), np.eye(3))
            os.utime(self.path("older.h5"), (1e9, 1e9))
            self.end_while_it_reads("batch", "jobs.txt", "--log", "log.jsonl", *options, number=number)
            os.rename(self.path("older.h5"), self.path("out/a.h5"))
            self.check_foreign_stays(self.path("out/a.h5"), self.resume)
            for name in ("fifo", "out/a.h5", "log.jsonl"):
                os.remove(self.path(name))

    def test_a_log_of_several_folders(self):
        """The same line in another folder is another job."""
        self.make_inputs(1)
        os.makedirs(self.path("other/out"))
        self.write_jobs("transpose fifo -o out/a.h5")
        self.end_while_it_reads("batch", "jobs.txt", "--log", "log.jsonl")
        write_h5(self.path("other/fifo"), self.matrices[0])
        write_h5(self.path("other/out/a.h5"), np.eye(3))
        there = lambda **options: self.run_tool("batch", "../jobs.txt", "--log", "../log.jsonl", "--resume", cwd=self.path("other"), **options)
        self.check_foreign_stays(self.path("other/out/a.h5"), there)
        self.assert_says(self.resume(), "1 done")
        for again in (self.resume, there):
            self.assert_says(again(), "1 done before")

    def test_a_kill_between_an_output_and_its_record(self):
        """What has its name and no record is known as done, datasets too."""
        self.make_inputs(2)
        self.write_jobs("transpose in/0.h5 -o out/a.h5", "transpose in/0.h5 -o out/all.h5:/x", "convert in/1.h5 -o out/all.h5:/y",
                        "generate --shape 3x4 -o out/g.mtx", "transpose out/a.h5 -o out/b.h5")
        self.resume()
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            lines = [line for line in file if "job" not in json.loads(line)]
        with open(self.path("log.jsonl"), "w", encoding="utf-8") as file:
            file.write("".join(lines))
        before = snapshot(self.path("out"))
        self.assert_says(self.resume(), "5 done before")
        self.assertEqual(snapshot(self.path("out")), before)

    def test_names_that_are_not_utf_8(self):
        """Jobs are known as done by their bytes; JSON would show two of them alike."""
        self.make_inputs(2)
        for number, name in enumerate((b"\xfe", b"\xff")):
            os.rename(self.path(f"in/{number}.h5"), os.fsencode(self.path("in/")) + name + b".h5")
        with open(self.path("jobs.txt"), "wb") as file:
            file.write(b"transpose in/\xfe.h5 -o out/\xfe.h5\ntranspose in/\xff.h5 -o 'out/\xff.h5'\nmultiply in/\xff.h5 in/\xfe.h5 "
                       b"--transpose-b -o out/c.h5:/\xc3\xa4\n")
        self.assert_says(self.resume(), "3 done")
        self.assert_says(self.resume(), "3 done before")
        texts = sorted({record["job"]["text"] for record in self.records()})
        self.assertEqual(len(texts), 3)
        self.write_jobs(*texts, name="again.txt")  # as the log says them
        self.assert_says(self.run_tool("batch", "again.txt", "--log", "log.jsonl", "--resume"), "3 done before")
        for number, name in enumerate((b"\xfe", b"\xff")):
            self.assert_same_bits(read_h5(os.fsencode(self.path("out/")) + name + b".h5")[1], self.matrices[number].T.copy())

    def test_an_input_that_gained_a_second_matrix(self):
        """Done is what would take the same matrix now; a job that names it still does."""
        self.make_inputs(2)
        self.write_jobs("transpose in/0.h5 -o out/0.h5", "transpose in/1.h5:/A -o out/1.h5")
        self.resume()
        for name in ("in/0.h5", "in/1.h5"):
            write_h5(self.path(name), np.eye(2), dataset="second", mode="a")
        result = self.resume(code=3)
        self.assert_says(result, "jobs.txt:1: ", "in/0.h5", "1 done before", "1 failed (3)")

    def test_comparisons_run_again(self):
        """What they find is said by every batch; a mask that is there is replaced with --force."""
        self.make_inputs(2)
        self.write_jobs("compare in/0.h5 in/1.h5 --save-mismatch out/mask.h5 --force", "compare in/0.h5 in/0.h5")
        for _ in range(2):
            self.assert_says(self.resume(code=1), "1 done, 1 differs")

    def test_a_log_that_is_no_file(self):
        self.make_inputs(1)
        self.write_jobs("transpose in/0.h5 -o out/a.h5")
        os.mkfifo(self.path("fifo"))
        for log in ("fifo", "/dev/null", "/dev/zero"):
            self.assert_says(self.run_tool("batch", "jobs.txt", "--log", log, "--resume", code=3), log, "no regular file")
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_killed_at_random_points(self):
        """Kills and resumes in two folders with one log, while others put files and datasets in the way: nothing of theirs is
        replaced, and without them every result is there and right in the end. GPUMAT_TEST_KILLS says how many."""
        rng, matrices = random.Random(SEED), [random_values("f32", (20, 30), seed=number) for number in range(12)]
        outputs = {f"out/{number}.h5": number for number in range(12)}
        outputs |= {f"out/{number}.mtx": number for number in range(6)} | {f"out/all.h5:/{number}": number for number in range(8)}
        folders = [self.path("one"), self.path("other")]
        for folder in folders:
            os.makedirs(folder + "/in")
            os.makedirs(folder + "/out")
            for number, matrix in enumerate(matrices):
                write_h5(f"{folder}/in/{number}.h5", matrix)
        self.write_jobs(*[f"transpose in/{number}.h5 -o {output}" for output, number in outputs.items()])
        command = ["batch", self.path("jobs.txt"), "--log", self.path("log.jsonl"), "--resume", "--jobs", "2"]
        foreign = {}  # of a path and a dataset: what is there

        def put_in_the_way(folder):
            output = folder + "/" + rng.choice(list(outputs))
            path, _, dataset = output.partition(":/")
            if dataset:
                if not running and os.path.exists(path) and dataset not in h5py.File(path, "r"):
                    write_h5(path, np.full((2, 2), 7.0), dataset=dataset, mode="r+")
                    foreign[output] = (path, dataset)
                return
            write_h5(self.path("theirs"), np.full((2, 2), rng.random()))
            os.utime(self.path("theirs"), (1e9, 1e9))
            try:
                os.link(self.path("theirs"), path)
                foreign[output] = digest(path)
            except FileExistsError:
                if not running and rng.random() < 0.5:  # in place of a result
                    os.rename(self.path("theirs"), path)
                    foreign[output] = digest(path)
            if os.path.exists(self.path("theirs")):
                os.remove(self.path("theirs"))

        def check_foreign():
            for output, theirs in foreign.items():
                if isinstance(theirs, str):
                    self.assertEqual(digest(output), theirs, output)
                else:
                    np.testing.assert_array_equal(read_h5(*theirs)[1], np.full((2, 2), 7.0), output)

        for _ in range(KILLS):
            folder = rng.choice(folders)
            process = self.start(*command, *rng.choice([[], ["--timeout", "0.01"]]), cwd=folder, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            running = True
            time.sleep(rng.uniform(0, 0.1))
            if rng.random() < 0.3:
                put_in_the_way(folder)
            process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
            process.wait()
            wait_for(lambda: subprocess.run(["pgrep", "-f", self.path("log.jsonl")], check=False, stdout=subprocess.DEVNULL).returncode,
                     "the workers to end")
            running = False
            if rng.random() < 0.3:
                put_in_the_way(folder)
            check_foreign()
        for folder in folders:
            in_the_way = [output for output in foreign if output.startswith(folder)]
            self.run_tool(*command, cwd=folder, code=4 if in_the_way else 0)
        check_foreign()
        for output, theirs in foreign.items():
            if isinstance(theirs, str):
                os.remove(output)
            else:
                with h5py.File(theirs[0], "r+") as file:
                    del file[theirs[1]]
        for folder in folders:
            self.run_tool(*command, cwd=folder)
            self.assert_says(self.run_tool(*command, cwd=folder), f"{len(outputs)} done before")
            self.assertEqual(sorted(os.listdir(folder + "/out")), sorted({os.path.basename(output.partition(":")[0]) for output in outputs}))
            for output, number in outputs.items():
                path, _, dataset = (folder + "/" + output).partition(":/")
                found = read_mtx(path).astype("f4") if path.endswith(".mtx") else read_h5(path, dataset or None)[1]
                self.assert_same_bits(np.ascontiguousarray(found), matrices[number].T.copy(), output)


if __name__ == "__main__":
    unittest.main()
