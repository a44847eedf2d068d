"""tune: what it measures is stored, shown, cleared, and taken by auto."""

import json
import os
import pty
import time
import unittest

from harness import Case, random_values, read_h5, same_bits, snapshot, write_h5

FAST = ["--time-limit", "0.001", "-d", "cpu"]


class Tune(Case):
    def setUp(self):
        super().setUp()
        self.env = {"GPUMAT_CACHE": self.path("cache")}

    def tune(self, *words, **options):
        return self.run_tool("tune", *words, *FAST, **{"env": self.env, **options})

    def tuned(self, *words, **options):
        """The entries of every operation, after a run with --json."""
        listed = self.tune(*words, "--json", **options).json()
        self.assertEqual(listed["schema"], "gpumat.tunings/1")
        return [entry for item in listed["tunings"] for entry in item["tuning"]["entries"]]

    def transpose(self, shape, name="f32", d="cpu", **options):
        matrix = random_values(name, shape)
        write_h5(self.path("in.h5"), matrix, name)
        record = self.record("transpose", "in.h5", "-o", "out.h5", "--force", "-d", d,
                             **{"env": self.env, **options})
        self.assertTrue(same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy()))
        return record

    def test_auto_takes_what_was_measured(self):
        (entry,) = self.tuned("transpose", "-t", "f32", "-s", "300")
        self.assertEqual((entry["element"], entry["class"]), ("4-byte", "small"))
        self.assertGreater(entry["median_ms"], 0)
        reason = f"measured by gpumat tune on {entry['date']}"
        for name in ("f32", "i32"):  # transposes move bits: the element size counts, not the type
            record = self.transpose((200, 260), name)
            self.assertEqual(record["level"], entry["level"])
            self.assertIn(reason, record["level_reason"])
        for shape, name in [((200, 260), "f64"), ((40, 50), "f32"), ((201, 260), "f32")]:
            self.assertNotIn("tune", self.transpose(shape, name)["level_reason"])
        self.assertNotIn("tune", self.transpose((200, 260), env={"GPUMAT_CACHE": ""})["level_reason"])

    def test_multiply_is_measured_by_type(self):
        (entry,) = self.tuned("multiply", "-t", "f64", "-s", "40")
        self.assertEqual((entry["element"], entry["class"]), ("f64", "tiny"))
        self.assertNotEqual(entry["level"], "vendor")

    def test_entries_are_kept_shown_and_cleared(self):
        self.tune("transpose", "-t", "u8", "-s", "100")
        self.tune("transpose", "-t", "f32", "-s", "300x304,301")
        shown = self.tuned("transpose", "--show")
        self.assertEqual([(entry["element"], entry["class"]) for entry in shown],
                         [("1-byte", "tiny"), ("4-byte", "small"), ("4-byte", "odd")])
        self.assertEqual(self.tuned("--show"), shown)
        self.assertIn("301x301", self.tune("--show").out)
        self.tune("--clear")
        self.assertEqual((self.tuned("--show"), snapshot(self.path("cache"))), ([], {}))

    def test_what_the_device_takes_beside_computing(self):
        self.assertIsNone(self.tune("--show", "--json").json()["overhead"])
        measured = self.tune("transpose", "-t", "u8", "-s", "100", "--json").json()["overhead"]
        self.assertLess(measured["start_ms"], 1000)
        self.assertEqual(measured["input_ms_per_gb"], 0)  # a CPU reads where it computes
        self.assertGreater(measured["result_ms_per_gb"], 0)
        self.assertEqual(self.tune("--show", "--json").json()["overhead"], measured)
        self.assertIn("beside computing", self.tune("--show").out)
        # It decides only where a run is not over before a GPU would have started.
        self.assertRegex(self.transpose((200, 260), d="auto")["level_reason"], "^on the cpu, expected")
        with open(measured["path"], "w", encoding="ascii") as file:
            file.write("{}")
        self.assertIn("damaged", self.tune("--show").err)
        self.transpose((200, 260))
        self.tune("--clear")
        self.assertIsNone(self.tune("--show", "--json").json()["overhead"])

    def test_where_the_cache_lies(self):
        words = ["transpose", "-t", "u8", "-s", "100"]
        unset = {name: value for name, value in os.environ.items() if name != "GPUMAT_CACHE"}
        for name, folder in [("XDG_CACHE_HOME", "gpumat"), ("HOME", ".cache/gpumat")]:
            env = {**unset, "XDG_CACHE_HOME": "relative", name: self.path(name)}
            with_env = ["env", "-u", "GPUMAT_CACHE"]
            self.tune(*words, env=env, before=with_env)
            device, operation = sorted(os.listdir(self.path(f"{name}/{folder}")))
            self.assertRegex(device, r"^overhead-cpu-[0-9a-f]{8}-\d+-threads\.json$")
            self.assertRegex(operation, r"^tuning-transpose-cpu-[0-9a-f]{8}-\d+-threads\.json$")

    def test_refusals(self):
        self.assert_says(self.tune(env={"GPUMAT_CACHE": ""}, code=2), "GPUMAT_CACHE")
        self.assert_says(self.tune("transpose", "-t", "f32", "-s", "300,304", code=2), "300x300", "304x304", "small")
        self.assert_says(self.tune("transpose", "-s", "1000x3", code=2), "1000x3")
        self.tune("invert", code=2)
        with open(self.path("file"), "w", encoding="ascii"):
            pass
        self.tune("transpose", "-t", "u8", "-s", "100", env={"GPUMAT_CACHE": self.path("file")}, code=4)

    def test_a_damaged_cache_is_ignored_and_replaced(self):
        self.tune("transpose", "-t", "f32", "-s", "300")
        _, file = sorted(os.listdir(self.path("cache")))
        path = self.path(f"cache/{file}")
        for content in (b"", b"\xff\x00", b"[" * 10000, b'{"schema": "gpumat.tune/1"}'):
            with open(path, "wb") as stream:
                stream.write(content)
            self.assertNotIn("tune", self.transpose((200, 260))["level_reason"])
            said = self.run_tool("transpose", "in.h5", "-d", "cpu", "-v", env=self.env)
            self.assert_says(said, "ignored", path, "it is damaged")
        self.assertEqual(len(self.tuned("transpose", "-t", "f32", "-s", "300")), 1)
        os.remove(path)
        os.mkfifo(path)
        self.assertNotIn("tune", self.transpose((200, 260))["level_reason"])

    def test_a_bound_on_the_whole(self):
        """It says what it will do, ends soon after the time is over, and leaves what it did not measure as it was."""
        before = self.tuned("transpose", "-t", "f32", "-s", "300")
        begin = time.monotonic()
        result = self.run_tool("tune", "-d", "cpu", "--within", "0.5", env=self.env)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertRegex(result.err, r"measures \d+ classes, at most \d+ times a level, for at most 0\.5 s \(--within\)")
        self.assert_says(result, "the time is over", "stay as they were")
        left = [entry for entry in self.tuned("--show") if entry["element"] == "4-byte"]
        self.assertEqual(left, before)
        told = self.tune("transpose", "-t", "f32", "-s", "40,300", "-v").err
        for number, size_class in enumerate(("tiny", "small"), 1):
            self.assertRegex(told, rf"{size_class} .*\({number} of 2 classes, \d+ of at most 60 s\)")
        self.assertRegex(told, r"measured 2 of 2 classes in [0-9.]+ s")

    def test_a_terminal_shows_how_far_it_is(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        with self.start("tune", "transpose", "-t", "f32", "-s", "40", *FAST, env=self.env, stderr=slave) as process:
            os.close(slave)
            shown = b""
            try:
                while piece := os.read(master, 4096):
                    shown += piece
            except OSError:  # its other end is closed
                pass
            process.communicate()
        self.assertRegex(shown, rb"\r\x1b\[Ktranspose serial f32 \S+ \(0 of 1 classes, \d+ of at most 60 s\)")
        self.assertRegex(shown.rsplit(b"\x1b[K", 1)[-1], rb"^gpumat: \S*measured 1 of 1 classes")

    def test_a_cache_file_that_is_none(self):
        """A pipe would wait for who reads it."""
        words = ["transpose", "-t", "u8", "-s", "100"]
        self.tune(*words)
        for name in os.listdir(self.path("cache")):
            path = self.path(f"cache/{name}")
            os.rename(path, self.path("kept"))
            os.mkfifo(path)
            self.assert_says(self.tune(*words, code=4), path, "no regular file")
            self.assert_says(self.tune("--show"), path, "no regular file")
            os.remove(path)
            os.rename(self.path("kept"), path)

    def test_sparse_matrices_have_the_shipped_choice(self):
        self.assert_says(self.tune("transpose", "--sparse", "A", code=2), "not expected: --sparse", "gpumat tune --help")
        self.assertIn("of sparse ones 'auto' is the shipped choice", self.run_tool("tune", "--help").out)
        self.tune("transpose", "-t", "f32", "-s", "300")
        self.run_tool("generate", "sparse", "--shape", "200x260", "--entries", "500", "-t", "f32", "-o", "in.npz")
        record = self.record("transpose", "in.npz", "-o", "out.npz", "-d", "cpu", env=self.env)
        self.assertEqual((record["level"], "tune" in record["level_reason"]), ("blocked", False))

    def test_a_level_that_cannot_serve_is_passed_over(self):
        self.tune("transpose", "-t", "f32", "-s", "300")
        _, file = sorted(os.listdir(self.path("cache")))
        with open(self.path(f"cache/{file}"), encoding="utf-8") as stream:
            stored = json.load(stream)
        for level in ("tma", "none", "1"):
            stored["entries"][0].update(level=level, parameters={})
            with open(self.path(f"cache/{file}"), "w", encoding="utf-8") as stream:
                json.dump(stored, stream)
            self.assertNotIn("tune", self.transpose((200, 260))["level_reason"])


if __name__ == "__main__":
    unittest.main()
