"""Every command that a document or a help shows runs as it is written.

A shell runs them, in a folder that holds the files that they name. Words such as FILE and MxN stand for something, and get
it here (MEANT). What takes long on a CPU, or names a level of GPUs, runs on a GPU only, and is listed as skipped elsewhere
(ON_A_GPU). The guide's commands are those of test_guide, scripts those of test_examples.
"""

import glob
import gzip
import os
import re
import shutil
import subprocess
import unittest

import numpy as np

from harness import SANITIZED, TIMEOUT_S, Case, write_any, write_h5

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "DESIGN.md", "docs/using/*.md", "lib/README.md", "kernels/**/*.md", "formats/**/*.md",
             "examples/**/*.md"]
MEANT = {"IN": "A.h5", "OUT": "out.h5", "A": "A.h5", "B": "B.h5", "AT": "At.h5", "C": "C.h5", "X": "A.h5", "Y": "B.h5", "KIND": "normal",
         "MxN": "30x20", "MxNxK": "30x20x10", "OP": "multiply", "[OP]": "", "NAME": "ilp", "JOBS": "jobs.txt", "LOG": "runs.jsonl",
         "LOG…": "runs.jsonl", "FILE…": "A.h5 B.mtx", "SHELL": "bash", "[COMMAND]": "transpose"}
ON_A_GPU = re.compile(r"gpumat (bench|tune|probe all)|--level padded")
QUICK = {"gpumat tune --show"} | (set() if SANITIZED else {"gpumat bench transpose --size 4096", "gpumat bench transpose --json > new.json"})
OUTPUT = re.compile(r"(?:-o|--output|--save-mismatch|--plot|>)\s+'?([\w.]+)")
MATRIX = re.compile(r"(?<![\w/])([\w.]+\.(?:h5|mat)):/([\w/]+)(?:\[([\d:,]+)\])?")


def blocks_of(text):
    """The commands of fenced blocks, of lines that begin with `$ `."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from (line[2:] for line in block.splitlines() if line.startswith("$ gpumat"))


def spans_of(text):
    """`gpumat …` within a paragraph, with what it stands for."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`(gpumat [^`]*)`", prose):
        yield " ".join(MEANT.get(word, word) for word in span.replace("\n", " ").split())


def examples_of(text):
    """The commands of a help, in one line each."""
    examples = text.split("Examples:\n")[1].split("\n\n")[0]
    examples = re.sub(r"\\\n *", "", examples)
    return [line.strip() for line in re.sub(r"\|\n *", "| ", examples).splitlines()]


class Shown(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(self.tool, self.path("bin/gpumat"))
        self.has_gpu = '"gpu"' in self.run_tool("devices", "--json", gpu=True).out
        self.a, self.b = np.random.default_rng(1).normal(size=(2, 20, 20))
        self.bench = self.run_tool("bench", "transpose", "--size", "64", "--device", "cpu", "--time-limit", "0.001", "--json").out

    def make_files(self, folder, line):
        """All files that commands read, but for those that this one writes."""
        def at(name):
            return os.path.join(folder, name)
        os.makedirs(at("in"))
        os.mkdir(at("out"))
        for name, matrix in (("A", self.a), ("B", self.b), ("D", self.b), ("C", self.a @ self.b), ("At", self.a.T.copy())):
            for extension in ("h5", "mtx"):
                write_any(at(f"{name}.{extension}"), matrix, "f64")
            write_any(at(f"in/{name}.h5"), matrix, "f64")
        with open(at("A.mtx"), "rb") as text, gzip.open(at("A.mtx.gz"), "wb") as packed:
            packed.write(text.read())
        read = [found for found in MATRIX.findall(line) if f"-o {found[0]}:/{found[1]} " not in line + " "]
        for name, dataset, indices in read:
            extents = [max([20, *(int(n) + 1 for n in re.findall(r"\d+", index))]) for index in indices.split(",")]
            write_h5(at(name), np.zeros(extents, "f4") if indices else self.a, dataset=dataset)
        with open(at("jobs.txt"), "w", encoding="ascii") as jobs:
            jobs.write("transpose A.h5 -o out.h5\n")
        for name in ("old.json", "new.json", "runs.jsonl"):
            with open(at(name), "w", encoding="utf-8") as file:
                file.write(self.bench.replace("\n", " ") + "\n" if name == "runs.jsonl" else self.bench)
        if "jobs.txt" in line:
            os.remove(at("runs.jsonl"))
        for name in OUTPUT.findall(line):
            if os.path.isfile(at(name)) and name not in [found[0] for found in read]:
                os.remove(at(name))

    def check_runs(self, line):
        with self.subTest(line):
            if not self.has_gpu and ON_A_GPU.search(line) and line not in QUICK:
                self.skipTest("it takes long on a CPU, or needs a GPU")
            folder = self.path(str(len(os.listdir(self.folder))))
            self.make_files(folder, line)
            environment = {**os.environ, "PATH": self.path("bin") + ":" + os.environ["PATH"], "GPUMAT_CACHE": os.path.join(folder, "cache"),
                           "GPUMAT_TIME_LIMIT": "0.001"}
            ended = subprocess.run(["bash", "-c", "set -o pipefail; " + line], cwd=folder, env=environment, capture_output=True,
                                   timeout=(10 if self.has_gpu else 1) * TIMEOUT_S, check=False, text=True)
            right = (0, 1) if "gpumat compare" in line else (0, 141) if line.endswith("| head") else (0,)
            self.assertIn(ended.returncode, right, ended.stderr)
            self.assertNotRegex(ended.stderr, "command not found|No such file")


@unittest.skipUnless(shutil.which("bash"), "bash is not installed")
class Documents(Shown):
    def test_commands_run(self):
        seen = set()
        for pattern in DOCUMENTS:
            for path in sorted(glob.glob(pattern, root_dir=ROOT, recursive=True)):
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    text = file.read()
                for line in [*blocks_of(text), *spans_of(text)]:
                    if line not in seen:
                        self.check_runs(line)
                    seen.add(line)
        self.assertGreater(len(seen), 25)

    def test_options_are_those_of_commands(self):
        """Every option that docs/using names is in the help of a command."""
        helps = "".join(self.run_tool(*words, "--help").out for words in [[]] + [[name] for name in self.commands()])
        known = set(re.findall(r"--[a-z][\w-]*", helps))
        for path in glob.glob(os.path.join(ROOT, "docs", "using", "*.md")):
            with open(path, encoding="utf-8") as file:
                named = set(re.findall(r"--[a-z][\w-]*", file.read()))
            self.assertEqual(named - known, set(), path)

    def commands(self):
        listed = self.run_tool("--help").out.split("Commands:\n")[1].split("\n\n")[0]
        return re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)

    def test_examples_of_the_help_run(self):
        seen = set()
        for words in [[]] + [[name] for name in self.commands()]:
            lines = examples_of(self.run_tool(*words, "--help").out)
            self.assertTrue(lines, words)
            for line in lines:
                self.assertIn("gpumat", line)
                if line not in seen:
                    self.check_runs(line)
                seen.add(line)


if __name__ == "__main__":
    unittest.main()
