"""Sparse groups of HDF5 as they are written again: in the place of another, with chunks and filters, MATLAB's logicals."""

import os
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import Case, digest
from test_sparse_files import SPARSE, anndata, binsparse, matlab, read_anndata, read_binsparse, read_matlab


class Replaced(Case):
    def setUp(self):
        super().setUp()
        with h5py.File(self.path("in.h5"), "w") as file:
            anndata(file, "csr", 2 * SPARSE)

    def test_a_group_of_the_same_parts(self):
        """Its attributes go, and the space of its arrays is used again."""
        old = scipy.sparse.random(100, 80, density=0.5, random_state=1, format="csr")
        for layout, make, read in (("anndata", anndata, read_anndata), ("binsparse", binsparse, read_binsparse), ("matlab", matlab, read_matlab)):
            with self.subTest(layout):
                with h5py.File(self.path("out.h5"), "w") as file:
                    file["A"] = np.eye(3)
                    name = make(file, "csr", old)
                    file[name].attrs["old"] = 1
                size = os.path.getsize(self.path("out.h5"))
                for verb, expected in (("transpose", 2 * SPARSE.T), ("convert", 2 * SPARSE)):
                    words = (verb, "in.h5", "-o", f"out.h5:{name}", "--sparse-layout", layout)
                    self.assert_says(self.run_tool(*words, code=4), "the group exists already; --force replaces it")
                    self.run_tool(*words, "--force")
                    with h5py.File(self.path("out.h5")) as file:
                        np.testing.assert_array_equal(read(file[name]).toarray(), expected.toarray())
                        np.testing.assert_array_equal(file["A"][()], np.eye(3))
                        self.assertNotIn("old", file[name].attrs)
                        self.assertEqual(file[name].attrs["gpumat_operation"], verb)
                self.assertLess(os.path.getsize(self.path("out.h5")), size + 20000)

    def test_what_is_not_replaced(self):
        def other(file):
            anndata(file, "csr")
            file["X/more"] = 1

        def linked(file):
            anndata(file, "csr")
            file["Y"] = file["X"]

        def linked_part(file):
            anndata(file, "csr")
            file["values"] = file["X/data"]

        def soft(file):
            anndata(file, "csr", name="Y")
            file["X"] = h5py.SoftLink("/Y")

        for make, said in ((other, "holds 'more'"), (linked, "the group has 2 names"), (linked_part, "the dataset has 2 names"), (soft, "is a link to /Y")):
            with self.subTest(said):
                with h5py.File(self.path("out.h5"), "w") as file:
                    make(file)
                before = digest(self.path("out.h5"))
                for force in (["--force"], []):  # which is named only where it helps
                    found = self.run_tool("transpose", "in.h5", "-o", "out.h5:/X", *force, code=4)
                    self.assert_says(found, said)
                    self.assertNotIn("--force replaces", found.err)
                self.assertEqual(digest(self.path("out.h5")), before)
        before = digest(self.path("in.h5"))
        self.assert_says(self.run_tool("transpose", "in.h5", "-o", "in.h5:/X", "--force", code=4), "in the file of an input")
        self.assertEqual(digest(self.path("in.h5")), before)

    def test_parts_that_would_stay(self):
        """MATLAB has no indices and values where there are none."""
        with h5py.File(self.path("none.h5"), "w") as file:
            matlab(file, "csc", scipy.sparse.csr_matrix((6, 4)))
        with h5py.File(self.path("out.h5"), "w") as file:
            matlab(file, "csc")
        before = digest(self.path("out.h5"))
        self.assert_says(self.run_tool("convert", "none.h5", "-o", "out.h5:/S", "--force", code=4), "no part of the sparse matrix")
        self.assertEqual(digest(self.path("out.h5")), before)

    def test_beside_the_input_in_its_file(self):
        self.run_tool("transpose", "in.h5:/X", "-o", "in.h5:/T")
        with h5py.File(self.path("in.h5")) as file:
            np.testing.assert_array_equal(read_anndata(file["T"]).toarray(), 2 * SPARSE.toarray().T)
            np.testing.assert_array_equal(read_anndata(file["X"]).toarray(), 2 * SPARSE.toarray())


