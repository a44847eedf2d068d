"""`gpumat verify`: stored results against stored inputs, made and spoilt by NumPy."""

import os
import unittest

import h5py
import numpy as np

from harness import (DTYPES, MULTIPLY_TYPES, TYPES, Case, cases, encode, is_integer, multiply_reference, random_bits,
                     random_values, some, to_bf16, values_of, wrapped_product, write_any, write_h5, write_mtx)


class VerifyCase(Case):
    def verify(self, *arguments, code=0, **options):
        """The object that --json prints; checked for what always holds of it."""
        found = self.run_tool("verify", *arguments, "--json", code=code, **options).json()
        self.assertEqual((found["schema"], found["exit_code"], found["op"]), ("gpumat.verify/1", code, arguments[0]))
        if code < 2:
            self.assertEqual(found["verification"]["verdict"], "failed" if code else "passed")
        else:
            self.assertEqual(found["verification"]["verdict"], "skipped")
            self.assertTrue(found["error"])
        return found


# -------------------------------------------------------------------------------------------- transposes


def spoil(matrix, place):
    """Changes the lowest bit of one element."""
    matrix.view(np.uint8).reshape(*matrix.shape, -1)[(*place, 0)] ^= 1


@cases([(name, name) for name in TYPES])
class Transposes(VerifyCase):
    """Any bits, NaN and -0 among them; one bit of one element is found."""

    def check(self, name):
        a = random_bits(name, (67, 131))
        write_h5(self.path("a.h5"), a, name)
        at = a.T.copy()
        write_h5(self.path("at.h5"), at, name)
        found = self.verify("transpose", "a.h5", "at.h5")
        self.assertEqual((found["type"], found["shape"]), (name, {"m": 67, "n": 131, "k": None}))
        self.assertEqual((found["inputs"][0]["rows"], found["result"]["rows"]), (67, 131))
        for place in ((0, 0), (130, 66), (64, 31)):
            wrong = at.copy()
            spoil(wrong, place)
            write_h5(self.path("wrong.h5"), wrong, name)
            verification = self.verify("transpose", "a.h5", "wrong.h5", code=1)["verification"]
            self.assertEqual((verification["mismatches"], verification["worst"]["row"], verification["worst"]["col"]),
                             (1, *place))


