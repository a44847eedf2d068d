"""Multiplies of every type, level, format and form: integers exactly, floats within bounds derived in harness.py."""

import unittest

import numpy as np

from harness import (DTYPES, FIELD_TYPE, MULTIPLY_TYPES, PLAIN, Case, cases, encode, is_integer, levels,
                     multiply_reference, random_values, read_any, read_h5, values_of, wrapped_product, write_any, write_h5)

M, N, K = 35, 42, 67  # past the tiles of 32, and all different


class MultiplyCase(Case):
    def assert_product(self, name, found, result, a, b, alpha=1, beta=0, d=None):
        """`result` (of type `found`, as read) is α·a·b + β·d of the type `name`."""
        self.assertEqual(result.shape, (a.shape[0], b.shape[1]))
        if is_integer(name):
            expected = wrapped_product(name, a, b, alpha, beta, d)
            self.assert_same_bits(result, expected.astype(DTYPES[found]))
            return
        reference, bound = multiply_reference(name, *(values_of(name, matrix) for matrix in (a, b)), alpha, beta,
                                              None if d is None else values_of(name, d))
        error = np.abs(values_of(found, result).astype(reference.dtype) - reference)
        self.assertTrue(np.all(error <= bound), f"largest error / bound: {np.max(error / bound, initial=0)}")

    def write(self, **matrices):
        for path, (array, name) in matrices.items():
            write_any(self.path(path.replace("_", ".")), array, name)


@cases([(f"{source}_to_{output}_{name}", name, source, output) for name in MULTIPLY_TYPES
        for source in ("h5", "mtx") for output in ("h5", "mtx")])
class Formats(MultiplyCase):
    def check(self, name, source, output):
        a, b = random_values(name, (M, K), 1), random_values(name, (K, N), 2)
        write_any(self.path(f"a.{source}"), a, name)
        write_any(self.path(f"b.{source}"), b, name)
        convert = ["-t", name] if source == "mtx" else []
        record = self.record("multiply", f"a.{source}", f"b.{source}", "-o", f"out.{output}", *convert,
                             "--verify", "full")
        found, result = read_any(self.path(f"out.{output}"))
        self.assertEqual(found, name if output == "h5" else FIELD_TYPE[name])
        self.assert_product(name, found, result, a, b)
        self.assertEqual((record["type"], record["shape"]), (name, {"m": M, "n": N, "k": K}))


# α and β are exact in every type that they are given to.
FORMS = [
    # name, transposed operands, α, β (None: no D)
    ("plain", "", 1, None),
    ("transpose_a", "a", 1, None),
    ("transpose_b", "b", 1, None),
    ("transpose_both", "ab", 3, None),
    ("add", "", 2, -1),
    ("add_transpose_a", "a", -2, 3),
    ("add_transpose_b", "b", 0, 1),
    ("add_transpose_both", "ab", 1, 2),
]


@cases([(f"{level['name'].replace('-', '_')}_{name}_{form}", level["name"], name, transposed, alpha, beta)
        for level in levels("multiply") for name in MULTIPLY_TYPES if name in level["types"]
        for form, transposed, alpha, beta in FORMS])
class Levels(MultiplyCase):
    """Every CPU level, type and form. Odd seeds give integers, which every level must get exactly."""

    def check(self, level, name, transposed, alpha, beta):
        a, b, d = (random_values(name, shape, seed) for seed, shape in enumerate([(M, K), (K, N), (M, N)]))
        write_h5(self.path("in.h5"), a.T if "a" in transposed else a, name, "A")
        write_h5(self.path("in.h5"), b.T if "b" in transposed else b, name, "B", "a")
        write_h5(self.path("in.h5"), d, name, "D", "a")
        arguments = ["in.h5:/A", "in.h5:/B", "-o", "out.h5", "-l", level, "-d", "cpu", "--verify", "full"]
        arguments += [f"--transpose-{operand}" for operand in transposed]
        arguments += ["--alpha", str(alpha)] if alpha != 1 else []
        arguments += ["--beta", str(beta), "--add", "in.h5:/D"] if beta is not None else []
        record = self.record("multiply", *arguments)
        self.assertEqual((record["level_requested"], record["level"]), (level, level))
        found, result = read_h5(self.path("out.h5"), "C")
        self.assertEqual(found, name)
        self.assert_product(name, found, result, a, b, alpha, beta or 0, None if beta is None else d)


