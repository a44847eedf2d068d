"""System calls that fail, and kills at random moments: the output is the old one or the new one, whole, and
nothing else is left in its folder.

Errors are put into the calls of the tool by strace. What file systems lack is taken from this one by a
preloaded library (tests/limited_file_system.cpp).
"""

import itertools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py

from harness import (SLOW_ONES, TRACED, Case, can_inject, digest, open_for_writing, random_values, read_h5, read_mtx, same_bits,
                     snapshot, traced_tool, wait_for, wait_for_text, write_h5, write_mtx)

SEED = int(os.environ.get("GPUMAT_TEST_SEED", "1"))


def lacking(*abilities):
    """The environment of a run whose file systems lack these."""
    if not abilities:
        return TRACED
    return {**TRACED, "LD_PRELOAD": os.environ["GPUMAT_LIMITED_FILE_SYSTEM"],
            "GPUMAT_FILE_SYSTEM_LACKS": " ".join(abilities),
            **({"HDF5_USE_FILE_LOCKING": "FALSE"} if "lock" in abilities else {})}  # for its reading


# The outputs: name, what the command line says of it, whether it is new, and what the file system lacks.
OUTPUTS = {
    "contiguous": ("out.h5", ["-o", "out.h5", "--force"], False, ()),
    "new": ("new.h5", ["-o", "new.h5"], True, ()),
    "chunked": ("out.h5", ["-o", "out.h5", "--force", "--chunk", "16x16", "--deflate", "1", "--shuffle"], False, ()),
    "matrix_market": ("out.mtx", ["-o", "out.mtx", "--force"], False, ()),
    "extended": ("out.h5", ["-o", "out.h5:/new"], False, ()),
    "extended_chunked": ("out.h5", ["-o", "out.h5:/new", "--chunk", "16x16"], False, ()),
    "named": ("out.h5", ["-o", "out.h5", "--force"], False, ("tmpfile",)),
    "named_new": ("new.mtx", ["-o", "new.mtx"], True, ("tmpfile", "noreplace", "link")),
}

# The calls of a run between the opening of its output and its end, errors for them, how many of each are tried,
# and the outputs that have them (None: all).
FAULTS = [
    ("fallocate", ["ENOSPC", "EOPNOTSUPP"], 1, ["contiguous", "extended", "named"]),
    ("pwrite64", ["ENOSPC", "EINTR"], 3, ["contiguous", "chunked", "extended", "extended_chunked", "named"]),
    ("write", ["EDQUOT", "EINTR"], 4, ["matrix_market", "named_new"]),
    ("ftruncate", ["EIO"], 2, ["contiguous", "extended", "chunked"]),
    ("fsync", ["EIO", "ENOSPC"], 2, None),
    ("linkat", ["ENOSPC", "EPERM"], 2, ["contiguous", "new", "matrix_market", "extended"]),
    ("renameat", ["EIO"], 3, ["contiguous", "extended", "named", "named_new"]),
    ("fchmod", ["EPERM"], 1, ["contiguous", "named"]),
    ("copy_file_range", ["ENOSPC", "EIO", "EXDEV"], 2, ["extended", "extended_chunked"]),
    ("socketpair", ["EMFILE"], 2, ["contiguous", "extended"]),
    ("sendto", ["EPIPE"], 2, ["extended_chunked"]),
    ("recvfrom", ["ECONNRESET"], 1, ["extended"]),
    ("clone", ["EAGAIN"], 3, ["extended"]),
]


class FaultCase(Case):
    def setUp(self):
        super().setUp()
        self.matrix = random_values("f64", (40, 30))
        write_h5(self.path("a.h5"), self.matrix)
        write_mtx(self.path("a.mtx"), self.matrix)
        self.old = random_values("f64", (5, 4), seed=2)
        self.names = {"a.h5", "a.mtx", "out.h5", "out.mtx"}
        self.restore()

    def restore(self):
        """The folder as it is before a run."""
        for name in set(os.listdir(self.folder)) - {"a.h5", "a.mtx"}:
            os.remove(self.path(name))
        write_h5(self.path("out.h5"), self.old, dataset="old")
        with open(self.path("out.mtx"), "w", encoding="ascii") as file:
            file.write("the old content\n")

    def start_slowly(self, output, lacks, force=False):
        """A run that has opened its output and waits for the rest of its input."""
        force = ["--force"] if force or os.path.exists(self.path(output)) else []
        process = self.start("transpose", "-", "-o", output, *force, env=lacking(*lacks))
        process.stdin.write(SLOW_ONES[0])
        process.stdin.flush()
        wait_for(lambda: open_for_writing(process.pid, self.folder), "the output")
        return process

    def is_new(self, name):
        """Whether the file is the result, whole."""
        expected = self.matrix.T.copy()
        try:
            if name.endswith(".mtx"):
                return same_bits(read_mtx(self.path(name)), expected)
            dataset = None if len(self.datasets(name)) == 1 else "new"
            return same_bits(read_h5(self.path(name), dataset)[1], expected)
        except (OSError, KeyError, IndexError, ValueError, AssertionError):
            return False

    def beginning(self, name):
        with open(self.path(name), "rb") as file:
            return file.read(100)

    def datasets(self, name):
        with h5py.File(self.path(name), "r") as file:
            return list(file)


