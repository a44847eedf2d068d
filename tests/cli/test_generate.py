"""Generated matrices against NumPy's Philox, Python's inverse normal distribution, SciPy's special matrices."""

import math
import os
import statistics
import unittest
import zlib

import h5py
import numpy as np
import scipy.linalg
import scipy.sparse

from harness import DTYPES, PLAIN, TYPES, Case, cases, encode, is_integer, read_h5, read_mtx, values_of

REAL = ["f16", "bf16", "f32", "f64"]
INTEGER = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]


def words(seed, count):
    return np.random.Philox(key=seed).random_raw(count) if count else np.zeros(0, np.uint64)


def unit(raw):
    """In [0, 1), as NumPy's Generator.random."""
    return (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53


def whole_numbers(raw, low, high):
    """low + floor(raw · (high − low + 1) / 2^64), in exact integers."""
    return [low + (int(word) * (high - low + 1) >> 64) for word in raw]


def parts_of(name):
    return 2 if name[0] == "c" else 1


def assemble(name, reals, shape):
    """Real and imaginary parts side by side, rounded once to the type."""
    if name[0] == "c":
        pairs = np.asarray(reals, np.float64).reshape(*shape, 2)
        return (pairs[..., 0] + 1j * pairs[..., 1]).astype(DTYPES[name])
    return encode(name, np.asarray(reals).reshape(shape))


class GenerateCase(Case):
    def generate(self, *arguments, name="f32", shape=(37, 53), output="out.h5", **options):
        self.run_tool("generate", *arguments, "--shape", f"{shape[0]}x{shape[1]}", "-t", name, "-o", output, **options)
        found, matrix = read_h5(self.path(output), "A")
        self.assertEqual((found, matrix.shape), (name, shape))
        return matrix


@cases([(f"{name}_seed_{seed}", name, seed) for name in [*REAL, "c64", "c128"] for seed in (0, 7, 2**64 - 1)])
class Uniform(GenerateCase):
    def check(self, name, seed):
        shape = (37, 53)
        reals = unit(words(seed, math.prod(shape) * parts_of(name)))
        self.assert_same_bits(self.generate("uniform", "--seed", str(seed), name=name), assemble(name, reals, shape))
        if seed == 0:  # the kind and the seed that are taken where none are given
            self.assert_same_bits(self.generate(name=name, output="usual.h5"), assemble(name, reals, shape))
        scaled = -3 + 8.5 * reals
        self.assert_same_bits(
            self.generate("uniform", "--low", "-3", "--high", "5.5", "--seed", str(seed), name=name, output="s.h5"),
            assemble(name, scaled, shape))


@cases([(name, name) for name in [*REAL, "c64", "c128"]])
class Normal(GenerateCase):
    """Against Python's inverse of the distribution function; to f32 and narrower nearly all round alike. Both evaluate
    AS 241, whose own error is 1e-16; its argument √(−log p) and 30 roundings give some 1e-15 more."""

    def check(self, name):
        shape = (101, 53)
        raw = words(3, math.prod(shape) * parts_of(name))
        inverse = statistics.NormalDist().inv_cdf
        reals = [2 + 0.5 * inverse((int(word >> np.uint64(12)) + 0.5) * 2.0**-52) for word in raw]
        matrix = self.generate("normal", "--mean", "2", "--deviation", "0.5", "--seed", "3", name=name, shape=shape)
        expected = assemble(name, reals, shape)
        step = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "c64": 2.0**-23}.get(name, 0)
        found, wanted = values_of(name, matrix), values_of(name, expected)
        np.testing.assert_allclose(found, wanted, rtol=step + 1e-14, atol=1e-14)
        if step:  # a rounding that a last bit of the double decides is rare
            self.assertLess(np.mean(found != wanted), 1e-3)


class NormalTails(GenerateCase):
    def test_the_distribution(self):
        """Two million: mean, deviation and the share beyond 1 … 4 deviations are within five standard errors."""
        matrix = self.generate("normal", name="f64", shape=(1000, 2000))
        count = matrix.size
        self.assertLess(abs(matrix.mean()), 5 / math.sqrt(count))
        self.assertLess(abs(matrix.std() - 1), 5 / math.sqrt(2 * count))
        for bound in (1, 2, 3, 4):
            share = math.erfc(bound / math.sqrt(2))
            error = 5 * math.sqrt(share / count)
            self.assertLess(abs(np.mean(np.abs(matrix) > bound) - share), error, bound)


