"""The guide for learners: its commands run, its figures are those of the records, and it leaves no rung out."""

import importlib.util
import json
import os
import re
import shlex
import sys
import unittest

from harness import Case

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GUIDE = os.path.join(ROOT, "docs", "guide")
DENSE = ["transpose", "multiply", "reduce"]
SPARSE = {"transpose": ["sparse-transpose"], "multiply": ["sparse-dense", "sparse-sparse"], "reduce": ["sparse-reduce"]}
PAGES = ["README.md", *(f"{name}.md" for name in DENSE + sum(SPARSE.values(), []))]
GPU_MARK = "# needs a GPU"

# Where the figures of a page come from: f32 of these extents in this record.
RECORDS = {
    ("transpose", "gpu"): ("2026-11-25-h200/transpose-4096.json", 4096, "effective_bandwidth_gbps"),
    ("transpose", "cpu"): ("2026-11-23-cpu-epyc-26/cpu-transpose-4096.json", 4096, "effective_bandwidth_gbps"),
    ("multiply", "gpu"): ("2026-11-25-h200/multiply.json", 4096, "gflops"),
    ("reduce", "gpu"): ("2026-11-28-h200/reduce-f32.json", 16384, "effective_bandwidth_gbps"),
    ("multiply", "cpu"): ("2026-11-21-cpu/cpu-multiply-1024.json", 1024, "gflops"),
    ("reduce", "cpu"): ("2026-11-25-cpu/cpu-reduce.json", 16384, "effective_bandwidth_gbps"),
}
FIGURE = re.compile(r"- (?:H200|CPU): ([\d.]+) (?:GB/s|GFLOP/s)(?:, ([\d.]+) times `([\w-]+)`)?(?:, ([\d.]+) of a copy)?")


def read(name):
    with open(os.path.join(GUIDE, name), encoding="utf-8") as file:
        return file.read()


def commands(page):
    """The command lines of a page, in their order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def sections(operation):
    """The text under each rung's heading, by device and level."""
    found = {}
    for part in re.split(r"^### ", read(f"{operation}.md"), flags=re.MULTILINE)[1:]:
        if heading := re.match(r"`([\w-]+)`( on the CPU)?\n", part):
            found["cpu" if heading[2] else "gpu", heading[1]] = re.split(r"^## ", part, flags=re.MULTILINE)[0]
    return found


