"""The commands that the README and the help show run as they are written.

A comment before a block of the README names the files that its commands find, and what takes too long on a CPU:
<!-- files: A.h5 B.mtx; on a GPU only: bench -->."""

import os
import re
import shlex
import unittest

import numpy as np

from harness import Case, write_any

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def blocks_of(name):
    """(files, what is for a GPU, commands) of each block whose comment names files."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"<!-- files: (.*?); on a GPU only: (.*?) -->\n```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(files.split(), on_gpu.split(), [line[2:] for line in block.splitlines() if line.startswith("$ ")])
            for files, on_gpu, block in found]


class Readme(Case):
    def test_commands_run(self):
        blocks = blocks_of("README.md")
        self.assertTrue(blocks)
        has_gpu = '"gpu"' in self.run_tool("devices", "--json", gpu=True).out
        for files, on_gpu, commands in blocks:
            for seed, name in enumerate(files):
                write_any(self.path(name), np.random.default_rng(seed).normal(size=(50, 50)), "f64")
            self.assertTrue(commands)
            for line in commands:
                words = shlex.split(line, comments=True)
                self.assertEqual(words[0], "gpumat")
                if words[1] in on_gpu and not has_gpu:
                    continue
                with self.subTest(line):
                    self.run_tool(*words[1:], gpu=True)


class HelpExamples(Case):
    def test_of_what_computes_run(self):
        """Files that are named and not written are there; lines with pipes, globs and folders are the shell's."""
        for name in ("transpose", "multiply", "reduce", "compare", "info"):
            text = self.run_tool(name, "--help").out.split("Examples:")[1]
            for line in (line.strip() for line in text.splitlines()):
                if not line.startswith("gpumat ") or re.search(r"[|*{]|run1", line):
                    continue
                with self.subTest(line):
                    self.run_example(shlex.split(line)[1:])

    def run_example(self, words):
        folder = self.path(str(len(os.listdir(self.folder))))
        os.mkdir(folder)
        outputs = {words[i + 1].split(":")[0] for i, word in enumerate(words[:-1]) if word in ("-o", "--save-mismatch", "--log")}
        for word in words:
            path = word.split(":")[0]
            if path.endswith((".h5", ".mtx")) and path not in outputs:
                matrix = np.random.default_rng(1).normal(size=(20, 20))
                dataset = word.split(":/")[1] if ":/" in word else "A"
                write_any(os.path.join(folder, path), (matrix.T if path.startswith("At") else matrix).astype(np.float64), "f64", dataset)
        result = self.run_tool(*words, cwd=folder, code=None)
        self.assertIn(result.code, (0, 1) if words[0] == "compare" else (0,), str(result))


if __name__ == "__main__":
    unittest.main()
