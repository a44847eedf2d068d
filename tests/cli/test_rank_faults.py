"""Faults on the ranks of --engine scalapack, drawn at random: one message, the right exit code, no hang, the folder as it was.

GPUMAT_FAULTS draws so many (a dozen else) from GPUMAT_TEST_SEED on, and the figures of each kind are printed.
"""

import collections
import os
import random
import shutil
import signal
import statistics
import subprocess
import time
import unittest

import numpy as np

from harness import TRACED, can_inject, children, has_open, open_for_writing, snapshot, wait_for, write_h5
from test_ranks import ENVIRONMENT, MPIRUN, NO_RANKS, Ranks

FAULTS = int(os.environ.get("GPUMAT_FAULTS", "12"))
SEED = int(os.environ.get("GPUMAT_TEST_SEED", "1"))
RANKS = 4
RUN = ["multiply", "A.h5", "B.h5", "--engine", "scalapack", "-o", "C.h5", "--force"]
CONVERT = ["convert", "Z.h5", "--engine", "scalapack", "-o", "C.h5", "--force", "--contiguous"]
COMPARE = ["compare", "A.h5", "Z.h5", "--engine", "scalapack"]
GENERATE = ["generate", "--shape", "300x300", "--engine", "scalapack", "-o", "C.h5", "--force"]
KILLED = 128 + signal.SIGKILL
MOST_SECONDS = 60  # of a run that is not stopped, on a machine that does much else


def on_rank(rank, prefix):
    """What mpirun starts: the tool, on one rank with something before it."""
    return ["sh", "-c", f'if [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then exec {prefix} "$@"; fi; exec "$@"', "sh"]


