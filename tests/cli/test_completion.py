"""Completions for bash, zsh and fish, and manual pages: run in the shells, looked at by man and mandoc."""

import json
import os
import re
import shutil
import subprocess
import unittest

import numpy as np

from harness import GPUMAT, Case, write_h5


def tool(*words):
    return subprocess.run([GPUMAT, *words], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "GPUMAT_CONFIG": ""}).stdout


def level_names(operation):
    """What `gpumat levels` knows, as the oracle of what is offered."""
    known = json.loads(tool("levels", operation, "--json"))
    return {level["name"] for level in known["levels"] + known["sparse_levels"]} | {"auto"}


class ShellCase(Case):
    """What is offered for the last word of a command line, as a set; `offered` is each shell's own."""

    def check_commands(self):
        found = self.offered("gpumat", "")
        listed = re.findall(r"^  ([a-z]+) ", tool("--help").split("Commands:")[1].split("General:")[0], re.MULTILINE)
        self.assertGreater(len(listed), 10)
        self.assertEqual(found & set(listed), set(listed))
        self.assertNotIn("manpage", found)
        self.assertEqual(self.offered("gpumat", "tr"), {"transpose"})
        self.assertEqual(self.offered("gpumat", "verify", "m"), {"multiply"})
        self.assertEqual(self.offered("gpumat", "completion", ""), {"bash", "zsh", "fish"})

    def check_levels_by_operation(self):
        for operation in ("transpose", "multiply", "reduce"):
            self.assertEqual(self.offered("gpumat", operation, "--level", ""), level_names(operation))
        self.assertEqual(self.offered("gpumat", "transpose", "A.h5", "-l", "vec"), {"vectorized"})

    def check_options_and_values(self):
        self.assertLessEqual({"--verify", "--level", "--in-place"}, self.offered("gpumat", "transpose", "--"))
        self.assertNotIn("--in-place", self.offered("gpumat", "multiply", "--"))
        self.assertLessEqual({"--alpha", "--mode"}, self.offered("gpumat", "verify", "multiply", "--"))
        self.assertEqual(self.offered("gpumat", "multiply", "--verify", "f"), {"full", "freivalds"})
        self.assertEqual(self.offered("gpumat", "transpose", "A.h5", "-t", "bf"), {"bf16"})