@cases([(f"{level['name'].replace('-', '_')}_{m}x{n}x{k}", level, m, n, k) for level in levels("multiply")
        for m, n, k in [(0, 0, 0), (0, 4, 3), (4, 0, 3), (4, 3, 0), (1, 1, 1), (1, 9, 5), (9, 1, 5), (9, 5, 1)]])
class OddShapes(MultiplyCase):
    """Rungs by number, the vendor's library by name; K = 0 gives zeros, or β·D."""

    def check(self, level, m, n, k):
        name = "f32"
        a, b, d = (random_values(name, shape, seed) for seed, shape in enumerate([(m, k), (k, n), (m, n)]))
        for path, matrix in [("a.h5", a), ("b.h5", b), ("d.h5", d), ("a.mtx", a), ("b.mtx", b)]:
            write_any(self.path(path), matrix, name)
        number = str(level["number"] or level["name"])

        def run(*words):
            return self.record("multiply", *words, "-l", number, "-d", "cpu", "-t", name)

        run("a.h5", "b.h5", "-o", "plain.h5")
        run("a.mtx", "b.mtx", "-o", "plain.mtx")
        record = run("a.h5", "b.h5", "--beta", "2", "--add", "d.h5", "-o", "added.h5")
        self.assertEqual((record["level_requested"], record["level"]), (number, level["name"]))
        for path in ("plain.h5", "plain.mtx"):
            self.assert_product(name, *read_any(self.path(path)), a, b)
        self.assert_product(name, *read_h5(self.path("added.h5")), a, b, 1, 2, d)


@cases([(name, name) for name in MULTIPLY_TYPES if not is_integer(name)])
class IntegersInFloats(MultiplyCase):
    """Integer values small enough for every sum to be exact: a wrong index cannot hide in a bound."""

    def check(self, name):
        rng = np.random.default_rng(5)
        a, b = (encode(name, rng.integers(-2, 3, shape)) for shape in [(M, 31), (31, N)])
        write_h5(self.path("a.h5"), a, name)
        write_h5(self.path("b.h5"), b, name)
        expected = encode(name, values_of(name, a).astype(np.complex128) @ values_of(name, b).astype(np.complex128)
                          if name[0] == "c" else values_of(name, a).astype(np.float64) @ values_of(name, b))
        for level in (level for level in levels("multiply") if name in level["types"]):
            self.record("multiply", "a.h5", "b.h5", "-o", "out.h5", "--force", "-l", level["name"], "-d", "cpu")
            self.assertTrue(np.array_equal(values_of(name, read_h5(self.path("out.h5"))[1]), values_of(name, expected)))


@cases([(f"{level['name'].replace('-', '_')}_{name}", level["name"], name) for level in levels("multiply")
        for name in ("i32", "i64") if name in level["types"]])
class Wrapping(MultiplyCase):
    """Integers wrap modulo 2^bits, exactly, and the tool says so."""

    def check(self, level, name):
        limits = np.iinfo(DTYPES[name])
        rng = np.random.default_rng(7)
        a, b = (rng.integers(limits.min, limits.max, shape, DTYPES[name], endpoint=True)
                for shape in [(9, 17), (17, 8)])
        write_h5(self.path("a.h5"), a)
        write_h5(self.path("b.h5"), b)
        result = self.run_tool("multiply", "a.h5", "b.h5", "-o", "out.h5", "-l", level, "-d", "cpu", "--alpha", "-7",
                               "--verify", "full")
        self.assert_product(name, *read_h5(self.path("out.h5")), a, b, -7)
        self.assert_says(result, f"modulo 2^{limits.bits}")
        unchecked = self.run_tool("multiply", "a.h5", "b.h5", "-l", level, "-d", "cpu", "--verify", "none")
        self.assert_says(unchecked, f"do not fit in {name} are given modulo 2^{limits.bits}", "without --verify")


