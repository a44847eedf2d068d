"""Archives of NumPy and SciPy: what they write is read, what is written they read. They are the oracles."""

import os
import unittest
import zipfile

import numpy as np
import scipy.sparse

from harness import Case, random_bits

TYPES = ["f8", "f4", "c16", "c8", "i8", "i4", "u1"]


def sparse(shape, kind, dtype="f8"):
    matrix = scipy.sparse.random(*shape, density=0.2, random_state=np.random.default_rng(5), format="coo")
    matrix.data = np.round(matrix.data * 50) + 1
    return matrix.astype(dtype).asformat(kind)


class WithoutLibzip(Case):
    def test_archives_are_refused_and_nothing_else(self):
        np.savez(self.path("in.npz"), a=np.eye(2))
        np.save(self.path("in.npy"), np.eye(2))
        os.mkdir(self.path("libraries"))
        for version in range(4, 8):  # is found first, and is no library
            with open(self.path(f"libraries/libzip.so.{version}"), "wb"):
                pass
        without = {"LD_LIBRARY_PATH": self.path("libraries")}
        refused = self.run_tool("info", "in.npz", code=5, env=without)
        self.assert_says(refused, "in.npz: archives of NumPy need libzip, which cannot be loaded")
        self.run_tool("info", "in.npy", env=without)


class Sparse(Case):
    def transpose(self, matrix, **how):
        scipy.sparse.save_npz(self.path("in.npz"), matrix, **how)
        self.run_tool("transpose", "in.npz", "-o", "out.npz", "--force")
        return scipy.sparse.load_npz(self.path("out.npz"))

    def test_csr_csc_and_coo_are_read_and_csr_is_written(self):
        for kind in ("csr", "csc", "coo"):
            for number, dtype in enumerate(TYPES):
                matrix = sparse((60, 41), kind, dtype)
                with self.subTest(kind=kind, dtype=dtype):
                    found = self.transpose(matrix, compressed=number % 2 == 0)
                    self.assertEqual((found.format, found.dtype, found.shape), ("csr", matrix.dtype, (41, 60)))
                    self.assertTrue(found.has_sorted_indices)
                    np.testing.assert_array_equal(found.toarray(), matrix.toarray().T)

    def test_shapes_without_entries(self):
        for kind in ("csr", "csc", "coo"):
            for shape in ((0, 5), (5, 0), (0, 0), (1, 1), (1, 7)):
                with self.subTest(kind=kind, shape=shape):
                    found = self.transpose(scipy.sparse.coo_matrix(shape).asformat(kind))
                    self.assertEqual((found.shape, found.nnz), (shape[::-1], 0))

    def test_unsorted_and_double_entries(self):
        parts = (np.array([1, 2, 4, 8], "f4"), np.array([3, 0, 3, 1]), np.array([0, 3, 4]))
        scipy.sparse.save_npz(self.path("in.npz"), scipy.sparse.csr_matrix(parts, (2, 5)))
        told = self.run_tool("convert", "in.npz", "-o", "out.npz", "-v")
        self.assert_says(told, "its indices are not in order")
        found = scipy.sparse.load_npz(self.path("out.npz"))
        np.testing.assert_array_equal(found.toarray(), [[2, 0, 0, 5, 0], [0, 8, 0, 0, 0]])
        self.assertEqual(found.nnz, 3)

    def test_dense_where_asked(self):
        matrix = sparse((9, 8), "csc")
        scipy.sparse.save_npz(self.path("in.npz"), matrix)
        self.run_tool("convert", "in.npz", "-o", "out.npy")
        np.testing.assert_array_equal(np.load(self.path("out.npy")), matrix.toarray())
        self.run_tool("convert", "in.npz", "-o", "out.npz", "--dense")
        np.testing.assert_array_equal(np.load(self.path("out.npz"))["arr_0"], matrix.toarray())
        found = self.run_tool("info", "in.npz", "--json").json()["matrices"][0]
        self.assertEqual((found["format"], found["structure"], found["entries"]), ("npz", "sparse", matrix.nnz))

    def test_other_formats_are_named(self):
        for kind in ("bsr", "dia"):
            scipy.sparse.save_npz(self.path("in.npz"), scipy.sparse.eye(4).asformat(kind))
            self.assert_says(self.run_tool("reduce", "in.npz", code=3), f"in.npz: is a sparse matrix in SciPy's format '{kind}'", "tocsr()")
            self.assertIn(f"{kind} (SciPy)", self.run_tool("info", "in.npz").out)

    def test_arrays_that_do_not_fit(self):
        good = {"format": b"csr", "shape": (2, 10), "data": np.arange(3.0), "indices": np.array([2, 3, 9]), "indptr": np.array([0, 2, 3])}
        for name, value, words in [("indices", [2, 0, 10], "indices[2] is 10, expected a column"), ("indices", [2, -1, 0], "indices[1] is -1"),
                                   ("indptr", [0, 4, 3], "indptr[1] is 4"), ("indptr", [1, 2, 3], "indptr[0] is 1"),
                                   ("indptr", [0, 2, 2], "indptr[2] is 2, expected 3"), ("indptr", [0, 3], "indptr: has 2 numbers, expected 3"),
                                   ("data", np.ones(4), "indices: has 3 numbers, expected 4"), ("shape", [2, -1], "shape: is 2x-1"),
                                   ("shape", [2], "shape: expected two extents"), ("indices", np.ones(3), "expected integers"),
                                   ("data", [["x"]], "expected numbers")]:
            np.savez(self.path("in.npz"), **{**good, name: np.array(value)})
            with self.subTest(name=name, value=str(value)):
                self.assert_says(self.run_tool("reduce", "in.npz", code=3), f"in.npz:{words}" if ":" in words or "[" in words else words)
        np.savez(self.path("in.npz"), **{name: value for name, value in good.items() if name != "indptr"})
        self.assert_says(self.run_tool("reduce", "in.npz", code=3), "without the array 'indptr'")


