"""The run record: the fixed names of gpumat.run/1 with right values, as JSON, JSON Lines and CSV."""

import csv
import datetime
import json
import os
import shlex
import subprocess
import unittest
import zlib

import numpy as np

from harness import GPUMAT, Case, encode, random_values, read_h5, write_h5, write_mtx

# Every fixed name, and the JSON types that its value may have; a nested table for an object.
NUMBER = (int, float)
FIXED = {
    "schema": str, "time": str, "op": str, "level_requested": str, "level": str,
    "device": {"kind": str, "name": str},
    "type": str, "shape": {"m": int, "n": int, "k": (int, type(None))},
    "inputs": list, "output": (dict, type(None)),
    "stages_ms": {"read": NUMBER, "host_to_device": (*NUMBER, type(None)), "kernel": NUMBER,
                  "device_to_host": (*NUMBER, type(None)), "verify": NUMBER, "write": NUMBER, "total": NUMBER},
    "kernel_ms": {"samples": list, "median": NUMBER, "min": NUMBER, "max": NUMBER},
    "kernel_bytes": NUMBER, "kernel_flops": NUMBER,
    "effective_bandwidth_gbps": NUMBER, "gflops": (*NUMBER, type(None)),
    "verification": {"mode": str, "verdict": str, "worst_ratio": NUMBER, "expected_ratio": NUMBER,
                     "mismatches": int, "rows_recomputed": int, "rms_error": (*NUMBER, type(None)),
                     "detects": (dict, type(None))},
    "exit_code": int,
}
MATRIX = {"path": str, "dataset": (str, type(None)), "format": str, "rows": int, "cols": int, "type": str, "hash": str}


def crc32(array):
    return f"crc32:{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