class TransposeErrors(VerifyCase):
    def setUp(self):
        super().setUp()
        self.a = random_values("f32", (300, 257))
        write_h5(self.path("a.h5"), self.a)

    def spoilt(self, change):
        at = self.a.T.copy()
        change(at)
        write_h5(self.path("at.h5"), at)
        return int((at != self.a.T).sum())

    def test_what_is_wrong_in_blocks(self):
        def exchanged(at):
            at[0:32, 0:32], at[32:64, 64:96] = at[32:64, 64:96].copy(), at[0:32, 0:32].copy()

        def partial_tile(at):
            at[256:, 288:] = 0

        def shifted(at):
            at[1:] = at[:-1].copy()

        def minus_zero(at):
            at[5, 5] = -0.0

        self.a[5, 5] = 0
        write_h5(self.path("a.h5"), self.a)
        for change in (exchanged, partial_tile, shifted):
            wrong = self.spoilt(change)
            self.assertEqual(self.verify("transpose", "a.h5", "at.h5", code=1)["verification"]["mismatches"], wrong)
        self.spoilt(minus_zero)
        self.assertEqual(self.verify("transpose", "a.h5", "at.h5", code=1)["verification"]["mismatches"], 1)
        self.spoilt(lambda at: None)
        self.verify("transpose", "a.h5", "at.h5")

    def test_people_count_from_one(self):
        self.spoilt(lambda at: at.__setitem__((243, 2), 99))
        result = self.run_tool("verify", "transpose", "a.h5", "at.h5", code=1)
        self.assert_says(result, "row 244 of 257", "column 3 of 300", "1 element differs", "stored 99")
        self.assertEqual(result.out, "")

    def test_other_shapes_and_types_cannot_be_compared(self):
        for matrix in (self.a, self.a.T[:-1], self.a.T[:, :-1], np.zeros((0, 300), np.float32),
                       self.a.T.astype(np.float64), self.a.T.astype(np.int32), self.a.T.astype(np.complex64)):
            write_h5(self.path("at.h5"), np.ascontiguousarray(matrix))
            found = self.verify("transpose", "a.h5", "at.h5", code=8)
            self.assertIn("expected 257x300 f32", found["error"])
        write_h5(self.path("at.h5"), self.a.T.astype(np.float64))
        self.verify("transpose", "a.h5", "at.h5", "-t", "f64")

    def test_empty(self):
        write_h5(self.path("a.h5"), np.zeros((0, 4)))
        write_h5(self.path("at.h5"), np.zeros((4, 0)))
        self.verify("transpose", "a.h5", "at.h5")
        self.verify("transpose", "a.h5", "a.h5", code=8)

    def test_formats_and_streams(self):
        write_mtx(self.path("a.mtx"), self.a.astype(np.float64))
        self.spoilt(lambda at: None)
        self.verify("transpose", "a.mtx", "at.h5", "-t", "f32")
        with open(self.path("a.mtx"), "rb") as file:
            text = file.read()
        self.verify("transpose", "-", "at.h5", "-t", "f32", stdin=text)
        self.verify("transpose", "-", "-", stdin=text, code=2)
        self.verify("transpose", "-", "at.h5", "-t", "f32", stdin=text[:-50], code=3)
        self.verify("transpose", "a.h5", "none.h5", code=3)

    def test_text_has_no_more_than_nan(self):
        """A NaN is equal to any other where a format cannot keep its sign and payload; and where both can, to none."""
        for name in ("f16", "bf16", "f32", "f64", "c64", "c128"):
            a = random_bits(name, (9, 70))
            parts = a.view(a.real.dtype if name[0] == "c" else a.dtype)
            bits = parts.view(f"u{parts.dtype.itemsize}")
            bits[0, :4] = np.iinfo(bits.dtype).max - np.array([0, 1, 2, 4], bits.dtype)  # negative, with payloads
            write_h5(self.path("a.h5"), a, name)
            for command, other in ((["transpose"], "at.mtx"), (["convert"], "same.mtx")):
                self.run_tool(*command, "a.h5", "-o", other, "--force", "-q")
            self.verify("transpose", "a.h5", "at.mtx")
            self.run_tool("transpose", "at.mtx", "-o", "back.h5", "--force", "-q")
            self.verify("transpose", "at.mtx", "back.h5")
            with h5py.File(self.path("back.h5")) as back:
                write_h5(self.path("backt.h5"), np.ascontiguousarray(back["A"][()].T), name)
            self.verify("transpose", "a.h5", "backt.h5", code=1)  # bit for bit
            with open(self.path("at.mtx"), encoding="ascii") as file:
                text = file.read()
            with open(self.path("wrong.mtx"), "w", encoding="ascii") as file:
                file.write(text.replace("nan", "1", 1))
            found = self.verify("transpose", "a.h5", "wrong.mtx", code=1)
            self.assertEqual(found["verification"]["mismatches"], 1)

    def test_a_batch_knows_text_with_nans(self):
        """The hash of an output is that of what is read from it again, that of an input of what it holds."""
        write_h5(self.path("a.h5"), np.array([[1, -np.nan, 2], [np.uint64(0xFFF8000000000123).view("f8"), 0, np.inf]]))
        with open(self.path("jobs"), "w", encoding="ascii") as file:
            file.write("transpose a.h5 -o at.mtx\nconvert a.h5 -o a.mtx\nmultiply at.mtx a.h5 -o c.mtx\n")
        words = ["batch", "jobs", "--log", "log.jsonl", "--resume"]
        self.assertIn("3", self.run_tool(*words).err)
        again = self.run_tool(*words)
        self.assertIn("3 done before", again.err)

    def test_two_datasets_of_one_file(self):
        write_h5(self.path("a.h5"), self.a.T.copy(), dataset="T", mode="a")
        self.verify("transpose", "a.h5:/A", "a.h5:/T")
        self.verify("transpose", "a.h5", "a.h5:/T", code=3)

    def test_usage(self):
        for arguments in ([], ["a.h5"], ["a.h5", "a.h5", "a.h5"], ["a.h5", "a.h5", "--mode", "full"]):
            self.run_tool("verify", "transpose", *arguments, code=2)
        self.run_tool("verify", code=2)
        self.run_tool("verify", "invert", code=2)
        self.assertIn("Examples", self.run_tool("verify", "--help").out)
        self.assertIn("Examples", self.run_tool("verify", "transpose", "--help").out)