class Arguments(MultiplyCase):
    def check(self, name, *arguments, a=None, b=None, alpha=1, beta=0, d=None):
        shapes = {"a": (M, K), "b": (K, N)}
        a, b = (random_values(name, shapes[role], seed) if given is None else given
                for seed, (role, given) in enumerate([("a", a), ("b", b)]))
        write_h5(self.path("a.h5"), a, name)
        write_h5(self.path("b.h5"), b, name)
        if d is not None:
            write_h5(self.path("d.h5"), d, name)
        record = self.record("multiply", "a.h5", "b.h5", "-o", "out.h5", "-d", "cpu", *arguments)
        self.assert_product(name, *read_h5(self.path("out.h5")), a, b, alpha, beta, d)
        return record

    def test_complex_alpha_and_beta(self):
        d = random_values("c64", (M, N), 9)
        record = self.check("c64", "--alpha", "0.5,-1", "--beta", "0,2", "--add", "d.h5",
                            alpha=0.5 - 1j, beta=2j, d=d)
        self.assertEqual((record["alpha"], record["beta"]), ([0.5, -1], [0, 2]))

    def test_fraction_as_alpha(self):
        self.assertEqual(self.check("f16", "--alpha", "0.125", alpha=0.125)["alpha"], 0.125)

    def test_add_alone_adds(self):
        """--add without --beta means β = 1: a matrix that is named is never left out in silence."""
        d = random_values("f64", (M, N), 9)
        self.assertEqual(self.check("f64", "--add", "d.h5", beta=1, d=d)["beta"], 1)

    def test_beta_zero_does_not_read_nan(self):
        d = np.full((M, N), np.nan)
        write_h5(self.path("d.h5"), d)
        self.check("f64", "--beta", "0", "--add", "d.h5")

    def test_integers_of_two_files_as_floats(self):
        a, b = random_values("i32", (M, K), 1), random_values("u8", (K, N), 2)
        self.write(a_h5=(a, "i32"), b_h5=(b, "u8"))
        record = self.record("multiply", "a.h5", "b.h5", "-t", "f64", "-o", "out.h5")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], a.astype(float) @ b.astype(float))
        self.assertEqual(record["type"], "f64")

    def test_two_formats(self):
        a, b = random_values("f64", (M, K), 1), random_values("f64", (K, N), 2)
        self.write(a_h5=(a, "f64"), b_mtx=(b, "f64"))
        self.record("multiply", "a.h5", "b.mtx", "-o", "out.h5")
        self.assert_product("f64", *read_h5(self.path("out.h5")), a, b)

    def test_a_matrix_with_itself(self):
        a = random_values("f32", (M, K), 1)
        write_h5(self.path("a.h5"), a)
        self.record("multiply", "a.h5", "a.h5", "--transpose-b", "-o", "out.h5")
        self.assert_product("f32", *read_h5(self.path("out.h5")), a, a.T)

    def test_standard_input_and_output(self):
        b = random_values("i64", (2, 3), 2)
        write_any(self.path("b.mtx"), b, "i64")
        text = "%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n"
        result = self.run_tool("multiply", "-", "b.mtx", "-o", "-", stdin=text.encode())
        with open(self.path("out.mtx"), "wb") as file:
            file.write(result.out_bytes)
        self.assert_product("i64", *read_any(self.path("out.mtx")), np.array([[1, 3], [2, 4]]), b)

    def test_freivalds_passes_what_is_right(self):
        for name in MULTIPLY_TYPES:
            with self.subTest(name):
                record = self.check(name, "--verify", "freivalds", "--seed", "3", "--force")
                self.assertEqual((record["verification"]["mode"], record["verification"]["verdict"]),
                                 ("freivalds", "passed"))

    def test_verify_none_and_no_output(self):
        write_h5(self.path("a.h5"), random_values("f32", (4, 4)))
        record = self.record("multiply", "a.h5", "a.h5", "--verify", "none")
        self.assertEqual((record["verification"]["verdict"], record["output"]), ("skipped", None))

    def test_not_finite(self):
        """Infinities and NaN of the inputs arrive where IEEE arithmetic puts them, and verify."""
        a = np.array([[1, np.inf], [np.nan, 1], [1, 2]], np.float32)
        b = np.array([[1, 2], [3, -4]], np.float32)
        write_h5(self.path("a.h5"), a)
        write_h5(self.path("b.h5"), b)
        for level in levels("multiply"):
            for mode in ("full", "freivalds"):
                self.record("multiply", "a.h5", "b.h5", "-o", "out.h5", "--force", "-d", "cpu", "-l", level["name"],
                            "--verify", mode)
                np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], a @ b)


def bytes_of(shape, seed):
    return np.random.default_rng(seed).integers(-128, 127, shape, np.int8, endpoint=True)


def in_i32(a, b, alpha=1):
    """The exact product modulo 2^32."""
    return (alpha * (a.astype(np.int64) @ b.astype(np.int64))).astype(np.uint64).astype(np.uint32).view(np.int32)


