"""`gpumat compare`: by value and exactly, across types, formats, layouts and storage.

The oracle is exact arithmetic: elements become fractions, infinities and NaN are told apart first, and steps between
floating-point numbers are counted on the order of their bits.
"""

import gzip
import itertools
import json
import math
import os
import shutil
import subprocess
import unittest
from fractions import Fraction

import h5py
import numpy as np
import scipy.sparse

from harness import (DTYPES, TYPES, Case, cases, encode, random_bits, random_values, read_mtx, some, values_of, write_any,
                     write_h5, write_mtx)

INF, NAN = float("inf"), float("nan")


# ---------------------------------------------------------------------------------------------- oracle


def parts_of(value):
    """Real and imaginary part as Python numbers, exactly."""
    value = value.item() if hasattr(value, "item") else value
    return (value.real, value.imag) if isinstance(value, complex) else (value, 0)


def is_nan(part):
    return isinstance(part, float) and math.isnan(part)


def is_finite(part):
    return isinstance(part, int) or math.isfinite(part)


def same(x, y, nan_equal):
    return all(a == b or (nan_equal and is_nan(a) and is_nan(b)) for a, b in zip(parts_of(x), parts_of(y)))


def modulus(re, im):
    """Exactly where one is 0, else to some thirty digits."""
    if im == 0:
        return abs(re)
    square = re * re + im * im
    scale = 10 ** 60
    return Fraction(math.isqrt(int(square * scale * scale)), scale)


def agree(x, y, rtol, atol, nan_equal):
    """Whether elements are equal or within the tolerance; None for complex ones so near the limit that the rounding of
    a modulus decides."""
    if same(x, y, nan_equal):
        return True
    (a, b), (c, d) = parts_of(x), parts_of(y)
    if not all(map(is_finite, (a, b, c, d))):
        return False
    a, b, c, d = (Fraction(part) for part in (a, b, c, d))
    limit = Fraction(atol) + Fraction(rtol) * max(modulus(a, b), modulus(c, d))
    distance = modulus(a - c, b - d)
    if (b or d) and abs(distance - limit) <= limit / 2**50:
        return None
    return distance <= limit


def steps(dtype, x, y):
    """How many numbers of the type there are from x to y."""
    bits = np.array([x, y], dtype).view(f"i{np.dtype(dtype).itemsize}")
    largest = int(np.iinfo(bits.dtype).max)
    a, b = ((int(n) if n >= 0 else -(int(n) & largest)) for n in bits)
    return abs(a - b)


class CompareCase(Case):
    def compare(self, x, y, *options, code, **more):
        """The object that --json prints; checked for what always holds of it."""
        found = self.run_tool("compare", x, y, "--json", *options, code=code, **more).json()
        self.assertEqual((found["schema"], found["exit_code"]), ("gpumat.compare/1", code))
        if code < 2:
            self.assertEqual(found["equal"] + found["within_tolerance"] + found["differing"], found["elements"])
            self.assertEqual(found["verdict"], "differ" if code else
                             "within tolerance" if found["within_tolerance"] else "equal")
            self.assertLessEqual(len(found["differences"]), found["differing"])
        return found

    def check_counts(self, x, y, *options, rtol=0, atol=0, nan_equal=True, **more):
        """Compares x.h5 and y.h5, which hold these values, with the tolerances; every count and the mask as the
        oracle has them."""
        verdicts = np.array([[agree(a, b, rtol, atol, nan_equal) for a, b in zip(*rows)] for rows in zip(x, y)])
        expected, open_ones = verdicts == False, verdicts == None  # noqa: E711, E712: element by element
        unequal = sum(not same(a, b, nan_equal) for a, b in zip(x.flat, y.flat))
        found = self.compare("x.h5", "y.h5", "--rtol", repr(rtol), "--atol", repr(atol),
                             *([] if nan_equal else ["--nan", "differ"]), "--save-mismatch", "mask.h5", "--force",
                             "--max-differences", str(x.size), *options, code=int(expected.any()), **more)
        with h5py.File(self.path("mask.h5")) as file:
            mask = file["mismatch"][()]
        expected[open_ones] = mask[open_ones]
        np.testing.assert_array_equal(mask, expected)
        self.assertEqual(found["differing"], expected.sum())
        self.assertEqual(found["within_tolerance"], unequal - expected.sum())
        places = [(entry["row"], entry["col"]) for entry in found["differences"]]
        self.assertEqual(places, [tuple(place) for place in np.argwhere(expected)])
        nans = [np.isnan(matrix) if matrix.dtype.kind in "fc" else np.zeros(matrix.shape, bool) for matrix in (x, y)]
        self.assertEqual(found["nan"], {"x": nans[0].sum(), "y": nans[1].sum(), "both": (nans[0] & nans[1]).sum()})
        return found


# ------------------------------------------------------------------------------------- types and formats

@cases([(f"{x}_{y}", x, y) for x, y in itertools.product(TYPES, TYPES)])
class Types(CompareCase):
    """Every type beside every other: equal, and with one element changed."""

    def check(self, x, y):
        values = np.random.default_rng(1).integers(0, 100, (7, 9))
        changed = values.copy()
        changed[4, 6] += 1
        write_h5(self.path("x.h5"), encode(x, values), x)
        write_h5(self.path("y.h5"), encode(y, values), y)
        write_h5(self.path("z.h5"), encode(y, changed), y)
        found = self.compare("x.h5", "y.h5", code=0)
        self.assertEqual((found["equal"], found["elements"]), (63, 63))
        self.assertEqual((found["x"]["type"], found["y"]["type"]), (x, y))
        self.assertIsNone(found["largest"]["absolute"])
        found = self.compare("x.h5", "z.h5", code=1)
        self.assertEqual(found["differing"], 1)
        self.assertEqual([(entry["row"], entry["col"], entry["absolute"]) for entry in found["differences"]],
                         [(4, 6, 1)])
        self.assertEqual(found["norms"]["difference"]["frobenius"], 1)
        self.compare("x.h5", "y.h5", "--same-type", code=0 if x == y else 8)


