"""Transposes of every type from and to every format: bit for bit what NumPy gives."""

import gzip
import math
import subprocess
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import (DTYPES, FIELD_TYPE, PLAIN, TYPES, Case, cases, digest, encode, levels, random_bits,
                     random_values, read_any, read_h5, read_mtx, same_bits, values_of, write_any, write_h5, write_mtx)

# Shapes beside the ordinary: empty ones, single rows and columns, and just past the tiles.
SHAPES = [(0, 0), (0, 5), (5, 0), (1, 1), (1, 7), (7, 1), (33, 65), (64, 64), (129, 31)]
BY_SIZE = {1: "u8", 2: "i16", 4: "f32", 8: "f64", 16: "c128"}

# Extremes that must survive text: the largest, the smallest subnormal, both zeros, all that is not finite.
EXTREMES = {
    "f16": [65504, 2.0**-24, 1 / 3, 0.0, -0.0, np.inf, -np.inf, np.nan],
    "bf16": [3.3895e38, 2.0**-133, 1 / 3, 0.0, -0.0, np.inf, -np.inf, np.nan],
    "f32": [3.4028235e38, 2.0**-149, 1 / 3, 0.0, -0.0, np.inf, -np.inf, np.nan],
    "f64": [1.7976931348623157e308, 2.0**-1074, 1 / 3, 0.0, -0.0, np.inf, -np.inf, np.nan],
}


@cases([(name, name) for name in TYPES])
class Hdf5ToHdf5(Case):
    def check(self, name):
        matrix = random_bits(name, (37, 53))
        write_h5(self.path("in.h5"), matrix, name)
        record = self.record("transpose", "in.h5", "-o", "out.h5", "--verify", "full")
        found, result = read_h5(self.path("out.h5"), "A")
        self.assertEqual(found, name)
        self.assert_same_bits(result, matrix.T.copy())
        self.assertEqual((record["type"], record["verification"]["verdict"]), (name, "passed"))


@cases([(name, name) for name in TYPES])
class Hdf5ToMatrixMarket(Case):
    def check(self, name):
        matrix = random_values(name, (19, 23), span=100)
        write_h5(self.path("in.h5"), matrix, name)
        self.run_tool("transpose", "in.h5", "-o", "out.mtx")
        result = encode(name, read_mtx(self.path("out.mtx")))
        self.assert_same_bits(result, matrix.T.copy())


@cases([(name, name) for name in EXTREMES])
class Extremes(Case):
    """Text and back gives the same bits, read by Python and read by the tool; NaN stays NaN. SciPy finds the same values; it
    may add them to zeros, which takes the sign of -0."""

    def check(self, name):
        matrix = encode(name, np.array(EXTREMES[name]).reshape(2, 4))
        write_h5(self.path("in.h5"), matrix, name)
        self.run_tool("transpose", "in.h5", "-o", "text.mtx")
        self.run_tool("transpose", "text.mtx", "-t", name, "-o", "back.h5")
        with open(self.path("text.mtx"), encoding="ascii") as file:
            lines = [line for line in file if not line.startswith("%")]
        numbers = [float(line) for line in lines[1:]]  # after the sizes
        expected = values_of(name, matrix)
        known = ~np.isnan(expected)
        by_python = encode(name, np.array(numbers).reshape(2, 4))
        for result in (by_python, read_h5(self.path("back.h5"))[1]):
            found = values_of(name, np.ascontiguousarray(result))
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
            self.assertTrue(same_bits(found[known], expected[known]), f"{found} is not {expected}")
        by_scipy = encode(name, read_mtx(self.path("text.mtx"))).T
        np.testing.assert_array_equal(values_of(name, np.ascontiguousarray(by_scipy)), expected)


@cases([(f"{order}_{name}", name, order) for name in TYPES for order in ("big", "little")
        if name != "bf16" and np.dtype(DTYPES[name]).itemsize > 1])
class ByteOrder(Case):
    def check(self, name, order):
        matrix = random_bits(name, (11, 13))
        stored = np.dtype(DTYPES[name]).newbyteorder(order)
        write_h5(self.path("in.h5"), matrix.astype(stored), dtype=stored)
        self.run_tool("transpose", "in.h5", "-o", "out.h5")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy())