class Bash(ShellCase):
    def offered(self, *words):
        script = 'source completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpumat; printf "%s\\n" "${COMPREPLY[@]}"'
        with open(self.path("completion"), "w", encoding="utf-8") as file:
            file.write(tool("completion", "bash"))
        found = subprocess.run(["bash", "--norc", "-uec", script, "bash", *words], cwd=self.folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        return {word for word in found.stdout.splitlines() if word}

    def test_commands(self):
        self.check_commands()

    def test_levels_by_operation(self):
        self.check_levels_by_operation()

    def test_options_and_values(self):
        self.check_options_and_values()

    def test_equals_signs_and_lists(self):
        """bash takes --level=v for three words."""
        self.assertEqual(self.offered("gpumat", "transpose", "--level", "=", "vec"), {"vectorized"})
        self.assertEqual(self.offered("gpumat", "transpose", "--level", "="), level_names("transpose"))
        self.assertEqual(self.offered("gpumat", "bench", "transpose", "--type", "f32,bf"), {"f32,bf16"})
        self.assertEqual(self.offered("gpumat", "bench", "trans"), {"transpose"})

    def test_datasets(self):
        """bash takes FILE:/DATASET for three words."""
        write_h5(self.path("a.h5"), np.ones((2, 3)), "f64", "g/B")
        write_h5(self.path("a.h5"), np.ones((2, 3)), "f64", "A", "a")
        tool_path = os.path.abspath(GPUMAT)
        self.assertEqual(self.offered(tool_path, "transpose", "a.h5", ":"), {"/A", "/g/B"})
        self.assertEqual(self.offered(tool_path, "multiply", "a.h5", ":", "/A", "a.h5", ":", "/g"), {"/g/B"})
        self.assertEqual(self.offered(tool_path, "transpose", "nowhere.h5", ":"), set())

    def test_files_are_left_to_the_shell(self):
        for words in (["gpumat", "transpose", "A"], ["gpumat", "transpose", "A.h5", "-o", "o"], ["gpumat", "--config", "c"]):
            self.assertEqual(self.offered(*words), set())
        self.assertIn("-o default", tool("completion", "bash"))

    def test_names_of_files_are_no_commands(self):
        self.assertIn("--in-place", self.offered("gpumat", "transpose", "-o", "multiply", "--in"))


@unittest.skipUnless(shutil.which("fish"), "there is no fish")
class Fish(ShellCase):
    def offered(self, *words):
        path = self.path("gpumat.fish")
        with open(path, "w", encoding="utf-8") as file:
            file.write(tool("completion", "fish"))
        line = " ".join(words)
        environment = {**os.environ, "HOME": self.folder, "PATH": self.with_tool_in_path()}
        found = subprocess.run(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"], cwd=self.folder, env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((found.returncode, found.stderr), (0, ""))
        offered = {row.split("\t")[0] for row in found.stdout.splitlines()}
        return {word for word in offered if not os.path.exists(self.path(word))}

    def with_tool_in_path(self):
        """fish offers nothing for a command that is not there."""
        if not os.path.exists(self.path("bin/gpumat")):
            os.mkdir(self.path("bin"))
            os.symlink(os.path.abspath(GPUMAT), self.path("bin/gpumat"))
        return self.path("bin") + ":" + os.environ["PATH"]

    def test_commands(self):
        self.check_commands()

    def test_levels_by_operation(self):
        self.check_levels_by_operation()

    def test_options_and_values(self):
        self.check_options_and_values()

    def test_syntax(self):
        subprocess.run(["fish", "--no-execute", "/dev/stdin"], input=tool("completion", "fish"), text=True, check=True)


# Completes a line in a zsh of its own, as its terminal would, and writes down what is offered. Files say how far it came:
# what is read from the terminal is what was typed, too.
ZSH = r"""
zmodload zsh/zpty
await() {
    local seen
    for ((i = 0; i < 600; ++i)); do [[ -e $1 ]] && return; zpty -rt shell seen; sleep 0.05; done
}
zpty shell zsh -f -i
zpty -w shell "PS1=; PROMPT_EOL_MARK=; fpath=($PWD \$fpath); PATH=$PWD/bin:\$PATH; autoload -Uz compinit; compinit -u -D -d $PWD/dump"
zpty -w shell "zstyle ':completion:*' list-grouped no; zstyle ':completion:*' verbose no; LISTMAX=10000; COLUMNS=200; LINES=200"
zpty -w shell "show() { compadd() { local -a kept; builtin compadd -O kept \"\$@\"; print -rl -- \"[\${(@)^kept}]\" >> $PWD/offered; builtin compadd \"\$@\" }; _main_complete }"
zpty -w shell "zle -C show list-choices show; bindkey '^T' show; print > $PWD/ready"
await ready
zpty -n -w shell "$1"$'\x14\x15'"print > $PWD/finished"$'\n'
await finished
zpty -d shell
"""


@unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
class Zsh(ShellCase):
    def offered(self, *words):
        os.makedirs(self.path("bin"), exist_ok=True)
        if not os.path.exists(self.path("bin/gpumat")):
            os.symlink(os.path.abspath(GPUMAT), self.path("bin/gpumat"))
        with open(self.path("_gpumat"), "w", encoding="utf-8") as file:
            file.write(tool("completion", "zsh"))
        open(self.path("offered"), "w", encoding="utf-8").close()
        for name in ("ready", "finished"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        subprocess.run(["zsh", "-fc", ZSH, "zsh", " ".join(words)], cwd=self.folder, check=True, timeout=60)
        with open(self.path("offered"), encoding="utf-8") as file:
            return set(re.findall(r"^\[(.+)\]$", file.read(), re.MULTILINE))

    def test_syntax(self):
        subprocess.run(["zsh", "-n", "/dev/stdin"], input=tool("completion", "zsh"), text=True, check=True)

    def test_commands(self):
        self.check_commands()

    def test_levels_by_operation(self):
        self.check_levels_by_operation()


class ManualPages(Case):
    def setUp(self):
        super().setUp()
        self.run_tool("manpage", "--to", ".")
        self.pages = sorted(os.listdir(self.folder))

    def page(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_every_command_has_one(self):
        listed = re.findall(r"^  ([a-z]+) ", tool("--help").split("Commands:")[1].split("General:")[0], re.MULTILINE)
        nested = [f"gpumat-verify-{name}.1" for name in ("multiply", "reduce", "transpose")]
        self.assertEqual(self.pages, sorted(["gpumat.1", *nested, *(f"gpumat-{name}.1" for name in listed)]))
        self.assertEqual(self.run_tool("manpage", "verify", "transpose").out, self.page("gpumat-verify-transpose.1"))
        self.run_tool("manpage", "no-such", code=2)
        self.run_tool("manpage", "--to", "no/such", code=4)

    def test_they_say_all_that_the_help_says(self):
        text = self.page("gpumat-multiply.1").replace("\\-", "-")
        for option in re.findall(r"--[a-z-]+", self.run_tool("multiply", "--help").out.split("Examples:")[0]):
            self.assertIn(option, text)
        for name in level_names("multiply"):
            self.assertIn(name, text)
        self.assertIn("GPUMAT_LEVEL", text)
        self.assertIn("Exit codes", self.page("gpumat.1"))

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_groff_warns_of_nothing(self):
        for page in self.pages:
            found = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-k", page], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, check=True)
            self.assertEqual(found.stderr.decode(), "", page)
            self.assertIn("SYNOPSIS", re.sub(r"\x1b\[[0-9;]*m|.\x08", "", found.stdout.decode()))

    @unittest.skipUnless(shutil.which("mandoc"), "there is no mandoc")
    def test_mandoc_finds_nothing(self):
        found = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *self.pages], cwd=self.folder, stdout=subprocess.PIPE, text=True, check=False)
        wrong = [line for line in found.stdout.splitlines() if "missing date" not in line]  # pages of one version are the same
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