@unittest.skipUnless(can_inject(), "strace is not installed, or may not trace here")
class Faults(FaultCase):
    def inject(self, call, error, number, kind):
        """One run with one fault. False where it made fewer such calls."""
        name, arguments, new, lacks = OUTPUTS[kind]
        self.restore()
        before = snapshot(self.folder)
        log = os.path.join(self.logs, "strace")
        strace = ["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}"]
        for key, value in lacking(*lacks).items():
            strace += ["-E", f"{key}={value}"]
        # Reading HDF5 writes too, from the child that tries the file.
        source = "a.mtx" if call == "write" else "a.h5"
        result = self.run_tool("transpose", source, *arguments, "-q", "-d", "cpu", "--threads", "2", before=strace,
                               code=None)
        with open(log, encoding="utf-8", errors="replace") as file:
            calls = file.read()
        if "CHECK failed: sanitizer" in result.err:
            self.met_sanitizer.add(call)
            return True  # The call was not the tool's: a sanitizer writes into a pipe to see whether memory can be read.
        note = f"{kind}: {call} {number} {error}: {result}\n{calls[-4000:]}"
        if "(INJECTED)" not in calls:
            self.assertEqual(result.code, 0, note)
            return False
        after = snapshot(self.folder)
        written = result.code == 0 or "is written, but its folder" in result.err
        self.assertIn(result.code, (0, 3, 4, 6), note)
        if written:
            self.assertTrue(self.is_new(name), f"{note}\n{name} begins with {self.beginning(name)}")
            after.pop(name)
            before.pop(name, None)
        self.assertEqual(after, before, note)
        # Each thread's calls are counted by themselves: the main one's first `write` may be its message.
        silenced = any(line.endswith("(INJECTED)") and " write(2," in line for line in calls.splitlines())
        if result.code != 0 and not silenced:
            self.assertRegex(result.err, r"^gpumat: [^\n]{10,}\n$", note)
        self.codes.add((call, error, result.code))
        return True

    def test_every_call_that_fails(self):
        self.logs = self.path("../" + os.path.basename(self.folder) + ".strace")
        os.mkdir(self.logs)
        self.addCleanup(shutil.rmtree, self.logs)
        self.codes = set()
        self.met_sanitizer = set()
        for call, errors, count, kinds in FAULTS:
            met = 0
            for kind, error in itertools.product(kinds or OUTPUTS, errors):
                for number in range(1, count + 1):
                    if not self.inject(call, error, number, kind):
                        break
                    met += 1
            self.assertGreater(met, 0, f"no run calls {call}")
        # What a full or broken disk refuses is an error, and an interrupted call is not.
        for call, error, code in (("fallocate", "ENOSPC", 4), ("fallocate", "EOPNOTSUPP", 0), ("pwrite64", "ENOSPC", 4),
                                  ("pwrite64", "EINTR", 0), ("write", "EDQUOT", 4), ("write", "EINTR", 0),
                                  ("fsync", "EIO", 4), ("renameat", "EIO", 4), ("copy_file_range", "ENOSPC", 4),
                                  ("copy_file_range", "EXDEV", 0), ("linkat", "EPERM", 0)):
            if call not in self.met_sanitizer:
                self.assertIn((call, error, code), self.codes)
        for call, error in (("pwrite64", "ENOSPC"), ("write", "EDQUOT"), ("fallocate", "ENOSPC")):
            self.assertNotIn((call, error, 0), self.codes)

    def test_a_full_disk_while_the_old_file_is_copied_says_so(self):
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5:/new", code=4, env=TRACED, before=[
            "strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=copy_file_range:error=ENOSPC"])
        self.assert_says(result, "out.h5", "No space left on device")

    def test_the_end_of_a_run_waits_for_no_write(self):
        """Who listens for signals is told of the end, and of a signal, whatever writes fail."""
        inject = "inject=write:error=EIO"
        log = self.path("calls")
        for number in range(1, 5):  # of each thread
            self.run_tool("transpose", "a.h5", "-d", "cpu", "--log", self.path("runs.jsonl"), env=TRACED, code=None, before=[
                "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"{inject}:when={number}"])
        # Every write of an event fails. Others do not: a sanitizer that cannot write into its pipe ends the tool.
        process = self.start("transpose", "-", "-q", "--log", self.path("runs.jsonl"), env=TRACED,
                             before=["strace", "-f", "-qq", "-o", log, "-P", "anon_inode:[eventfd]", "-e", inject])
        process.stdin.write(SLOW_ONES[0])
        process.stdin.flush()
        tool = traced_tool(process.pid)
        wait_for(lambda: len(os.listdir(f"/proc/{tool}/task")) > 1, "the thread that listens")
        os.kill(tool, signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        wait_for_text(log, "(INJECTED)")

    def test_an_input_that_cannot_be_read_is_not_called_empty(self):
        for name, call in itertools.product(("a.h5", "a.mtx"), ("read", "pread64")):
            result = self.run_tool("transpose", name, code=3, env=TRACED, before=[
                "strace", "-f", "-qq", "-o", "/dev/null", "-P", self.path(name), "-e", f"inject={call}:error=EIO:when=1"])
            self.assert_says(result, name, "Input/output error")
            self.assertNotIn("empty", result.err)


class LimitedFileSystems(FaultCase):
    """What a file system lacks is found before computing, or not needed."""

    ways = [(), ("tmpfile",), ("tmpfile", "lock"), ("tmpfile", "noreplace"), ("tmpfile", "noreplace", "link"),
            ("noreplace", "link")]

    def test_all_of_them_take_outputs(self):
        for way in self.ways:
            for kind, (name, arguments, _, _) in OUTPUTS.items():
                with self.subTest(way=way, kind=kind):
                    self.restore()
                    self.run_tool("transpose", "a.h5", *arguments, "--dry-run", env=lacking(*way))
                    self.run_tool("transpose", "a.h5", *arguments, env=lacking(*way))
                    self.assertTrue(self.is_new(name))
                    self.assertEqual(set(os.listdir(self.folder)), self.names | {name})

    def test_without_renaming_nothing_is_computed(self):
        with open(self.path("broken.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix array real general\n2 2\n1\n")  # an error if it were read
        before = snapshot(self.folder)
        for dry in ([], ["--dry-run"]):
            result = self.run_tool("transpose", "broken.mtx", "-o", "new.h5", *dry, code=4, env=lacking("tmpfile", "rename"))
            self.assert_says(result, "new.h5: cannot rename a file in the folder .", "Operation not permitted")
            self.assertEqual(snapshot(self.folder), before)

    def test_a_file_that_appears_meanwhile_stays(self):
        for way in self.ways:
            with self.subTest(way=way):
                self.restore()
                with self.start_slowly("new.mtx", way) as process:
                    with open(self.path("new.mtx"), "w", encoding="ascii") as file:
                        file.write("somebody else's")
                    _, err = process.communicate(SLOW_ONES[1], timeout=60)
                self.assertEqual(process.returncode, 4, err)
                with open(self.path("new.mtx"), encoding="ascii") as file:
                    self.assertEqual(file.read(), "somebody else's")
                self.assertEqual(set(os.listdir(self.folder)), self.names | {"new.mtx"})

    def test_a_file_that_appears_keeps_its_datasets(self):
        """Whatever --force says, where a dataset was to be added to a file that was not there."""
        for way in self.ways:
            with self.subTest(way=way):
                self.restore()
                with self.start_slowly("new.h5:/x", way, force=True) as process:
                    write_h5(self.path("new.h5"), self.old, dataset="theirs")
                    _, err = process.communicate(SLOW_ONES[1], timeout=60)
                self.assertEqual(process.returncode, 4, err)
                self.assertEqual(self.datasets("new.h5"), ["theirs"])


    def test_many_names_that_killed_runs_left(self):
        """They go where the file system has locks, and are in nobody's way where it has none."""
        for way, stay in ((("tmpfile",), False), (("tmpfile", "lock"), True), (("noreplace", "link"), False)):
            with self.subTest(way=way):
                self.restore()
                left = {f".out.h5.gpumat-{number}" for number in range(1, 41)}
                for name in left:
                    with open(self.path(name), "wb"):
                        pass
                for _ in range(2):
                    self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", env=lacking(*way))
                self.assertTrue(self.is_new("out.h5"))
                self.assertEqual(set(os.listdir(self.folder)), self.names | (left if stay else set()))


class Kills(FaultCase):
    kills = int(os.environ.get("GPUMAT_TEST_KILLS", "40"))  # on each kind of file system

    def check_kills(self, *lacks, options=()):
        """The output is always old or new. Returns how often something else was left."""
        chance = random.Random(SEED)
        environment = lacking(*lacks)
        write_h5(self.path("a.h5"), random_values("f64", (200, 300)))
        self.matrix = read_h5(self.path("a.h5"))[1]
        kinds = ["contiguous", "chunked", "matrix_market", "extended", "new"]
        durations = dict.fromkeys(kinds, math.inf)
        for kind in kinds * 3:
            self.restore()
            start = time.monotonic()
            self.run_tool("transpose", "a.h5", *OUTPUTS[kind][1], *options, env=environment)
            durations[kind] = min(durations[kind], time.monotonic() - start)
        left = killed = 0
        for number in range(self.kills):
            kind = kinds[number % len(kinds)]
            name, arguments, new, _ = OUTPUTS[kind]
            self.restore()
            before = None if new else digest(self.path(name))
            with self.start("transpose", "a.h5", *arguments, *options, "-q", env=environment, stdin=subprocess.DEVNULL) as process:
                delay = chance.uniform(0, 1.3 * durations[kind])
                time.sleep(delay)
                process.send_signal(signal.SIGKILL)
                process.communicate(timeout=60)
            if process.returncode == -signal.SIGKILL:
                killed += 1
            else:  # the machine was slower before
                durations[kind] = min(durations[kind], delay)
            now = digest(self.path(name)) if os.path.exists(self.path(name)) else None
            if now != before:
                self.assertTrue(self.is_new(name), f"kill {number}, {arguments}")
            others = set(os.listdir(self.folder)) - self.names - {name}
            for other in others:
                self.assertRegex(other, rf"^\.{name}\.gpumat-\d+$")
            if others:
                left += 1
                self.run_tool("transpose", "a.h5", "-o", name, "--force", env=environment)
                self.assertEqual(set(os.listdir(self.folder)) - self.names - {name}, set())
        self.assertGreater(killed, self.kills / 3)
        print(f"{killed} of {self.kills} killed, {left} left a name of their own; lacking {lacks}, {options}", file=sys.stderr)
        return left

    def test_with_unnamed_files(self):
        # Between its linking and its renaming, some 20 µs, a file that replaces another has a name of its own.
        self.assertLessEqual(self.check_kills(), 2)

    def test_with_named_files(self):
        self.check_kills("tmpfile")
        self.check_kills("tmpfile", "noreplace", "link")

    def test_in_parts(self):
        self.assertLessEqual(self.check_kills(options=["--memory-limit", "600KiB"]), 2)


class Attackers(FaultCase):
    def test_a_link_in_the_place_of_the_temporary_file(self):
        """Where the file has a name, others may put a link there: nothing is written through it."""
        with open(self.path("victim"), "w", encoding="ascii") as file:
            file.write("mine")
        victim = digest(self.path("victim"))
        for lacks in ((), ("tmpfile",)):
            with self.start_slowly("out.mtx", lacks) as process:
                temporary = set(os.listdir(self.folder)) - self.names - {"victim"}
                for name in temporary:
                    os.remove(self.path(name))
                    os.symlink("victim", self.path(name))
                _, err = process.communicate(SLOW_ONES[1], timeout=60)
            self.assertEqual(len(temporary), len(lacks))
            self.assertEqual(process.returncode, 4 if lacks else 0, err)
            self.assertEqual(digest(self.path("victim")), victim)

    @unittest.skipUnless(can_inject(), "strace is not installed, or may not trace here")
    def test_a_file_in_the_place_of_a_fifo(self):
        """Between the look at a FIFO and its opening, others may put a link there: nothing is written through it."""
        with open(self.path("victim"), "w", encoding="ascii") as file:
            file.write("{}\n" * 1000)
        victim = digest(self.path("victim"))
        logs = self.path("calls")
        os.mkdir(logs)
        for name, arguments in (("fifo.mtx", ["-o", "fifo.mtx"]), ("fifo.log", ["--log", "fifo.log"])):
            with self.subTest(name=name):
                os.mkfifo(self.path(name))
                calls = os.path.join(logs, name)
                strace = ["strace", "-f", "-qq", "-o", calls, "-P", name, "-e", "inject=openat:delay_enter=2000000"]
                with self.start("transpose", "a.h5", *arguments, "-d", "cpu", env=TRACED, before=strace) as process:
                    wait_for_text(calls, "openat(")
                    os.symlink("victim", self.path("link"))
                    os.rename(self.path("link"), self.path(name))
                    _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 4, err)
                self.assertEqual(digest(self.path("victim")), victim)


if __name__ == "__main__":
    unittest.main()