class Stored(Case):
    def test_chunks_and_filters_are_kept(self):
        matrix = scipy.sparse.random(300, 200, density=0.1, random_state=1, format="csr")
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": np.array(matrix.shape)})
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(matrix, name), chunks=(250,), compression="gzip", compression_opts=3, shuffle=True, fletcher32=True)
        for options, chunks, level in (((), (250,), 3), (("--contiguous",), None, None), (("--deflate", "5", "--chunk", "100x2"), (200,), 5), (("-t", "f32"), (250,), 3)):
            with self.subTest(options=options):
                self.run_tool("convert", "in.h5", "-o", "out.h5", "--force", *options)
                with h5py.File(self.path("out.h5")) as file:
                    for name in ("data", "indices", "indptr"):
                        part = file["X"][name]
                        self.assertEqual((part.chunks, part.compression_opts), (chunks, level))
                        self.assertEqual((part.shuffle, part.fletcher32), 2 * (level == 3,))
                    np.testing.assert_array_equal(read_anndata(file["X"]).toarray(), matrix.astype("f4" if "f32" in options else "f8").toarray())
        self.run_tool("convert", "in.h5", "-o", "dense.h5", "--dense")
        with h5py.File(self.path("dense.h5")) as file:
            self.assertIsNone(file["X"].chunks)

    def test_lzf_is_told(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": np.array(SPARSE.shape)})
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(SPARSE, name), compression="lzf")
        self.assert_says(self.run_tool("convert", "in.h5", "-o", "out.h5"), "it is stored with lzf", "deflate 1")
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["X/data"].compression, "gzip")


class Logical(Case):
    MATRIX = (SPARSE != 0).tocsr()

    def check(self, output, expected):
        with h5py.File(self.path(output)) as file:
            group = file["S"]
            self.assertEqual((group.attrs["MATLAB_class"], group.attrs["MATLAB_int_decode"], group["data"].dtype), (b"logical", 1, np.uint8))
            found = scipy.sparse.csc_matrix((group["data"][()], group["ir"][()].astype(int), group["jc"][()].astype(int)), expected.shape)
            np.testing.assert_array_equal(found.toarray(), expected.toarray())

    def test_they_stay(self):
        with h5py.File(self.path("in.mat"), "w") as file:
            matlab(file, "csc", self.MATRIX)
        for output in ("out.mat", "out.h5"):
            self.run_tool("transpose", "in.mat", "-o", output)
            self.check(output, self.MATRIX.T)
            self.run_tool("convert", output, "-o", "again" + output)
            for verb, expected in (("convert", self.MATRIX), ("transpose", self.MATRIX.T)):
                self.run_tool(verb, "in.mat", "-o", "dense" + output, "--dense", "--force")
                with h5py.File(self.path("dense" + output)) as file:
                    dataset = next(iter(file.values()))
                    if output == "out.mat":
                        self.assertEqual((dataset.attrs["MATLAB_class"], dataset.attrs["MATLAB_int_decode"], dataset.dtype), (b"logical", 1, np.uint8))
                        np.testing.assert_array_equal(dataset[()].T, expected.toarray())
                    else:
                        self.assertEqual(dataset.dtype, bool)
                        np.testing.assert_array_equal(dataset[()], expected.toarray())
            self.check("again" + output, self.MATRIX.T)
        for words in (("transpose", "in.mat", "-t", "u8"), ("multiply", "in.mat", "in.mat", "--transpose-b", "-t", "i32")):
            self.assert_says(self.run_tool(*words, "-o", "not.mat", code=5), "are written in f64 and c128")

    def test_other_numbers_are_none(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            anndata(file, "csr", self.MATRIX.astype("u1"))
        self.assert_says(self.run_tool("transpose", "in.h5", "-o", "not.mat", code=5), "are written in f64 and c128")
        with h5py.File(self.path("in.mat"), "w") as file:
            matlab(file, "csc", self.MATRIX.astype("f8"))
        self.run_tool("transpose", "in.mat", "-t", "u8", "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["S"].attrs["encoding-type"], "csr_matrix")


if __name__ == "__main__":
    unittest.main()
