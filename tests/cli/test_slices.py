"""Slices of HDF5 datasets against NumPy's: in every storage, with what is refused."""

import json
import os
import unittest

import h5py
import numpy as np

from harness import Case, cases, read_h5, write_h5

STORAGES = {
    "contiguous": {},
    "chunked": {"chunks": True},
    "odd_chunks": {"chunks": (3, 5, 4)},
    "deflated": {"chunks": (2, 7, 16), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": (1, 16, 3), "compression": "lzf", "shuffle": True},
    "scaleoffset": {"chunks": (3, 5, 4), "scaleoffset": 0},
}
SHAPE = (7, 23, 18)
SLICES = ["[0,:,:]", "[6,:,:]", "[:,5,:]", "[:,:,17]", "[3,4:20,2:9]", "[1:6,22,:3]", "[2:,1:,4]", "[4:5,:,:]",
          "[ 2 , : , 7: ]", "[2,3:3,:]", "[0:7,0:1,:]"]


def taken(array, text):
    """What NumPy takes, without the dimension of one place that is left of three."""
    part = eval("array" + text, {"array": array})
    return part.squeeze(axis=part.shape.index(1)) if part.ndim == 3 else part


@cases([(f"{storage}_{kind}", storage, kind) for storage in STORAGES for kind in ("<i4", ">i2", "<f8")
        if storage != "scaleoffset" or kind[1] == "i"])
class Cubes(Case):
    def check(self, storage, kind):
        cube = np.random.default_rng(1).integers(-9999, 9999, SHAPE).astype(kind)
        with h5py.File(self.path("cube.h5"), "w") as file:
            file.create_dataset("g/A", data=cube, **STORAGES[storage])
        for text in SLICES:
            self.run_tool("convert", f"cube.h5:/g/A{text}", "-o", "out.h5", "--force")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], np.ascontiguousarray(taken(cube, text)).astype(kind[1:]),
                                  text)
            limit = {"scaleoffset": "5MiB", "chunked": "40KB"}.get(storage, "9KB")  # HDF5 undoes the first
            self.run_tool("convert", f"cube.h5:/g/A{text}", "-o", "blocks.h5", "--force", "--contiguous",
                          "--memory-limit", limit, "-t", "f64", "--threads", "2")
            self.assert_same_bits(read_h5(self.path("blocks.h5"))[1], taken(cube, text).astype(float), text)