@cases([(name, name) for name in TYPES])
class AnyBits(CompareCase):
    """A matrix of any bits equals itself, in any storage; a matrix that holds NaN does not where NaN differs."""

    def check(self, name):
        matrix = random_bits(name, (101, 67))
        write_h5(self.path("x.h5"), matrix, name)
        if name == "bf16":
            shutil.copy(self.path("x.h5"), self.path("y.h5"))
        else:
            write_h5(self.path("y.h5"), matrix, name, chunks=(16, 33), compression=4, shuffle=True)
        found = self.compare("x.h5", "y.h5", code=0)
        values = values_of(name, matrix)
        nans = int(np.isnan(values).sum()) if values.dtype.kind in "fc" else 0
        self.assertEqual(found["nan"], {"x": nans, "y": nans, "both": nans})
        self.assertEqual(found["equal"], matrix.size)
        found = self.compare("x.h5", "y.h5", "--nan", "differ", code=1 if nans else 0)
        self.assertEqual(found["differing"], nans)


@cases([(f"{source}_{name}", name, source) for name in TYPES for source in ("mtx", "mtx_gz", "coordinate", "transposed")])
class Formats(CompareCase):
    def check(self, name, source):
        matrix = random_values(name, (23, 41), span=5)
        write_h5(self.path("x.h5"), matrix, name)
        options = []
        if source == "transposed":
            write_h5(self.path("y.h5"), matrix.T.copy(), name)
            y, options = "y.h5", ["--transposed"]
        elif source == "coordinate":
            y = "y.mtx"
            write_mtx(self.path(y), scipy.sparse.coo_matrix(values_of(name, matrix).astype(
                {"f": np.float64, "c": np.complex128, "i": np.int64, "u": np.uint64}[values_of(name, matrix).dtype.kind])), precision=17)
        else:
            y = "y.mtx"
            write_any(self.path(y), matrix, name)
            if source == "mtx_gz":
                with open(self.path("y.mtx"), "rb") as file, gzip.open(self.path("z.mtx.gz"), "wb") as packed:
                    packed.write(file.read())
                y = "z.mtx.gz"
        self.compare("x.h5", y, *options, code=0)
        self.compare(y, "x.h5", *options, code=0)
        matrix[17, 30] = encode(name, np.array([77]))[0]
        write_h5(self.path("x.h5"), matrix, name)
        found = self.compare("x.h5", y, *options, code=1)
        self.assertEqual([(entry["row"], entry["col"]) for entry in found["differences"]], [(17, 30)])
        row, col = (30, 17) if options else (17, 30)
        found = self.compare(y, "x.h5", *options, code=1)
        self.assertEqual([(entry["row"], entry["col"]) for entry in found["differences"]], [(row, col)])


# -------------------------------------------------------------------------------------- exact comparison


