"""gpumat reduce against exact arithmetic: fractions of Python for sums and norms, NumPy for extremes."""

import json
import math
import os
import re
import unittest
import zlib
from fractions import Fraction

import h5py
import numpy as np

from harness import DTYPES, PLAIN, TYPES, Case, encode, is_integer, random_values, read_h5, some, values_of, write_h5, write_mtx

U = Fraction(1, 2**53)
MIB = 1 << 20
LEVELS = ["serial", "vectorized"]
AXES = {"all": None, "rows": 1, "columns": 0}
SUM_TYPE = {name: "c128" if name[0] == "c" else "i64" if name[0] == "i" else "u64" if name[0] == "u" else "f64"
            for name in DTYPES}


def segments(values, axis):
    """The elements of each result."""
    if axis == "all":
        return [values.ravel()]
    return list(values) if axis == "rows" else list(values.T)


def exact(elements):
    return [Fraction(int(x)) if np.issubdtype(elements.dtype, np.integer) else Fraction(float(x)) for x in elements]


def sum_bound(elements, narrow):
    """4097·u·S + u·|sum| + (k·u)²·S with k = 4096 + n/1024, of kernels/reduce/README.md; two roundings more for u·|sum|."""
    size = sum((abs(x) for x in exact(elements)), Fraction(0))
    chain = 4096 + Fraction(len(elements), 1024)
    return (4097 * U if narrow else 0) * size + (chain * U) ** 2 * size + 3 * U * abs(sum(exact(elements)))


def ops_of(name):
    return ["sum", "mean", "norm", "absmax", "nan-count"] + ([] if name[0] == "c" else ["min", "max"])


class Reducing(Case):
    def reduce(self, path, *words, code=0):
        return self.run_tool("reduce", path, *words, "-d", "cpu", "-q", code=code).out.strip()

    def answer(self, path, *words):
        return json.loads(self.reduce(path, *words, "--json"))["answer"]

    def vector(self, path, *words):
        out = self.path("out.h5")
        self.reduce(path, *words, "-o", out, "--force")
        return read_h5(out)

    def check_sum(self, found, elements, narrow, count=1):
        error = abs(Fraction(float(found)) * count - sum(exact(elements), Fraction(0)))
        self.assertLessEqual(error, sum_bound(elements, narrow) + 3 * U * abs(Fraction(float(found)) * count))

    def check(self, path, name, values, op, axis, *words):
        """The tool's result of this matrix against the definition."""
        kind, found = self.vector(path, "--op", op, "--axis", axis, *words)
        if op in ("sum", "mean"):
            self.assertEqual(kind, "f64" if op == "mean" and is_integer(name) else SUM_TYPE[name])
            for result, elements in zip(found.ravel(), segments(values, axis), strict=True):
                count = len(elements) if op == "mean" else 1
                if kind in ("i64", "u64"):
                    self.assertEqual(int(result), sum(int(x) for x in elements))
                elif kind == "c128":
                    self.check_sum(result.real, elements.real, name == "c64", count)
                    self.check_sum(result.imag, elements.imag, name == "c64", count)
                else:
                    self.check_sum(result, elements, name != "f64", count)
        elif op == "norm":
            self.assertEqual(kind, "f64")
            for result, elements in zip(found.ravel(), segments(values, axis), strict=True):
                parts = np.concatenate([elements.real, elements.imag]) if name[0] == "c" else elements
                square = sum(x * x for x in exact(parts))
                self.assertLessEqual(abs(Fraction(float(result)) ** 2 - square), square * (4096 + 16) * U)
        elif op == "nan-count":
            np.testing.assert_array_equal(found.ravel(), np.atleast_1d(np.isnan(values).sum(axis=AXES[axis])))
        elif op == "absmax":
            sizes = np.abs(values.astype("c16" if name[0] == "c" else values.dtype))
            expected = np.atleast_1d(np.max(sizes, axis=AXES[axis]))
            if name[0] == "c":  # two squares, a sum and a root are rounded on each side
                np.testing.assert_allclose(found.ravel(), expected, rtol=8 * 2.0**-53)
            else:
                np.testing.assert_array_equal(values_of(kind, found).ravel(), expected)
        else:
            self.assertEqual(kind, name)
            expected = np.atleast_1d((np.min if op == "min" else np.max)(values, axis=AXES[axis]))
            np.testing.assert_array_equal(values_of(kind, found).ravel(), expected)