@cases([(name, name) for name in TYPES])
class Integers(GenerateCase):
    def check(self, name):
        shape = (37, 53)
        raw = words(5, math.prod(shape) * parts_of(name))
        low = 0 if name[0] == "u" else -9
        usual = self.generate("integers", "--seed", "5", name=name)
        self.assert_same_bits(usual, assemble(name, whole_numbers(raw, low, 9), shape))
        if not is_integer(name):
            return
        info = np.iinfo(DTYPES[name])
        whole = self.generate("integers", "--seed", "5", "--low", str(info.min), "--high", str(info.max), name=name,
                              output="whole.h5")
        expected = np.array(whole_numbers(raw, int(info.min), int(info.max)), dtype=DTYPES[name]).reshape(shape)
        self.assert_same_bits(whole, expected)


@cases([(name, name) for name in TYPES])
class Formulas(GenerateCase):
    def check(self, name):
        for number, shape in enumerate([(7, 7), (5, 9), (9, 5)]):
            identity = self.generate("identity", name=name, shape=shape, output=f"i{number}.h5")
            self.assert_same_bits(identity, encode(name, np.eye(*shape)))
            band = [3, -1, 2, 4, -5] if name[0] != "u" else [3, 1, 2, 4, 5]
            text = ",".join(map(str, band))
            banded = self.generate("toeplitz", "--band", text, name=name, shape=shape, output=f"t{number}.h5")
            self.assert_same_bits(banded, encode(name, scipy.sparse.diags(band, range(-2, 3), shape).toarray()))
            if not is_integer(name):
                hilbert = self.generate("hilbert", name=name, shape=shape, output=f"h{number}.h5")
                whole = scipy.linalg.hilbert(max(shape))[:shape[0], :shape[1]]
                self.assert_same_bits(hilbert, encode(name, whole))


@cases([(name, name) for name in TYPES])
class RandomToeplitz(GenerateCase):
    def check(self, name):
        shape = (11, 17)
        raw = words(2, (sum(shape) - 1) * parts_of(name))
        low = 0 if name[0] == "u" else -9
        reals = whole_numbers(raw, low, 9) if is_integer(name) else -1 + 2 * unit(raw)
        diagonals = assemble(name, reals, (sum(shape) - 1,))  # from the upper right corner
        expected = scipy.linalg.toeplitz(diagonals[shape[1] - 1:], diagonals[shape[1] - 1::-1])
        self.assert_same_bits(self.generate("toeplitz", "--seed", "2", name=name, shape=shape), expected)


@cases([(name, name) for name in TYPES])
class Sparse(GenerateCase):
    def check(self, name):
        shape = (41, 67)
        parts = parts_of(name)
        raw = words(9, math.prod(shape) * (1 + parts)).reshape(-1, 1 + parts)
        low = 0 if name[0] == "u" else -9
        inner = raw[:, 1:].reshape(-1)
        others = np.array([number for number in range(low, 10) if number])  # than zero
        reals = others[whole_numbers(inner, 0, len(others) - 1)] if is_integer(name) else -1 + 2 * unit(inner)
        there = (unit(raw[:, 0]) < 0.2).reshape(shape)
        expected = assemble(name, reals, shape)
        expected[~there] = 0
        self.assert_same_bits(self.generate("sparse", "--density", "0.2", "--seed", "9", name=name, shape=shape), expected)

    def test_of_all_elements_and_of_whole_ranges(self):
        for name, bounds in (("i8", ["-3", "0"]), ("u64", ["0", "18446744073709551615"]), ("i64", ["5", "9"])):
            full = self.generate("sparse", "--density", "1", "--low", bounds[0], "--high", bounds[1], name=name, output=f"{name}.h5")
            self.assertTrue(np.all(full), name)
            self.assertTrue(np.all((full >= np.array(int(bounds[0]), full.dtype)) & (full <= np.array(int(bounds[1]), full.dtype))))