class Exact(CompareCase):
    def check_values(self, x, y, x_type, y_type, differ, **expected):
        """One element against another."""
        write_h5(self.path("x.h5"), encode(x_type, np.array([[x]])), x_type)
        write_h5(self.path("y.h5"), encode(y_type, np.array([[y]])), y_type)
        found = self.compare("x.h5", "y.h5", code=int(differ))
        for name, value in expected.items():
            self.assertEqual(found["largest"][name][name], value, (name, found))
        return found

    def test_integers_beside_doubles(self):
        u64, i64 = np.uint64, np.int64
        self.check_values(u64(2**63 + 1), 2.0**63, "u64", "f64", True, absolute=1)
        self.check_values(u64(2**63), 2.0**63, "u64", "f64", False)
        self.check_values(u64(2**64 - 1), 2.0**64, "u64", "f64", True, absolute=1)
        self.check_values(i64(2**53 + 1), 2.0**53, "i64", "f64", True, absolute=1)
        self.check_values(i64(2**53 - 1), 2.0**53 - 1, "i64", "f64", False)
        self.check_values(i64(-2**63), -2.0**63, "i64", "f64", False)
        self.check_values(i64(2**63 - 1), 2.0**63, "i64", "f64", True, absolute=1)
        self.check_values(i64(2**24 + 1), 2.0**24, "i64", "f32", True, absolute=1)
        self.check_values(i64(1), 1.5, "i64", "f64", True, absolute=0.5)
        self.check_values(i64(2**53 + 1), 2.0**53 + 0j, "i64", "c128", True, absolute=1)

    def test_integers_beside_integers(self):
        u64, i64 = np.uint64, np.int64
        self.check_values(u64(2**64 - 1), i64(-1), "u64", "i64", True, absolute=2.0**64)
        self.check_values(u64(2**63), i64(-2**63), "u64", "i64", True, absolute=2.0**64)
        self.check_values(u64(2**64 - 1), u64(2**64 - 2), "u64", "u64", True, absolute=1, ulp=1)
        self.check_values(i64(2**62 + 1), i64(2**62), "i64", "i64", True, absolute=1)
        self.check_values(i64(-2**63), i64(2**63 - 1), "i64", "i64", True, absolute=2.0**64)
        self.check_values(np.uint8(200), np.int8(-56), "u8", "i8", True, absolute=256)
        found = self.check_values(u64(2**64 - 1), i64(-1), "u64", "i64", True)
        self.assertEqual((found["differences"][0]["x"], found["differences"][0]["y"]), (2**64 - 1, -1))

    def test_adjacent_doubles(self):
        self.check_values(1e308, math.nextafter(1e308, INF), "f64", "f64", True, ulp=1)
        self.check_values(5e-324, 0.0, "f64", "f64", True, ulp=1, absolute=5e-324, relative=1)
        self.check_values(5e-324, -5e-324, "f64", "f64", True, ulp=2, absolute=1e-323)
        self.check_values(0.1, np.float32(0.1), "f64", "f32", True)

    def test_largest_doubles_of_other_signs(self):
        """Their difference passes the range of double, and is not within a tolerance that is too small."""
        found = self.check_values(1.7e308, -1.7e308, "f64", "f64", True)
        self.assertEqual(found["largest"]["absolute"]["absolute"], "inf")
        self.compare("x.h5", "y.h5", "--rtol", "1.99", code=1)
        self.compare("x.h5", "y.h5", "--rtol", "2", code=0)

    def test_complex_of_large_parts(self):
        """The modulus passes the range of double."""
        self.check_values(1.7e308 + 1.7e308j, 1.7e308 + 1.6e308j, "c128", "c128", True)
        self.compare("x.h5", "y.h5", "--rtol", "0.05", code=0)
        self.compare("x.h5", "y.h5", "--rtol", "0.04", code=1)

    def test_zeros(self):
        for x, y in (("f32", "f32"), ("f16", "f64"), ("f64", "i8"), ("c64", "f32"), ("bf16", "u64")):
            self.check_values(-0.0 if x != "bf16" else np.float32(-0.0), 0.0, x, y, False)

    def test_complex_beside_real(self):
        self.check_values(3.0, 3 + 0j, "f64", "c64", False)
        self.check_values(3.0, 3 + 1j, "f64", "c64", True, absolute=1)
        self.check_values(3.0, complex(3, NAN), "f64", "c128", True)
        self.check_values(NAN, complex(NAN, 0), "f64", "c128", False)
        self.check_values(NAN, complex(NAN, 1), "f64", "c128", True)
        self.check_values(complex(NAN, 1), complex(NAN, 2), "c128", "c128", True)
        self.check_values(complex(INF, 1), complex(INF, 1), "c128", "c64", False)
        self.check_values(complex(INF, 1), complex(INF, 2), "c128", "c128", True)

    def test_steps_between_types(self):
        """Of the coarser type, in proportion where an element lies between two steps."""
        step = 2.0**-23
        self.check_values(1.0, 1 + step / 4, "f32", "f64", True, ulp=0.25)
        self.check_values(1 + 3 * step, 1.0, "f64", "f32", True, ulp=3)
        self.check_values(1.0, 1 - step, "f32", "f64", True, ulp=2)  # half steps below 1
        self.check_values(2.0, 1 - step, "f32", "f64", True, ulp=2**23 + 2)
        self.check_values(-1.0, 1.0, "f32", "f64", True, ulp=2 * steps("f4", 0.0, 1.0))
        self.check_values(2.0**-149, 0.0, "f64", "f32", True, ulp=1)
        self.check_values(2.0**-150, 0.0, "f64", "f32", True, ulp=0.5)
        self.check_values(np.int64(2**24 + 1), 2.0**24, "i64", "f32", True, ulp=0.5)
        self.check_values(1.0, np.float32(1 + 2.0**-7), "f64", "bf16", True, ulp=1)
        self.check_values(1.0, 1 + 2.0**-10, "f32", "f16", True, ulp=1)
        self.check_values(2.0**-24, 0.0, "f16", "f16", True, ulp=1)
        self.check_values(np.float32(2.0**-133), np.float32(0), "bf16", "bf16", True, ulp=1)

    def test_ulp_zero_is_equality(self):
        write_h5(self.path("x.h5"), np.array([[2**62 + 1]]), "i64")
        write_h5(self.path("y.h5"), np.array([[2.0**62]]), "f64")
        self.compare("x.h5", "y.h5", "--ulp", "0", code=1)
        self.compare("x.h5", "y.h5", "--ulp", "1", code=0)


# ------------------------------------------------------------------------------- tolerances, by the oracle

SPECIAL = [0.0, -0.0, 1.0, 1.0 + 2.0**-10, -1.0, 2.5, 3.0, 7.0, 6e4, 2.0**-24, 3 * 2.0**-24, 2.0**-14, INF, -INF, NAN,
           -NAN]
TOLERANCES = [(0, 0), (1e-3, 0), (0, 1e-3), (0.5, 0.25), (0, 2.0**-24), (2.0**-11, 0), (1, 0)]


def special_values(name, count, seed):
    rng = np.random.default_rng(seed)
    if DTYPES[name](0).dtype.kind in "iu" and name != "bf16":
        limits = np.iinfo(DTYPES[name])
        pool = [0, 1, 2, 3, 7, 100, limits.max, limits.max - 1, limits.min, limits.min + 1]
        return np.array([pool[i] for i in rng.integers(0, len(pool), count)], DTYPES[name])
    values = np.array(SPECIAL)[rng.integers(0, len(SPECIAL), count)]
    if name[0] == "c":
        parts = np.array(SPECIAL)[rng.integers(0, len(SPECIAL), count)]
        both = np.empty(count, np.complex128)
        both.real, both.imag = values, np.where(rng.random(count) < 0.6, 0, parts)
        values = both
    return encode(name, values)