class Reduce(Reducing):
    def test_every_op_of_every_type_and_axis(self):
        for name in TYPES:
            array = random_values(name, (37, 45), seed=3)
            path = self.path(f"{name}.h5")
            write_h5(path, array, name)
            for axis in AXES:
                for op in ops_of(name):
                    with self.subTest(name, axis=axis, op=op):
                        self.check(path, name, values_of(name, array), op, axis)

    def test_hostile_sums(self):
        cases = {
            "cancel": ([1e16, 1, -1e16], 1.0),
            "subnormal": ([5e-324] * 3 + [1e-310], 1e-310 + 15e-324),
            "order": ([1.0] + [2.0**-53] * 1000 + [-1.0], 1000 * 2.0**-53),
            "large": ([1e308, -1e308, 1e292], 1e292),
            "negative zero": ([-0.0, -0.0], 0.0),
            "infinite": ([1.0, math.inf, 2.0], "inf"),
            "both": ([math.inf, -math.inf], "nan"),
            "nan": ([1.0, math.nan], "nan"),
        }
        for name, (elements, expected) in cases.items():
            path = self.path("case.h5")
            write_h5(path, np.array([elements]))
            for level in LEVELS:
                self.assertEqual(self.answer(path, "-l", level), expected, (name, level))

    def test_sums_of_many_numbers_match_fsum(self):
        rng = np.random.default_rng(8)
        values = np.concatenate([rng.normal(size=20000) * 10.0 ** rng.integers(-18, 18, 20000), np.full(300000, 0.1)])
        path = self.path("many.h5")
        write_h5(path, rng.permutation(values).reshape(1000, 320))
        expected = math.fsum(values)
        for level in LEVELS:
            self.assertLessEqual(abs(self.answer(path, "-l", level) - expected), 2 * 2.0**-53 * abs(expected))
        write_h5(path, np.full((1000, 3000), 0.1, np.float32))  # equal numbers: every rounding goes the same way
        expected = 3000000 * Fraction(float(np.float32(0.1)))
        for level in LEVELS:
            self.assertLessEqual(abs(Fraction(self.answer(path, "-l", level)) - expected), 4098 * U * expected)

    def test_hostile_norms(self):
        cases = [[3e200, 4e200], [3e-200, 4e-200], [1e-320, 5e-324], [1e308, 1e308], [1e300, 1e-300, 1], [0.0, -0.0],
                 [1e153] * 4, [2.0**-500] * 3 + [2.0**-501] * 5, [2.0**500, 2.0**499]]
        for elements in cases:
            path = self.path("case.h5")
            write_h5(path, np.array([elements]))
            square = sum(Fraction(x) ** 2 for x in elements)
            for level in LEVELS:
                found = Fraction(self.answer(path, "--op", "norm", "-l", level))
                # a root and some sums are rounded; below 2^-1022 in units of the smallest number
                low = found * (1 - 8 * U) - Fraction(5e-324)
                high = found * (1 + 8 * U) + Fraction(5e-324)
                self.assertTrue(max(low, 0) ** 2 <= square <= high**2, (elements, level))
        for value, expected in ((math.inf, "inf"), (math.nan, "nan")):
            write_h5(path, np.array([[1.0, value, 1e300]]))
            for level in LEVELS:
                self.assertEqual(self.answer(path, "--op", "norm", "-l", level), expected)

    def test_nan_is_in_every_result_and_counted(self):
        for name in ("f16", "bf16", "f32", "f64", "c64", "c128"):
            values = np.ones((30, 41), np.complex128 if name[0] == "c" else np.float64)
            values[3, 5] = values[29, 40] = complex(1, math.nan) if name[0] == "c" else math.nan
            path = self.path(f"{name}.h5")
            write_h5(path, encode(name, values), name)
            for level in LEVELS:
                self.assertEqual(self.answer(path, "--op", "nan-count", "-l", level), 2)
                counts = self.vector(path, "--op", "nan-count", "--axis", "rows", "-l", level)[1].ravel()
                self.assertEqual(sorted(np.flatnonzero(counts)), [3, 29])
                for op in ("sum", "mean", "norm", "absmax") + (() if name[0] == "c" else ("min", "max")):
                    self.assertIn("nan", str(self.answer(path, "--op", op, "-l", level)))

    def test_integers_that_do_not_fit_are_told(self):
        path = self.path("wide.h5")
        write_h5(path, np.full((1, 3), 2**63 - 1, np.int64))
        done = self.run_tool("reduce", path, "-d", "cpu", "-v")
        self.assertIn("1 result does not fit in i64 and is given modulo 2^64", done.err)
        self.assertIn("modulo 2^64", self.run_tool("reduce", path, "-d", "cpu", "--verify", "none").err)
        for words in (["--op", "max"], ["--op", "mean"], ["-t", "f64"]):
            self.assertNotIn("modulo", self.run_tool("reduce", path, "-d", "cpu", "--verify", "none", *words).err)
        write_h5(self.path("narrow.h5"), np.ones((1, 3), np.int32))
        self.assertNotIn("modulo", self.run_tool("reduce", "narrow.h5", "-d", "cpu", "--verify", "none").err)
        self.assertEqual(int(done.out), (3 * (2**63 - 1) + 2**63) % 2**64 - 2**63)
        self.assertEqual(self.answer(path, "--op", "mean"), float(2**63 - 1))
        self.assertEqual(self.answer(path, "--op", "absmax"), 2**63 - 1)
        write_h5(path, np.array([[-(2**63), 5]], np.int64))
        self.assertEqual(self.answer(path, "--op", "absmax"), 2**63)

    def test_empty_matrices(self):
        path = self.path("empty.h5")
        for shape in ((0, 4), (4, 0), (0, 0)):
            write_h5(path, np.zeros(shape))
            for op in ("sum", "norm", "absmax", "nan-count"):
                self.assertEqual(self.answer(path, "--op", op), 0)
            for op in ("min", "max", "mean"):
                self.assertIn("no elements have no", self.run_tool("reduce", path, "--op", op, code=3).err)
            found = self.vector(path, "--axis", "rows")[1]
            self.assertEqual((found.shape, found.sum()), ((shape[0], 1), 0))
            found = self.vector(path, "--axis", "columns")[1]
            self.assertEqual((found.shape, found.sum()), ((1, shape[1]), 0))

    def test_what_is_printed_and_recorded(self):
        path = self.path("a.mtx")
        write_mtx(path, np.array([[1.5, 2], [3, -4]]))
        self.assertEqual(self.reduce(path), "2.5")
        self.assertEqual(self.reduce(path, "--op", "absmax"), "4.0")
        self.assertEqual(self.reduce(path, "--axis", "rows").split(), ["row", "result", "1", "3.5", "2", "-1.0"])
        record = json.loads(self.reduce(path, "--op", "norm", "--json"))
        self.assertEqual(record["settings"], {"op": "norm", "axis": "all"})
        self.assertEqual(record["answer"], math.sqrt(1.5**2 + 4 + 9 + 16))
        self.assertEqual(record["verification"]["verdict"], "passed")
        text = self.reduce(path, "--axis", "columns", "-o", "-")
        self.assertTrue(text.startswith("%%MatrixMarket"))
        self.assertEqual([float(line) for line in text.splitlines()[-2:]], [4.5, -2])
        write_h5(self.path("c.h5"), np.array([[1 + 2j, 3 - 5j]]))
        self.assertEqual(self.reduce(self.path("c.h5")), "4.0,-3.0")
        self.assertEqual(self.answer(self.path("c.h5")), [4, -3])

    def test_refusals(self):
        path = self.path("c.h5")
        write_h5(path, np.ones((2, 2), np.complex64))
        self.assertIn("no order", self.run_tool("reduce", path, "--op", "min", "-d", "cpu", code=5).err)
        self.run_tool("reduce", path, "--op", "median", code=2)
        self.run_tool("reduce", path, "--axis", "diagonal", code=2)

    def test_threads_do_not_change_a_bit(self):
        path = self.path("a.h5")
        write_h5(path, np.random.default_rng(2).normal(size=(700, 1100)))
        for axis in AXES:
            found = [self.vector(path, "--axis", axis, "--threads", threads)[1].tobytes() for threads in ("1", "2", "5")]
            self.assertEqual(len(set(found)), 1)

    def test_stored_results_are_verified(self):
        path = self.path("a.h5")
        write_h5(path, np.random.default_rng(2).normal(size=(60, 80)).astype("f4"))
        out = self.path("sums.h5")
        self.reduce(path, "--axis", "rows", "-o", out)
        self.run_tool("verify", "reduce", path, out, "--axis", "rows", "-q")
        self.run_tool("verify", "reduce", path, out, "--axis", "rows", "-t", "f32", "-q")
        self.run_tool("verify", "reduce", path, out, "--axis", "columns", "-q", code=8)
        self.run_tool("verify", "reduce", path, out, "--axis", "rows", "--op", "norm", "-q", code=1)
        with h5py.File(out, "r+") as file:
            file["R"][7, 0] += 1e-9
        self.run_tool("verify", "reduce", path, out, "--axis", "rows", "-q", code=1)

    def verify(self, path, *words, code=0):
        self.run_tool("verify", "reduce", path, self.path("stored.h5"), *words, "-q", code=code)

    def store(self, results, axis):
        results = np.atleast_1d(results)
        write_h5(self.path("stored.h5"), results.reshape((-1, 1) if axis == "rows" else (1, -1)), dataset="R")

    def test_sums_in_any_order_are_right(self):
        """What NumPy, and one chain of additions, make of the same numbers."""
        path = self.path("a.h5")
        rng = np.random.default_rng(5)
        for name in ("f16", "f64", "c128", "i64"):
            matrix = encode(name, rng.normal(size=(40, 900)) * (1e9 if name[0] == "i" else 1))
            write_h5(path, matrix, name)
            wide = matrix.astype("c16" if name[0] == "c" else "f8")
            for axis, over in AXES.items():
                sums = {"numpy": wide.sum(axis=over), "chain": np.take(np.cumsum(wide, axis=over), -1, axis=over if over is not None else 0)}
                for order, found in sums.items():
                    with self.subTest(name, axis=axis, order=order):
                        count = matrix.size if over is None else matrix.shape[over]
                        self.store(found / count, axis)
                        self.verify(path, "--op", "mean", "--axis", axis)
                        if name[0] != "i":
                            self.store(found, axis)
                            self.verify(path, "--axis", axis)
                self.store(np.sqrt((np.abs(wide) ** 2).sum(axis=over)), axis)
                self.verify(path, "--op", "norm", "--axis", axis)

    def test_sums_of_no_order_are_wrong(self):
        """Of n numbers, n - 1 additions err by at most 2^-53 of the magnitudes each."""
        path = self.path("a.h5")
        values = np.random.default_rng(6).normal(size=(1, 30000))
        write_h5(path, values)
        size, right = float(np.abs(values).sum()), math.fsum(values.ravel())
        bound = 30000 * 2.0**-53 * size
        for error, code, strict in ((0, 0, 0), (0.5, 0, 1), (1.5, 1, 1)):
            self.store(right + error * bound, "all")
            self.verify(path, code=code)
            self.verify(path, "--strict", code=strict)

    def test_an_infinity_beside_sums_that_overflow(self):
        most = np.finfo("f8").max
        path = self.path("a.h5")
        for elements, right in (([-most, -most, math.inf], (math.inf, math.nan)), ([most, most, -math.inf], (-math.inf, math.nan)),
                                ([most, most, math.inf], (math.inf,)), ([-most / 2, 1, math.inf], (math.inf,)),
                                ([math.inf, -math.inf, -most], (math.nan,))):
            for dtype, op in (("f8", "sum"), ("c16", "mean")):
                write_h5(path, np.array([elements]).astype(dtype))
                for level in LEVELS:
                    self.reduce(path, "--op", op, "-l", level)
                for found in (math.inf, -math.inf, math.nan, 0.0):
                    with self.subTest(elements=elements, dtype=dtype, op=op, found=found):
                        self.store(np.array([found]).astype(dtype), "all")
                        accepted = any(found == x or math.isnan(found) and math.isnan(x) for x in right)
                        self.verify(path, "--op", op, code=0 if accepted else 1)

    def test_bench_and_listings(self):
        words = ["bench", "reduce", "--size", "64,100x3", "--time-limit", "0.01", "-d", "cpu", "-t", "f32,c128,i8"]
        for axis in AXES:
            rows = json.loads(self.run_tool(*words, "--axis", axis, "--op", "norm", "--json").out)["rows"]
            self.assertEqual({row["verdict"] for row in rows}, {"passed"})
            self.assertEqual({row["level"] for row in rows}, {"read", *LEVELS})
        self.assertIn("of read", self.run_tool(*words).out)
        self.assertIn("vectorized", self.run_tool("levels", "reduce").out)
        self.assertIn("nan-count", self.run_tool("reduce", "--help").out)


