"""Conversions between formats, types, layouts and chunkings: the same elements, read by h5py and SciPy."""

import unittest
import zlib

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import (PLAIN, TYPES, Case, cases, encode, random_bits, random_values, read_h5, read_mtx, snapshot,
                     write_h5, write_mtx)

SHAPES = [(0, 0), (0, 5), (5, 0), (1, 1), (1, 300), (300, 1), (67, 129)]


def crc(array):
    return f"crc32:{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


@cases([(name, name) for name in TYPES])
class Hdf5(Case):
    def check(self, name):
        for number, shape in enumerate(SHAPES):
            matrix = random_bits(name, shape)
            write_h5(self.path("in.h5"), matrix, name, dataset="M")
            record = self.record("convert", "in.h5", "-o", f"{number}.h5")
            self.assertEqual(record["output"]["dataset"], "/M")
            self.assertEqual((record["inputs"][0]["hash"], record["output"]["hash"]), (crc(matrix), crc(matrix)))
            found, result = read_h5(self.path(f"{number}.h5"), "M")
            self.assertEqual(found, name)
            self.assert_same_bits(result, matrix)


@cases([(name, name) for name in TYPES])
class ToTextAndBack(Case):
    def check(self, name):
        for number, shape in enumerate(SHAPES):
            matrix = random_values(name, shape, span=100)
            write_h5(self.path("in.h5"), matrix, name)
            self.run_tool("convert", "in.h5", "-o", f"{number}.mtx")
            self.assert_same_bits(encode(name, read_mtx(self.path(f"{number}.mtx"))), matrix)
            self.run_tool("convert", f"{number}.mtx", "-t", name, "-o", f"{number}.h5")
            self.assert_same_bits(read_h5(self.path(f"{number}.h5"))[1], matrix)


@cases([(name, name) for name in TYPES])
class Types(Case):
    """To every type that holds the values, which are small integers; NumPy converts too."""

    def check(self, name):
        matrix = random_values("i8" if name[0] != "u" else "u8", (23, 31))
        write_h5(self.path("in.h5"), encode(name, matrix), name)
        for other in TYPES:
            if name[0] != "u" and other[0] == "u":
                self.run_tool("convert", "in.h5", "-t", other, "-o", f"{other}.h5", code=3)
                continue
            self.run_tool("convert", "in.h5", "-t", other, "-o", f"{other}.h5")
            found, result = read_h5(self.path(f"{other}.h5"))
            self.assertEqual(found, other)
            self.assert_same_bits(result, encode(other, matrix))


@cases([
    ("contiguous", {}),
    ("chunks", {"chunks": (7, 50)}),
    ("deflate", {"chunks": (64, 3), "compression": "gzip", "shuffle": True}),
])
class Storage(Case):
    def check(self, storage):
        matrix = random_bits("f64", (203, 151))
        write_h5(self.path("in.h5"), matrix, **storage)
        for number, options in enumerate([[], ["--chunk", "16x16"], ["--chunk", "100x151", "--deflate", "2", "--shuffle"],
                                          ["--memory-limit", "200KiB"],
                                          ["--chunk", "16x16", "--memory-limit", "200KiB"], ["--threads", "1"],
                                          ["--deflate", "1", "--threads", "5"]]):
            self.run_tool("convert", "in.h5", "-o", f"{number}.h5", *options)
            self.assert_same_bits(read_h5(self.path(f"{number}.h5"))[1], matrix)
            with h5py.File(self.path(f"{number}.h5")) as file:
                if "--chunk" in options:
                    rows, cols = options[options.index("--chunk") + 1].split("x")
                    self.assertEqual(file["A"].chunks, (int(rows), int(cols)))
                told = "--chunk" in options or "--deflate" in options  # else as the input is, lzf excepted
                kept = "gzip" if "compression" in storage and not told else None
                self.assertEqual(file["A"].compression, "gzip" if "--deflate" in options else kept)


class MatrixMarket(Case):
    def check_text(self, values, symmetry="general", memory=True):
        write_mtx(self.path("in.mtx"), values, symmetry=symmetry)
        expected = read_mtx(self.path("in.mtx"))
        for number, options in enumerate([[], ["--threads", "1"], ["--memory-limit", "1MiB"]]):
            self.run_tool("convert", "in.mtx", "-o", f"{number}.h5", "--force", *options)
            self.assert_same_bits(read_h5(self.path(f"{number}.h5"))[1], np.ascontiguousarray(expected))
        with open(self.path("in.mtx"), "rb") as file:
            self.run_tool("convert", "-", "-o", "piped.h5", "--force", stdin=file.read())
        self.assert_same_bits(read_h5(self.path("piped.h5"))[1], np.ascontiguousarray(expected))

    def test_array(self):
        self.check_text(random_values("f64", (97, 83)))

    def test_symmetric_array(self):
        values = random_values("f64", (50, 50))
        self.check_text(values + values.T, "symmetric")

    def test_coordinate(self):
        self.check_text(scipy.sparse.random(120, 90, 0.05, random_state=1))

    def test_pattern(self):
        matrix = scipy.sparse.random(20, 30, 0.2, random_state=2).tocoo()
        scipy.io.mmwrite(self.path("in.mtx"), matrix, field="pattern")
        self.run_tool("convert", "in.mtx", "-o", "out.h5")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], (matrix.toarray() != 0).astype(np.int64))

    def test_a_slow_pipe_in_small_pieces(self):
        values = random_values("f64", (40, 300))
        write_mtx(self.path("in.mtx"), values)
        with open(self.path("in.mtx"), "rb") as file:
            data = file.read()
        process = self.start("convert", "-", "-o", "out.h5", "--memory-limit", "400KiB", "--chunk", "8x8")
        for at in range(0, len(data), 5000):
            process.stdin.write(data[at:at + 5000])
            process.stdin.flush()
        _, err = process.communicate()
        self.assertEqual(process.returncode, 0, err)
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], values)