@cases([(f"{x}_{y}", x, y) for x, y in some([("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("bf16", "bf16"), ("f16", "bf16"),
                                             ("f32", "f64"), ("f64", "i64"), ("u64", "f64"), ("i64", "u64"), ("i8", "f16"),
                                             ("u64", "u64"), ("c64", "c64"), ("c128", "c128"), ("c64", "f64"), ("c128", "u64"),
                                             ("i32", "u8")], 3)])
class Tolerances(CompareCase):
    """Special values against each other, all counts and the mask by exact arithmetic."""

    def check(self, x, y):
        left, right = special_values(x, 20 * 30, 1).reshape(20, 30), special_values(y, 20 * 30, 2).reshape(20, 30)
        write_h5(self.path("x.h5"), left, x)
        write_h5(self.path("y.h5"), right, y)
        for rtol, atol in TOLERANCES:
            for nan_equal in (True, False):
                self.check_counts(values_of(x, left), values_of(y, right), rtol=rtol, atol=atol, nan_equal=nan_equal)


@cases([(name, name) for name in ("f16", "f32", "f64")])
class Ulps(CompareCase):
    def check(self, name):
        dtype = np.dtype(DTYPES[name])
        integers = np.dtype(f"u{dtype.itemsize}")
        x = random_bits(name, (30, 40))
        x[~np.isfinite(x)] = 1
        moved = x.view(integers) + np.random.default_rng(2).integers(0, 6, x.shape).astype(integers)
        y = moved.view(dtype).reshape(x.shape)
        y[~np.isfinite(y)] = 1
        y[0, 0], x[0, 0] = dtype.type(-0.0), np.nextafter(dtype.type(0), dtype.type(1))
        write_h5(self.path("x.h5"), x)
        write_h5(self.path("y.h5"), y)
        apart = np.array([[steps(dtype, a, b) for a, b in zip(*rows)] for rows in zip(x, y)])
        for ulps in (0, 1, 3, 5):
            differing = int((apart > ulps).sum())
            found = self.compare("x.h5", "y.h5", "--ulp", str(ulps), code=int(differing > 0))
            self.assertEqual(found["differing"], differing)
            self.assertEqual(found["within_tolerance"], int((apart > 0).sum()) - differing)
        self.assertEqual(found["largest"]["ulp"]["ulp"], float(apart.max()))
        row, col = np.argwhere(apart == apart.max())[0]
        self.assertEqual((found["largest"]["ulp"]["row"], found["largest"]["ulp"]["col"]), (row, col))


@cases([(f"{x}_{y}", x, y) for x, y in [("f32", "f32"), ("f64", "f64"), ("i32", "i32"), ("u8", "u8"), ("f32", "f64"),
                                        ("f16", "f16"), ("i64", "i64"), ("c64", "c64")]])
class ManyDifferences(CompareCase):
    """Where nearly all elements differ, by much, by little or by about the tolerance."""

    def check(self, x, y):
        rng = np.random.default_rng(4)
        left = random_values(x, (50, 60), span=100)
        exponents = rng.uniform(-9, 0, left.shape)
        right = (values_of(x, left) * (1 + 10.0 ** exponents * rng.choice([-1, 1], left.shape))).astype(DTYPES[y])
        write_h5(self.path("x.h5"), left, x)
        write_h5(self.path("y.h5"), right, y)
        for rtol, atol in ((0, 0), (1e-4, 0), (0.5, 3), (0, 0.25), (2, 0)):
            verdicts = np.array([[agree(a, b, rtol, atol, True) for a, b in zip(*rows)] for rows in zip(left, right)])
            differing = verdicts == False  # noqa: E712: element by element
            self.assertFalse((verdicts == None).any())  # noqa: E711
            found = self.compare("x.h5", "y.h5", "--rtol", repr(rtol), "--atol", repr(atol), "--max-differences", "5",
                                 "--save-mismatch", "mask.h5", "--force", code=int(differing.any()))
            self.assertEqual(found["differing"], differing.sum())
            self.assertEqual(found["equal"], (left == right).sum())
            self.assertEqual([(entry["row"], entry["col"]) for entry in found["differences"]],
                             [tuple(place) for place in np.argwhere(differing)[:5]])
            with h5py.File(self.path("mask.h5")) as file:
                np.testing.assert_array_equal(file["mismatch"][()], differing)
            wide = np.clongdouble if x[0] == "c" else np.longdouble
            distance = np.abs(left.astype(wide) - right.astype(wide))
            size = np.maximum(np.maximum(np.abs(left.astype(wide)), np.abs(right.astype(wide))), 1e-300)
            for name, sizes in (("absolute", distance), ("relative", distance / size)):
                largest = found["largest"][name]
                self.assertAlmostEqual(largest[name] / float(sizes.max()), 1, delta=1e-15)
                self.assertAlmostEqual(float(sizes[largest["row"], largest["col"]] / sizes.max()), 1, delta=1e-15)
            norm = float(np.sqrt((distance ** 2).sum()))
            self.assertAlmostEqual(found["norms"]["difference"]["frobenius"] / norm, 1, delta=1e-13)
            self.assertAlmostEqual(found["norms"]["difference"]["max"] / float(distance.max()), 1, delta=1e-15)


class Findings(CompareCase):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.x = rng.normal(size=(500, 300))
        self.y = self.x.copy()
        self.places = [(243, 2), (0, 299), (499, 0)]
        for place, added in zip(self.places, (1.5, 1e-3, -0.25)):
            self.y[place] += added
        write_h5(self.path("x.h5"), self.x)
        write_h5(self.path("y.h5"), self.y)

    def test_norms_and_largest(self):
        found = self.compare("x.h5", "y.h5", code=1)
        d = self.y - self.x
        norms = found["norms"]
        for name, matrix in (("x", self.x), ("y", self.y), ("difference", d)):
            self.assertEqual(norms[name]["max"], np.abs(matrix).max())
            self.assertAlmostEqual(norms[name]["frobenius"], np.linalg.norm(matrix), delta=1e-12 * np.linalg.norm(matrix))
        larger = max(np.linalg.norm(self.x), np.linalg.norm(self.y))
        self.assertAlmostEqual(norms["difference"]["relative_frobenius"], np.linalg.norm(d) / larger, delta=1e-15)
        largest = found["largest"]["absolute"]
        self.assertEqual((largest["row"], largest["col"], largest["x"], largest["y"], largest["absolute"]),
                         (243, 2, self.x[243, 2], self.y[243, 2], abs(self.y[243, 2] - self.x[243, 2])))
        relative = np.abs(d) / np.maximum(np.abs(self.x), np.abs(self.y))
        place = np.unravel_index(relative.argmax(), relative.shape)
        largest = found["largest"]["relative"]
        self.assertEqual((largest["row"], largest["col"]), place)
        self.assertAlmostEqual(largest["relative"], relative.max(), delta=1e-15)

    def test_people_count_from_one(self):
        result = self.run_tool("compare", "x.h5", "y.h5", code=1)
        self.assertIn("row 244 of 500, column 3 of 300", result.out)
        self.assertIn("differ: 3 of 150000 elements", result.out)
        self.assertEqual(self.run_tool("compare", "x.h5", "y.h5", "--quiet", code=1).out, "")
        self.assertIn("are equal", self.run_tool("compare", "x.h5", "x.h5").out)
        agreeing = self.run_tool("compare", "x.h5", "y.h5", "--atol", "2")
        self.assertIn("3 of 150000 elements are not equal, all within the tolerance", agreeing.out)

    def test_the_first_differences_are_listed_in_order(self):
        for count in (0, 1, 2, 3, 10):
            found = self.compare("x.h5", "y.h5", "--max-differences", str(count), code=1)
            places = [(entry["row"], entry["col"]) for entry in found["differences"]]
            self.assertEqual(places, sorted(self.places)[:count])

    def test_norms_of_extreme_doubles(self):
        for scale in (1e300, 1e-300, 5e-324):
            x = np.array([[3.0, 0], [0, 4]]) * scale
            write_h5(self.path("x.h5"), x)
            write_h5(self.path("y.h5"), np.zeros((2, 2)))
            found = self.compare("x.h5", "y.h5", code=1)
            for name in ("x", "difference"):
                self.assertAlmostEqual(found["norms"][name]["frobenius"] / (5 * scale), 1, delta=1e-15)
            self.assertEqual(found["norms"]["y"]["frobenius"], 0)
            self.compare("x.h5", "x.h5", code=0)

    def test_the_largest_among_subnormal_doubles(self):
        x = np.full((40, 50), 1.0)
        y = x + np.random.default_rng(5).uniform(1e-9, 1e-6, x.shape)
        x[30, 20], y[30, 20] = 5e-324, 2e-323
        x[35, 3], y[35, 3] = 1e-310, -1e-310
        write_h5(self.path("x.h5"), x)
        write_h5(self.path("y.h5"), y)
        for options in ([], ["--rtol", "1e-3"], ["--atol", "1e-3"]):
            found = self.compare("x.h5", "y.h5", *options, code=0 if "--atol" in options else 1)["largest"]
            self.assertEqual([found["relative"][key] for key in ("row", "col", "relative")], [35, 3, 2])
            self.assertEqual([found["ulp"][key] for key in ("row", "col", "ulp")],
                             [35, 3, float(2 * steps("f8", 0.0, 1e-310))])

    def test_infinities_and_nan_in_json(self):
        write_h5(self.path("x.h5"), np.array([[INF, 1, NAN, -INF]]))
        write_h5(self.path("y.h5"), np.array([[1e300, NAN, NAN, -INF]]))
        found = self.compare("x.h5", "y.h5", "--rtol", "1", "--atol", "1e308", "--ulp", "1000000", code=1)
        self.assertEqual((found["differing"], found["equal"]), (2, 2))
        self.assertEqual(found["nan"], {"x": 1, "y": 2, "both": 1})
        self.assertEqual(found["infinite"], {"x": 2, "y": 1})
        self.assertEqual(found["differences"][0],
                         {"row": 0, "col": 0, "x": "inf", "y": 1e300, "absolute": "inf", "relative": "inf", "ulp": None})
        self.assertEqual(found["differences"][1]["y"], "nan")
        self.assertEqual(found["largest"]["absolute"]["absolute"], "inf")
        self.assertIsNone(found["largest"]["ulp"])

    def test_threads_find_the_same(self):
        one, other = (self.compare("x.h5", "y.h5", "--threads", threads, code=1) for threads in ("1", "3"))
        for name in ("run_id", "time", "processor", "command_line"):
            del one[name], other[name]
        self.assertEqual(one, other)


# ------------------------------------------------------------------------------------------------ shapes


class Shapes(CompareCase):
    def write_shapes(self, **shapes):
        for name, shape in shapes.items():
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file["A"] = np.zeros(shape, np.float32)

    def test_another_shape_is_no_comparison(self):
        self.write_shapes(a=(3, 4), b=(4, 3), c=(0, 4), d=(3, 0), e=(12,), f=(12, 1), g=(1, 12))
        for x, y in itertools.combinations("abcdfg", 2):
            found = self.compare(f"{x}.h5", f"{y}.h5", code=8)
            self.assertEqual(found["verdict"], "not comparable")
            self.assertIn("expected equal shapes", found["error"])
        self.compare("a.h5", "b.h5", "--transposed", code=0)
        self.compare("a.h5", "a.h5", "--transposed", code=8)
        self.compare("f.h5", "g.h5", "--transposed", code=0)
        self.compare("f.h5", "e.h5", "--as-column", code=0)
        self.compare("f.h5", "e.h5", code=3)

    def test_empty_matrices(self):
        self.write_shapes(a=(0, 4), b=(0, 4), c=(4, 0), d=(0, 0))
        self.assertEqual(self.compare("a.h5", "b.h5", code=0)["elements"], 0)
        self.compare("a.h5", "c.h5", "--transposed", code=0)
        self.compare("d.h5", "d.h5", "--save-mismatch", "mask.h5", code=0)
        for x in "acd":
            for y in set("acd") - {x}:
                self.compare(f"{x}.h5", f"{y}.h5", code=8)
        write_mtx(self.path("a.mtx"), np.zeros((0, 4)))
        self.compare("a.h5", "a.mtx", code=0)


# ------------------------------------------------------------------------------------------------ blocks

STORAGES = {
    "contiguous": {},
    "square_chunks": {"chunks": (64, 64)},
    "odd_chunks": {"chunks": (100, 70), "compression": 1},
    "wide_chunks": {"chunks": (3, 1050), "compression": "lzf"},
    "tall_chunks": {"chunks": (1250, 2)},
    "one_chunk": {"chunks": (1250, 1050), "compression": 1, "shuffle": True},
}


@cases([(f"{x}_{y}_{'transposed' if transposed else 'plain'}", x, y, transposed)
        for x, y in itertools.combinations_with_replacement(STORAGES, 2) for transposed in (False, True)
        if {x, y} & {"contiguous", "odd_chunks"}])
class Blocks(CompareCase):
    """Matrices of many blocks, in storages that do not fit together."""

    def check(self, x, y, transposed):
        rows, cols = 1250, 1050
        left = np.arange(rows * cols, dtype=np.int32).reshape(rows, cols)
        right = left.astype(np.int64)
        places = [(0, 0), (63, 64), (100, 69), (624, 1049), (1249, 0), (1249, 1049)]
        for place in places:
            right[place] += 1
        options = ["--transposed"] if transposed else []
        write_h5(self.path("x.h5"), left, **STORAGES[x])
        how = dict(STORAGES[y])
        if transposed and "chunks" in how:
            how["chunks"] = how["chunks"][::-1]
        write_h5(self.path("y.h5"), right.T if transposed else right, **how)
        for limit in ([], ["--memory-limit", "32MiB"]):
            found = self.compare("x.h5", "y.h5", *options, *limit, code=1)
            self.assertEqual([(entry["row"], entry["col"]) for entry in found["differences"]], places)
            self.assertEqual(found["differing"], len(places))
            self.assertAlmostEqual(found["norms"]["x"]["frobenius"], np.linalg.norm(left.astype(float)),
                                   delta=1e-12 * np.linalg.norm(left.astype(float)))


class Memory(CompareCase):
    def test_limits(self):
        matrix = random_values("f64", (300, 350))
        write_h5(self.path("x.h5"), matrix)
        write_h5(self.path("y.h5"), matrix, chunks=(7, 9))
        write_mtx(self.path("y.mtx"), matrix)
        write_mtx(self.path("sparse.mtx"), scipy.sparse.coo_matrix(matrix), precision=17)
        for y in ("y.h5", "y.mtx", "sparse.mtx"):
            self.compare("x.h5", y, "--memory-limit", "256KiB", code=0)
        self.compare("y.mtx", "y.mtx", "--memory-limit", "256KiB", code=0)
        result = self.run_tool("compare", "x.h5", "y.mtx", "--memory-limit", "1KiB", code=6)
        self.assert_says(result, "the limit is 1.00 KiB", "of memory")
        # What the message says is enough is enough.
        least = result.err.split(" needs ")[1].split(" of memory")[0].replace(" ", "")
        number = float(least.replace("KiB", "")) * 1.01
        self.compare("x.h5", "y.mtx", "--memory-limit", f"{math.ceil(number * 1024)}b", code=0)

    def test_transposed_text_in_little_memory(self):
        matrix = random_values("f64", (150, 170))
        write_mtx(self.path("x.mtx"), matrix)
        write_mtx(self.path("y.mtx"), np.asfortranarray(matrix.T))
        self.compare("x.mtx", "y.mtx", "--transposed", "--memory-limit", "128KiB", code=0)
        matrix[140, 3] += 1
        write_mtx(self.path("x.mtx"), matrix)
        self.compare("x.mtx", "y.mtx", "--transposed", "--memory-limit", "128KiB", code=1)


# --------------------------------------------------------------------------------- files, streams, usage


class Files(CompareCase):
    def setUp(self):
        super().setUp()
        self.matrix = random_values("f64", (40, 50))
        write_h5(self.path("x.h5"), self.matrix)
        write_mtx(self.path("x.mtx"), self.matrix)

    def text(self):
        with open(self.path("x.mtx"), "rb") as file:
            return file.read()

    def test_two_datasets_of_one_file(self):
        write_h5(self.path("two.h5"), self.matrix, dataset="A")
        write_h5(self.path("two.h5"), self.matrix + 1, dataset="group/B", mode="a")
        self.compare("two.h5:/A", "two.h5:/group/B", code=1)
        self.compare("two.h5:/A", "two.h5:/A", code=0)
        self.assertIn("name one", self.compare("two.h5", "x.h5", code=3)["error"])

    def test_standard_input(self):
        self.compare("-", "x.h5", stdin=self.text(), code=0)
        self.compare("x.h5", "-", stdin=gzip.compress(self.text()), code=0)
        self.compare("x.mtx", "-", stdin=self.text(), code=0)
        self.compare("x.h5", "-", stdin=self.text().replace(b"\n", b"\n1", 3), code=3)
        self.compare("-", "-", stdin=self.text(), code=2)
        write_mtx(self.path("sparse.mtx"), scipy.sparse.coo_matrix(self.matrix), precision=17)
        with open(self.path("sparse.mtx"), "rb") as file:
            sparse = file.read()
        self.compare("x.h5", "-", stdin=sparse, code=0)
        self.compare("x.h5", "-", "--memory-limit", "8KiB", stdin=sparse, code=6)
        write_h5(self.path("xt.h5"), self.matrix.T.copy())
        self.compare("xt.h5", "-", "--transposed", stdin=sparse, code=0)
        self.compare("xt.h5", "-", "--transposed", stdin=self.text(), code=0)

    def test_bad_files(self):
        other = self.matrix.copy()
        other[0, 0] += 1  # found before the file turns out to be damaged
        write_h5(self.path("other.h5"), other)
        with open(self.path("cut.mtx"), "wb") as file:
            file.write(self.text()[:-30])
        with open(self.path("cut.mtx.gz"), "wb") as file:
            file.write(gzip.compress(self.text())[:-20])
        with open(self.path("x.h5"), "rb") as whole, open(self.path("cut.h5"), "wb") as file:
            file.write(whole.read()[:-4000])
        for bad in ("cut.mtx", "cut.mtx.gz", "cut.h5", "none.h5"):
            for good in ("x.h5", "other.h5"):
                found = self.compare(good, bad, code=3)
                self.assertEqual(found["verdict"], "error")
                self.assertIn(bad, found["error"])
                self.compare(bad, good, code=3)

    def test_saved_mask(self):
        other = self.matrix.copy()
        other[7, 9] = NAN
        write_h5(self.path("other.h5"), other)
        expected = np.zeros(other.shape, np.uint8)
        expected[7, 9] = 1
        for mask in ("mask.h5", "mask.mtx"):
            self.assertEqual(self.compare("x.h5", "other.h5", "--save-mismatch", mask, code=1)["mismatch"], mask)
            self.compare("x.h5", "other.h5", "--save-mismatch", mask, code=4)
            self.compare("x.h5", "x.h5", "--save-mismatch", mask, "--force", code=0)
            self.compare("x.h5", "other.h5", "--save-mismatch", mask, "--force", code=1)
        with h5py.File(self.path("mask.h5")) as file:
            self.assertEqual(file["mismatch"].dtype, np.uint8)
            np.testing.assert_array_equal(file["mismatch"][()], expected)
        np.testing.assert_array_equal(read_mtx(self.path("mask.mtx")), expected)

    def test_a_mask_never_replaces_what_it_is_of(self):
        for mask in ("x.h5", "x.mtx", "no/folder.h5"):
            self.compare("x.h5", "x.mtx", "--save-mismatch", mask, "--force", code=4)
        self.compare("x.h5", "x.mtx", "--save-mismatch", "mask.txt", code=2)
        self.compare("x.h5", "x.mtx", "--save-mismatch", "-", code=2)
        self.compare("x.h5", "x.mtx", code=0)

    def test_a_mask_is_not_left_behind(self):
        with open(self.path("cut.mtx"), "wb") as file:
            file.write(self.text()[:-30])
        self.compare("x.h5", "cut.mtx", "--save-mismatch", "mask.h5", code=3)
        self.compare("x.h5", "cut.mtx", "--save-mismatch", "mask.mtx", code=3)
        self.assertEqual([name for name in os.listdir(self.folder) if "mask" in name], [])

    def test_type(self):
        write_h5(self.path("single.h5"), self.matrix.astype(np.float32))
        self.compare("x.h5", "single.h5", code=1)
        self.compare("x.h5", "single.h5", "-t", "f32", "--same-type", code=0)
        self.compare("x.h5", "single.h5", "-t", "i8", code=3)

    def test_usage(self):
        for options in (["--rtol", "-1"], ["--rtol", "nan"], ["--atol", "inf"], ["--ulp", "-1"], ["--ulp", "1.5"],
                        ["--ulp", str(2**53)], ["--nan", "maybe"], ["--max-differences", "-1"], ["--force"],
                        ["-t", "f33"], ["--threads", "0"], ["--memory-limit", "-1"], ["more"]):
            self.run_tool("compare", "x.h5", "x.h5", *options, code=2)
        self.run_tool("compare", "x.h5", code=2)
        self.compare("x.h5", "x.h5", "--ulp", str(2**53 - 1), code=0)


class WholeFiles(CompareCase):
    """Two files of several matrices, none of them named: pairs by name."""

    def setUp(self):
        super().setUp()
        self.matrices = {name: random_values("f64", (20, 30), seed) for seed, name in enumerate("ABC")}
        self.write("x.h5", self.matrices)

    def write(self, file, matrices):
        if os.path.exists(self.path(file)):
            os.remove(self.path(file))
        for name, matrix in matrices.items():
            write_h5(self.path(file), matrix, dataset=name, mode="a")

    def pairs(self, *options, code):
        found = self.run_tool("compare", "x.h5", "y.h5", "--json", *options, code=code).json()
        self.assertEqual(found["exit_code"], code)
        return found, {(pair["x"] or pair["y"])["dataset"]: pair for pair in found["pairs"]}

    def test_equal(self):
        self.write("y.h5", dict(reversed(self.matrices.items())))
        found, pairs = self.pairs(code=0)
        self.assertEqual((found["verdict"], found["x"]["path"], found["x"]["dataset"]), ("equal", "x.h5", None))
        self.assertEqual({name: pair["verdict"] for name, pair in pairs.items()}, dict.fromkeys(["/A", "/B", "/C"], "equal"))
        text = self.run_tool("compare", "x.h5", "y.h5", code=0).out
        self.assertEqual(text.splitlines(), [f"/{name}: equal (20x30 f64)" for name in "ABC"] + ["x.h5 and y.h5 agree: 3 matrices"])
        with open(self.path("x.h5"), "rb") as file:
            self.run_tool("compare", "-", "y.h5", "--from", "hdf5", stdin=file.read(), code=0)

    def test_two_names_of_one_matrix(self):
        self.write("y.h5", {**self.matrices, "D": self.matrices["B"]})
        with h5py.File(self.path("x.h5"), "a") as file:
            file["D"] = file["B"]
        for left, right in (("x.h5", "y.h5"), ("y.h5", "x.h5")):
            found = self.run_tool("compare", left, right, "--json", code=0).json()
            self.assertEqual([pair["verdict"] for pair in found["pairs"]], 4 * ["equal"])

    def test_one_of_them_differs(self):
        changed = self.matrices["B"].copy()
        changed[4, 5] += 0.5
        self.write("y.h5", {**self.matrices, "B": changed})
        found, pairs = self.pairs("--log", "log.jsonl", code=1)
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["pairs"] for line in file], [found["pairs"]])
        self.assertEqual((found["verdict"], [pair["exit_code"] for pair in found["pairs"]]), ("differ", [0, 1, 0]))
        self.assertEqual([(entry["row"], entry["col"]) for entry in pairs["/B"]["differences"]], [(4, 5)])
        text = self.run_tool("compare", "x.h5", "y.h5", code=1).out
        self.assertIn("/B: differ: 1 of 600 elements (20x30 f64), at most 0.5 apart", text)
        self.assertIn("x.h5 and y.h5 differ: 1 of 3 matrices", text)
        found, pairs = self.pairs("--atol", "1", code=0)
        self.assertEqual((found["verdict"], pairs["/B"]["verdict"]), ("within tolerance", "within tolerance"))
        self.run_tool("report", "log.jsonl", "-o", "report.md")
        with open(self.path("report.md"), encoding="utf-8") as file:
            self.assertIn("x.h5 and y.h5 differ: 1 of 3 matrices", file.read())

    def test_matrices_on_one_side(self):
        self.write("y.h5", {"A": self.matrices["A"], "D": self.matrices["B"]})
        with h5py.File(self.path("y.h5"), "a") as file:
            file["C"] = np.zeros((2, 3, 4))
        found, pairs = self.pairs(code=1)
        self.assertEqual({name: pair["verdict"] for name, pair in pairs.items()},
                         {"/A": "equal", "/B": "only in x", "/C": "only in x", "/D": "only in y"})
        self.assertIn("3 dimensions", pairs["/C"]["error"])
        self.assertEqual(found["others"], {"x": 0, "y": 1})
        self.assertIn("not compared, because they are no matrices: 0 in x.h5, 1 in y.h5", self.run_tool("compare", "x.h5", "y.h5", code=1).err)
        self.assertIn("/D: only in y.h5: x.h5 has no matrix of this name", self.run_tool("compare", "x.h5", "y.h5", code=1).out)

    def test_other_shapes_and_types(self):
        self.write("y.h5", {**self.matrices, "B": self.matrices["B"].T.copy(), "C": self.matrices["C"].astype(np.float32)})
        _, pairs = self.pairs("--same-type", code=1)
        self.assertEqual([pairs[name]["exit_code"] for name in ("/A", "/B", "/C")], [0, 8, 8])
        self.assertEqual(pairs["/B"]["verdict"], "not comparable")

    def test_what_cannot_be_read(self):
        self.write("y.h5", self.matrices)
        with h5py.File(self.path("y.h5"), "a") as file:
            place = file["B"].id.get_offset()
            del file["C"]
            file.create_dataset("C", data=self.matrices["C"], chunks=(20, 30), compression=4)
            chunk = file["C"].id.get_chunk_info(0)
        with open(self.path("y.h5"), "r+b") as file:
            file.seek(chunk.byte_offset)
            file.write(b"x" * 20)
            file.seek(place)
            file.write(b"x" * 8)
        result = self.run_tool("compare", "x.h5", "y.h5", code=3)
        self.assertIn("/A: equal", result.out)
        self.assertIn("/B: differ: 1 of 600", result.out)
        self.assertIn("/C: y.h5:/C", result.out)
        self.assertIn("gpumat: y.h5:/C", result.err)
        found, pairs = self.pairs(code=3)
        self.assertEqual((found["verdict"], pairs["/C"]["verdict"], pairs["/C"]["exit_code"]), ("error", "error", 3))

    def test_one_matrix_has_any_name(self):
        self.write("y.h5", {"other": self.matrices["A"]})
        self.compare("x.h5:/A", "y.h5", code=0)
        self.assertIn("name one", self.compare("x.h5", "y.h5", code=3)["error"])
        self.assertIn("name one", self.compare("y.h5", "x.h5", code=3)["error"])
        self.assertIn("name one", self.compare("x.h5", "x.h5:/A", code=3)["error"])

    def test_a_mask_is_of_one_pair(self):
        self.assertIn("name them", self.run_tool("compare", "x.h5", "x.h5", "--save-mismatch", "mask.h5", code=2).err)
        self.assertFalse(os.path.exists(self.path("mask.h5")))

    def test_many(self):
        many = {f"group/{i:03}": np.full((2, 3), i, "i4") for i in range(150)}
        self.write("x.h5", many)
        self.write("y.h5", {**many, "group/149": many["group/148"]})
        found, _ = self.pairs(code=1)
        self.assertEqual([pair["exit_code"] for pair in found["pairs"]], [0] * 149 + [1])


@unittest.skipUnless(shutil.which("h5diff"), "h5diff (hdf5-tools) is not installed")
class BesideH5diff(CompareCase):
    """What h5diff says of plain matrices of one type and shape, gpumat says too."""

    def h5diff(self, *options):
        return subprocess.run(["h5diff", *options, self.path("x.h5"), self.path("y.h5")], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode

    def test_the_same_verdict(self):
        x = random_values("f32", (50, 60))
        for added, limit in ((0, 0), (1, 0), (1, 2), (1, 0.5)):
            y = x.copy()
            y[3, 4] += added
            write_h5(self.path("x.h5"), x)
            write_h5(self.path("y.h5"), y, chunks=(10, 10), compression=4)
            expected = self.h5diff(*(["-d", str(limit)] if limit else []))
            self.compare("x.h5", "y.h5", "--atol", str(limit), code=expected)


if __name__ == "__main__":
    unittest.main()