class Notes(Reducing):
    def test_means_whose_sums_are_beyond_the_range(self):
        path = self.path("large.h5")
        write_h5(path, np.full((777, 2), 1e306))
        for axis in ("all", "columns"):
            words = ("reduce", path, "--axis", axis, "-d", "cpu")
            record = self.record(*words, "--op", "mean")
            self.assertIn("sums pass the range of f64", record["verification"]["note"])
            self.assertIn("sums pass the range of f64", self.run_tool(*words, "--op", "mean").err)
            self.assertIsNone(self.record(*words, "--op", "sum")["verification"]["note"])
        write_h5(path, np.full((777, 2), 1e300))
        self.assertIsNone(self.record("reduce", path, "--op", "mean", "-d", "cpu")["verification"]["note"])


class ManyResults(Reducing):
    """More results than are verified at a time."""

    def test_every_op(self):
        path = self.path("many.h5")
        for axis, shape in (("rows", (150001, 3)), ("columns", (5, 150001))):
            for name in ("f32", "i16", "c64"):
                matrix = random_values(name, shape)
                write_h5(path, matrix, name)
                wide = matrix.astype("c16" if name == "c64" else "f8")
                expected = {"sum": wide.sum(axis=AXES[axis]), "mean": wide.mean(axis=AXES[axis]), "nan-count": wide[0, 0] * 0,
                            "absmax": np.abs(wide).max(axis=AXES[axis]), "norm": np.linalg.norm(wide, axis=AXES[axis]),
                            "min": wide.real.min(axis=AXES[axis]), "max": wide.real.max(axis=AXES[axis])}
                for op in ops_of(name):
                    np.testing.assert_allclose(self.vector(path, "--axis", axis, "--op", op)[1].ravel(), expected[op], rtol=1e-12)

    def test_wrong_ones_are_found(self):
        path = self.path("many.h5")
        write_h5(path, random_values("f32", (150001, 3)))
        out = self.path("out.h5")
        self.tool = os.environ["GPUMAT_BROKEN"]
        failed = self.run_tool("reduce", path, "--axis", "rows", "-l", "broken-short-m", "-d", "cpu", "-o", out, "--json", code=1)
        self.assertEqual((failed.json()["verification"]["worst"]["row"], os.path.exists(out)), (150000, False))