class RankFaults(Ranks):
    def setUp(self):
        super().setUp()
        if NO_RANKS:
            return
        a, _ = self.write_operands("f64", 300, 280, 290)
        write_h5(self.path("Z.h5"), a, chunks=(20, 290), compression="gzip")
        self.begin_anew()

    def begin_anew(self):
        write_h5(self.path("C.h5"), np.ones((2, 2)))
        self.before = snapshot(self.folder)

    # Each fault of a rank returns the exit code that is right; those with a process act on it and return the codes.

    def failing_call(self, call, error, path, code, run=None):
        def fault(rank):
            if not can_inject():
                self.skipTest("strace cannot inject errors here")
            only = f"-P {self.path(path)}" if path else ""
            self.ended(on_rank(rank, f"strace -qq -f -o /dev/null -e trace={call} -e inject={call}:error={error} {only}"), code, TRACED, run)
        return fault

    def limit_of_file_size(self, rank):
        """As a disk that is full there."""
        self.ended(on_rank(rank, "prlimit --fsize=200000"), 4)

    def refused_memory(self, rank):
        preload = os.environ["GPUMAT_LIMITED_FILE_SYSTEM"]
        self.ended(on_rank(rank, f"env LD_PRELOAD={preload} GPUMAT_MEMORY_ENDS_AT={self.random.randint(1, 6)}"), 6)

    def full_disk(self, _rank):
        """A small tmpfs, where rank 0 takes the space first."""
        os.mkdir(self.path("small"))
        if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", self.path("small")], capture_output=True, check=False).returncode != 0:
            os.rmdir(self.path("small"))
            self.limit_of_file_size(1)
            return
        script = 'mount -t tmpfs -o size=300k none small && "$@"; code=$?; test -z "$(ls -A small)" && exit $code'
        self.ended([], 4, run=[*RUN[:-2], "small/C.h5"], before=["unshare", "-m", "sh", "-c", script, "sh"])
        os.rmdir(self.path("small"))

    def changed_file(self, rank):
        """While one rank takes long to read it."""
        if not can_inject():
            self.skipTest("strace cannot delay calls here")
        path = self.path("A.h5")
        times = os.stat(path)
        slow = f"strace -qq -f -o /dev/null -e trace=pread64 -e inject=pread64:delay_enter=4000000:when=1 -P {path}"
        for attempt in (1, 2, 3):  # where this process is too slow, the run has read the file as it was
            with self.begun(on_rank(rank, slow), TRACED) as process:
                wait_for(lambda: any(has_open(tool, path) for tool in self.tools(process.pid)) or process.poll() is not None, "ranks that read")
                time.sleep(0.2)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + attempt))
                result = self.waited(process)
            if result.code != 0:
                break
            self.begin_anew()
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual((result.code, result.err.count("gpumat: ")), (3, 1), result.err)
        self.assertRegex(result.err, "it changed while this run went on|it was written to while it was read")

    def signal_to(self, whom, number, codes, messages=0):
        def fault(rank):
            run = [*RUN, "--repeat", "100000"]
            with self.begun([], {}, run) as process:
                wait_for(lambda: len(self.computing(process.pid)) == RANKS, "ranks that compute")
                time.sleep(self.random.uniform(0, 0.5))
                begin = time.monotonic()
                os.kill(process.pid if whom == "mpirun" else self.computing(process.pid)[rank], number)
                result = self.waited(process)
            self.seconds = time.monotonic() - begin
            self.assertIn(result.code, codes, result.err)
            self.assertEqual(result.err.count("gpumat: "), messages, result.err)
        return fault

    def early_death(self, rank):
        """Before MPI starts, or while it does."""
        with self.begun([], {}) as process:
            wait_for(lambda: len(self.tools(process.pid)) == RANKS, "the ranks")
            os.kill(self.tools(process.pid)[rank], signal.SIGKILL)
            result = self.waited(process)
        self.assertEqual(result.code, KILLED, result.err)

    @staticmethod
    def maps(number):
        try:
            with open(f"/proc/{number}/maps", "rb") as file:
                return file.read()
        except (FileNotFoundError, ProcessLookupError):
            return b""

    @staticmethod
    def rank_of(number):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                words = [word.split(b"=", 1) for word in file.read().split(b"\0") if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
            return int(words[0][1]) if words else -1
        except (FileNotFoundError, ProcessLookupError):
            return -1

    def tools(self, number):
        """The ranks below mpirun, in order, without what is before them."""
        found = []
        for child in children(number):
            try:
                with open(f"/proc/{child}/comm", encoding="ascii") as file:
                    found += children(child)[:1] if file.read() == "strace\n" else [child]
            except (FileNotFoundError, ProcessLookupError):
                pass
        return sorted((child for child in found if self.rank_of(child) >= 0), key=self.rank_of)

    def computing(self, number):
        """The same, once they have their library and rank 0 its file."""
        tools = [tool for tool in self.tools(number) if b"libscalapack" in self.maps(tool)]
        return tools if tools and open_for_writing(tools[0], self.folder) else []

    def begun(self, prefix, env, run=None):
        return self.start(*(run or RUN), "--quiet", before=[*MPIRUN, str(RANKS), *prefix], env={**env, **ENVIRONMENT})

    Ended = collections.namedtuple("Ended", "code err")

    def waited(self, process):
        _, err = process.communicate(timeout=MOST_SECONDS)
        return self.Ended(process.returncode, err if isinstance(err, str) else err.decode())

    def ended(self, prefix, code, env=None, run=None, before=()):
        begin = time.monotonic()
        result = self.run_tool(*(run or RUN), code=code, env={**(env or {}), **ENVIRONMENT},
                               before=[*before, *MPIRUN, str(RANKS), *prefix])
        self.seconds = time.monotonic() - begin
        self.assertEqual(result.err.count("gpumat: "), 1, str(result))

    def kinds(self):
        """Name, how often in a hundred, and what does it."""
        calls = [("openat", "EIO", "A.h5", 3), ("openat", "EACCES", "B.h5", 3), ("pread64", "EIO", "A.h5", 3), ("pread64", "EIO", "B.h5", 3),
                 ("pwrite64", "ENOSPC", "", 4), ("pwrite64", "EIO", "", 4), ("fsync", "EIO", "", 4)]
        others = [(CONVERT, "openat", "Z.h5", 3), (CONVERT, "pread64", "Z.h5", 3), (CONVERT, "pwrite64", "", 4), (COMPARE, "pread64", "A.h5", 3),
                  (COMPARE, "openat", "Z.h5", 3), (GENERATE, "pwrite64", "", 4), (GENERATE, "fsync", "", 4)]
        return [*[(f"{call} {error} {path}".strip(), 8, self.failing_call(call, error, path, code)) for call, error, path, code in calls],
                *[(f"{run[0]}: {call} {path}".strip(), 4, self.failing_call(call, "EIO", path, code, run)) for run, call, path, code in others],
                ("file size", 8, self.limit_of_file_size), ("memory", 8, self.refused_memory), ("full disk", 4, self.full_disk),
                ("changed file", 6, self.changed_file), ("early death", 6, self.early_death),
                ("SIGKILL", 6, self.signal_to("rank", signal.SIGKILL, {KILLED})),
                ("SIGTERM to mpirun", 5, self.signal_to("mpirun", signal.SIGTERM, {1, 143})),
                ("SIGINT to mpirun", 4, self.signal_to("mpirun", signal.SIGINT, {1, 130})),
                ("SIGSTOP", 2, self.signal_to("rank", signal.SIGSTOP, {7}, messages=1))]

    def test_drawn(self):
        self.random = random.Random(SEED)
        kinds = self.kinds()
        seconds = collections.defaultdict(list)
        for i in range(FAULTS):
            name, _, fault = self.random.choices(kinds, [weight for _, weight, _ in kinds])[0]
            rank = self.random.randrange(RANKS)
            self.seconds = None
            self.begin_anew()
            with self.subTest(fault=name, rank=rank, draw=i):
                begin = time.monotonic()
                fault(rank)
                seconds[name].append(self.seconds or time.monotonic() - begin)
                self.assertEqual(snapshot(self.folder), self.before)
        if FAULTS > 12:
            for name, took in sorted(seconds.items()):
                print(f"{name}: {len(took)} right, seconds to the end: median {statistics.median(took):.2f}, most {max(took):.2f}")

    def test_a_rank_that_stops(self):
        """The others give it up; the record says so."""
        self.random = random.Random(SEED)
        self.signal_to("rank", signal.SIGSTOP, {7}, messages=1)(2)
        self.assertEqual(snapshot(self.folder), self.before)


if __name__ == "__main__":
    unittest.main()