def script(name):
    """A script of the guide as a module."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(GUIDE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Commands(Case):
    def test_run_one_after_the_other(self):
        """As who reads the guide types them, in one folder. Without a GPU, the marked ones are refused for want of it."""
        for page in PAGES:
            lines = commands(page)
            self.assertTrue(lines)
            for line in lines:
                with self.subTest(f"{page}: {line}"):
                    words = shlex.split(line, comments=True)
                    self.assertEqual(words[0], "gpumat")
                    self.run_tool(*words[1:], code=5 if GPU_MARK in line else 0)

    def test_every_command_is_in_a_block_that_runs(self):
        for page in PAGES:
            prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
            self.assertEqual(re.findall(r"`gpumat [a-z][^`]*`", prose), [], page)


class Rungs(Case):
    def rungs(self):
        listed = json.loads(self.run_tool("levels", "--json").out)["levels"]
        return [(level["op"], level["device"], level["name"]) for level in listed if level["role"] == "rung"]

    def test_each_has_a_section_with_all_that_belongs_to_it(self):
        for operation, device, level in self.rungs():
            text = sections(operation).get((device, level), "")
            picture = f"pictures/{operation}-{device}-{level}.svg"
            for part in (f"]({picture})", "- Probe: `", "**Lesson.**", "**Exercise.**", "$ gpumat "):
                self.assertIn(part, text, f"{operation} {device} {level}")
            self.assertIn("- Course: " if device == "gpu" else "- CPU: ", text)

    def test_no_section_is_about_a_rung_that_is_not_there(self):
        rungs = set(self.rungs())
        for page in DENSE:
            for device, level in sections(page):
                self.assertIn((page, device, level), rungs)

    def test_those_of_sparse_matrices_have_sections_too(self):
        listed = json.loads(self.run_tool("levels", "--json").out)["sparse_levels"]
        rungs = {(level["op"], level["device"], level["name"]) for level in listed if level["role"] == "rung"}
        found = set()
        for operation, pages in SPARSE.items():
            for page in pages:
                for (device, level), text in sections(page).items():
                    found.add((operation, device, level))
                    for part in (f"](pictures/{page}-{device}-{level}.svg)", "- Probe: `", "**Lesson.**", "**Exercise.**", "$ gpumat ",
                                 "- CPU: " if device == "cpu" else "- H200: "):
                        self.assertIn(part, text, f"{page} {device} {level}")
        self.assertEqual(found, rungs)

    def test_each_can_be_explained(self):
        """--explain prints the section of the README of the operation, of each device that has such a level."""
        for level in json.loads(self.run_tool("levels", "--json").out)["levels"]:
            with open(os.path.join(ROOT, "kernels", level["op"], "README.md"), encoding="utf-8") as file:
                readme = file.read()
            part = re.search(rf"^## {level['device'].upper()} levels$(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)[1]
            section = re.search(rf"^### `{level['name']}`\n(.*?)(?=^### |\Z)", part, re.MULTILINE | re.DOTALL)[1].strip()
            self.assertTrue(section)
            explained = self.run_tool("levels", level["op"], "--explain", level["name"]).out
            self.assertIn(section, explained)
            self.assertIn(level["removes"], explained)
            if level["role"] == "rung":
                number = self.run_tool("levels", level["op"], "--explain", str(level["number"])).out
                self.assertIn(section, number)


class Figures(unittest.TestCase):
    def rates(self, operation, device):
        path, size, key = RECORDS[operation, device]
        with open(os.path.join(ROOT, "docs", "measurements", path), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        return {row["level"]: row for row in rows if (row["type"], row["m"], row["n"]) == ("f32", size, size)}, key

    def assert_rounded(self, written, exact, where):
        """The written number is the exact one, rounded to its last digit."""
        places = len(written.partition(".")[2])
        self.assertLessEqual(abs(float(written) - exact), 0.5 * 10**-places * (1 + 1e-9), where)

    def test_each_rung_has_those_of_its_record(self):
        for operation, device in RECORDS:
            rows, key = self.rates(operation, device)
            found = {level: text for (kind, level), text in sections(operation).items() if kind == device}
            for level, text in found.items():
                where = f"{operation} {device} {level}"
                figure = FIGURE.search(text)
                if level not in rows:  # one that does not take f32
                    self.assertIsNone(figure, where)
                    continue
                self.assertIsNotNone(figure, where)
                rate, gain, other, share = figure.groups()
                self.assert_rounded(rate, rows[level][key], where)
                if gain:
                    self.assert_rounded(gain, rows[level][key] / rows[other][key], where)
                if share:
                    self.assert_rounded(share, rows[level]["share_of_copy"], where)


class Pictures(unittest.TestCase):
    def test_the_committed_ones_are_those_that_the_script_draws(self):
        draw = script("draw")
        sys.path.insert(0, GUIDE)  # where one script finds the other
        drawn = draw.pictures() | script("draw_sparse").pictures()
        self.assertEqual(sorted(os.listdir(draw.FOLDER)), sorted(drawn))
        for name, svg in drawn.items():
            with open(os.path.join(draw.FOLDER, name), encoding="utf-8") as file:
                self.assertEqual(file.read(), svg, f"{name} is not what docs/guide/draw.py or draw_sparse.py draws; run them")


class Links(unittest.TestCase):
    def test_lead_to_files_and_headings(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)]+)\)", read(page)):
                path, _, heading = target.partition("#")
                full = os.path.normpath(os.path.join(GUIDE, path)) if path else os.path.join(GUIDE, page)
                self.assertTrue(os.path.exists(full), f"{page}: {target}")
                if heading:
                    with open(full, encoding="utf-8") as file:
                        names = [re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-")
                                 for line in re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)]
                    self.assertIn(heading, names, f"{page}: {target}")


if __name__ == "__main__":
    unittest.main()