@cases([
    ("contiguous", {}),
    ("chunked", {"chunks": (7, 5)}),
    ("chunks_beyond_the_edge", {"chunks": (64, 64), "maxshape": (None, None)}),
    ("deflate", {"chunks": (16, 16), "compression": "gzip", "compression_opts": 6}),
    ("shuffle", {"chunks": (16, 16), "shuffle": True}),
    ("deflate_and_shuffle", {"chunks": (9, 17), "compression": "gzip", "shuffle": True}),
])
class Storage(Case):
    def check(self, storage):
        matrix = random_bits("f64", (50, 41))
        write_h5(self.path("in.h5"), matrix, dataset="group/deeper/A", **storage)
        self.run_tool("transpose", "in.h5:/group/deeper/A", "-o", "out.h5:/elsewhere/At", "--chunk", "8x16",
                      "--deflate", "3", "--shuffle")
        self.assert_same_bits(read_h5(self.path("out.h5"), "elsewhere/At")[1], matrix.T.copy())


def matrix_market_cases():
    rng = np.random.default_rng(3)
    square = rng.integers(-50, 50, (12, 12))
    rectangle = rng.integers(-50, 50, (9, 14))
    for field, convert in [
        ("real", lambda m: m + 1 / 3 * (m != 0)),
        ("integer", lambda m: m * 10**15),
        ("complex", lambda m: m * (1 - 0.1j)),
    ]:
        yield f"array_{field}_general", convert(rectangle), "general"
        yield f"array_{field}_symmetric", convert(square + square.T), "symmetric"
        if field == "integer":  # adding 1/3 is not skew, and SciPy cannot read a skew complex array
            yield f"array_{field}_skew", convert(square - square.T), "skew-symmetric"
        sparse = np.where(square % 3 == 0, square, 0)
        yield f"coordinate_{field}_general", scipy.sparse.coo_matrix(convert(np.where(rectangle % 3, 0, rectangle))), \
            "general"
        yield f"coordinate_{field}_symmetric", scipy.sparse.coo_matrix(convert(sparse + sparse.T)), "symmetric"
        if field != "real":  # adding 1/3 is not skew
            yield f"coordinate_{field}_skew", scipy.sparse.coo_matrix(convert(sparse - sparse.T)), "skew-symmetric"
    # No imaginary part off the diagonal is zero: SciPy adds entries to 0.0, which loses the sign of -0.0.
    hermitian = square + square.T + 1j * (square - square.T + np.sign(np.subtract.outer(range(12), range(12))) / 4)
    yield "array_complex_hermitian", hermitian, "hermitian"
    yield "coordinate_complex_hermitian", scipy.sparse.coo_matrix(hermitian), "hermitian"
    yield "array_unsigned", rng.integers(0, 2**64, (5, 6), dtype=np.uint64, endpoint=False), "general"


@cases(list(matrix_market_cases()))
class MatrixMarketIn(Case):
    """To HDF5 and to Matrix Market, the input as SciPy wrote it."""

    def check(self, matrix, symmetry):
        write_mtx(self.path("in.mtx"), matrix, symmetry)
        expected = read_mtx(self.path("in.mtx")).T.copy()
        for output in ("out.h5", "out.mtx"):
            self.run_tool("transpose", "in.mtx", "-o", output)
            self.assert_same_bits(read_any(self.path(output))[1], expected, output)


class CompressedOut(Case):
    """A name that ends in .gz gets gzip, of one member or several, that others inflate."""

    def check(self, name, *arguments):
        matrix = random_values("f64", (300, 401), span=100)
        write_h5(self.path("in.h5"), matrix)
        self.run_tool("transpose", "in.h5", "-o", name, *arguments)
        subprocess.run(["gzip", "--test", self.path(name)], check=True)
        np.testing.assert_array_equal(scipy.io.mmread(self.path(name)), matrix.T)
        self.run_tool("transpose", name, "-o", "back.h5")
        self.assert_same_bits(read_h5(self.path("back.h5"))[1], matrix)

    def test_by_extension(self):
        self.check("out.mtx.gz", "--threads", "2")

    def test_by_format(self):
        self.check("out.mtx.gz", "--to", "matrix-market")

    def test_what_exists_is_replaced_whole_or_not(self):
        self.check("out.mtx.gz")
        before = digest(self.path("out.mtx.gz"))
        self.run_tool("transpose", "in.h5", "-o", "out.mtx.gz", code=4)
        self.assertEqual(digest(self.path("out.mtx.gz")), before)

    def test_plain_on_standard_output(self):
        write_h5(self.path("in.h5"), np.eye(2))
        self.assertTrue(self.run_tool("transpose", "in.h5", "-o", "-").out.startswith("%%MatrixMarket"))