class RecordCase(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = random_values("f32", (20, 30), 1), random_values("f32", (30, 10), 2)
        write_h5(self.path("a.h5"), self.a)
        write_h5(self.path("b.h5"), self.b, dataset="group/B")

    def check_names(self, value, names, where="record"):
        for name, kinds in names.items():
            self.assertIn(name, value, where)
            if isinstance(kinds, dict):
                self.check_names(value[name], kinds, f"{where}.{name}")
            else:
                self.assertIsInstance(value[name], kinds, f"{where}.{name}")
                self.assertFalse(isinstance(value[name], bool), f"{where}.{name} is a boolean")


class Values(RecordCase):
    def test_fixed_names(self):
        for arguments in (["transpose", "a.h5"], ["multiply", "a.h5", "b.h5"]):
            record = self.record(*arguments, "-o", f"{arguments[0]}.h5")
            self.check_names(record, FIXED)
            for matrix in [*record["inputs"], record["output"]]:
                self.check_names(matrix, MATRIX, "matrix")

    def test_transpose(self):
        record = self.record("transpose", "a.h5", "-o", "out.h5", "-l", "serial", "-d", "cpu", "--threads", "2")
        self.assertEqual(record["schema"], "gpumat.run/1")
        self.assertEqual((record["op"], record["type"]), ("transpose", "f32"))
        self.assertEqual(record["shape"], {"m": 20, "n": 30, "k": None})
        self.assertEqual((record["level_requested"], record["level"]), ("serial", "serial"))
        self.assertEqual(record["device"]["kind"], "cpu")
        self.assertEqual((record["kernel_bytes"], record["kernel_flops"]), (2 * self.a.nbytes, 0))
        self.assertIsNone(record["gflops"])
        self.assertEqual(record["exit_code"], 0)

    def test_multiply(self):
        record = self.record("multiply", "a.h5", "b.h5", "-o", "out.h5", "--alpha", "2.5")
        self.assertEqual((record["op"], record["shape"]), ("multiply", {"m": 20, "n": 10, "k": 30}))
        self.assertEqual(record["kernel_flops"], 2 * 20 * 10 * 30)
        self.assertEqual(record["kernel_bytes"], 4 * (20 * 30 + 30 * 10 + 20 * 10))
        self.assertEqual((record["alpha"], record["beta"]), (2.5, 0))

    def test_inputs_and_output(self):
        record = self.record("multiply", "a.h5", "b.h5", "-o", "out.h5:/C")
        expected = {"path": "b.h5", "dataset": "/group/B", "format": "hdf5", "rows": 30, "cols": 10, "type": "f32",
                    "bytes": self.b.nbytes, "hash": crc32(self.b)}
        self.assertEqual({name: record["inputs"][1][name] for name in expected}, expected)
        result = read_h5(self.path("out.h5"))[1]
        expected = {"path": "out.h5", "dataset": "/C", "format": "hdf5", "rows": 20, "cols": 10, "type": "f32",
                    "hash": crc32(result)}
        self.assertEqual({name: record["output"][name] for name in expected}, expected)

    def test_hash_is_of_the_elements_whatever_the_format(self):
        for name in ("i64", "f64", "c128"):
            matrix = random_values(name, (7, 9))
            write_h5(self.path(f"{name}.h5"), matrix)
            write_mtx(self.path(f"{name}.mtx"), matrix)
            for source in (f"{name}.h5", f"{name}.mtx"):
                record = self.record("transpose", source, "-o", "out.mtx", "--force")
                self.assertEqual(record["inputs"][0]["hash"], crc32(matrix), source)
                self.assertEqual(record["output"]["hash"], crc32(matrix.T), source)

    def test_hash_is_of_the_elements_after_conversion(self):
        record = self.record("transpose", "a.h5", "-t", "f16")
        self.assertEqual(record["inputs"][0]["hash"], crc32(encode("f16", self.a)))

    def test_samples(self):
        samples = self.record("transpose", "a.h5", "--repeat", "5", "--warmup", "2")["kernel_ms"]
        ordered = sorted(samples["samples"])
        self.assertEqual(len(ordered), 5)
        self.assertEqual([samples["min"], samples["median"], samples["max"]], [ordered[0], ordered[2], ordered[-1]])
        self.assertGreaterEqual(ordered[0], 0)

    def test_median_of_an_even_count(self):
        samples = self.record("transpose", "a.h5", "--repeat", "4")["kernel_ms"]
        ordered = sorted(samples["samples"])
        self.assertAlmostEqual(samples["median"], (ordered[1] + ordered[2]) / 2)

    def test_rates_follow_from_the_median(self):
        record = self.record("multiply", "a.h5", "b.h5", "--repeat", "3")
        median_s = record["kernel_ms"]["median"] / 1e3
        self.assertAlmostEqual(record["gflops"], record["kernel_flops"] / median_s / 1e9, delta=1e-6 * record["gflops"])
        bandwidth = record["effective_bandwidth_gbps"]
        self.assertAlmostEqual(bandwidth, record["kernel_bytes"] / median_s / 1e9, delta=1e-6 * bandwidth)

    def test_stages_add_up_to_less_than_the_total(self):
        stages = self.record("transpose", "a.h5", "-o", "out.h5")["stages_ms"]
        parts = [value for name, value in stages.items() if name != "total" and value is not None]
        self.assertGreater(stages["total"], 0)
        self.assertLessEqual(sum(parts), stages["total"] * 1.0001)

    def test_time_is_now_in_utc(self):
        start = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        record = self.record("transpose", "a.h5")
        time = datetime.datetime.strptime(record["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
        self.assertTrue(start <= time <= datetime.datetime.now(datetime.timezone.utc), record["time"])

    def test_command_line_can_be_run_again(self):
        write_h5(self.path("it's a name.h5"), self.a)
        record = self.record("transpose", "it's a name.h5")
        self.assertEqual(shlex.split(record["command_line"]), [GPUMAT, "transpose", "it's a name.h5", "--json"])

    def test_verification_modes(self):
        for mode, ran in [("auto", "full"), ("full", "full"), ("freivalds", "freivalds"), ("none", "none")]:
            verification = self.record("multiply", "a.h5", "b.h5", "--verify", mode)["verification"]
            verdict = "skipped" if mode == "none" else "passed"
            self.assertEqual((verification["mode"], verification["verdict"]), (ran, verdict))
            self.assertEqual(verification["mismatches"], 0)
            self.assertLessEqual(verification["worst_ratio"], 1)

    def test_tolerance(self):
        self.record("multiply", "a.h5", "b.h5", "--tolerance", "1e-3")
        verification = self.record("multiply", "a.h5", "b.h5", "--tolerance", "0", code=1)["verification"]
        self.assertEqual(verification["verdict"], "failed")
        self.assertGreater(verification["mismatches"], 0)

    def test_auto_says_what_it_chose(self):
        record = self.record("transpose", "a.h5")
        self.assertEqual(record["level_requested"], "auto")
        self.assertNotIn(record["level"], ("", "auto"))

    def test_not_finite_is_still_json(self):
        write_h5(self.path("a.h5"), np.array([[np.nan, np.inf]]))
        text = self.run_tool("transpose", "a.h5", "--json").out
        json.loads(text, parse_constant=lambda name: self.fail(f"{name} is no JSON"))

    def test_names_that_are_not_utf8(self):
        """A file name of any bytes still gives a record that can be parsed."""
        name = os.fsencode(self.folder) + b"/caf\xe9.h5"
        os.link(self.path("a.h5"), name)
        result = self.run_tool("transpose", name, "--json", "--log", "log.csv")
        self.assertIn("caf", json.loads(result.out_bytes)["inputs"][0]["path"])


class Logs(RecordCase):
    def lines(self, name):
        with open(self.path(name), encoding="utf-8", newline="") as file:
            return file.read().splitlines()

    def test_json_lines(self):
        printed = [self.record("transpose", "a.h5", "--log", "log.jsonl") for _ in range(3)]
        self.assertEqual([json.loads(line) for line in self.lines("log.jsonl")], printed)

    def test_standard_output(self):
        record = self.run_tool("transpose", "a.h5", "--log", "-").json()
        self.check_names(record, {name: kind for name, kind in FIXED.items() if name not in ("stages_ms",)})

    def test_csv(self):
        records = [self.record(*arguments, "--log", "log.csv")
                   for arguments in (["transpose", "a.h5", "-o", "out.h5"], ["multiply", "a.h5", "b.h5"])]
        with open(self.path("log.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 2)
        for row, record in zip(rows, records):
            self.assertEqual(row["op"], record["op"])
            self.assertEqual(row["level"], record["level"])
            self.assertEqual((row["shape.m"], row["shape.n"]), (str(record["shape"]["m"]), str(record["shape"]["n"])))
            self.assertEqual(row["shape.k"], "" if record["shape"]["k"] is None else str(record["shape"]["k"]))
            self.assertEqual(row["device.kind"], "cpu")
            self.assertEqual(row["verification.verdict"], "passed")
            self.assertEqual(int(row["exit_code"]), 0)
            self.assertAlmostEqual(float(row["kernel_ms.median"]), record["kernel_ms"]["median"])
            self.assertNotIn(None, row, "a row longer than the header")
            self.assertNotIn(None, row.values(), "a row shorter than the header")

    def test_csv_quotes(self):
        name = 'a, "quoted"\nname.h5'
        write_h5(self.path(name), self.a)
        for _ in range(2):
            self.run_tool("transpose", name, "--log", "log.csv")
        with open(self.path("log.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([name in row["command_line"] for row in rows], [True, True])

    def test_failed_runs_leave_a_line(self):
        with open(self.path("cut.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix array real general\n2 2\n1\n")
        for code, arguments in [
            (3, ["transpose", "nowhere.h5"]),
            (3, ["transpose", "cut.mtx"]),
            (3, ["multiply", "a.h5", "a.h5"]),
            (4, ["transpose", "a.h5", "-o", "a.h5"]),
            (5, ["transpose", "a.h5", "-l", "padded"]),
            (6, ["transpose", "a.h5", "--memory-limit", "1KiB"]),
            (2, ["transpose", "a.h5", "-l", "warp"]),
            (2, ["multiply", "a.h5", "b.h5", "--beta", "1"]),
        ]:
            with self.subTest(arguments):
                for log in ("log.jsonl", "log.csv"):
                    if os.path.exists(self.path(log)):
                        os.remove(self.path(log))
                    result = self.run_tool(*arguments, "--log", log, "--json", code=code)
                    message = result.err.removeprefix("gpumat: ").strip()
                    records = [result.json()]
                    if log == "log.jsonl":
                        records += [json.loads(line) for line in self.lines(log)]
                    for record in records:
                        self.assertEqual((record["exit_code"], record["error"]), (code, message))
                        self.assertEqual(record["op"], arguments[0])
                        self.assertNotEqual(record["verification"]["verdict"], "passed")
                with open(self.path("log.csv"), encoding="utf-8", newline="") as file:
                    rows = list(csv.DictReader(file))
                self.assertEqual([(row["exit_code"], row["error"]) for row in rows], [(str(code), message)])

    def test_runs_side_by_side_never_mix_lines(self):
        runs = [self.start("transpose", "a.h5", "--log", log, stdin=subprocess.DEVNULL)
                for _ in range(6) for log in ("log.jsonl", "log.csv")]
        for run in runs:
            run.communicate()
            self.assertEqual(run.returncode, 0)
        self.assertEqual([json.loads(line)["exit_code"] for line in self.lines("log.jsonl")], [0] * 6)
        with open(self.path("log.csv"), encoding="utf-8", newline="") as file:
            self.assertEqual([row["exit_code"] for row in csv.DictReader(file)], ["0"] * 6)

    def test_log_that_cannot_be_written(self):
        result = self.run_tool("transpose", "a.h5", "--log", "nowhere/log.jsonl", code=4)
        self.assert_says(result, "nowhere/log.jsonl", "No such file")

    def test_log_equal_to_an_input_or_the_output(self):
        """Appending a line to a matrix would destroy it."""
        for log in ("a.h5", "out.h5"):
            before = crc32(read_h5(self.path("a.h5"))[1])
            self.run_tool("transpose", "a.h5", "-o", "out.h5", "--log", log, code=4)
            self.assertEqual(crc32(read_h5(self.path("a.h5"))[1]), before)


class Messages(RecordCase):
    def test_quiet_is_silent(self):
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "-q")
        self.assertEqual((result.out, result.err), ("", ""))

    def test_summary_goes_to_standard_error(self):
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "-l", "serial", "-d", "cpu")
        self.assertEqual(result.out, "")
        self.assert_says(result, "'serial'", "20x30", "passed", "out.h5:/A")

    def test_verbose_explains_the_stages(self):
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "-v")
        self.assert_says(result, "read A = a.h5:/A", "memory:", "GB/s")

    def test_no_colour_where_there_is_no_terminal(self):
        self.assertNotIn("\x1b", self.run_tool("transpose", "nowhere.h5", code=3).err)

    def test_no_gpu_is_said_once(self):
        # Only where one could have been of use is it asked for.
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5")
        self.assert_says(result, "before a gpu would have started")
        self.run_tool("generate", "--shape", "600x600", "-o", "large.h5")
        result = self.run_tool("multiply", "large.h5", "large.h5", "-l", "naive", "--threads", "1", "--dry-run", "-v")
        self.assert_says(result, "no gpu")


if __name__ == "__main__":
    unittest.main()