class InParts(Reducing):
    """Matrices that are larger than the memory limit."""

    limit = None  # None: a little less than it takes to have the matrix whole

    def limit_of(self, path, words):
        if self.limit is not None:
            return self.limit
        whole = self.run_tool("reduce", path, *words, "-d", "cpu", "--verbose", code=None).err
        number, unit = re.search(r"memory: (\S+) (\S+) on the host", whole).groups()
        return str(int(float(number) * 0.98 * {"KiB": 2**10, "MiB": 2**20}[unit]))

    def record_of(self, path, *words, code=0):
        limit = self.limit_of(path, words)
        record = self.run_tool("reduce", path, *words, "-d", "cpu", "--json", "--memory-limit", limit, code=code).json()
        self.assertGreater(record["parts"], 1)
        self.assertEqual(record["verification"]["verdict"], "failed" if code else "passed")
        return record

    def reduce(self, path, *words, code=0):
        self.record_of(path, *words, code=code)

    def answer(self, path, *words):
        return self.record_of(path, *words)["answer"]

    def test_every_op_of_every_type_and_axis(self):
        path = self.path("large.h5")
        for i, name in enumerate(TYPES):
            array = random_values(name, (150, 90), seed=3)
            storage = {} if i % 2 or name == "bf16" else {"chunks": (30, 40), "compression": 1}
            write_h5(path, array, name, **storage)
            for axis in AXES:
                for op in some(ops_of(name), 2):
                    with self.subTest(name, axis=axis, op=op, storage=storage):
                        self.check(path, name, values_of(name, array), op, axis)

    def spread(self, elements, dtype=np.float64):
        """A matrix of at least 10 parts. Each of the elements is in another part, and what is between them is 0."""
        matrix = np.zeros((1280, 200), dtype)
        matrix[128 * np.arange(len(elements)) + 5, 77] = elements
        path = self.path("spread.h5")
        write_h5(path, matrix)
        self.limit = str(int(matrix[:128].nbytes * 1.3))
        return path

    def test_hostile_sums(self):
        cases = {
            "cancel": ([1e16, 1, -1e16], 1.0),
            "order": ([1.0, *[2.0**-53] * 4, -1.0], 4 * 2.0**-53),
            "large": ([1e308, 1e292, -1e308], 1e292),
            "largest": ([1e308, 1e307, -1e308], 1e307),
            "subnormal": ([5e-324, 1e-310, 5e-324, 5e-324], 1e-310 + 15e-324),
            "infinite": ([1, 2, math.inf, 3], "inf"),
            "both": ([-math.inf, 2, math.inf, 3], "nan"),
            "nan": ([1, 2, 3, math.nan], "nan"),
        }
        for name, (elements, expected) in cases.items():
            path = self.spread(elements)
            for level in LEVELS:
                record = self.record_of(path, "-l", level)
                self.assertEqual(record["answer"], expected, (name, level))
                self.assertGreaterEqual(record["parts"], 10)
            found = self.vector(path, "--axis", "columns")[1][0, 77]
            self.assertTrue(found == float(expected) or np.isnan([found, float(expected)]).all(), name)

    def test_sums_beyond_the_range_are_infinite(self):
        self.assertEqual(self.answer(self.spread([1.5e308, 1.5e308])), "inf")
        self.assertEqual(self.answer(self.spread([1e308] * 2), "--op", "norm"), math.sqrt(2) * 1e308)

    def test_hostile_norms(self):
        for elements in ([3e200, 4e200], [3e-200, 4e-200], [5e-324] * 9, [1e-320, 0, 1e-320], [1e300, 1e-300, 1], [-0.0]):
            square = sum(Fraction(x) ** 2 for x in elements)
            found = Fraction(self.answer(self.spread(elements), "--op", "norm"))
            self.assertLessEqual(max(found * (1 - 8 * U) - Fraction(5e-324), 0) ** 2, square, elements)
            self.assertGreaterEqual((found * (1 + 8 * U) + Fraction(5e-324)) ** 2, square, elements)
        self.assertEqual(self.answer(self.spread([1, -math.inf]), "--op", "norm"), "inf")
        self.assertEqual(self.answer(self.spread([1, math.nan, 1e300]), "--op", "norm"), "nan")

    def test_wide_integers(self):
        path = self.spread([2**63 - 1] * 3, np.int64)
        words = ["-d", "cpu", "--memory-limit", self.limit]
        done = self.run_tool("reduce", path, *words, "-v")
        self.assertIn("parts, which are combined to 1x1 of the result", done.err)
        self.assertIn("1 result does not fit in i64", done.err)
        self.assertEqual(int(done.out), (3 * (2**63 - 1) + 2**63) % 2**64 - 2**63)
        self.assertEqual(self.answer(path, "--op", "mean"), float(Fraction(3 * (2**63 - 1), 1280 * 200)))
        self.assertEqual(self.answer(self.spread([5, -(2**63)], np.int64), "--op", "absmax"), 2**63)

    def test_what_need_not_be_combined_is_not(self):
        path = self.path("large.h5")
        write_h5(path, np.random.default_rng(3).normal(size=(3000, 1500)), chunks=(100, 100))
        self.limit = "8MiB"
        for axis in ("rows", "columns"):
            done = self.run_tool("reduce", path, "-d", "cpu", "-v", "--axis", axis, "--memory-limit", self.limit)
            self.assertIn("parts, which give", done.err)
            whole = Reducing.reduce(self, path, "--axis", axis, "-o", self.path("whole.h5"))
            self.assertEqual(whole, "")
            self.assertEqual(read_h5(self.path("whole.h5"))[1].tobytes(), self.vector(path, "--axis", axis)[1].tobytes())
            os.remove(self.path("whole.h5"))

    def test_the_limit_is_kept(self):
        path = self.path("large.h5")
        write_h5(path, np.ones((8, 8)))
        of_tool = json.loads(self.run_tool("reduce", path, "-d", "cpu", "--json").out)["peak_host_bytes"]
        matrix = random_values("f32", (8192, 4096))  # 128 MiB
        write_h5(path, matrix)
        self.limit = "24MiB"
        for axis in ("all", "columns"):
            record = self.record_of(path, "--axis", axis, "-o", self.path("out.h5"), "--force")
            self.assertEqual(record["inputs"][0]["hash"], f"crc32:{zlib.crc32(matrix.tobytes()):08x}")
            if PLAIN:
                self.assertLess(record["peak_host_bytes"] - of_tool, 28 * MIB)  # with what libraries and threads take
            expected = matrix.sum(dtype=np.longdouble, axis=AXES[axis])
            np.testing.assert_allclose(read_h5(self.path("out.h5"))[1].ravel(), np.atleast_1d(expected).astype(float), rtol=1e-9)

    def test_many_results(self):
        """What verifies a result does not stay for all of them."""
        path = self.path("large.h5")
        self.limit = "16MiB"
        for axis, shape in (("rows", (4000000, 1)), ("columns", (1, 4000000))):
            matrix = random_values("f32", shape)
            write_h5(path, matrix)
            for op, expected in some((("sum", matrix), ("norm", np.abs(matrix)), ("max", matrix)), 3):
                record = self.record_of(path, "--axis", axis, "--op", op, "-o", self.path("out.h5"), "--force")
                np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], expected)
                self.assertEqual(record["inputs"][0]["hash"], f"crc32:{zlib.crc32(matrix.tobytes()):08x}")
                self.assert_peak(record["peak_host_bytes"], 16 * MIB + 216 * MIB)

    def test_stored_results_are_verified_in_parts(self):
        """Every op and axis, right and wrong, with what of the matrix is in memory at a time."""
        path, out = self.path("large.h5"), self.path("out.h5")
        every = ops_of("f64")
        for name, shape, ops in (("f64", (700, 300), every), ("c64", (600, 350), ["sum", "absmax"]), ("i16", (3, 90000), ["mean"]),
                                 ("f32", (90000, 3), ["norm"])):
            write_h5(path, random_values(name, shape, seed=4), name)
            for axis in AXES:
                for op in some(ops, 2):
                    Reducing.reduce(self, path, "--op", op, "--axis", axis, "-o", out, "--force")
                    words = ["verify", "reduce", path, out, "--op", op, "--axis", axis]
                    limits = ([], ["--memory-limit", str(max(400000, 90000 * 100 * (axis != "all" and 90000 in shape)))])
                    with self.subTest(name, axis=axis, op=op):
                        whole, parts = (self.run_tool(*words, *limit, "--json").json() for limit in limits)
                        for found in ("result", "inputs", "shape"):
                            self.assertEqual(whole[found], parts[found])
                        with h5py.File(out, "r+") as file:
                            results = file["R"][()]
                            results[-1, -1] = results[-1, -1] * 2 + 1
                            file["R"][()] = results
                        wrong = self.run_tool(*words, *limits[1], "--json", code=1).json()["verification"]
                        self.assertEqual((wrong["mismatches"], wrong["worst"]["row"], wrong["worst"]["col"]),
                                         (1, results.shape[0] - 1, results.shape[1] - 1))

    def test_wrong_parts_are_caught(self):
        path = self.spread([1.5, -2, 3])
        with h5py.File(path, "r+") as file:
            file["A"][127::128, :] = 1  # the last rows of parts
        out = self.path("out.h5")
        self.tool = os.environ["GPUMAT_BROKEN"]
        for level in ("broken-first-number", "broken-short-m"):
            for axis in ("all", "columns"):
                for op in ("sum", "mean", "norm"):
                    self.record_of(path, "-l", level, "--op", op, "--axis", axis, "-o", out, code=1)
                    self.assertFalse(os.path.exists(out))
        with h5py.File(path, "r+") as file:
            file["A"][127::128, :] = math.nan
        for op in ("nan-count", "min", "max", "absmax"):
            self.record_of(path, "-l", "broken-short-m", "--op", op, code=1)


if __name__ == "__main__":
    unittest.main()
