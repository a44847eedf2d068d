"""How HDF5 datasets are stored: a dataset in the file of its input, kept chunks and filters, MATLAB's layout."""

import fcntl
import os
import unittest

import h5py
import numpy as np
import scipy.io.matlab

from harness import DTYPES, Case, cases, random_bits, random_values, read_h5, snapshot, write_h5, write_mtx


class OwnFile(Case):
    """A dataset is added to the file that is read."""

    def write(self):
        self.matrix = np.random.default_rng(1).random((70, 90))
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_dataset("A", data=self.matrix, chunks=(16, 16), compression="gzip")
            file["g/B"] = self.matrix.T.copy()
            file["A"].attrs["unit"] = "mm"

    def read(self, name):
        return read_h5(self.path("a.h5"), name)[1]

    def test_every_command(self):
        self.write()
        self.run_tool("transpose", "a.h5:/A", "-o", "a.h5:/At")
        self.assert_same_bits(self.read("At"), self.matrix.T.copy())
        self.run_tool("multiply", "a.h5:/A", "a.h5:/g/B", "-o", "a.h5:/g/AB", "--verify", "full")
        np.testing.assert_allclose(self.read("g/AB"), self.matrix @ self.matrix.T, rtol=1e-12)
        self.run_tool("convert", "a.h5:/A[1:9,:]", "-o", "a.h5:/part", "-t", "f32")
        self.assert_same_bits(self.read("part"), self.matrix[1:9].astype("f4"))
        self.run_tool("reduce", "a.h5:/A", "--axis", "rows", "-o", "a.h5:/sums")
        np.testing.assert_allclose(self.read("sums").ravel(), self.matrix.sum(axis=1), rtol=1e-12)
        self.assert_same_bits(self.read("A"), self.matrix)
        self.run_tool("verify", "transpose", "a.h5:/A", "a.h5:/At")
        with h5py.File(self.path("a.h5")) as file:
            self.assertEqual((sorted(file), file["A"].attrs["unit"]), (["A", "At", "g", "part", "sums"], "mm"))

    def test_through_another_name_and_in_parts(self):
        self.write()
        os.symlink("a.h5", self.path("link.h5"))
        os.link(self.path("a.h5"), self.path("hard.h5"))
        self.run_tool("transpose", "link.h5:/A", "-o", "a.h5:/At", "--memory-limit", "120KB")
        self.assert_same_bits(self.read("At"), self.matrix.T.copy())
        self.run_tool("transpose", "a.h5:/A", "-o", "link.h5:/Bt")
        self.assert_same_bits(self.read("Bt"), self.matrix.T.copy())
        self.assertTrue(os.path.islink(self.path("link.h5")))

    def test_nothing_of_it_is_replaced(self):
        self.write()
        before = snapshot(self.folder)
        for output in ("a.h5:/A", "a.h5:/g/B"):
            for force in ([], ["--force"]):
                self.assert_says(self.run_tool("transpose", "a.h5:/A", "-o", output, *force, code=4), output,
                                 "exists already", "the file of an input", "nothing is replaced")
        for force in ([], ["--force"]):
            self.assert_says(self.run_tool("transpose", "a.h5:/A", "-o", "a.h5", *force, code=4), "never overwritten")
        self.run_tool("transpose", "a.h5:/A", "-o", "a.h5:/At", "--dry-run")
        self.assertEqual(snapshot(self.folder), before)

    def test_who_writes_keeps_others_away(self):
        self.write()
        with open(self.path("a.h5"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # who reads is no hindrance
            self.run_tool("transpose", "a.h5:/A", "-o", "a.h5:/At")
        before = snapshot(self.folder)
        with open(self.path("a.h5"), "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)  # as another run that adds to what it reads
            self.assert_says(self.run_tool("transpose", "a.h5:/A", "-o", "a.h5:/B", code=4), "another process")
        self.assertEqual(snapshot(self.folder), before)

    def test_who_appends_in_swmr_mode_keeps_others_away(self):
        """Such a program holds no lock; it writes the whole of what it knows when it closes the file."""
        self.write()
        write_h5(self.path("in.h5"), self.matrix)
        for block in (0, 512):
            with h5py.File(self.path("growing.h5"), "w", libver="latest", userblock_size=block) as file:
                growing = file.create_dataset("A", data=self.matrix, maxshape=(None, 90), chunks=(16, 16))
                file.swmr_mode = True
                for source in ("growing.h5:/A", "in.h5"):
                    self.assert_says(self.run_tool("transpose", source, "-o", "growing.h5:/B", code=4), "growing.h5:/B",
                                     "marked as open for writing", "h5clear -s")
                growing.resize((80, 90))
            self.run_tool("transpose", "in.h5", "-o", "growing.h5:/B")
            with h5py.File(self.path("growing.h5")) as file:
                self.assertEqual((file["A"].shape, file["B"].shape), ((80, 90), (90, 70)))


def storage_of(dataset):
    return (dataset.chunks, dataset.compression, dataset.compression_opts, dataset.shuffle, dataset.fletcher32)


class KeptChunks(Case):
    def check(self, matrix, *arguments, told="", source="a.h5", **expected):
        result = self.run_tool("convert", source, "-o", "out.h5", "--force", *arguments)
        with h5py.File(self.path("out.h5")) as file:
            dataset = file["A"]
            self.assert_same_bits(dataset[()], matrix)
            wanted = {"chunks": None, "compression": None, "compression_opts": None, "shuffle": False, "fletcher32": False}
            wanted.update(expected)
            self.assertEqual(storage_of(dataset), tuple(wanted.values()))
        self.assert_says(result, told)
        return result

    def test_chunks_and_filters_are_kept(self):
        for storage in ({"chunks": (7, 9)}, {"chunks": (64, 3), "compression": "gzip", "compression_opts": 7},
                        {"chunks": (16, 16), "compression": "gzip", "compression_opts": 1, "shuffle": True, "fletcher32": True},
                        {"chunks": (5, 90), "fletcher32": True}, {"chunks": (70, 1), "shuffle": True}):
            for kind in ("f8", "i2", "u1"):
                matrix = (100 * np.random.default_rng(2).random((70, 90))).astype(kind)
                write_h5(self.path("a.h5"), matrix, **storage)
                # HDF5 leaves shuffle out where elements are bytes; h5py says what the file says.
                with h5py.File(self.path("a.h5")) as file:
                    expected = dict(zip(("chunks", "compression", "compression_opts", "shuffle", "fletcher32"),
                                        storage_of(file["A"])))
                self.check(matrix, **expected)
                self.check(matrix.astype("f4"), "-t", "f32", "--memory-limit", "200KB", **expected)

    def test_what_is_told_comes_first(self):
        matrix = np.arange(6300.0).reshape(70, 90)
        write_h5(self.path("a.h5"), matrix, chunks=(7, 9), compression="gzip", fletcher32=True)
        self.check(matrix, "--contiguous")
        self.check(matrix, "--deflate", "0")
        self.check(matrix, "--chunk", "8x8", chunks=(8, 8))
        self.check(matrix, "--shuffle", chunks=(70, 90), shuffle=True)
        self.assert_says(self.run_tool("convert", "a.h5", "-o", "x.h5", "--contiguous", "--chunk", "2x2", code=2),
                         "--contiguous")

    def test_filters_that_are_not_written(self):
        matrix = np.arange(6300).reshape(70, 90)
        write_h5(self.path("a.h5"), matrix, chunks=(7, 9), compression="lzf", shuffle=True)
        self.check(matrix, told="stored with lzf, which is not written; the result has deflate 1", chunks=(7, 9),
                   compression="gzip", compression_opts=1, shuffle=True)
        write_h5(self.path("a.h5"), matrix, chunks=(7, 9), scaleoffset=0)
        self.check(matrix, told="scaleoffset", chunks=(7, 9), compression="gzip", compression_opts=1)

    def test_chunks_of_what_is_read(self):
        matrix = np.arange(6300.0).reshape(70, 90)
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_dataset("A", data=matrix.T, chunks=(9, 7)).attrs["MATLAB_class"] = np.bytes_("double")
        self.check(matrix, chunks=(7, 9))
        with h5py.File(self.path("a.h5"), "w") as file:
            file.create_dataset("A", data=matrix.reshape(70, 9, 10), chunks=(7, 2, 5), compression="gzip")
        self.check(matrix.reshape(70, 9, 10)[:, 3].copy(), source="a.h5:/A[:,3,:]", chunks=(7, 5), compression="gzip",
                   compression_opts=4)
        self.run_tool("transpose", "a.h5:/A[:,3,:]", "-o", "t.h5")
        with h5py.File(self.path("t.h5")) as file:
            self.assertIsNone(file["A"].chunks)


MATLAB = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
          "u64": "uint64", "f32": "single", "f64": "double", "c64": "single", "c128": "double"}


@cases([(name, name) for name in MATLAB])
class MatlabTypes(Case):
    def check(self, name):
        for shape in ((1, 1), (3, 5), (130, 70)):
            matrix = random_bits(name, shape)
            write_h5(self.path("in.h5"), matrix, name)
            for more in ([], ["--chunk", "32x16", "--deflate", "1", "--shuffle"], ["--memory-limit", "30KB"]):
                if "--memory-limit" in more and shape[0] > 5:
                    more = ["--memory-limit", "400KB"]
                self.run_tool("transpose", "in.h5", "-o", "out.mat", "--force", *more)
                with h5py.File(self.path("out.mat")) as file:
                    dataset = file["A"]
                    self.assertEqual(dataset.attrs["MATLAB_class"], np.bytes_(MATLAB[name]))
                    if "--chunk" in more:
                        self.assertEqual(dataset.chunks, (min(16, shape[0]), min(32, shape[1])))
                    stored = dataset[()]  # MATLAB's matrix is the transpose of what h5py sees
                    if name[0] == "c":
                        self.assertEqual(stored.dtype.names, ("real", "imag"))
                        stored = np.ascontiguousarray(stored).view(DTYPES[name])
                    self.assertEqual(stored.shape, shape)
                    self.assert_same_bits(np.ascontiguousarray(stored), matrix, str(more))
                self.run_tool("verify", "transpose", "in.h5", "out.mat")
                self.run_tool("convert", "out.mat", "-o", "back.h5", "--force")
                self.assert_same_bits(read_h5(self.path("back.h5"))[1], matrix.T.copy())


class Matlab(Case):
    def test_the_file_says_that_it_is_one(self):
        write_mtx(self.path("in.mtx"), np.arange(6.0).reshape(2, 3))
        self.run_tool("convert", "in.mtx", "-o", "a.h5", "--output-layout", "matlab")
        self.run_tool("convert", "in.mtx", "-o", "a.mat")
        self.run_tool("generate", "identity", "--shape", "2x3", "-o", "i.mat:g/I")
        for name in ("a.h5", "a.mat", "i.mat"):
            with open(self.path(name), "rb") as file:
                head = file.read(520)
            self.assertTrue(head.startswith(b"MATLAB 7.3 MAT-file"))
            self.assertEqual((head[124:128], head[512:]), (b"\0\2IM", b"\x89HDF\r\n\x1a\n"))
            with open(self.path(name), "rb") as file:
                self.assertEqual(scipy.io.matlab.matfile_version(file), (2, 0))
        self.assertEqual(self.run_tool("info", "a.mat", "--json").json()["matrices"][0]["rows"], 2)
        self.run_tool("convert", "in.mtx", "-o", "row.mat", "--output-layout", "row")
        self.assertEqual(read_h5(self.path("row.mat"))[1].shape, (2, 3))
        with open(self.path("a.h5"), "rb") as one, open(self.path("a.mat"), "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_added_to_files(self):
        matrix = np.arange(6.0).reshape(2, 3)
        write_h5(self.path("in.h5"), matrix)
        self.run_tool("convert", "in.h5", "-o", "a.mat:/A")
        self.run_tool("convert", "in.h5", "-o", "a.mat:B")
        self.run_tool("transpose", "a.mat:/A", "-o", "a.mat:/C")
        self.run_tool("convert", "in.h5", "-o", "in.h5:/M", "--output-layout", "matlab")
        for name, stored in (("A", matrix.T), ("B", matrix.T), ("C", matrix)):
            self.assert_same_bits(read_h5(self.path("a.mat"), name)[1], stored.copy(), name)
        self.assert_same_bits(read_h5(self.path("in.h5"), "M")[1], matrix.T.copy())
        self.run_tool("compare", "in.h5:/M", "in.h5:/A")

    def test_booleans_are_logical(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = np.arange(6).reshape(2, 3) % 2 == 0
        self.run_tool("convert", "in.h5", "-o", "a.mat")
        with h5py.File(self.path("a.mat")) as file:
            self.assertEqual((file["A"].attrs["MATLAB_class"], file["A"].attrs["MATLAB_int_decode"], file["A"].dtype),
                             (np.bytes_("logical"), 1, np.uint8))
        for command, into in (("convert", "b.mat"), ("transpose", "c.mat")):
            self.run_tool(command, "a.mat", "-o", into)
            with h5py.File(self.path(into)) as file:
                self.assertEqual(file["A"].attrs["MATLAB_class"], np.bytes_("logical"))
        self.run_tool("transpose", "a.mat", "-o", "back.h5")
        self.run_tool("transpose", "a.mat", "-o", "plain.h5", "-t", "u8")
        for name, kind in (("back.h5", np.bool_), ("plain.h5", np.uint8)):
            with h5py.File(self.path(name)) as file:
                self.assertEqual(file["A"].dtype, kind)
                np.testing.assert_array_equal(file["A"], np.arange(6).reshape(2, 3).T % 2 == 0)

    def test_what_is_refused(self):
        for name in ("f16", "bf16"):
            write_h5(self.path("in.h5"), random_values(name, (2, 3)), name)
            self.assert_says(self.run_tool("convert", "in.h5", "-o", "a.mat", code=5), "MATLAB has no class for " + name)
            self.run_tool("convert", "in.h5", "-o", "b.mat", "-t", "f32", "--force")
        write_h5(self.path("in.h5"), np.zeros((0, 3)))
        self.assert_says(self.run_tool("convert", "in.h5", "-o", "a.mat", code=5), "0x3")
        write_h5(self.path("in.h5"), np.zeros((2, 3)))
        self.assert_says(self.run_tool("convert", "in.h5", "-o", "a.npy", "--output-layout", "matlab", code=2), "HDF5")
        self.assertFalse(os.path.exists(self.path("a.mat")))


if __name__ == "__main__":
    unittest.main()
