"""Defaults of options: the command line goes before the environment, the environment before --config; colour."""

import contextlib
import json
import os
import pty
import unittest

import numpy as np

from harness import Case, write_h5

RED = b"\x1b["


class SettingsCase(Case):
    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), np.arange(12, dtype=np.float32).reshape(3, 4))

    def write(self, text, name="gpumat.toml"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def level(self, *words, env=None):
        """The level that a transpose on the CPU ran."""
        return self.record("transpose", "a.h5", "-d", "cpu", *words, env=env)["level"]


class Precedence(SettingsCase):
    def test_each_source_goes_before_the_next(self):
        self.write('level = "serial"\n')
        config = ("--config", "gpumat.toml")
        self.assertNotEqual(self.level(), "serial")
        self.assertEqual(self.level(*config), "serial")
        self.assertEqual(self.level(*config, env={"GPUMAT_LEVEL": "per-row"}), "per-row")
        self.assertEqual(self.level(*config, "--level", "tiled", env={"GPUMAT_LEVEL": "per-row"}), "tiled")
        self.assertEqual(self.level("--level", "tiled", env={"GPUMAT_LEVEL": "per-row"}), "tiled")
        self.assertEqual(self.level(*config, env={"GPUMAT_LEVEL": ""}), "serial")  # empty is as good as none

    def test_the_file_may_come_from_the_environment(self):
        self.write('level = "serial"\n')
        self.write('level = "tiled"\n', "other.toml")
        self.assertEqual(self.level(env={"GPUMAT_CONFIG": "gpumat.toml"}), "serial")
        self.assertEqual(self.level("--config=other.toml", env={"GPUMAT_CONFIG": "gpumat.toml"}), "tiled")
        self.assertNotEqual(self.level("--config", "", env={"GPUMAT_CONFIG": "gpumat.toml"}), "serial")

    def test_before_the_command(self):
        self.write('level = "serial"\n')
        result = self.run_tool("--config", "gpumat.toml", "transpose", "a.h5", "-d", "cpu", "--json")
        self.assertEqual(result.json()["level"], "serial")

    def test_every_variable_that_the_help_names(self):
        listed = self.run_tool("--help").out
        for name, value in [("LEVEL", "no-such"), ("DEVICE", "no-such"), ("THREADS", "0"), ("MEMORY_LIMIT", "-1"),
                            ("DEVICE_MEMORY_LIMIT", "-1"), ("VERIFY", "no-such"), ("COLOR", "no-such"),
                            ("CONFIG", "no-such"), ("JOBS", "0")]:
            with self.subTest(name):
                self.assertIn(f"GPUMAT_{name}", listed)
                result = self.run_tool("transpose", "a.h5", env={f"GPUMAT_{name}": value}, code=2)
                if name not in ("LEVEL", "DEVICE", "CONFIG"):  # those are refused by who uses them
                    self.assert_says(result, f"GPUMAT_{name}")
        self.run_tool("transpose", "a.h5", env={"GPUMAT_LOG": "runs.jsonl"})
        self.assertTrue(os.path.exists(self.path("runs.jsonl")))
        result = self.run_tool("bench", "transpose", "--size", "8", env={"GPUMAT_TIME_LIMIT": "0"}, code=2)
        self.assert_says(result, "GPUMAT_TIME_LIMIT")

    def test_what_is_written_is_never_from_the_environment(self):
        self.run_tool("transpose", "a.h5", env={"GPUMAT_OUTPUT": "out.h5", "GPUMAT_FORCE": "true"})
        self.assertFalse(os.path.exists(self.path("out.h5")))


class ConfigFile(SettingsCase):
    def test_sections(self):
        """The innermost section goes first; a section of another command is not this one's."""
        self.write('level = "tiled"\n[transpose]\nlevel = "serial"\n[multiply]\nlevel = "naive"\n[bench]\nhot = true\n')
        self.assertEqual(self.level("--config", "gpumat.toml"), "serial")
        self.assertEqual(self.record("multiply", "a.h5", "a.h5", "--transpose-b", "--config", "gpumat.toml", "-d", "cpu")["level"],
                         "naive")

    def test_nested_commands(self):
        self.write('[verify.multiply]\nmode = "freivalds"\n')
        write_h5(self.path("b.h5"), np.eye(4, dtype=np.float32))
        found = self.run_tool("verify", "multiply", "a.h5", "b.h5", "a.h5", "--config", "gpumat.toml", "--json").json()
        self.assertEqual(found["verification"]["mode"], "freivalds")

    def test_flags_numbers_lists_and_comments(self):
        self.write('# defaults\n[transpose]\nin-place = true\nthreads = 1 # one\nmemory-limit = "64MiB"\n'
                   '[multiply]\nalpha = "2,0"\n[bench]\ntype = ["f32", "f64"]\nlevels = "serial"\nsize = 8\nagainst = "none"\n'
                   'time-limit = 0.001\n')
        write_h5(self.path("square.h5"), np.eye(5))
        record = self.record("transpose", "square.h5", "-d", "cpu", "--config", "gpumat.toml")
        self.assertEqual(record["verification"]["mode"], "hash")
        self.assertEqual(record["device"]["threads"], 1)
        record = self.record("transpose", "square.h5", "-d", "cpu", "--config", "gpumat.toml", "--in-place=false")
        self.assertEqual(record["verification"]["mode"], "full")
        rows = self.run_tool("bench", "transpose", "-d", "cpu", "--config", "gpumat.toml", "--json").json()["rows"]
        self.assertEqual([(row["type"], row["level"], row["m"]) for row in rows], [("f32", "serial", 8), ("f64", "serial", 8)])

    def test_defaults_ask_for_nothing(self):
        """--chunk needs --output on the command line; as a default it waits for one."""
        self.write('[transpose]\nchunk = "2x2"\n')
        self.run_tool("transpose", "a.h5", "--chunk", "2x2", code=2)
        self.run_tool("transpose", "a.h5", "--config", "gpumat.toml")
        self.run_tool("transpose", "a.h5", "-o", "out.h5", "--config", "gpumat.toml")
        self.assertIn("chunked 2x2", self.run_tool("info", "out.h5").out)

    def test_help_shows_them(self):
        self.write('[transpose]\nlevel = "serial"\n')
        self.assertIn("[serial]", self.run_tool("transpose", "--config", "gpumat.toml", "--help").out)

    def test_refused(self):
        for text, *said in [("levle = 1\n", "'levle'", "'level'"), ("[transpose]\nlevle = 1\n", "'levle'", "'transpose'"),
                            ("[transpos]\nlevel = 1\n", "[transpos]"), ("[transpose]\nalpha = 1\n", "'alpha'"),
                            ("help = true\n", "'help'"), ("config = \"x\"\n", "'config'"), ("a = 1\n", "'a'"),
                            ("[transpose]\nthreads = many\n", "threads", "many"), ("level = serial tiled\n", "level", "one value"),
                            ("verify = 3\n", "verify"), ("just words\n", "'just words'"), ("\x00\x01\xff\x7f = 3\n", "no option")]:
            with self.subTest(text):
                self.write(text)
                result = self.run_tool("transpose", "a.h5", "--config", "gpumat.toml", code=2)
                self.assert_says(result, "gpumat.toml", *said)
                self.assertEqual(len(result.err.splitlines()), 1)

    def test_quotes_that_are_not_closed(self):
        for text, line in [('level = "serial\n', 1), ("# defaults\n\n[transpose]\nlevel = 'serial\n", 4), ('type = ["f32", "f64]\n', 1),
                           ('level = "se#rial"\n', 1), ('[bench]\ntype = ["f32",\n"f64]\n', 3), ('"level = 1\n', 1)]:
            with self.subTest(text):
                self.write(text)
                result = self.run_tool("transpose", "a.h5", "--config", "gpumat.toml", code=2)
                self.assert_says(result, f"gpumat.toml:{line}: a quote is not closed")
        self.write("; it's no \"quote\n# nor 'this\nlevel = serial # or \"that\nlog = it's.jsonl\n[bench]\ntype = [\"f32\",\n'f64']\n")
        self.assertEqual(self.level("--config", "gpumat.toml"), "serial")

    def test_no_file(self):
        for name in ("missing.toml", ".", "/dev/zero"):
            self.assert_says(self.run_tool("levels", "--config", name, code=2), name)
        with open(self.path("large.toml"), "wb") as file:
            file.truncate(1 << 21)
        self.assert_says(self.run_tool("levels", "--config", "large.toml", code=2), "large.toml", "1 MiB")
        self.write("")
        self.run_tool("levels", "--config", "gpumat.toml")

    def test_odd_texts_end_well(self):
        for text in ("[", "[]", "[[]]", "[[", "]]", "[.]", "[..]", "[transpose", "[a.b.c.d]\nx=1\n", "level=[\n", "level = [1,\n2", "=",
                     "===\n", "= 3\n", "level =\n", "level = ''\n", 'level = "\n', "a.b = 1\n", ".level = 1\n", "level. = 1\n", "[default]\n",
                     "[transpose]\n[multiply]\n[transpose]\nlevel = 1\n", '"level" = 1\n', "'level = 1\n", "\\\n", "level = 1,2,3\n"):
            with self.subTest(text):
                self.write(text)
                result = self.run_tool("transpose", "a.h5", "-d", "cpu", "--config", "gpumat.toml", code=None)
                self.assertIn(result.code, (0, 2), str(result))


class Jobs(SettingsCase):
    def test_jobs_take_them_and_the_batch_keeps_the_log(self):
        self.write('[transpose]\nlevel = "serial"\n')
        with open(self.path("jobs.txt"), "w", encoding="utf-8") as file:
            file.write("transpose a.h5 -d cpu -o x.h5\ntranspose a.h5 -d cpu -o y.h5 -l tiled\n")
        self.run_tool("batch", "jobs.txt", env={"GPUMAT_CONFIG": "gpumat.toml", "GPUMAT_LOG": "log.jsonl"})
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        done = {record["job"]["line"]: record["level"] for record in records if record.get("exit_code") == 0}
        self.assertEqual(done, {1: "serial", 2: "tiled"})

    def test_a_job_with_a_wrong_one(self):
        self.write('[transpose]\nlevle = "serial"\n')
        self.write('[bench]\nhot = true\n', "other.toml")
        with open(self.path("jobs.txt"), "w", encoding="utf-8") as file:
            file.write("transpose a.h5 -o x.h5 --config gpumat.toml\ntranspose a.h5 -o y.h5 --config other.toml\n")
        self.assert_says(self.run_tool("batch", "jobs.txt", code=2), "jobs.txt:1", "gpumat.toml", "levle")
        self.assertEqual([os.path.exists(self.path(name)) for name in ("x.h5", "y.h5")], [False, True])

    def test_a_template(self):
        self.write('[transpose]\nlevel = "serial"\n[multiply]\nlevel = "naive"\n')
        self.run_tool("transpose", "a.h5", "-d", "cpu", "-o", "{.}_t.h5", "--config", "gpumat.toml", "--log", "log.jsonl")
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            self.assertEqual([record["level"] for record in map(json.loads, file) if "level" in record], ["serial"])


class Color(SettingsCase):
    def error_of(self, *words, terminal=False, env=None):
        """What a failing command says, on a pipe or on a terminal."""
        environment = {"TERM": "xterm", "NO_COLOR": None, **(env or {})}
        environment = {key: value for key, value in environment.items() if value is not None}
        os.environ.pop("NO_COLOR", None)
        words = (*words, "info", "missing.h5") if not words or words[0] != "info" else words
        if not terminal:
            return self.run_tool(*words, env=environment, code=3).err_bytes
        outer, inner = pty.openpty()
        with self.start(*words, env=environment, stderr=inner) as process:
            process.communicate(timeout=60)
        os.close(inner)
        said = b""
        with contextlib.suppress(OSError):  # EIO is a terminal's end
            while piece := os.read(outer, 10000):  # which may come in pieces
                said += piece
        os.close(outer)
        return said

    def test_auto(self):
        self.assertNotIn(RED, self.error_of())
        self.assertIn(RED, self.error_of(terminal=True))
        self.assertNotIn(RED, self.error_of(terminal=True, env={"NO_COLOR": "1"}))

    def test_asked_for(self):
        self.assertIn(RED, self.error_of("--color", "always"))
        self.assertIn(RED, self.error_of("info", "missing.h5", "--color", "always", env={"NO_COLOR": "1"}))
        self.assertNotIn(RED, self.error_of("--color", "never", terminal=True))
        self.assertIn(RED, self.error_of(env={"GPUMAT_COLOR": "always"}))
        self.assertNotIn(RED, self.error_of("--color", "never", env={"GPUMAT_COLOR": "always"}))
        self.assert_says(self.run_tool("levels", "--color", "sometimes", code=2), "sometimes")


class Suggestions(SettingsCase):
    def test_levels(self):
        for words, meant in [(("transpose", "a.h5", "-l", "vectorised"), "vectorized"),
                             (("multiply", "a.h5", "a.h5", "-l", "interchangd"), "interchanged"),
                             (("bench", "transpose", "-l", "tield"), "tiled"),
                             (("bench", "transpose", "--against", "memcopy"), "memcpy"),
                             (("levels", "multiply", "--explain", "registerblocked"), "register-blocked")]:
            self.assert_says(self.run_tool(*words, code=2), f"did you mean '{meant}'?")
        self.assertNotIn("mean", self.run_tool("transpose", "a.h5", "-l", "quick", code=2).err)


if __name__ == "__main__":
    unittest.main()