@cases([("contiguous", {}, {}), ("chunked", {"chunks": (64, 64)}, {"chunks": (100, 70), "compression": 1}),
        ("mixed", {}, {"chunks": (9, 2000)})])
class TransposeBlocks(VerifyCase):
    """More than one block, also in little memory."""

    def check(self, input_storage, result_storage):
        a = np.arange(2400 * 2100, dtype=np.float64).reshape(2400, 2100)
        write_h5(self.path("a.h5"), a, **input_storage)
        at = a.T.copy()
        write_h5(self.path("at.h5"), at, **result_storage)
        for limit in ([], ["--memory-limit", "4MiB"]):
            self.verify("transpose", "a.h5", "at.h5", *limit)
        self.verify("transpose", "a.h5", "at.h5", "--memory-limit", "1KiB", code=6)
        for place in ((2099, 2399), (2099, 0), (1, 2398)):
            at[place] += 1
        write_h5(self.path("at.h5"), at, **result_storage)
        for limit in ([], ["--memory-limit", "4MiB"]):
            verification = self.verify("transpose", "a.h5", "at.h5", *limit, code=1)["verification"]
            self.assertEqual((verification["mismatches"], verification["worst"]["row"], verification["worst"]["col"]),
                             (3, 1, 2398))


# ---------------------------------------------------------------------------------------------- products


def product(name, a, b, alpha=1, beta=0, d=None):
    """The product as the type holds it, rounded once."""
    if is_integer(name):
        return wrapped_product(name, a, b, alpha, beta, d)
    exact, _ = multiply_reference(name, *(values_of(name, matrix) for matrix in (a, b)), alpha, beta,
                                  None if d is None else values_of(name, d))
    return to_bf16(exact.astype(np.float32)) if name == "bf16" else exact.astype(DTYPES[name])


class TogetherWrong(VerifyCase):
    def test_each_part_of_a_complex_element_in_its_own_digits(self):
        """The imaginary part of beta D passes the range, the real part is an ordinary number."""
        for name, matrix in (("a", [[1]]), ("b", [[0]]), ("d", [[-4e-174 + 8e147j]])):
            write_h5(self.path(f"{name}.h5"), np.array(matrix, np.complex128))
        real = -4e-174 * 1e300
        words = ["multiply", "a.h5", "b.h5", "c.h5", "--add", "d.h5", "--beta", "1e300"]
        for found, code in ((real, 0), (real * 1.003, 1), (real * (1 + 1e-12), 1), (-real, 1)):
            write_h5(self.path("c.h5"), np.array([[complex(found, np.inf)]]))
            for mode in ("full", "freivalds"):
                self.verify(*words, "--mode", mode, code=code)
        self.run_tool("multiply", "a.h5", "b.h5", "--add", "d.h5", "--beta", "1e300", "-o", "c.h5", "--force")

    def test_errors_that_only_their_mean_gives_away(self):
        """Each element errs by five times what rounding is expected to do, of which nine times is allowed."""
        a, b = random_values("f32", (200, 300), 1), random_values("f32", (300, 200), 2)
        terms = np.sqrt((a.astype(float) ** 2) @ (b.astype(float) ** 2))
        exact = a.astype(float) @ b.astype(float)
        walk = np.sqrt(300 * (exact ** 2 / 3 + terms ** 2 / 6) + terms ** 2)
        signs = np.random.default_rng(3).choice([-1, 1], exact.shape)
        for name, matrix in (("a", a), ("b", b), ("c", (exact + 5 * 2.0**-24 * walk * signs).astype(np.float32))):
            write_h5(self.path(f"{name}.h5"), matrix)
        for mode in ("full", "freivalds"):
            result = self.run_tool("verify", "multiply", "a.h5", "b.h5", "c.h5", "--mode", mode, code=1)
            self.assert_says(result, f"failed verification ({mode}): the root mean square error is ", "a lower precision")
            self.assertNotIn("differ", result.err)