@cases([(f"{level['name'].replace('-', '_')}_{transposed or 'plain'}", level["name"], transposed)
        for level in levels("multiply") if "i8" in level["types"] for transposed in ("", "a", "b", "ab")])
class BytesInI32(MultiplyCase):
    """i8 is multiplied into i32, exactly, and verified so."""

    def check(self, level, transposed):
        for (m, n, k), alpha in (((M, N, K), 1), ((1, 70, 3), -7), ((13, 5, 1601), 1 << 30), ((3, 4, 0), 1)):
            a, b = bytes_of((m, k), 1), bytes_of((k, n), 2)
            write_h5(self.path("in.h5"), a.T if "a" in transposed else a, "i8", "A")
            write_h5(self.path("in.h5"), b.T if "b" in transposed else b, "i8", "B", "a")
            how = ["--result", "i32", "--alpha", str(alpha), *(f"--transpose-{operand}" for operand in transposed)]
            for mode in ("full", "freivalds"):
                record = self.record("multiply", "in.h5:/A", "in.h5:/B", "-o", "out.h5", "--force", "-l", level, "-d",
                                     "cpu", "--verify", mode, *how)
                found, result = read_h5(self.path("out.h5"), "C")
                self.assertEqual((record["type"], record["output"]["type"], found), ("i8", "i32", "i32"))
                self.assertEqual(record["settings"]["result"], "i32")
                self.assert_same_bits(result, in_i32(a, b, alpha))
                self.assertEqual(record["kernel_bytes"], m * k + k * n + 4 * m * n)
            self.run_tool("verify", "multiply", "in.h5:/A", "in.h5:/B", "out.h5", *how)
            if result.size:
                result[-1, 0] += 1 << 8  # what a comparison of bytes would miss
                write_h5(self.path("out.h5"), result, "i32", "C")
                for mode in ("full", "freivalds"):
                    self.run_tool("verify", "multiply", "in.h5:/A", "in.h5:/B", "out.h5", "--mode", mode, *how, code=1)


class ResultType(MultiplyCase):
    def setUp(self):
        super().setUp()
        self.a, self.b = bytes_of((M, K), 1), bytes_of((K, N), 2)
        write_h5(self.path("a.h5"), self.a)
        write_h5(self.path("b.h5"), self.b)

    def test_auto_takes_the_fastest(self):
        record = self.record("multiply", "a.h5", "b.h5", "--result", "i32", "-d", "cpu")
        self.assertEqual(record["level"], "outer-product")

    def test_other_inputs_are_converted(self):
        self.write(a_mtx=(self.a, "i8"), b_mtx=(self.b, "i8"))
        self.record("multiply", "a.mtx", "b.mtx", "-t", "i8", "--result", "i32", "-o", "out.mtx", "-d", "cpu")
        np.testing.assert_array_equal(read_any(self.path("out.mtx"))[1], in_i32(self.a, self.b))

    def test_parts(self):
        a, b = bytes_of((700, 300), 3), bytes_of((300, 900), 4)
        write_h5(self.path("a.h5"), a)
        write_h5(self.path("b.h5"), b)
        record = self.record("multiply", "a.h5", "b.h5", "--result", "i32", "-o", "out.h5", "-d", "cpu", "--memory-limit",
                             "2MiB")
        self.assertGreater(record["parts"], 1)
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], in_i32(a, b))

    def test_sums_that_wrap_are_named(self):
        write_h5(self.path("a.h5"), np.full((2, 2**17), -128, np.int8))
        result = self.run_tool("multiply", "a.h5", "a.h5", "--transpose-b", "--result", "i32", "-o", "out.h5", "-d", "cpu")
        self.assert_says(result, "4 results do not fit in i32", "modulo 2^32")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], np.full((2, 2), -2**31, np.int32))

    def test_without_it(self):
        for level in ("auto", "outer-product", "naive"):
            self.assert_says(self.run_tool("multiply", "a.h5", "b.h5", "-o", "out.h5", "-d", "cpu", "-l", level, code=5),
                             "--result i32")
        bench = self.run_tool("bench", "multiply", "--type", "i8", "--size", "64", "-d", "cpu", code=5)
        self.assertIn("--result i32", bench.out)

    def test_not_for_other_types(self):
        self.assert_says(self.run_tool("multiply", "a.h5", "b.h5", "-t", "i32", "--result", "i32", code=2),
                         "--result i32", "i8", "these are i32")
        self.assert_says(self.run_tool("multiply", "a.h5", "b.h5", "--result", "i64", code=2), "i64", "i32")

    def test_nothing_is_added(self):
        write_h5(self.path("d.h5"), bytes_of((M, N), 3))
        self.assert_says(self.run_tool("multiply", "a.h5", "b.h5", "--result", "i32", "--add", "d.h5", code=2), "--add")

    def test_vendor_does_not_take_it(self):
        self.assert_says(self.run_tool("multiply", "a.h5", "b.h5", "--result", "i32", "-l", "vendor", "-d", "cpu", code=5),
                         "not on i8")

    def test_bench(self):
        document = self.run_tool("bench", "multiply", "--type", "i8", "--result", "i32", "--size", "96", "-d", "cpu",
                                 "--levels", "tiled,outer-product", "--json").json()
        self.assertEqual(document["settings"], {"result": "i32"})
        self.assertEqual([row["verdict"] for row in document["rows"] if not row["baseline"]], ["passed", "passed"])


@unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
class VerificationMemory(MultiplyCase):
    """Matrices of 2^20 rows and a few columns, where what a verification kept of each row would be the most."""

    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), np.ones((2**20, 2), np.float32))
        write_h5(self.path("b.h5"), np.ones((2, 3), np.float32))

    def peak(self, mode):
        record = self.record("multiply", "a.h5", "b.h5", "-d", "cpu", "--verify", mode)
        return record["peak_host_bytes"]

    def test_it_does_not_grow_with_the_rows(self):
        """The products with X of all rows would be 3·136 MiB, and 25 MiB are in work at once."""
        without = self.peak("none")
        self.assertLess(self.peak("full") - without, 16 * 2**20)
        self.assertLess(self.peak("freivalds") - without, 64 * 2**20)

    def test_it_counts_for_the_limit(self):
        """20 MiB of matrices are within the limit, the work space of the randomized check is not."""
        for mode in ("none", "full"):
            self.record("multiply", "a.h5", "b.h5", "-d", "cpu", "--verify", mode, "--memory-limit", "24MiB")
        result = self.run_tool("multiply", "a.h5", "b.h5", "-d", "cpu", "--verify", "freivalds", "--memory-limit",
                               "24MiB", code=6)
        self.assert_says(result, "to verify it", "24.00 MiB")


class NothingTimesTheMost(MultiplyCase):
    def test_products_without_elements(self):
        """Such a product needs no memory and no time, whatever its other extent."""
        def write(path, rows, cols):
            with open(self.path(path), "w", encoding="ascii") as file:
                file.write(f"%%MatrixMarket matrix array real general\n{rows} {cols}\n")

        most = 2**63 - 1
        for m, n, k in ((most, 0, 0), (0, most, 0), (0, 0, most)):
            write("a.mtx", m, k)
            write("b.mtx", k, n)
            for level in levels("multiply"):
                if level["role"] == "vendor":  # it counts with 32 bits, and is refused
                    continue
                for mode in ("full", "freivalds"):
                    record = self.record("multiply", "a.mtx", "b.mtx", "-d", "cpu", "-l", level["name"], "--verify",
                                         mode, "-o", "out.mtx", "--force")
                    self.assertEqual(record["verification"]["verdict"], "passed")
                    with open(self.path("out.mtx"), encoding="ascii") as file:
                        self.assertEqual([line for line in file if line[0] != "%"], [f"{m} {n}\n"])


@cases([(level["name"].replace("-", "_"), level["name"]) for level in levels("multiply")])
class ZeroAlpha(MultiplyCase):
    """As in BLAS, what α = 0 or β = 0 leaves out is not read: a NaN there reaches no result, at any level."""

    def check(self, level):
        write_h5(self.path("nan.h5"), np.full((5, 5), np.nan))
        d = np.arange(25.0).reshape(5, 5)
        write_h5(self.path("d.h5"), d)
        for add, expected in ([], 0 * d), (["--add", "d.h5", "--beta", "2"], 2 * d):
            for verify in "full", "freivalds":
                record = self.record("multiply", "nan.h5", "nan.h5", "--alpha", "0", *add, "--level", level, "-d",
                                     "cpu", "--verify", verify, "-o", "c.h5", "--force")
                self.assert_same_bits(read_h5(self.path("c.h5"))[1], expected)
                self.assertEqual((record["kernel_flops"], record["shape"]["k"]), (0, 5))


if __name__ == "__main__":
    unittest.main()