class Dense(Case):
    def test_arrays_are_named(self):
        arrays = {"A": random_bits("f64", (20, 30)), "B": np.asfortranarray(random_bits("f32", (4, 5))), "v": np.arange(3)}
        for save in (np.savez, np.savez_compressed):
            save(self.path("in.npz"), **arrays)
            for name in ("A", "B"):
                for separator in (":", ":/"):
                    self.run_tool("transpose", f"in.npz{separator}{name}", "-o", "out.npz", "--force")
                    self.assert_same_bits(np.load(self.path("out.npz"))["arr_0"], np.ascontiguousarray(arrays[name].T))
            self.assert_says(self.run_tool("reduce", "in.npz", code=3), "holds 2 matrices, name one", "/A 20x30", "/B 4x5")
            self.assert_says(self.run_tool("reduce", "in.npz:C", code=3), "holds no array 'C'")
            self.assert_says(self.run_tool("reduce", "in.npz:v", code=3), "--as-column")
            self.assertEqual(self.run_tool("reduce", "in.npz:v", "--as-column").out.split()[0], "3")

    def test_damage_is_found(self):
        np.savez(self.path("in.npz"), A=np.arange(600.0).reshape(20, 30))
        with open(self.path("in.npz"), "rb") as file:
            content = file.read()
        for name, damaged in [("bit", content[:900] + bytes([content[900] ^ 1]) + content[901:]), ("end", content[:-40])]:
            with open(self.path(name), "wb") as file:
                file.write(damaged)
            self.assert_says(self.run_tool("reduce", name, code=3), name, "archive" if name == "end" else ":A: cannot be unpacked")

    def test_headers_that_disagree(self):
        np.savez(self.path("in.npz"), A=np.eye(3), B=np.eye(3))
        with open(self.path("in.npz"), "rb") as file:
            content = bytearray(file.read())
        first = content.index(b"PK\x01\x02")
        second = content.index(b"PK\x01\x02", first + 4)
        for name, at, bytes_ in [("mark", 0, b"no"), ("name", 30, b"Q"), ("overlap", second + 42, bytes(4))]:
            damaged = content.copy()
            damaged[at:at + len(bytes_)] = bytes_
            with open(self.path("damaged.npz"), "wb") as file:
                file.write(damaged)
            with self.subTest(name=name):
                self.assert_says(self.run_tool("reduce", "damaged.npz:A", code=3), "damaged.npz")

    def test_names_of_any_kind(self):
        for name in ("/x", "a//b", "./c", "n" * 5000, "x" * 65531):
            with self.subTest(name=name[:9]):
                with zipfile.ZipFile(self.path("in.npz"), "w") as file:
                    for member, value in ((name, np.eye(3)), ("other", np.eye(2))):
                        with file.open(member + ".npy", "w") as stream:
                            np.save(stream, value)
                listed = self.run_tool("info", "in.npz", "--json").json()["matrices"]
                self.assertEqual(listed[0]["dataset"], "/" + name)
                if len(name) < 9:
                    self.assertEqual(self.run_tool("reduce", "in.npz:/" + name).out.split()[0], "3.0")
                self.assertEqual(self.run_tool("reduce", "in.npz:other").out.split()[0], "2.0")

    def test_a_name_to_write(self):
        np.savez(self.path("in.npz"), A=np.ones((2, 2)))
        self.assert_says(self.run_tool("convert", "in.npz", "-o", "out.npz:/A", code=2), "files of npz are written with one matrix")

    def test_members_that_are_no_arrays(self):
        with zipfile.ZipFile(self.path("in.npz"), "w") as file:
            file.writestr("A.npy", "no array")
        self.assert_says(self.run_tool("reduce", "in.npz", code=3), "in.npz:A: is no file of NumPy")
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }\n"
        header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with zipfile.ZipFile(self.path("in.npz"), "w") as file:
            file.writestr("A.npy", header + bytes(800))
        self.assert_says(self.run_tool("reduce", "in.npz", code=3), "in.npz:A: the array of 1000000x1000000 takes")

    def test_more_than_the_archive_says(self):
        np.savez_compressed(self.path("in.npz"), A=np.zeros((100, 100)))
        with open(self.path("in.npz"), "rb") as file:
            content = file.read()
        size = (80128).to_bytes(4, "little")
        self.assertIn(size, content)
        with open(self.path("lie.npz"), "wb") as file:
            file.write(content.replace(size, (80120).to_bytes(4, "little")))
        self.assert_says(self.run_tool("reduce", "lie.npz", code=3), "lie.npz:A: the array of 100x100 takes 80000 bytes")

    def test_pipes(self):
        matrix = random_bits("f64", (20, 30))
        np.savez(self.path("in.npz"), A=matrix)
        self.run_tool("convert", "in.npz", "-o", "out.npz")
        with open(self.path("in.npz"), "rb") as file:
            self.run_tool("transpose", "-", "--from", "npz", "-o", "piped.npy", stdin=file.read())
        self.assert_same_bits(np.load(self.path("piped.npy")), np.ascontiguousarray(matrix.T))
        self.assertGreater(os.path.getsize(self.path("out.npz")), 4800)

    def test_what_it_cannot_hold(self):
        np.savez(self.path("in.npz"), A=np.ones((2, 2)))
        self.assert_says(self.run_tool("convert", "in.npz", "-t", "bf16", "-o", "out.npz", code=2), "NumPy has no bf16")
        self.assert_says(self.run_tool("convert", "in.npz", "-o", "out.npz", "--chunk", "1x1", code=2), "no chunks")


if __name__ == "__main__":
    unittest.main()