@cases([(f"{name}_{mode}", name, mode) for name in MULTIPLY_TYPES for mode in ("full", "freivalds")])
class Products(VerifyCase):
    """Every type: right ones pass; an element, a row and an exchange of rows are found. All of them by far."""

    def check(self, name, mode):
        a, b = random_values(name, (61, 70), 1), random_values(name, (70, 53), 2)
        write_h5(self.path("a.h5"), a, name)
        write_h5(self.path("b.h5"), b, name)
        c = product(name, a, b)
        write_h5(self.path("c.h5"), c, name)
        arguments = ["multiply", "a.h5", "b.h5", "c.h5", "--mode", mode]
        found = self.verify(*arguments)
        self.assertEqual((found["verification"]["mode"], found["type"]), (mode, name))
        self.assertEqual(found["shape"], {"m": 61, "n": 53, "k": 70})
        self.assertTrue(all(matrix["hash"].startswith("crc32:") for matrix in [*found["inputs"], found["result"]]))
        wrong = c.copy()
        wrong[17, 30] = encode(name, np.array([30000]))[0]
        rows = c.copy()
        rows[[3, 40]] = rows[[40, 3]]
        zero = c.copy()
        zero[60] = encode(name, np.array([0]))[0]
        for changed in (wrong, rows, zero):
            write_h5(self.path("c.h5"), changed, name)
            self.verify(*arguments, code=1)
        write_h5(self.path("c.h5"), wrong, name)
        found = self.verify("multiply", "a.h5", "b.h5", "c.h5", "--mode", "full", code=1)["verification"]
        self.assertEqual((found["mismatches"], found["worst"]["row"], found["worst"]["col"]), (1, 17, 30))


FORMS = [("plain", "", 1, None), ("a", "a", 2, None), ("b", "b", -1, None), ("both_add", "ab", 3, 2), ("add", "", 1, 1),
         ("only_d", "", 0, 3), ("beta_0", "", 2, 0)]


@cases([(f"{name}_{form}", name, transposed, alpha, beta) for name in ("f64", "c64", "i32")
        for form, transposed, alpha, beta in FORMS])
class Forms(VerifyCase):
    """The result of other factors, other transposes or without D is another matrix."""

    def check(self, name, transposed, alpha, beta):
        a, b, d = random_values(name, (40, 40), 1), random_values(name, (40, 40), 2), random_values(name, (40, 40), 3)
        write_h5(self.path("in.h5"), a.T.copy() if "a" in transposed else a, name, "A")
        write_h5(self.path("in.h5"), b.T.copy() if "b" in transposed else b, name, "B", "a")
        write_h5(self.path("in.h5"), d, name, "D", "a")
        write_h5(self.path("in.h5"), product(name, a, b, alpha, beta or 0, None if beta is None else d), name, "C", "a")
        form = [f"--transpose-{operand}" for operand in transposed]
        form += ["--alpha", str(alpha)] if alpha != 1 else []
        form += ["--beta", str(beta)] if beta not in (None, 1) else []  # 1 where a matrix is added
        form += ["--add", "in.h5:/D"] if beta is not None else []
        matrices = ["multiply", "in.h5:/A", "in.h5:/B", "in.h5:/C"]
        for mode in ("full", "freivalds"):
            found = self.verify(*matrices, *form, "--mode", mode)
            self.assertEqual((found["transpose_a"], found["transpose_b"]), ("a" in transposed, "b" in transposed))
            for other in (["--alpha", "7"], ["--transpose-a"], ["--add", "in.h5:/A", "--beta", "5"]):
                if alpha == 0 and other[0] == "--transpose-a":
                    continue  # A is not read
                with self.subTest(other=other, mode=mode):
                    kept = [word for word in form if word not in other] if other[0] == "--transpose-a" else []
                    options = kept if other[0] in form else [*kept, *other]
                    self.verify(*matrices, *options, "--mode", mode, code=1)