class Slices(Case):
    def write(self, **datasets):
        with h5py.File(self.path("A.h5"), "w") as file:
            for name, data in datasets.items():
                file[name] = data

    def test_two_dimensions(self):
        matrix = np.arange(35.0).reshape(5, 7)
        for storage in ({}, {"chunks": (2, 3)}, {"chunks": (2, 3), "compression": "gzip", "shuffle": True}):
            write_h5(self.path("A.h5"), matrix, **storage)
            for text in ("[1:4,2:6]", "[:,:]", "[3:,:2]", "[0:1,0:7]", "[5:,:]"):
                self.run_tool("transpose", f"A.h5:/A{text}", "-o", "out.h5", "--force")
                self.assert_same_bits(read_h5(self.path("out.h5"))[1], eval("matrix" + text).T.copy(), text)
            self.run_tool("convert", "A.h5:/A[2,1:]", "-o", "out.h5", "--force", "--as-column")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix[2, 1:, None].copy())
        self.assert_says(self.run_tool("info", "A.h5:/A[2,:]", code=3), "gives 1 dimensions (7) of 5x7", "0:1")

    def test_one_dimension(self):
        self.write(v=np.arange(9))
        self.run_tool("convert", "A.h5:/v[2:7]", "-o", "out.h5", "--as-column")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], np.arange(2, 7)[:, None])
        self.assert_says(self.run_tool("info", "A.h5:/v[2:7]", code=3), "gives 1 dimensions (5) of 9, expected 2")

    def test_a_dimension_of_one_place_is_dropped(self):
        cube = np.arange(30.0).reshape(1, 5, 6)
        for shape in ((1, 5, 6), (5, 1, 6), (5, 6, 1)):
            self.write(A=cube.reshape(shape))
            self.run_tool("convert", "A.h5", "-o", "out.h5", "--force")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], cube[0])
        self.write(A=cube.reshape(1, 30, 1))
        self.assert_says(self.run_tool("info", "A.h5:/A", code=3), "1x30x1", "'A.h5:/A[0,:,:]'")

    def test_four_dimensions(self):
        array = np.random.default_rng(2).random((3, 4, 5, 6))
        with h5py.File(self.path("A.h5"), "w") as file:
            file.create_dataset("A", data=array, chunks=(2, 3, 2, 5), compression="gzip")
        self.run_tool("convert", "A.h5:/A[2,:,4,1:]", "-o", "out.h5")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], array[2, :, 4, 1:].copy())

    def test_every_command_takes_them(self):
        cube = np.random.default_rng(3).random((3, 8, 8))
        self.write(A=cube, B=cube[1])
        self.run_tool("compare", "A.h5:/A[1,:,:]", "A.h5:/B")
        self.run_tool("compare", "A.h5:/A[0,:,:]", "A.h5:/B", code=1)
        info = self.run_tool("info", "A.h5:/A[1,:,:]", "--stats", "--json").json()["matrices"][0]
        self.assertEqual((info["dataset"], info["rows"], info["storage"]),
                         ("/A[1,:,:]", 8, "contiguous, a slice of 3x8x8"))
        self.assertEqual(info["hash"], self.run_tool("info", "A.h5:/B", "--stats", "--json").json()["matrices"][0]["hash"])
        record = self.record("multiply", "A.h5:/A[:,3,:]", "A.h5:/A[0,:,:]", "-o", "C.h5")
        self.assertEqual([matrix["dataset"] for matrix in record["inputs"]], ["/A[:,3,:]", "/A[0,:,:]"])
        np.testing.assert_allclose(read_h5(self.path("C.h5"))[1], cube[:, 3, :] @ cube[0], rtol=1e-13)
        self.run_tool("verify", "multiply", "A.h5:/A[:,3,:]", "A.h5:/A[0,:,:]", "C.h5")
        self.run_tool("verify", "multiply", "A.h5:/A[:,2,:]", "A.h5:/A[0,:,:]", "C.h5", code=1)
        answer = self.run_tool("reduce", "A.h5:/A[2,:,:]", "--quiet").out
        self.assertAlmostEqual(float(answer), cube[2].sum(), delta=1e-12)

    def test_names_with_brackets(self):
        with h5py.File(self.path("A.h5"), "w") as file:
            file["A"] = np.zeros((2, 3, 4))
            file["A[0,:,:]"] = np.ones((3, 4))
            file["g[1]/B"] = 2 * np.ones((2, 5, 5))
        for name, expected in (("A[0,:,:]", np.ones((3, 4))), ("A[1,:,:]", np.zeros((3, 4))),
                               ("g[1]/B[0,:,:]", 2 * np.ones((5, 5)))):
            self.run_tool("convert", "A.h5:/" + name, "-o", "out.h5", "--force")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], expected, name)

    def test_dimensions_of_matlab_are_those_that_are_shown(self):
        array = np.random.default_rng(4).random((5, 4, 3))  # 3 x 4 x 5 in MATLAB
        with h5py.File(self.path("A.h5"), "w") as file:
            for name, data in (("A", array), ("M", array[0])):
                file[name] = data
                file[name].attrs["MATLAB_class"] = np.bytes_("double")
        for name, expected in (("A[:,:,2]", array[2].T), ("A[1,:,:]", array[:, :, 1].T),
                               ("A[:,1:3,4:5]", array[4, 1:3, :].T), ("M[1:,:2]", array[0].T[1:, :2])):
            self.run_tool("convert", "A.h5:/" + name, "-o", "out.h5", "--force")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], expected.copy(), name)
        self.assert_says(self.run_tool("info", "A.h5:/A", code=3), "3x4x5", "'A.h5:/A[:,:,0]'")
        self.run_tool("convert", "A.h5:/A[2,:,:]", "-o", "out.h5", "--force", "--layout", "row")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], array[2])

    def test_virtual_datasets_and_other_storage(self):
        cube = np.arange(2 * 6 * 5, dtype="i4").reshape(2, 6, 5)
        with h5py.File(self.path("A.h5"), "w") as file:
            layout = h5py.VirtualLayout((2, 6, 5), "i4")
            for i in range(2):
                file.create_dataset(f"p{i}", data=cube[i], chunks=(4, 2))
                layout[i] = h5py.VirtualSource(".", f"p{i}", (6, 5))
            file.create_virtual_dataset("A", layout)
            file.create_dataset("unwritten", (2, 6, 5), "f4", fillvalue=2.5)
            file.create_dataset("holes", (2, 6, 5), "f4", fillvalue=1.5, chunks=(1, 4, 4))[1, 0, 0] = 3
            file.create_dataset("E", data=cube, external=[(self.path("A.raw"), 0, h5py.h5f.UNLIMITED)])
            file.create_dataset("bool", data=cube % 2 == 0)
        holes = np.full((6, 5), 1.5, "f4")
        holes[0, 0] = 3
        for name, expected in (("A[1,:,:]", cube[1]), ("A[:,2:,3]", cube[:, 2:, 3].copy()),
                               ("unwritten[1,:,:]", np.full((6, 5), 2.5, "f4")), ("holes[1,:,:]", holes),
                               ("E[1,:,1:3]", cube[1, :, 1:3].copy())):
            self.run_tool("convert", "A.h5:/" + name, "-o", "out.h5", "--force", "--allow-external")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], expected, name)
        self.run_tool("convert", "A.h5:/bool[1,:,:]", "-o", "out.npy")
        np.testing.assert_array_equal(np.load(self.path("out.npy")), cube[1] % 2 == 0)

    def test_one_dataset_of_many_files(self):
        matrices = np.random.default_rng(5).random((3, 4, 4))
        for i, matrix in enumerate(matrices):
            with h5py.File(self.path(f"{i}.h5"), "w") as file:
                file["A"], file["B"] = matrix, -matrix
                file["g/C"] = matrices
        np.savetxt(self.path("x.txt"), matrices[0])
        np.save(self.path("x.npy"), matrices[0])
        for name, expected in (("/B", -matrices), ("B", -matrices), ("/g/C[1,:,:]", matrices[[1, 1, 1]])):
            out = self.run_tool("reduce", "0.h5", "1.h5", "2.h5", "--dataset", name).out
            sums = [float(line.split()[0]) for line in out.splitlines()]
            np.testing.assert_allclose(sums, expected.sum(axis=(1, 2)), rtol=1e-12)
        self.run_tool("transpose", "0.h5", "1.h5", "x.npy", "--dataset", "B", "-o", "{/.}_t.h5")
        self.assert_same_bits(read_h5(self.path("1_t.h5"), "B")[1], -matrices[1].T.copy())
        self.assert_same_bits(read_h5(self.path("x_t.h5"), "A")[1], matrices[0].T.copy())
        self.run_tool("verify", "transpose", "0.h5", "0_t.h5", "--dataset", "B")
        self.run_tool("compare", "0.h5:/A", "x.npy", "--dataset", "B")
        self.run_tool("compare", "0.h5", "1.h5", "--dataset", "g/C[0,:,:]")
        self.run_tool("compare", "0.h5", "1.h5", "--dataset", "A", code=1)
        self.run_tool("convert", "2.h5", "-o", "c.h5", "--dataset", "B")
        self.assert_same_bits(read_h5(self.path("c.h5"), "B")[1], -matrices[2])
        listed = self.run_tool("info", "0.h5", "x.npy", "--dataset", "A", "--json").json()["matrices"]
        self.assertEqual([matrix["dataset"] for matrix in listed], ["/A", None])
        self.assert_says(self.run_tool("reduce", "0.h5", "--dataset", "X", code=3), "0.h5:/X: there is no 'X'")
        self.assert_says(self.run_tool("reduce", "0.h5", "--dataset", "", code=2), "--dataset", "is empty")

    def test_what_is_refused(self):
        self.write(A=np.zeros((2, 3, 4)))
        for text, code, words in (
                ("[2,:,:]", 3, ["dimension 1 of 2x3x4 has 2 places, found 2, expected a number below 2"]),
                ("[0,1:4,:]", 3, ["dimension 2 of 2x3x4 has 3 places, found 1:4"]),
                ("[0,:]", 3, ["the slice is of 2 dimensions, expected 3", "2x3x4"]),
                ("[0,1,:]", 3, ["gives 1 dimensions (4) of 2x3x4"]), ("[:,:,:]", 3, ["gives 3 dimensions (2x3x4)"]),
                ("[-1,:,:]", 2, ["'-1' is no part of a slice", "k, a:b"]), ("[0,::2,:]", 2, ["'::2'", "steps"]),
                ("[0,2:1,:]", 2, ["'2:1'"]), ("[...]", 2, ["'...'"]), ("[]", 2, ["''"]), ("[0,,:]", 2, ["''"]),
                ("[99999999999999999999,:,:]", 2, ["'99999999999999999999'"])):
            result = self.run_tool("info", f"A.h5:/A{text}", code=code)
            self.assert_says(result, f"A.h5:/A{text}", *words)
        self.assert_says(self.run_tool("info", "A.h5:/B[0,:,:]", code=3), "there is no 'B'")
        self.assert_says(self.run_tool("info", "A.h5:/A", code=3), "2x3x4", "'A.h5:/A[0,:,:]'")
        for name in ("out.h5:/B[0,:,:]", "A.h5:/B[1:2,3]"):
            self.assert_says(self.run_tool("convert", "A.h5:/A[0,:,:]", "-o", name, code=2), name, "name of a slice")
        self.assertEqual(os.listdir(self.folder), ["A.h5"])

    def test_what_is_no_dataset(self):
        with h5py.File(self.path("A.h5"), "w") as file:
            file.create_group("g")
            sparse = file.create_group("S")
            sparse.attrs["MATLAB_sparse"] = np.uint64(2)
            sparse["jc"] = np.array([0, 1, 1], "u8")
            sparse["ir"] = np.array([0], "u8")
            sparse["data"] = np.array([1.0])
            file["arrays"] = np.zeros(3, np.dtype(("f8", 4)))
        self.assert_says(self.run_tool("info", "A.h5:/g[0,:,:]", code=3), "group")
        self.assert_says(self.run_tool("info", "A.h5:/S[0:1,:]", code=3), "no slice")

    def test_a_pipe(self):
        self.write(A=np.arange(24.0).reshape(2, 3, 4))
        with open(self.path("A.h5"), "rb") as file:
            self.run_tool("convert", "-:/A[1,:,:]", "--from", "hdf5", "-o", "out.h5", stdin=file.read())
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], np.arange(12.0, 24).reshape(3, 4))


if __name__ == "__main__":
    unittest.main()
