"""Files as other tools write them, one a kind of those that were reported: each has its right answer here."""

import json
import os
import shutil
import unittest

import h5py
import numpy as np

from harness import Case

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "reported")
NAMES = ["REAL_IMAG", "Re_Im", "be_c64", "cint16", "iq", "re_im", "real_imag", "real_imaginary", "ri", "swapped_order"]


class Reported(Case):
    def setUp(self):
        super().setUp()
        for name in os.listdir(FOLDER):
            shutil.copy(os.path.join(FOLDER, name), self.path(name))

    def sum_of(self, name, *options):
        return self.run_tool("reduce", name, "-q", *options).out.strip()

    def test_sums(self):
        """The sum of each, by another program or by hand."""
        for name, expected in [("matlab_struct_and_var.mat:/EEG/data", "66.0"), ("matlab_struct_only.mat", "66.0"), ("vds_own.h5:/v", "66.0"),
                               ("enum_species.h5", "7"), ("a.npy", "15.0"), ("single_percent.mtx", "6"), ("int_hermitian.mtx", "2"),
                               ("sym_upper.mtx", "13.0"), ("cr_only.mtx", "-0.5"), *[(f"complex_names.h5:/{name}", "9.0,1.0") for name in NAMES]]:
            with self.subTest(name):
                self.assertEqual(self.sum_of(name), expected)

    def test_fortran_exponents(self):
        self.assertEqual(float(self.sum_of("d_exp.mtx", "--op", "max")), 9629.5134244)
        self.assertEqual(float(self.sum_of("d_exp.mtx", "--op", "min")), -0.0025)

    def test_of_two_matrices_one_is_named(self):
        for name, words in [("h5ad_csr.h5ad", ["2 matrices", "/X 6x4", "9 entries", "/obsm/X_pca"]),
                            ("matlab_struct_and_var.mat", ["2 matrices", "/EEG/data", "/srate_list"])]:
            self.assert_says(self.run_tool("reduce", name, code=3), *words, "name one")
        self.assertIn("matlab_struct_only.mat:/EEG/data", self.run_tool("reduce", "matlab_struct_only.mat").err)
        self.assertIn("/EEG/data", self.run_tool("info", "matlab_struct_only.mat").out)

    def test_what_is_no_matrix(self):
        self.assertIn("--as-column", self.run_tool("info", "only1d.h5").out)
        self.assert_says(self.run_tool("reduce", "complex_names.h5:/xy", code=3), "compound of x, y")

    def test_packed_numbers(self):
        result = self.run_tool("reduce", "packed_netcdf_like.nc")
        self.assert_says(result, "scale_factor", "as they are stored", "--unpack")
        self.run_tool("convert", "packed_netcdf_like.nc", "--unpack", "-o", "values.npy")
        np.testing.assert_allclose(np.load(self.path("values.npy")), 273.15 + 0.01 * np.array([[100, 200, np.nan], [300, 400, 500]]), rtol=1e-15)

    def test_2_to_63_in_an_integer_file(self):
        self.assert_says(self.run_tool("reduce", "int_u64.mtx", code=3), "int_u64.mtx:4", "-t u64")
        self.assertEqual(self.sum_of("int_u64.mtx", "-t", "u64"), str(2**64 - 1))

    def test_sums_that_pass_the_range(self):
        for op in ("sum", "mean"):
            self.assertIn(self.sum_of("minus_max_inf.h5", "--op", op), ("nan", "inf"))
        words = ["multiply", "beta_a.h5", "beta_b.h5", "--add", "beta_d.h5", "--beta", "1e300"]
        self.run_tool(*words)
        self.run_tool("verify", "multiply", "beta_a.h5", "beta_b.h5", "beta_w.h5", *words[3:], code=1)

    def test_nan_that_text_cannot_hold(self):
        self.run_tool("transpose", "nan_sign.h5", "-o", "t.mtx")
        self.run_tool("verify", "transpose", "nan_sign.h5", "t.mtx")
        with open(self.path("jobs.txt"), "w", encoding="ascii") as jobs:
            jobs.write("transpose nan_sign.h5 -o again.mtx\n")
        self.run_tool("batch", "jobs.txt", "--log", "log.jsonl")
        self.assertIn("1 done before", self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", "--resume").err)

    def test_nothing_of_huge_extents(self):
        """Every command ends at once; a result of 2^50 elements is refused for want of memory."""
        with h5py.File(self.path("empty_huge.h5")) as file:
            shapes = {name: file[name].shape for name in file}
        for name, (rows, cols) in shapes.items():
            at = f"empty_huge.h5:/{name}"
            for words in (["transpose", at, "-o", f"{name}t.h5"], ["transpose", at, "-o", f"{name}t.mtx"], ["convert", at, "-o", f"{name}.npy"],
                          ["compare", at, at], ["info", "--stats", at], ["reduce", at], ["multiply", at, at, "--transpose-a" if rows else "--transpose-b"]):
                with self.subTest(words):
                    self.run_tool(*words)
            self.run_tool("reduce", at, "--axis", "rows", code=6 if rows else 0)
            self.run_tool("reduce", at, "--axis", "columns", code=6 if cols else 0)
            self.run_tool("multiply", at, at, "--transpose-b" if rows else "--transpose-a", code=6)
            header = json.loads(self.run_tool("info", "--json", f"{name}t.h5").out)["matrices"][0]
            self.assertEqual((header["rows"], header["cols"]), (cols, rows))


if __name__ == "__main__":
    unittest.main()