class Text(Case):
    """Matrix Market that SciPy does not write, and ways for text to come and go."""

    body = "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6.5\n"
    expected = np.array([[1, 2], [3, 4], [5, 6.5]])

    def check_input(self, content, *arguments, expected=None, **options):
        with open(self.path("in.mtx"), "wb") as file:
            file.write(content)
        self.run_tool("transpose", "in.mtx", "-o", "out.h5", *arguments, **options)
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.expected if expected is None else expected)

    def test_gzip(self):
        self.check_input(gzip.compress(self.body.encode()))

    def test_gzip_of_two_members(self):
        text = self.body.encode()
        self.check_input(gzip.compress(text[:50]) + gzip.compress(text[50:]))

    def test_carriage_returns_comments_and_blank_lines(self):
        header = "%%MatrixMarket MATRIX Array Real General\r\n% a comment\r\n\r\n2 3\r\n"
        self.check_input((header + "1\r\n 2.\r\n+3\r\n4e0\r\n5\r\n65E-1\r\n").encode())

    def test_duplicates_are_added(self):
        text = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 2 1.5\n2 1 4\n1 2 2\n"
        self.check_input(text.encode(), expected=np.array([[0, 4], [3.5, 0]]))

    def test_a_sum_of_duplicates_is_rounded_once(self):
        """4096 ones: added in the type, f16 would stay at 2048 and bf16 at 256. Of other numbers the oracle is
        the exact sum of the doubles that the text means."""
        ones = b"%%MatrixMarket matrix coordinate pattern general\n1 1 4096\n" + b"1 1\n" * 4096
        for name in ("f16", "bf16", "f32", "i16", "c64"):
            with self.subTest(name):
                self.check_input(ones, "-t", name, "--force", expected=encode(name, np.array([[4096.0]])))
        numbers = np.random.default_rng(3).standard_normal(3000) * np.logspace(-3, 3, 3000)
        places = np.random.default_rng(4).integers(1, 6, (3000, 2))
        lines = "".join(f"{i} {j} {value!r}\n" for (i, j), value in zip(places.tolist(), numbers.tolist()))
        text = f"%%MatrixMarket matrix coordinate real general\n5 5 3000\n{lines}".encode()
        sums = np.array([[math.fsum(numbers[(places == (i, j)).all(1)]) for j in range(1, 6)] for i in range(1, 6)])
        for name, content in [("f64", text), ("f32", text), ("f16", text), ("f32", gzip.compress(text))]:
            with self.subTest(name):
                self.check_input(content, "-t", name, "--force", "--threads", "2", expected=encode(name, sums.T))

    def test_only_the_sum_of_duplicates_has_to_fit(self):
        text = b"%%%%MatrixMarket matrix coordinate %s general\n1 1 3\n"
        self.check_input(text % b"integer" + b"1 1 100\n1 1 100\n1 1 -100\n", "-t", "i8",
                         expected=np.array([[100]], np.int8))
        self.check_input(text % b"real" + b"1 1 1e308\n1 1 1e308\n1 1 -1e308\n", "--force",
                         expected=np.array([[1e308]]))

    def test_duplicates_from_a_pipe(self):
        """They are added in the widest type, and refused where a second reading would be needed."""
        text = b"%%MatrixMarket matrix coordinate real general\n1 1 2\n1 1 0.5\n1 1 1.25\n"
        self.run_tool("transpose", "-", "-o", "out.h5", stdin=text)
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], np.array([[1.75]]))
        refused = self.run_tool("transpose", "-", "-t", "f32", stdin=text, code=3)
        self.assert_says(refused, "standard input: found several entries for one element, which can only be added in "
                         "f32 in a second reading; expected a file, or no --type")

    def test_pattern(self):
        text = "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 3\n2 1\n"
        self.check_input(text.encode(), "-t", "u8", expected=np.array([[0, 1], [0, 0], [1, 0]], np.uint8))

    def test_standard_input(self):
        self.run_tool("transpose", "-", "-o", "out.h5", stdin=self.body.encode())
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.expected)

    def test_standard_input_and_output(self):
        result = self.run_tool("transpose", "-", "-o", "-", stdin=self.body.encode())
        with open(self.path("out.mtx"), "wb") as file:
            file.write(result.out_bytes)
        self.assert_same_bits(read_mtx(self.path("out.mtx")), self.expected)

    def test_standard_output_holds_only_the_result(self):
        """The log has standard error or a file: the text on standard output starts with the banner."""
        result = self.run_tool("transpose", "-", "-o", "-", "-v", "--log", "log.jsonl", stdin=self.body.encode())
        self.assertTrue(result.out.startswith("%%MatrixMarket matrix array real general\n"), str(result))

    def test_a_pipeline_of_two(self):
        first = self.run_tool("transpose", "-", "-o", "-", stdin=self.body.encode())
        self.run_tool("transpose", "-", "-o", "out.h5", stdin=first.out_bytes)
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.expected.T.copy())


