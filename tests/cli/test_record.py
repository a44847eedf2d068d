"""The run record: the fixed names of gpumat.run/1 with right values, as JSON, JSON Lines and CSV."""

import csv
import datetime
import json
import os
import pty
import random
import re
import shlex
import signal
import subprocess
import threading
import time
import unittest
import zlib

import numpy as np

from harness import (GPUMAT, SLOW_ONES, Case, encode, open_for_writing, random_values, read_h5, wait_for, write_h5,
                     write_mtx)

# Every fixed name, and the JSON types that its value may have; a nested table for an object.
NUMBER = (int, float)
FIXED = {
    "schema": str, "run_id": str, "time": str, "working_folder": str, "version": str, "host": str,
    "build": {"commit": str, "type": str, "compiler": str, "cuda": str, "architectures": str, "hdf5": str},
    "processor": {"name": str, "clock_mhz": (*NUMBER, type(None)), "load": NUMBER, "affinity": str},
    "repeat": int, "warmup": int, "seed": int, "op": str, "level_requested": str, "level": str,
    "device": {"kind": str, "name": str},
    "type": str, "shape": {"m": int, "n": int, "k": (int, type(None))},
    "inputs": list, "output": (dict, type(None)),
    "stages_ms": {"open": NUMBER, "prepare": NUMBER, "rest": NUMBER, "read": NUMBER, "host_to_device": (*NUMBER, type(None)), "kernel": NUMBER,
                  "device_to_host": (*NUMBER, type(None)), "verify": NUMBER, "write": NUMBER, "total": NUMBER},
    "kernel_ms": {"samples": list, "median": NUMBER, "min": NUMBER, "max": NUMBER},
    "kernel_bytes": NUMBER, "kernel_flops": NUMBER,
    "effective_bandwidth_gbps": NUMBER, "gflops": (*NUMBER, type(None)),
    "verification": {"mode": str, "verdict": str, "worst_ratio": NUMBER, "expected_ratio": NUMBER,
                     "mismatches": int, "rows_recomputed": int, "rms_error": (*NUMBER, type(None)),
                     "detects": (dict, type(None))},
    "exit_code": int,
}
MATRIX = {"path": str, "dataset": (str, type(None)), "format": str, "rows": int, "cols": int, "type": str, "bytes": int,
          "file_bytes": int, "hash": str}


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

    def check_stages(self, record):
        """Each stage's times make up its part of the total, and the rest is what no stage takes."""
        times = record["stages_ms"]
        worked = times["total"] - times["rest"]
        ends = {stage["name"]: stage["busy_ms"] for stage in record["stages"]}
        self.assertEqual({name: value for name, value in times.items() if value is not None and name not in ("rest", "total")},
                         ends)
        for stage in record["stages"]:
            self.assertAlmostEqual(stage["begin_ms"] + stage["busy_ms"] + stage["waiting_ms"], stage["end_ms"])
            self.assertGreaterEqual(min(stage["begin_ms"], stage["busy_ms"]), 0)
            self.assertGreaterEqual(stage["waiting_ms"], -1e-9)
            self.assertLessEqual(stage["end_ms"], times["total"])
        self.assertGreaterEqual(times["rest"], 0)
        self.assertLessEqual(max(ends.values()), worked + 1e-6)
        self.assertGreaterEqual(sum(ends.values()), worked - 1e-6)
        self.assertEqual(record["bounded_by"], max(ends, key=ends.get))

    def test_stages_and_the_rest_make_up_the_total(self):
        record = self.record("transpose", "a.h5", "-o", "out.h5")
        self.check_stages(record)
        self.assertEqual([stage["name"] for stage in record["stages"]],
                         ["open", "prepare", "read", "kernel", "verify", "hash", "write"])
        write_h5(self.path("large.h5"), random_values("f64", (1500, 1100)))
        self.check_stages(self.record("transpose", "large.h5", "-o", "large.mtx", "--memory-limit", "8MiB"))
        self.check_stages(self.record("transpose", "large.h5", "--dry-run"))

    def test_a_failed_run_has_the_stages_that_it_came_to(self):
        write_mtx(self.path("cut.mtx"), self.a)
        with open(self.path("cut.mtx"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("cut.mtx")) - 40)
        record = self.record("transpose", "cut.mtx", code=3)
        self.check_stages(record)
        self.assertIn("open", [stage["name"] for stage in record["stages"]])

    def test_a_bounding_stage_is_the_one_that_takes_the_time(self):
        write_h5(self.path("a.h5"), random_values("f64", (1000, 900)))
        record = self.record("transpose", "a.h5", "--repeat", "300", "-l", "serial", "-d", "cpu")
        self.assertEqual(record["bounded_by"], "kernel")
        self.assertGreater(record["stages_ms"]["kernel"], record["stages_ms"]["total"] / 2)

    def test_time_is_now_in_utc(self):
        start = datetime.datetime.now(datetime.timezone.utc)
        record = self.record("transpose", "a.h5")
        time = datetime.datetime.strptime(record["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
        self.assertTrue(start <= time <= datetime.datetime.now(datetime.timezone.utc), record["time"])

    def test_command_line_can_be_run_again(self):
        write_h5(self.path("it's a name.h5"), self.a)
        record = self.record("transpose", "it's a name.h5")
        self.assertEqual(shlex.split(record["command_line"]), [GPUMAT, "transpose", "it's a name.h5", "--json"])

    def test_where_it_ran_and_how(self):
        os.mkdir(self.path("sub"))
        cpu = sorted(os.sched_getaffinity(0))[0]
        with self.start("transpose", "../a.h5", "--repeat", "3", "--warmup", "2", "--seed", "18446744073709551615", "--json",
                        cwd=self.path("sub"), before=["taskset", "-c", str(cpu)]) as process:
            record = json.loads(process.communicate()[0])
        self.assertEqual(record["working_folder"], os.path.realpath(self.path("sub")))
        self.assertEqual(record["processor"]["affinity"], str(cpu))
        self.assertEqual((record["repeat"], record["warmup"], record["seed"]), (3, 2, 2**64 - 1))
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = re.findall(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
        self.assertIn(record["processor"]["name"], names or ["unknown"])
        self.assertGreater(record["processor"]["load"], 0)
        self.assertEqual(record["inputs"][0]["file_bytes"], os.path.getsize(self.path("a.h5")))
        self.assertNotEqual(record["run_id"], self.record("transpose", "a.h5")["run_id"])
        self.assertRegex(record["run_id"], "^[0-9a-f]{32}$")

    def test_size_of_the_output_file(self):
        record = self.record("transpose", "a.h5", "-o", "out.h5")
        self.assertEqual(record["output"]["file_bytes"], os.path.getsize(self.path("out.h5")))
        record = self.run_tool("transpose", "-", "-o", "out.mtx", "--json",
                               stdin=b"%%MatrixMarket matrix array real general\n1 1\n1\n").json()
        self.assertIsNone(record["inputs"][0]["file_bytes"])
        self.assertEqual(record["output"]["file_bytes"], os.path.getsize(self.path("out.mtx")))

    def test_indices_count_from_0_here_and_from_1_in_messages(self):
        """Only the last element of the product is off: by the tolerance it alone is wrong."""
        write_h5(self.path("x.h5"), np.array([[2.0**-30], [1.0]], np.float32))
        write_h5(self.path("y.h5"), np.array([[1.0, 1.0 + 2.0**-20, 3.0]], np.float32))
        write_h5(self.path("z.h5"), np.array([[2.0**-30, 2.0**-30 * (1.0 + 2.0**-20), 2.0**-30 * 3], [1, 1.0 + 2.0**-20, 4]],
                                             np.float32))
        result = self.run_tool("verify", "multiply", "x.h5", "y.h5", "z.h5", "--json", code=1)
        worst = result.json()["verification"]["worst"]
        self.assertEqual((worst["row"], worst["col"]), (1, 2))
        self.assert_says(result, "row 2 of 2, column 3 of 3")

    def test_an_input_that_cannot_be_opened_is_named(self):
        for inputs in (["nowhere.h5"], ["a.h5", "nowhere.h5:/B"]):
            record = self.record("multiply" if len(inputs) > 1 else "transpose", *inputs, "--log", "log.csv", code=3)
            self.assertEqual([matrix["path"] for matrix in record["inputs"]], [name.partition(":")[0] for name in inputs])
            last = record["inputs"][-1]
            self.assertEqual((last["dataset"], last["rows"], last["hash"]), ("/B" if len(inputs) > 1 else None, None, None))
        self.assertEqual(self.run_tool("convert", "nowhere.h5", "-o", "b.h5", "--json", code=3).json()["inputs"][0]["path"],
                         "nowhere.h5")
        self.assertEqual(self.run_tool("compare", "a.h5", "nowhere.h5", "--json", code=3).json()["y"]["path"], "nowhere.h5")
        verified = self.run_tool("verify", "transpose", "a.h5", "nowhere.h5", "--json", code=3).json()
        self.assertEqual((verified["inputs"][0]["path"], verified["result"]["path"]), ("a.h5", "nowhere.h5"))

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


class Ended(RecordCase):
    """A run that a signal or a limit ends leaves its record, with 128 + n."""

    def wait_for_output(self, process):
        """The log is open already."""
        wait_for(lambda: len(open_for_writing(process.pid, self.folder)) > 1, "the output")

    def start_slowly(self, *arguments, **options):
        """A run that waits for the rest of its input."""
        process = self.start(*arguments, **options)
        process.stdin.write(SLOW_ONES[0])
        process.stdin.flush()
        return process

    def rows(self, log):
        with open(self.path(log), encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file)) if log.endswith(".csv") else [json.loads(line) for line in file]

    def check_record(self, record, number, op):
        self.assertEqual((record["op"], record["exit_code"]), (op, 128 + number))
        self.assertIn(f"ended by signal {number} (", record["error"])
        self.assertEqual((record["inputs"][0]["path"], record["output"]), ("-", None))
        self.assertGreater(record["stages_ms"]["total"], 0)

    def test_by_every_signal_that_ends(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU):
            for op in ("transpose", "convert"):
                with self.subTest(number=number, op=op):
                    process = self.start_slowly(op, "-", "-o", "new.h5", "--log", "log.jsonl", "--json")
                    self.wait_for_output(process)
                    process.send_signal(number)
                    out, err = process.communicate(timeout=60)
                    self.assertEqual((process.returncode, err), (-number, b""))
                    self.check_record(json.loads(out), number, op)
                    self.assertEqual(self.rows("log.jsonl")[-1], json.loads(out))
                    self.assertEqual({name for name in os.listdir(self.folder) if name != "core"}, {"a.h5", "b.h5", "log.jsonl"})
        self.assertEqual(len(self.rows("log.jsonl")), 10)

    def test_what_was_known_is_told(self):
        process = self.start_slowly("transpose", "-", "-o", "new.mtx", "--log", "log.csv", "--json")
        self.wait_for_output(process)
        process.send_signal(signal.SIGTERM)
        record = json.loads(process.communicate(timeout=60)[0])
        self.assertEqual((record["shape"]["m"], record["inputs"][0]["format"], record["device"]["kind"]),
                         (300, "matrix-market", "cpu"))
        self.assertEqual([stage["name"] for stage in record["stages"]][:3], ["open", "prepare", "read"])
        self.assertEqual([(row["exit_code"], row["inputs.0.path"]) for row in self.rows("log.csv")], [("143", "-")])

    def test_before_the_input_is_open(self):
        """The header of a FIFO does not come: the record has what was asked for."""
        os.mkfifo(self.path("fifo.mtx"))
        with self.start("transpose", "fifo.mtx", "--log", "log.jsonl", stdin=subprocess.DEVNULL) as process:
            wait_for(lambda: os.path.exists(self.path("log.jsonl")), "the log")
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        record, = self.rows("log.jsonl")
        self.assertEqual((record["exit_code"], record["inputs"][0]["path"], record["inputs"][0]["rows"]), (143, "fifo.mtx", None))

    def test_by_a_limit_of_processor_time(self):
        write_h5(self.path("a.h5"), random_values("f64", (500, 400)))
        limit = ["bash", "-c", 'ulimit -S -t 1; exec "$@"', "bash"]
        with self.start("transpose", "a.h5", "--repeat", "1000000", "--warmup", "1000000", "--log", "log.jsonl",
                        "--threads", "1", before=limit) as process:
            process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGXCPU)
        self.assertEqual([record["exit_code"] for record in self.rows("log.jsonl")], [128 + signal.SIGXCPU])

    def test_a_log_that_takes_nothing_holds_nobody(self):
        os.mkfifo(self.path("log"))
        reader = os.open(self.path("log"), os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(self.path("log"), os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b" " * 4096)
        for signals in (1, 2):
            process = self.start_slowly("transpose", "-", "-o", "new.h5", "--log", "log")
            self.wait_for_output(process)
            begin = time.monotonic()
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGTERM)
            if signals == 2:
                self.assertLess(time.monotonic() - begin, 1.5)
            self.assertFalse(os.path.exists(self.path("new.h5")))

    def test_kills_at_random_moments(self):
        """The status of the process is what its last record says, and the output is there only where that says so."""
        write_h5(self.path("a.h5"), random_values("f64", (400, 300)))
        start = time.monotonic()
        self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", "--log", "log.jsonl")
        duration = time.monotonic() - start
        chance = random.Random(int(os.environ.get("GPUMAT_TEST_SEED", "1")))
        ended = 0
        for _ in range(40):
            os.remove(self.path("log.jsonl"))
            with self.start("transpose", "a.h5", "-o", "out.h5", "--force", "-q", "--log", "log.jsonl",
                            stdin=subprocess.DEVNULL) as process:
                wait_for(lambda: os.path.exists(self.path("log.jsonl")), "the log")
                time.sleep(chance.uniform(0, duration))
                process.send_signal(signal.SIGTERM)
                _, err = process.communicate(timeout=60)
            self.assertEqual(err, b"")
            records = self.rows("log.jsonl")
            self.assertLessEqual(len(records), 1)
            codes = [record["exit_code"] for record in records]
            self.assertIn((process.returncode, codes), [(0, [0]), (-15, [143]), (-15, [0]), (-15, [])])
            ended += codes == [143]
            self.assertEqual(set(os.listdir(self.folder)), {"a.h5", "b.h5", "out.h5", "log.jsonl"})
        self.assertGreater(ended, 5)

    def test_other_results_end_as_json_too(self):
        write_h5(self.path("ones.h5"), np.ones((300, 300)))
        for command, schema in ((["verify", "transpose", "-", "ones.h5"], "gpumat.verify/1"),
                                (["compare", "-", "ones.h5"], "gpumat.compare/1")):
            process = self.start_slowly(*command, "--json")
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (-signal.SIGTERM, b""))
            self.assertEqual((json.loads(out)["schema"], json.loads(out)["exit_code"]), (schema, 143))

    def test_jobs_of_a_batch_that_ends(self):
        os.mkfifo(self.path("slow.mtx"))
        with open(self.path("jobs.txt"), "w", encoding="ascii") as file:
            file.write("transpose a.h5 -o at.h5\ntranspose slow.mtx -o slow.h5\n")
        with self.start("batch", "jobs.txt", "--log", "log.jsonl", "--jobs", "1", stdin=subprocess.DEVNULL) as process:
            with open(self.path("slow.mtx"), "wb", buffering=0) as slow:
                slow.write(SLOW_ONES[0][:60_000])
                wait_for(lambda: len(self.rows("log.jsonl")) > 1, "the first job")
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        ended = {record["job"]["line"]: record for record in self.rows("log.jsonl") if "job" in record}
        self.assertEqual({line: record["exit_code"] for line, record in ended.items()}, {1: 0, 2: 143})
        self.assertEqual(ended[2]["inputs"][0]["path"], "slow.mtx")
        os.remove(self.path("slow.mtx"))
        write_mtx(self.path("slow.mtx"), self.a)
        self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", "--resume")
        self.assertEqual([record["exit_code"] for record in self.rows("log.jsonl") if "job" in record], [0, 143, 0])
        self.assertTrue(os.path.exists(self.path("slow.h5")))