class Layouts(Case):
    def test_matlab_is_transposed(self):
        matrix = random_values("f64", (9, 14))
        write_h5(self.path("in.h5"), np.ascontiguousarray(matrix.T))
        with h5py.File(self.path("in.h5"), "a") as file:
            file["A"].attrs["MATLAB_class"] = np.bytes_("double")
        self.run_tool("convert", "in.h5", "-o", "out.h5")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix)
        with h5py.File(self.path("out.h5")) as file:
            self.assertNotIn("MATLAB_class", file["A"].attrs)
        self.run_tool("convert", "in.h5", "--layout", "row", "-o", "row.h5")
        self.assert_same_bits(read_h5(self.path("row.h5"))[1], np.ascontiguousarray(matrix.T))

    def test_attributes_are_kept(self):
        write_h5(self.path("in.h5"), random_values("f32", (5, 6)))
        with h5py.File(self.path("in.h5"), "a") as file:
            file["A"].attrs["unit"] = "metre"
            file["A"].attrs["weights"] = np.arange(5.0)
        self.run_tool("convert", "in.h5", "-o", "out.h5", "--chunk", "2x2")
        with h5py.File(self.path("out.h5")) as file:
            attributes = dict(file["A"].attrs)
        self.assertEqual(attributes["unit"], "metre")
        np.testing.assert_array_equal(attributes["weights"], np.arange(5.0))
        self.assertEqual(attributes["gpumat_operation"], "convert")

    def test_into_another_dataset(self):
        matrix = random_values("f32", (5, 6))
        write_h5(self.path("in.h5"), matrix)
        write_h5(self.path("out.h5"), matrix + 1, dataset="old")
        self.run_tool("convert", "in.h5", "-o", "out.h5:/new/A")
        self.assert_same_bits(read_h5(self.path("out.h5"), "new/A")[1], matrix)
        self.assert_same_bits(read_h5(self.path("out.h5"), "old")[1], matrix + 1)


@unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
class Memory(Case):
    def test_is_bounded(self):
        """256 MiB through 48 MiB, large chunks into small ones; libraries and threads take some 40 more."""
        self.run_tool("generate", "--shape", "4096x8192", "-t", "f64", "-o", "in.h5", "--chunk", "512x512")
        self.run_within(48, "convert", "in.h5", "-o", "out.h5", "--chunk", "64x64", "--threads", "2")
        with h5py.File(self.path("in.h5")) as x, h5py.File(self.path("out.h5")) as y:
            for row in range(0, 4096, 512):
                np.testing.assert_array_equal(x["A"][row:row + 512], y["A"][row:row + 512])


@cases([
    ("missing", 3, ["nothing.h5"], "nothing.h5 -o out.h5"),
    ("itself", 4, ["a.h5", "input"], "a.h5 -o a.h5 --force"),
    ("existing", 4, ["exists"], "a.h5 -o old.h5"),
    ("no_output", 2, ["--output"], "a.h5"),
    ("fraction_to_integer", 3, ["row 1", "i32"], "a.h5 -t i32 -o out.h5"),
    ("beyond_range", 3, ["i8"], "large.h5 -t i8 -o out.h5"),
    ("truncated_text", 3, ["short.mtx"], "short.mtx -o out.h5"),
    ("limit", 6, ["limit"], "a.h5 -o out.mtx --memory-limit 100"),
    ("both_on_stdout", 2, ["--json"], "a.h5 -o - --json"),
    ("dataset_in_text", 2, ["datasets"], "a.h5 -o out.mtx:/A"),
])
class Refusals(Case):
    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), random_values("f64", (40, 30)))
        write_h5(self.path("old.h5"), random_values("f64", (4, 3)))
        write_h5(self.path("large.h5"), np.full((3, 3), 1000, np.int16))
        with open(self.path("short.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n")

    def check(self, code, expected, line):
        before = snapshot(self.folder)
        self.assert_says(self.run_tool("convert", *line.split(), code=code), *expected)
        self.assertEqual(snapshot(self.folder), before)

    def test_record_of_a_failure(self):
        record = self.record("convert", "short.mtx", "-o", "out.h5", code=3)
        self.assertEqual((record["exit_code"], record["output"], record["inputs"][0]["rows"]), (3, None, 2))
        self.assertIn("short.mtx", record["error"])


if __name__ == "__main__":
    unittest.main()