@cases([
    ("i32_to_f64", "i32", "f64"), ("i32_to_i8", "i32", "i8"), ("u8_to_i64", "u8", "i64"), ("i64_to_f16", "i64", "f16"),
    ("f64_to_f32", "f64", "f32"), ("f64_to_f16", "f64", "f16"), ("f64_to_bf16", "f64", "bf16"),
    ("f32_to_c64", "f32", "c64"), ("f16_to_f64", "f16", "f64"), ("bf16_to_f32", "bf16", "f32"),
    ("c128_to_c64", "c128", "c64"), ("u16_to_u32", "u16", "u32"),
])
class Conversion(Case):
    """`-t` rounds to nearest, once, from HDF5 and from text."""

    def check(self, stored, wanted):
        matrix = random_values(stored, (9, 14), span=50)
        expected = encode(wanted, values_of(stored, matrix).T)
        for source in ("in.h5", "in.mtx"):
            write_any(self.path(source), matrix, stored)
            record = self.record("transpose", source, "-t", wanted, "-o", "out.h5", "--force")
            self.assertEqual(record["type"], wanted)
            found, result = read_h5(self.path("out.h5"))
            self.assertEqual(found, wanted)
            self.assert_same_bits(result, expected, source)


@cases([(f"{level['name'].replace('-', '_')}_{size}_bytes", level, size) for level in levels("transpose")
        for size in BY_SIZE])
class Levels(Case):
    """Every CPU level on every shape, asked for by name and by number; the record says that it ran."""

    def check(self, level, size):
        name = BY_SIZE[size]
        for index, shape in enumerate(SHAPES):
            matrix = random_bits(name, shape, seed=index)
            write_h5(self.path("in.h5"), matrix, name)
            asked = [level["name"], str(level["number"] or level["name"])][index % 2]
            record = self.record("transpose", "in.h5", "-o", "out.h5", "--force", "-d", "cpu", "-l", asked)
            self.assertEqual((record["level_requested"], record["level"]), (asked, level["name"]))
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy(), f"{shape}")


@cases([(f"{rows}x{cols}_{name}", (rows, cols), name) for rows, cols in SHAPES[:6] for name in ("f64", "i64", "c128")])
class OddShapesAsText(Case):
    def check(self, shape, name):
        matrix = random_values(name, shape)
        write_any(self.path("in.mtx"), matrix, name)
        for source, output in [("in.mtx", "out.mtx"), ("in.mtx", "out.h5"), ("out.h5", "back.mtx")]:
            self.run_tool("transpose", source, "-o", output)
        for output, expected in [("out.mtx", matrix.T), ("out.h5", matrix.T), ("back.mtx", matrix)]:
            self.assert_same_bits(read_any(self.path(output))[1], expected.copy(), output)


@cases([(f"{level['name'].replace('-', '_')}_{rows}x{cols}", level["name"], rows, cols)
        for level in levels("transpose") for rows, cols in [(0, 2**63 - 1), (2**63 - 1, 0)]])
class NothingTimesTheMost(Case):
    """A matrix without elements needs no memory and no time, whatever its other extent."""

    def check(self, level, rows, cols):
        for name, (m, n) in (("in.mtx", (rows, cols)), ("expected.mtx", (cols, rows))):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(f"%%MatrixMarket matrix array real general\n{m} {n}\n")
        arguments = ["transpose", "in.mtx", "-d", "cpu", "-l", level, "--verify", "full", "--memory-limit", "100KiB"]
        record = self.record(*arguments, "-o", "out.mtx")
        self.assertEqual(record["verification"]["verdict"], "passed")
        with open(self.path("out.mtx"), encoding="ascii") as file:
            self.assertEqual([line for line in file if line[0] != "%"], [f"{cols} {rows}\n"])
        self.record(*arguments, "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["A"].shape, (cols, rows))


@unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
class Memory(Case):
    def test_verification_keeps_nothing_of_each_row(self):
        """16 Mi rows of a byte: the matrices are 32 MiB, and counters of the rows would be 128 MiB."""
        write_h5(self.path("in.h5"), np.zeros((1, 2**24), np.uint8))
        without, full = (self.record("transpose", "in.h5", "-d", "cpu", "--verify", mode)["peak_host_bytes"]
                         for mode in ("none", "full"))
        self.assertLess(full - without, 16 * 2**20)


class Types(unittest.TestCase):
    def test_fields(self):
        """Every type has a field, so a type added to the tool is added here."""
        self.assertEqual(set(FIELD_TYPE), set(DTYPES))


if __name__ == "__main__":
    unittest.main()
