"""NumPy's files: every type, order and version that NumPy writes, and what is refused. The oracle is NumPy."""

import io
import os
import struct
import unittest

import numpy as np

from harness import DTYPES, Case, random_bits, random_values, write_h5

PLAIN = [name for name in DTYPES if name != "bf16"]
SHAPES = [(1, 1), (3, 5), (129, 257), (1000, 3), (0, 4), (4, 0)]


def with_header(dictionary, data=b"", version=(1, 0)):
    """A file with a header of one's own."""
    text = dictionary.encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text + data


def header(descr="'<f4'", order="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


class Npy(Case):
    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def test_every_type_shape_and_order_is_read_and_written(self):
        for name in PLAIN:
            for shape in SHAPES if name in ("f32", "u8") else SHAPES[1:3]:
                for order in "CF":
                    for byte_order in "<>":
                        matrix = random_bits(name, shape)
                        stored = np.asarray(matrix.astype(matrix.dtype.newbyteorder(byte_order), order="K"), order=order)
                        with self.subTest(name=name, shape=shape, order=order, byte_order=byte_order):
                            np.save(self.path("in.npy"), stored)
                            self.run_tool("transpose", "in.npy", "-o", "out.npy", "--force")
                            out = np.load(self.path("out.npy"))
                            self.assertEqual(out.dtype, matrix.dtype)
                            self.assert_same_bits(out, np.ascontiguousarray(matrix.T))

    def test_larger_than_a_piece_in_fortran_order_and_another_type(self):
        matrix = random_values("f32", (1500, 1401))
        np.save(self.path("in.npy"), np.asfortranarray(matrix))
        self.run_tool("convert", "in.npy", "-t", "f64", "-o", "out.npy")
        out = np.load(self.path("out.npy"))
        self.assertEqual(out.dtype, np.float64)
        np.testing.assert_array_equal(out, matrix.astype(np.float64))
        self.run_tool("convert", "in.npy", "-t", "f64", "-o", "limited.npy", "--memory-limit", "12MiB")
        np.testing.assert_array_equal(np.load(self.path("limited.npy")), matrix)
        self.run_tool("transpose", "in.npy", "-o", "parts.npy", "--memory-limit", "8MiB")
        np.testing.assert_array_equal(np.load(self.path("parts.npy")), matrix.T)

    def test_booleans_are_u8_and_versions_2_and_3_are_read(self):
        flags = np.random.default_rng(1).random((7, 9)) < 0.5
        np.save(self.path("flags.npy"), flags)
        self.run_tool("convert", "flags.npy", "-o", "out.npy")
        np.testing.assert_array_equal(np.load(self.path("out.npy")), flags.astype(np.uint8))
        matrix = random_values("f64", (4, 6))
        for version in ((2, 0), (3, 0)):
            with open(self.path("v.npy"), "wb") as file:
                np.lib.format.write_array(file, matrix, version=version)
            self.run_tool("convert", "v.npy", "-o", "out.npy", "--force")
            np.testing.assert_array_equal(np.load(self.path("out.npy")), matrix)

    def test_products_and_sums_beside_other_formats(self):
        a = random_values("f64", (30, 20))
        b = random_values("f64", (20, 40))
        np.save(self.path("a.npy"), a)
        write_h5(self.path("b.h5"), b, "f64")
        self.run_tool("multiply", "a.npy", "b.h5", "-o", "c.npy")
        np.testing.assert_allclose(np.load(self.path("c.npy")), a @ b, rtol=1e-12, atol=1e-11)
        self.run_tool("verify", "multiply", "a.npy", "b.h5", "c.npy")
        self.run_tool("compare", "a.npy", "a.npy")
        self.assertIn("30x20", self.run_tool("info", "a.npy").out)

    def test_a_vector_is_a_column_where_that_is_asked_for(self):
        vector = random_values("f32", (17,))
        np.save(self.path("v.npy"), vector)
        self.assert_says(self.run_tool("convert", "v.npy", "-o", "c.npy", code=3), "1 dimension", "--as-column")
        self.run_tool("convert", "v.npy", "--as-column", "-o", "c.npy")
        np.testing.assert_array_equal(np.load(self.path("c.npy")), vector[:, None])

    def test_through_pipes(self):
        matrix = random_values("f32", (50, 60))
        file = io.BytesIO()
        np.save(file, matrix)
        out = self.run_tool("transpose", "-", "--from", "npy", "--to", "npy", "-o", "-", stdin=file.getvalue())
        np.testing.assert_array_equal(np.load(io.BytesIO(out.out_bytes)), matrix.T)

    def test_what_is_no_matrix_is_refused_by_its_kind(self):
        np.save(self.path("cube.npy"), np.zeros((2, 3, 4)))
        np.save(self.path("single.npy"), np.float64(3))
        np.save(self.path("text.npy"), np.array([["a", "b"]]))
        np.save(self.path("fields.npy"), np.zeros((2, 2), dtype=[("a", "<f4"), ("b", [("c", "<i4")])]))
        np.save(self.path("dates.npy"), np.zeros((2, 2), dtype="<M8[s]"))
        np.save(self.path("objects.npy"), np.array([[None, 1]], dtype=object), allow_pickle=True)
        np.save(self.path("long.npy"), np.zeros((2, 2), dtype=np.longdouble))
        for name, words in [("cube", ["3 dimensions (2x3x4)"]), ("single", ["0 dimensions"]), ("text", ["'<U1'"]),
                            ("fields", ["a structure"]), ("dates", ["M8"]), ("objects", ["'|O'"]), ("long", ["f16"])]:
            with self.subTest(name):
                self.assert_says(self.run_tool("transpose", f"{name}.npy", "-o", "x.npy", code=3), f"{name}.npy", *words)
                self.assertIn(words[0].strip("'"), self.run_tool("info", f"{name}.npy").out)

    def test_damaged_files_are_refused_with_the_place(self):
        data = np.zeros((2, 3), np.float32).tobytes()
        whole = with_header(header(), data)
        damaged = {
            "version": (with_header(header(), data, (4, 0)), "version 4.0"),
            "short": (whole[:-1], "has only 23"),
            "behind": (whole + b"\0", "1 bytes behind"),
            "cut": (whole[:9], "ends within"),
            "first": (whole[:7], "ends within"),
            "in_dictionary": (whole[:40], "has only"),
            "huge_header": (b"\x93NUMPY\x02\0\xff\xff\xff\xff" + whole[10:], "4294967295"),
            "no_shape": (with_header("{'descr': '<f4', 'fortran_order': False}"), "missing"),
            "twice": (with_header("{'shape': (2, 3), 'shape': (2, 3)}"), "'shape'"),
            "other_key": (with_header("{'dtype': '<f4'}"), "'dtype'"),
            "negative": (with_header(header(shape="(-2, 3)"), data), "expected an extent"),
            "beyond": (with_header(header(shape="(9223372036854775808, 3)"), data), "expected an extent"),
            "huge": (with_header(header(shape="(9223372036854775807, 9223372036854775807)"), data), ""),
            "large": (with_header(header(shape="(1000000, 1000000)"), data), "has only 24"),
            "fields": (with_header(header(descr="[('a', '<f4'")), "no end"),
            "order": (with_header(header(order="Maybe"), data), "True or False"),
            "behind_dictionary": (with_header(header() + "x", data), "behind the dictionary"),
            "no_dictionary": (with_header("", data), "expected '{'"),
            "dimensions": (with_header(header(shape="(" + "1," * 100 + ")"), data), "64 dimensions"),
        }
        for name, (content, words) in damaged.items():
            with self.subTest(name):
                self.write("in.npy", content)
                result = self.run_tool("transpose", "in.npy", "-o", "out.h5", code=6 if name == "huge" else 3)
                self.assert_says(result, "in.npy", words)
                self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_what_cannot_be_written_is_refused(self):
        write_h5(self.path("in.h5"), random_values("bf16", (3, 4)), "bf16")
        self.assert_says(self.run_tool("transpose", "in.h5", "-o", "out.npy", code=2), "no bf16")
        np.save(self.path("in.npy"), np.zeros((3, 4)))
        self.assert_says(self.run_tool("transpose", "in.npy", "-o", "out.npy", "--deflate", "4", code=2), "write HDF5")
        self.assert_says(self.run_tool("transpose", "in.npy", "-o", "out.npy:/A", code=2), "no datasets")
        self.assert_says(self.run_tool("transpose", "in.npy:/A", "-o", "out.npy", code=3), "no dataset '/A'")
        self.assertFalse(os.path.exists(self.path("out.npy")))


if __name__ == "__main__":
    unittest.main()