class ProductErrors(VerifyCase):
    def setUp(self):
        super().setUp()
        self.a, self.b = random_values("f32", (30, 40), 1), random_values("f32", (40, 20), 2)
        self.c = product("f32", self.a, self.b)
        for name in "abc":
            write_h5(self.path(f"{name}.h5"), getattr(self, name))

    def test_other_shapes_and_types_cannot_be_compared(self):
        for matrix in (self.c.T, self.c[:-1], self.c[:, :-1], np.zeros((0, 20), np.float32), self.c.astype(np.float64),
                       self.c.astype(np.int32), self.c.astype(np.complex64)):
            write_h5(self.path("d.h5"), np.ascontiguousarray(matrix))
            found = self.verify("multiply", "a.h5", "b.h5", "d.h5", code=8)
            self.assertIn("expected 30x20 f32", found["error"])

    def test_inputs_that_do_not_fit(self):
        self.assertIn("do not multiply", self.verify("multiply", "a.h5", "a.h5", "c.h5", code=3)["error"])
        self.verify("multiply", "a.h5", "b.h5", "c.h5", "--transpose-b", code=3)
        self.verify("multiply", "a.h5", "b.h5", "c.h5", "--add", "a.h5", code=3)
        self.verify("multiply", "a.h5", "b.h5", "none.h5", code=3)
        write_h5(self.path("b.h5"), self.b.astype(np.float64))
        self.assertIn("--type", self.verify("multiply", "a.h5", "b.h5", "c.h5", code=3)["error"])
        self.verify("multiply", "a.h5", "b.h5", "c.h5", "-t", "f32")

    def test_types_without_products(self):
        for name in ("u8", "i8", "u16"):
            for matrix in "abc":
                write_h5(self.path(f"{matrix}.h5"), np.ones((4, 4), DTYPES[name]), name)
            self.verify("multiply", "a.h5", "b.h5", "c.h5", code=5)

    def test_text_and_streams(self):
        for name in "abc":
            write_any(self.path(f"{name}.mtx"), getattr(self, name), "f32")
        self.verify("multiply", "a.mtx", "b.mtx", "c.h5", "-t", "f32")
        self.verify("multiply", "a.mtx", "b.mtx", "c.mtx", code=1)  # no product in double precision
        with open(self.path("a.mtx"), "rb") as file:
            text = file.read()
        self.verify("multiply", "-", "b.mtx", "c.h5", "-t", "f32", stdin=text)
        self.verify("multiply", "-", "-", "c.h5", stdin=text, code=2)

    def test_tolerance(self):
        write_h5(self.path("c.h5"), self.c * np.float32(1 + 1e-3))
        self.verify("multiply", "a.h5", "b.h5", "c.h5", code=1)
        self.verify("multiply", "a.h5", "b.h5", "c.h5", "--tolerance", "0.01")

    def test_memory(self):
        found = self.verify("multiply", "a.h5", "b.h5", "c.h5", "--memory-limit", "8KiB", code=6)
        self.assertIn("10.16 KiB of memory, and the limit is 8.00 KiB", found["error"])
        self.verify("multiply", "a.h5", "b.h5", "c.h5", "--memory-limit", "11KiB")

    def test_empty(self):
        for m, n, k in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)):
            write_h5(self.path("a.h5"), np.ones((m, k)))
            write_h5(self.path("b.h5"), np.ones((k, n)))
            write_h5(self.path("c.h5"), np.zeros((m, n)))
            self.verify("multiply", "a.h5", "b.h5", "c.h5")
        write_h5(self.path("a.h5"), np.ones((3, 0)))
        write_h5(self.path("b.h5"), np.ones((0, 4)))
        write_h5(self.path("c.h5"), np.ones((3, 4)))
        self.verify("multiply", "a.h5", "b.h5", "c.h5", code=1)

    def test_nothing_is_written(self):
        before = sorted(os.listdir(self.folder))
        self.verify("multiply", "a.h5", "b.h5", "c.h5")
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_a_damaged_result(self):
        with h5py.File(self.path("c.h5")) as file:
            offset = file["A"].id.get_offset()
        with open(self.path("c.h5"), "r+b") as file:
            file.truncate(offset + 100)
        self.verify("multiply", "a.h5", "b.h5", "c.h5", code=3)

    def test_usage(self):
        matrices = ["multiply", "a.h5", "b.h5", "c.h5"]
        for options in (["--mode", "none"], ["--tolerance", "-1"], ["--tolerance", "nan"], ["--alpha", "x"],
                        ["--beta", "2"], ["--alpha", "1,2"], ["--seed", "-1"], ["-t", "f33"], ["more.h5"]):
            self.run_tool("verify", *matrices, *options, code=2)
        self.run_tool("verify", "multiply", "a.h5", "b.h5", code=2)

    def test_people_count_from_one(self):
        self.c[24, 2] = 99
        write_h5(self.path("c.h5"), self.c)
        result = self.run_tool("verify", "multiply", "a.h5", "b.h5", "c.h5", code=1)
        self.assert_says(result, "row 25 of 30", "column 3 of 20", "stored 99")


