"""Matrices that are larger than the memory limit: what is computed in parts is what is computed whole, the limit is
kept, and what fails on the way leaves the old output."""

import functools
import json
import math
import os
import re
import shutil
import subprocess
import time
import unittest
import zlib

import h5py
import numpy as np

from harness import PLAIN, SLOW_ONES, Case, has_open, random_values, read_h5, read_mtx, wait_for, write_h5, write_mtx

MIB = 1 << 20


def write_in_place(path, other):
    """Writes another matrix over that of the file."""
    with open(path, "r+b") as file:
        file.write(other)


def write_and_move(path, other):
    write_in_place(path, other)
    os.rename(path, path + ".moved")


def write_and_replace(path, other):
    write_in_place(path, other)
    shutil.copy(path, path + ".new")
    os.replace(path + ".new", path)


def write_and_set_back(path, other):
    before = os.stat(path)
    write_in_place(path, other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


class Parts(Case):
    def parts(self, *arguments):
        record = json.loads(self.run_tool(*arguments, "-d", "cpu", "--json").out)
        self.assertGreater(record["parts"], 1)
        self.assertEqual(record["verification"]["verdict"], "passed")
        return record

    def test_transposes_of_every_storage(self):
        matrix = random_values("f64", (700, 1100))
        with h5py.File(self.path("in.h5"), "w") as file:
            file["contiguous"] = matrix
            file.create_dataset("chunked", data=matrix, chunks=(90, 130), compression=2, shuffle=True)
        for dataset in ("contiguous", "chunked"):
            for storage in ((), ("--chunk", "128x77"), ("--chunk", "100x100", "--deflate", "1")):
                record = self.parts("transpose", f"in.h5:/{dataset}", "-o", "out.h5", "--force", *storage, "--memory-limit", "3MiB")
                result = read_h5(self.path("out.h5"))[1]
                np.testing.assert_array_equal(result, matrix.T)
                self.assertEqual(record["output"]["hash"], f"crc32:{zlib.crc32(result.tobytes()):08x}")
                self.assertEqual(record["inputs"][0]["hash"], f"crc32:{zlib.crc32(matrix.tobytes()):08x}")

    def test_matrix_market(self):
        matrix = random_values("f64", (300, 500))
        write_mtx(self.path("in.mtx"), matrix)
        self.parts("transpose", "in.mtx", "-o", "out.mtx", "--memory-limit", "1MiB")
        np.testing.assert_array_equal(read_mtx(self.path("out.mtx")), matrix.T)

    def test_multiplies_of_every_form(self):
        integers = np.random.default_rng(3).integers
        a, b, d = (integers(-9, 10, shape).astype("f4") for shape in ((500, 400), (400, 600), (500, 600)))
        write_h5(self.path("d.h5"), d)
        for transposed_a in (False, True):
            for transposed_b in (False, True):
                write_h5(self.path("a.h5"), a.T.copy() if transposed_a else a)
                write_h5(self.path("b.h5"), b.T.copy() if transposed_b else b)
                forms = [flag for flag, given in (("--transpose-a", transposed_a), ("--transpose-b", transposed_b)) if given]
                for verify in ("full", "freivalds"):
                    record = self.parts("multiply", "a.h5", "b.h5", *forms, "--alpha", "2", "--beta", "-1", "--add", "d.h5",
                                        "--verify", verify, "-o", "c.h5", "--force", "--memory-limit", "2500KiB")
                    np.testing.assert_array_equal(read_h5(self.path("c.h5"))[1], 2 * a @ b - d)
                    self.assertEqual(record["inputs"][2]["hash"], f"crc32:{zlib.crc32(d.tobytes()):08x}")

    @unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
    def test_the_limit_is_kept(self):
        """More threads would map the output into memory."""
        write_h5(self.path("in.h5"), random_values("f32", (8192, 8192)))  # 256 MiB
        for storage in ((), ("--chunk", "512x512", "--deflate", "1")):
            record = self.parts("transpose", "in.h5", "-o", "out.h5", "--force", *storage, "--memory-limit", "48MiB", "--threads", "2")
            self.assert_peak(record["peak_host_bytes"], 48 * MIB)
            self.assertEqual([stage["name"] for stage in record["stages"]], ["open", "prepare", "read", "kernel", "verify", "hash", "write"])

    @unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
    def test_the_limit_is_kept_by_multiplies(self):
        write_h5(self.path("in.h5"), random_values("f32", (4096, 1024)))  # 16 MiB, of which the product has 64
        record = self.parts("multiply", "in.h5", "in.h5", "--transpose-b", "-o", "out.h5", "--memory-limit", "24MiB", "--threads", "2")
        self.assert_peak(record["peak_host_bytes"], 24 * MIB)

    def test_too_small_a_limit_names_the_least(self):
        write_h5(self.path("in.h5"), random_values("f64", (2000, 2000)))
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5", "--memory-limit", "10KiB", code=6)
        self.assert_says(result, "in the smallest parts needs", "the limit is 10.00 KiB")
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_a_small_file_of_a_huge_matrix_is_not_begun(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file.create_dataset("A", (10**6, 10**6), "f8", chunks=(1000, 1000), fillvalue=1)
        self.run_tool("transpose", "in.h5", "-o", "out.h5", code=6)

    def test_an_input_that_is_written_to_meanwhile_is_an_error(self):
        """Parts of it would be of the old matrix, and parts of the new one. Whatever becomes of its name, the open file
        is asked, and for the time of its last change, which cannot be set back."""
        write_h5(self.path("A.h5"), random_values("f64", (600, 600)))
        write_h5(self.path("new.h5"), np.zeros((600, 600)))
        with open(self.path("new.h5"), "rb") as file:
            other = file.read()
        for limit, *command in (("1MiB", "transpose", "B.h5"), ("4MiB", "multiply", "A.h5", "B.h5"), ("256KiB", "convert", "B.h5")):
            words = [self.tool, *command, "-o", "-", "--memory-limit", limit]
            for change in (write_in_place, write_and_move, write_and_replace, write_and_set_back):
                write_h5(self.path("B.h5"), random_values("f64", (600, 600)))
                with self.subTest(command=command[0], change=change.__name__), \
                        subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                    process.stdout.read(100)  # it writes, and waits for who reads
                    change(self.path("B.h5"), other)
                    err = process.communicate()[1].decode()
                    self.assertEqual(process.returncode, 3, err)
                    self.assertRegex(err, "B.h5: it was (written to|moved, replaced, or written to and its time set back) while")

    def test_a_piece_that_is_replaced_meanwhile_is_an_error(self):
        """Pieces are opened again for each part: of the old one, and of the new one."""
        layout = h5py.VirtualLayout((1200, 1200), "f8")
        layout[:] = h5py.VirtualSource("piece.h5", "A", (1200, 1200))
        with h5py.File(self.path("whole.h5"), "w") as file:
            file.create_virtual_dataset("A", layout)
        for limit, command in (("7MiB", "transpose"), ("6MiB", "convert")):
            write_h5(self.path("piece.h5"), np.ones((1200, 1200)))
            write_h5(self.path("new.h5"), np.zeros((1200, 1200)))
            words = [self.tool, command, "whole.h5", "--allow-external", "-o", "-", "--memory-limit", limit]
            with subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                process.stdout.read(100)
                os.replace(self.path("new.h5"), self.path("piece.h5"))
                err = process.communicate()[1].decode()
                self.assertEqual(process.returncode, 3, err)
                self.assertIn("piece.h5: it was replaced while it was read", err)

    def test_a_matrix_that_is_written_to_beside_a_pipe_is_an_error(self):
        write_h5(self.path("B.h5"), np.ones((300, 300)))
        for command in (["compare", "-", "B.h5"], ["verify", "transpose", "-", "B.h5"], ["verify", "multiply", "-", "B.h5", "B.h5"]):
            words = [self.tool, *command]
            with subprocess.Popen(words, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE) as process:
                process.stdin.write(SLOW_ONES[0])
                process.stdin.flush()
                wait_for(functools.partial(has_open, process.pid, self.path("B.h5")), "the second matrix")
                time.sleep(0.2)  # it looks at the file soon after it has opened it
                with h5py.File(self.path("B.h5"), "r+", locking=False) as file:
                    file["A"][299, 299] = 1
                err = process.communicate(SLOW_ONES[1])[1].decode()
                self.assertEqual(process.returncode, 3, err)
                self.assertIn("B.h5: it was written to while it was read", err)

    def test_a_full_disk_leaves_the_old_output(self):
        write_h5(self.path("in.h5"), random_values("f64", (1000, 1000)))
        for name in ("out.h5", "out.mtx"):
            with open(self.path(name), "wb") as file:
                file.write(b"old")
            result = self.run_tool("transpose", "in.h5", "-o", name, "--force", "--chunk" if name == "out.h5" else "-q",
                                   *(["100x100"] if name == "out.h5" else []), "--memory-limit", "2MiB", code=4,
                                   before=["bash", "-c", 'ulimit -f 3072; exec "$@"', "-"])
            self.assert_says(result, name)
            with open(self.path(name), "rb") as file:
                self.assertEqual(file.read(), b"old")
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.h5", "out.h5", "out.mtx"])


class NamedNeeds(Case):
    """Who gives the limit that a message names gives enough."""

    UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": MIB}

    def assert_enough(self, *words, limit="1", rounds=1, code=0):
        for _ in range(rounds):
            failed = self.run_tool(*words, "--memory-limit", limit, code=6)
            self.assert_says(failed, "the limit is 1 byte" if limit == "1" else "the limit is ")
            number, unit = re.search(r" needs ([0-9.]+) (bytes|KiB|MiB) of memory", failed.err).groups()
            limit = str(math.ceil(float(number) * self.UNITS[unit]))
        self.run_tool(*words, "--memory-limit", limit, code=code)

    def test_of_chunks(self):
        matrix = random_values("i64", (147, 352))
        write_h5(self.path("a.h5"), matrix, chunks=(92, 273))
        write_h5(self.path("deflate.h5"), matrix, chunks=(92, 273), compression=1)
        for name in ("a.h5", "deflate.h5"):
            for words in (["convert", name, "-o", "out.mtx", "--force"], ["convert", name, "-o", "out.h5", "--force", "--chunk", "64x64"],
                          ["transpose", name, "-o", "out.mtx", "--force"], ["transpose", name, "-o", "out.h5", "--force"],
                          ["reduce", name, "--axis", "rows"], ["multiply", name, name, "--transpose-b"],
                          ["compare", name, name], ["info", "--stats", name]):
                self.assert_enough(*words)
        self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force")
        self.assert_enough("verify", "transpose", "a.h5", "out.h5")
        self.assert_enough("convert", "a.h5", "-o", "out.mtx", "--force", limit="1KiB")
        self.assert_enough("generate", "--shape", "1000x9", "-o", "out.mtx", "--force")

    def test_of_virtual_datasets(self):
        """HDF5 opens the mappings before the pieces are known."""
        pieces = random_values("f64", (40, 90))
        layout = h5py.VirtualLayout((40, 90), "f8")
        for row in range(40):
            write_h5(self.path(f"piece{row % 5}.h5"), pieces, chunks=(8, 90), compression=1)
            layout[row] = h5py.VirtualSource(f"piece{row % 5}.h5", "A", (40, 90))[row]
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_virtual_dataset("A", layout)
        for words in (["convert", "a.h5", "-o", "out.mtx", "--force"], ["transpose", "a.h5"], ["compare", "a.h5", "piece0.h5"],
                      ["info", "--stats", "a.h5"]):
            self.assert_enough(*words, "--allow-external", rounds=2)


if __name__ == "__main__":
    unittest.main()