class SameBits(GenerateCase):
    def test_for_every_way_of_writing(self):
        """Threads, blocks, chunks, formats and pipes change nothing."""
        expected = self.generate("normal", name="f64", shape=(301, 203))
        for number, options in enumerate([["--threads", "1"], ["--threads", "7"], ["--memory-limit", "20KiB"],
                                          ["--chunk", "64x17", "--deflate", "1"],
                                          ["--chunk", "64x17", "--memory-limit", "80KiB"]]):
            again = self.generate("normal", *options, name="f64", shape=(301, 203), output=f"{number}.h5")
            self.assert_same_bits(again, expected, options)
        for options in ([], ["--memory-limit", "20KiB"]):
            self.run_tool("generate", "normal", "--shape", "301x203", "-t", "f64", "-o", "text.mtx", "--force", *options)
            self.assert_same_bits(read_mtx(self.path("text.mtx")), expected)
        piped = self.run_tool("generate", "normal", "--shape", "301x203", "-t", "f64", "-o", "-")
        with open(self.path("text.mtx"), "rb") as file:
            self.assertEqual(piped.out_bytes, file.read())

    def test_of_empty_matrices(self):
        for shape in [(0, 0), (0, 5), (5, 0)]:
            self.assertEqual(self.generate("normal", shape=shape, output=f"{shape[0]}{shape[1]}.h5").size, 0)

    def test_record(self):
        record = self.run_tool("generate", "integers", "--shape", "20x30", "--seed", "4", "--low", "-2", "-o", "a.mtx", "-t",
                               "i16", "--json").json()
        self.assertEqual((record["schema"], record["op"], record["kind"], record["seed"], record["exit_code"]),
                         ("gpumat.generate/1", "generate", "integers", 4, 0))
        self.assertEqual((record["parameters"], record["inputs"]), ({"low": "-2"}, []))
        output = record["output"]
        self.assertEqual((output["path"], output["rows"], output["cols"], output["type"]), ("a.mtx", 20, 30, "i16"))
        self.run_tool("convert", "a.mtx", "-t", "i16", "-o", "b.h5")
        self.assertEqual(output["hash"], f"crc32:{zlib.crc32(read_h5(self.path('b.h5'))[1].tobytes()):08x}")

    def test_attributes_say_where_it_comes_from(self):
        self.run_tool("generate", "sparse", "--density", "0.5", "--shape", "4x4", "-o", "a.h5:/x/y")
        with h5py.File(self.path("a.h5")) as file:
            attributes = dict(file["x/y"].attrs)
        self.assertEqual((attributes["gpumat_kind"], attributes["gpumat_seed"], attributes["gpumat_density"]),
                         ("sparse", "0", "0.5"))

    @unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
    def test_memory_is_bounded(self):
        """512 MiB through 64 MiB; libraries and threads take some 40 more."""
        self.run_within(64, "generate", "--shape", "8192x8192", "-t", "f64", "-o", "big.h5", "--threads", "2")
        with h5py.File(self.path("big.h5")) as file:
            corner = file["A"][8191, 8100:]
        place = 8191 * 8192 + 8100
        generator = np.random.Philox(key=0)
        generator.advance(place // 4)
        np.testing.assert_array_equal(corner, unit(generator.random_raw(92)))


@cases([
    ("kind", 2, ["magic", "hilbert"], "magic --shape 2x2 -o a.h5"),
    ("no_shape", 2, ["--shape"], "uniform -o a.h5"),
    ("shape", 2, ["--shape", "'2'", "ROWSxCOLS"], "uniform --shape 2 -o a.h5"),
    ("negative_shape", 2, ["'-2x2'"], "uniform --shape=-2x2 -o a.h5"),
    ("no_output", 2, ["--output"], "uniform --shape 2x2"),
    ("type", 2, ["'f8'", "bf16"], "uniform --shape 2x2 -t f8 -o a.h5"),
    ("uniform_integers", 2, ["uniform", "fractions", "i32"], "uniform -t i32 --shape 2x2 -o a.h5"),
    ("hilbert_integers", 2, ["hilbert", "u8"], "hilbert -t u8 --shape 2x2 -o a.h5"),
    ("foreign_parameter", 2, ["identity", "--low"], "identity --low 2 --shape 2x2 -o a.h5"),
    ("low_above_high", 2, ["--low", "--high"], "integers --low 5 --high 4 --shape 2x2 -o a.h5"),
    ("low_of_words", 2, ["--low", "'few'"], "integers --low few --shape 2x2 -o a.h5"),
    ("low_below_type", 2, ["--low", "'-1'", "u8", "0 to 255"], "integers -t u8 --low -1 --shape 2x2 -o a.h5"),
    ("high_beyond_exact", 2, ["--high", "f16", "2048"], "integers -t f16 --high 2049 --shape 2x2 -o a.h5"),
    ("high_beyond_f16", 2, ["--high", "f16"], "uniform -t f16 --high 70000 --shape 2x2 -o a.h5"),
    ("infinite", 2, ["--high", "'inf'"], "uniform --high inf --shape 2x2 -o a.h5"),
    ("nan", 2, ["--low", "'nan'"], "uniform --low nan --shape 2x2 -o a.h5"),
    ("too_wide", 2, ["--low"], "uniform -t f64 --low -1.7e308 --high 1.7e308 --shape 2x2 -o a.h5"),
    ("negative_deviation", 2, ["--deviation"], "normal --deviation -1 --shape 2x2 -o a.h5"),
    ("deviation_beyond_f16", 2, ["f16"], "normal -t f16 --deviation 9000 --shape 2x2 -o a.h5"),
    ("sparse_zeros", 2, ["--low", "not zero"], "sparse -t i8 --low 0 --high 0 --shape 2x2 -o a.h5"),
    ("density", 2, ["--density", "0 to 1"], "sparse --density 1.5 --shape 2x2 -o a.h5"),
    ("band_and_bounds", 2, ["--low", "beside --band"], "toeplitz --band 1,2,3 --low 0 --shape 2x2 -o a.h5"),
    ("even_band", 2, ["--band", "odd"], "toeplitz --band 1,2 --shape 2x2 -o a.h5"),
    ("empty_band_value", 2, ["--band", "''"], "toeplitz --band 1,,2 --shape 2x2 -o a.h5"),
    ("fraction_in_band", 2, ["--band", "'0.5'"], "toeplitz -t i8 --band 0.5 --shape 2x2 -o a.h5"),
    ("beyond_memory", 6, ["address space"], "uniform --shape 4000000000x4000000000 -o a.h5"),
    ("limit", 6, ["smallest blocks"], "uniform --shape 1000x10 -o a.mtx --memory-limit 1KiB"),
    ("chunk", 2, ["chunk"], "uniform --shape 10x10 --chunk 0x5 -o a.h5"),
    ("chunk_of_text", 2, ["Matrix Market"], "uniform --shape 10x10 --chunk 2x2 -o a.mtx"),
    ("extension", 2, ["a.txt"], "uniform --shape 10x10 -o a.txt"),
    ("folder", 4, ["nowhere"], "uniform --shape 10x10 -o nowhere/a.h5"),
    ("both_on_stdout", 2, ["--json"], "uniform --shape 10x10 -o - --json"),
])
class Refusals(Case):
    def check(self, code, expected, line):
        result = self.run_tool("generate", *[word.strip("'") for word in line.split(" ")], code=code)
        self.assert_says(result, *expected)
        self.assertEqual(os.listdir(self.folder), [])

    def test_existing(self):
        self.run_tool("generate", "--shape", "2x2", "-o", "a.h5")
        self.assert_says(self.run_tool("generate", "--shape", "2x2", "-o", "a.h5", code=4), "exists")
        self.run_tool("generate", "hilbert", "--shape", "2x2", "-o", "a.h5", "--force")

    def test_closed_pipe(self):
        process = self.start("generate", "--shape", "2000x2000", "-o", "-")
        process.stdout.read(100)
        process.stdout.close()
        self.assertEqual((process.wait(60), process.stderr.read()), (141, b""))
        process.stderr.close()
        process.stdin.close()


if __name__ == "__main__":
    unittest.main()