class ProductsInParts(VerifyCase):
    """What does not fit into memory is checked in parts, and with the same outcome."""

    def test_of_a_result_in_a_pipe(self):
        """Text comes by columns, also where whole rows would be cheaper."""
        a, b = random_values("f64", (3000, 100)), random_values("f64", (100, 300))
        for name, matrix in (("a.h5", a), ("b.h5", b)):
            write_h5(self.path(name), matrix)
        write_mtx(self.path("c.mtx"), a @ b)
        with open(self.path("c.mtx"), "rb") as file:
            text = file.read()
        for limit in some(("8MiB", "6MiB", "5MiB"), 3):
            self.verify("multiply", "a.h5", "b.h5", "-", "--memory-limit", limit, stdin=text)

    def test_is_as_whole(self):
        random = np.random.default_rng(5)
        for name, transposed in some((("f4", False), ("f8", True), ("c8", False), ("i8", True)), 3):
            a, b, d = (random.integers(-50, 50, shape).astype(name) for shape in ((600, 100), (100, 500), (600, 500)))
            right = 2 * (a @ b) - d
            write_h5(self.path("a.h5"), a.T if transposed else a, chunks=(64, 50))
            write_h5(self.path("b.h5"), b)
            write_h5(self.path("d.h5"), d)
            words = ["multiply", "a.h5", "b.h5", "c.h5", "--alpha", "2", "--beta", "-1", "--add", "d.h5",
                     *(["--transpose-a"] if transposed else [])]
            for mode in ("full", "freivalds"):
                with self.subTest(name, mode=mode):
                    limited = [*words, "--mode", mode, "--memory-limit", "4MiB" if a.itemsize == 8 else "2MiB"]
                    write_h5(self.path("c.h5"), right)
                    whole, parts = self.verify(*words, "--mode", mode), self.verify(*limited)
                    for one in ("inputs", "result"):
                        self.assertEqual(whole[one], parts[one])
                    for row, col in some(random.integers((600, 500), size=(4, 2)), 2):
                        wrong = right.copy()
                        wrong[row, col] += 7
                        write_h5(self.path("c.h5"), wrong)
                        worst = self.verify(*limited, code=1)["verification"]["worst"]
                        if mode == "full":
                            self.assertEqual((worst["row"], worst["col"]), (row, col))


if __name__ == "__main__":
    unittest.main()