class Progress(RecordCase):
    """The line of progress: on a terminal, from one second on, taken away at the end."""

    CLEAR = b"\r\x1b[K"

    def on_terminal(self, *arguments, feed=None, **options):
        """What a run shows on a terminal; `feed` gets the process."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        with self.start(*arguments, stderr=slave, **options) as process:
            os.close(slave)
            shown = bytearray()

            def listen():
                try:
                    while piece := os.read(master, 4096):
                        shown.extend(piece)
                except OSError:  # the other end is closed
                    pass

            listener = threading.Thread(target=listen)
            listener.start()
            if feed:
                feed(process)
            process.communicate(timeout=60)
            listener.join(timeout=60)
        return process.returncode, bytes(shown)

    @staticmethod
    def slowly(process):
        process.stdin.write(SLOW_ONES[0])
        process.stdin.flush()
        time.sleep(1.8)
        process.stdin.write(SLOW_ONES[1])
        process.stdin.flush()

    def shown_lines(self, shown):
        return [line for line in re.split(rb"\r\n|\r\x1b\[K", shown) if line]

    def test_of_an_operation(self):
        code, shown = self.on_terminal("transpose", "-", "-o", "out.h5", feed=self.slowly)
        self.assertEqual(code, 0)
        self.assertIn(self.CLEAR + b"reading 0 bytes of 703.12 KiB", shown)
        self.assertIn(self.CLEAR + b"gpumat:", shown)  # taken away before the message
        self.assertNotRegex(shown, rb"KiB[^\r]*gpumat:")
        self.assertRegex(self.shown_lines(shown)[-1], b"^gpumat: .*wrote")
        for line in self.shown_lines(shown):
            if not line.startswith(b"gpumat:"):
                self.assertLess(len(line), 80)

    def test_rate_and_time_left(self):
        def read_slowly(process):
            for _ in range(8):
                process.stdout.read(400_000)
                time.sleep(0.25)
            process.stdout.read()

        code, shown = self.on_terminal("generate", "integers", "--shape", "4000x1000", "-t", "i8", "--memory-limit", "2MiB",
                                       "-o", "-", feed=read_slowly)
        self.assertEqual(code, 0)
        self.assertRegex(shown, rb"writing [\d.]+ [KM]iB of 3.81 MiB, [\d.]+ ([KMG]iB|bytes)/s, \d+ s left")

    def test_not_of_a_short_run_nor_where_it_is_not_wanted(self):
        self.assertNotIn(b"\x1b[K", self.on_terminal("transpose", "a.h5", "-o", "out.h5")[1])
        self.assertEqual(self.on_terminal("transpose", "-", "-q", feed=self.slowly)[1], b"")
        self.assertNotIn(b"\x1b", self.on_terminal("transpose", "-", env={"NO_COLOR": "1"}, feed=self.slowly)[1])

    def test_not_in_a_pipe(self):
        with self.start("transpose", "-") as process:
            self.slowly(process)
            _, err = process.communicate(timeout=60)
        self.assertNotIn(b"\r", err)
        self.assertNotIn(b"reading", err)

    def test_a_signal_takes_it_away(self):
        def interrupt(process):
            process.stdin.write(SLOW_ONES[0])
            process.stdin.flush()
            time.sleep(1.6)
            process.send_signal(signal.SIGINT)

        code, shown = self.on_terminal("transpose", "-", feed=interrupt)
        self.assertEqual(code, -signal.SIGINT)
        self.assertIn(b"reading", shown)
        self.assertTrue(shown.endswith(self.CLEAR), shown)

    def test_the_timeline_is_aligned(self):
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "-v")
        lines = [line.removeprefix("gpumat: ") for line in result.err.splitlines()]
        first = next(i for i, line in enumerate(lines) if line.startswith("stage, ms"))
        stages = lines[first:first + 8]
        self.assertEqual([line.split()[0].rstrip(",") for line in stages],
                         ["stage", "open", "prepare", "read", "kernel", "verify", "hash", "write"])
        self.assertEqual({(line.index("|"), len(line)) for line in stages}, {(42, 72)})
        self.assert_says(result, "rest: no stage worked", "total", "bounded by: ")


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
        self.assert_says(result, "on the cpu, expected")
        self.run_tool("generate", "--shape", "600x600", "-o", "large.h5")
        result = self.run_tool("multiply", "large.h5", "large.h5", "-l", "naive", "--threads", "1", "--dry-run", "-v")
        self.assert_says(result, "no gpu")


if __name__ == "__main__":
    unittest.main()
