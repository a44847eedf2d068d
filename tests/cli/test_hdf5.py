"""What HDF5 results say beside their elements, and the options that say how HDF5 files are read."""

import fcntl
import json
import os
import struct
import unittest
import zlib

import h5py
import numpy as np
import scipy.sparse

from harness import PLAIN, SANITIZED, Case, read_h5, read_mtx, snapshot, write_h5

VALUES = np.arange(6.0).reshape(2, 3)
TEXT = "gr\u00f6\u00dfer \u2265 1"


def plain_attributes():
    """Attributes of every plain kind, by what is special in them."""
    return {
        "number": np.float32(1.5),
        "big_endian": np.array(-7, ">i2"),
        "flag": np.bool_(True),
        "complex": np.complex128(1 - 2j),
        "list": np.arange(4, dtype=np.uint8),
        "table": np.arange(6, dtype="i4").reshape(2, 3),
        "text": TEXT,
        "fixed_text": np.bytes_("metres"),
        "texts": np.array(["a", "", "bc"], dtype=h5py.string_dtype()),
        "nothing": h5py.Empty("f4"),
        "no_elements": np.zeros((0, 2), "f8"),
        "pair": np.array((1, 2.5), dtype=[("x", "i4"), ("y", "f8")]),
        "lists": np.array([np.arange(2), np.arange(3)], dtype=object),
        "with space/\u00fc": np.int64(3),
    }


def set_attributes(item, values):
    for name, value in values.items():
        if name == "lists":
            item.attrs.create(name, value, dtype=h5py.vlen_dtype(np.dtype("i8")))
        else:
            item.attrs[name] = value


def comparable(item, name):
    """What an attribute is: its type, shape and value."""
    kind, value = item.attrs.get_id(name).get_type(), item.attrs[name]
    if isinstance(value, h5py.Empty):
        return kind.encode(), "empty"
    if name == "lists":
        return kind.encode(), [list(entry) for entry in value]
    value = np.asarray(value)
    return kind.encode(), value.shape, value.tolist()


def hash_of(values):
    return f"crc32:{zlib.crc32(np.ascontiguousarray(values).tobytes()):08x}"


class Attributes(Case):
    def source(self, **more):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = VALUES
            set_attributes(file["A"], {**plain_attributes(), **more})

    def test_a_transpose_keeps_plain_attributes(self):
        self.source()
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5")
        self.assertNotIn("does not keep", result.err)
        with h5py.File(self.path("in.h5")) as before, h5py.File(self.path("out.h5")) as after:
            np.testing.assert_array_equal(after["A"][()], VALUES.T)
            for name in plain_attributes():
                self.assertEqual(comparable(after["A"], name), comparable(before["A"], name), name)
            own = {name for name in after["A"].attrs if name.startswith("gpumat_")}
            self.assertEqual(set(after["A"].attrs) - own, set(plain_attributes()))

    def test_attributes_of_a_named_type_are_kept(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = VALUES
            file["type"] = np.dtype([("x", "i4"), ("y", "f8")])
            file["A"].attrs.create("pair", np.array((1, 2.5), file["type"].dtype), dtype=file["type"])
        self.run_tool("transpose", "in.h5", "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as after:
            self.assertEqual(after["A"].attrs["pair"].tolist(), (1, 2.5))

    def test_what_is_only_true_of_the_stored_matrix_is_left_out(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = VALUES.T
            file["A"].attrs["MATLAB_class"] = np.bytes_("double")
            file["A"].attrs["unit"] = "m"
            file["x"] = np.arange(3.0)
            file["x"].make_scale("x")
            file["A"].dims[0].attach_scale(file["x"])
            file["A"].dims[0].label = "time"
        result = self.run_tool("transpose", "in.h5:/A", "-o", "out.h5")
        self.assertNotIn("does not keep", result.err)
        with h5py.File(self.path("out.h5")) as after:
            np.testing.assert_array_equal(after["A"][()], VALUES.T)
            kept = {name for name in after["A"].attrs if not name.startswith("gpumat_")}
            self.assertEqual(kept, {"unit"})
        self.run_tool("transpose", "out.h5", "-o", "back.h5")
        np.testing.assert_array_equal(read_h5(self.path("back.h5"))[1], VALUES)

    def test_an_attribute_that_cannot_be_kept_is_named(self):
        self.source(unit="m")
        with h5py.File(self.path("in.h5"), "a", libver="v110") as file:
            file["A"].attrs.create("other", file["A"].ref, dtype=h5py.ref_dtype)
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5")
        self.assert_says(result, "does not keep the attribute 'other', which refers to other objects")
        with h5py.File(self.path("out.h5")) as after:
            self.assertNotIn("other", after["A"].attrs)
            self.assertEqual(after["A"].attrs["unit"], "m")
        with h5py.File(self.path("in.h5"), "w", libver=("v110", "v110")) as file:
            file["A"] = VALUES
            file["A"].attrs["large"] = np.zeros(20000)
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5", "--force")
        self.assert_says(result, "does not keep the attribute 'large', which is larger than")

    def test_a_result_says_where_it_comes_from(self):
        self.source(gpumat_input_b="of a run before")
        self.run_tool("transpose", "in.h5", "-o", "out.h5", "-l", "tiled", "-d", "cpu")
        version = self.run_tool("--version").out.split()[1]
        with h5py.File(self.path("out.h5")) as after:
            own = {name: value for name, value in after["A"].attrs.items() if name.startswith("gpumat_")}
        self.assertEqual(own, {"gpumat_version": version, "gpumat_operation": "transpose", "gpumat_level": "tiled",
                               "gpumat_input_a": f"in.h5:/A {hash_of(VALUES)}"})

    def test_a_product_says_where_it_comes_from_and_keeps_nothing_else(self):
        self.source()
        write_h5(self.path("b.h5"), VALUES.T)
        write_h5(self.path("d.h5"), np.ones((2, 2)))
        self.run_tool("multiply", "in.h5", "b.h5", "--add", "d.h5", "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as after:
            own = dict(after["C"].attrs)
        self.assertEqual(own["gpumat_operation"], "multiply")
        self.assertEqual(own["gpumat_input_b"], f"b.h5:/A {hash_of(VALUES.T)}")
        self.assertEqual(own["gpumat_input_d"], f"d.h5:/A {hash_of(np.ones((2, 2)))}")
        self.assertTrue(all(name.startswith("gpumat_") for name in own))

    def test_the_same_run_gives_the_same_file(self):
        self.source()
        self.run_tool("transpose", "in.h5", "-o", "one.h5")
        self.run_tool("transpose", "in.h5", "-o", "two.h5")
        with open(self.path("one.h5"), "rb") as one, open(self.path("two.h5"), "rb") as two:
            self.assertEqual(one.read(), two.read())


class Reading(Case):
    def setUp(self):
        super().setUp()
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = VALUES
            file["v"] = np.arange(3.0)
            file["far"] = h5py.ExternalLink("other.h5", "/A")
        write_h5(self.path("other.h5"), VALUES)

    def test_a_vector_as_a_column(self):
        self.assert_says(self.run_tool("transpose", "in.h5:/v", code=3), "--as-column")
        self.run_tool("transpose", "in.h5:/v", "--as-column", "-o", "out.h5")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], np.arange(3.0).reshape(1, 3))
        self.run_tool("multiply", "in.h5:/A", "in.h5:/v", "--as-column", "-o", "product.h5")
        np.testing.assert_array_equal(read_h5(self.path("product.h5"))[1], VALUES @ np.arange(3.0).reshape(3, 1))

    def test_dimensions_as_asked(self):
        self.run_tool("transpose", "in.h5:/A", "--layout", "matlab", "-o", "out.h5")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], VALUES)
        with h5py.File(self.path("in.h5"), "a") as file:
            file["A"].attrs["MATLAB_class"] = np.bytes_("double")
        self.run_tool("transpose", "in.h5:/A", "--layout", "row", "-o", "out.h5", "--force")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], VALUES.T)
        self.assert_says(self.run_tool("transpose", "in.h5:/A", "--layout", "column", code=2), "--layout")

    def test_external_data_only_where_allowed(self):
        self.assert_says(self.run_tool("transpose", "in.h5:/far", code=3), "--allow-external")
        self.run_tool("transpose", "in.h5:/far", "--allow-external", "-o", "out.h5:/A")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], VALUES.T)

    def test_a_virtual_dataset_that_takes_a_large_chunk_row_by_row(self):
        """Decoded once for each row, the chunk takes longer than reading may."""
        values = np.random.default_rng(1).integers(0, 16, (6144, 2048), np.uint8)
        with h5py.File(self.path("piece.h5"), "w") as file:
            file.create_dataset("A", data=values, chunks=values.shape, compression=1)
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        source = h5py.VirtualSource("piece.h5", "A", values.shape)
        for row in range(len(values)):
            layout[row] = source[len(values) - 1 - row]
        with h5py.File(self.path("rows.h5"), "w", libver=("v110", "v110")) as file:
            file.create_virtual_dataset("A", layout)
        self.run_tool("transpose", "rows.h5", "--allow-external", "-o", "out.h5:/A")
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], values[::-1].T))

    def test_info_takes_the_same_options(self):
        def shapes(*arguments):
            matrices = self.run_tool("info", "--json", *arguments).json()["matrices"]
            return {matrix["dataset"]: (matrix["rows"], matrix["cols"]) for matrix in matrices}

        self.assertEqual(shapes("in.h5"), {"/A": (2, 3)})
        self.assertEqual(shapes("in.h5", "--as-column"), {"/A": (2, 3), "/v": (3, 1)})
        self.assertEqual(shapes("in.h5", "--layout", "matlab"), {"/A": (3, 2)})
        self.assertEqual(shapes("in.h5:/far", "--allow-external"), {"/far": (2, 3)})

    def test_a_lock_of_another_process_is_explained(self):
        def locking(value):
            return {"HDF5_USE_FILE_LOCKING": value}

        with open(self.path("in.h5"), "r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            for arguments in (("transpose", "in.h5:/A"), ("info", "in.h5"), ("transpose", "other.h5", "-o", "in.h5:/B")):
                result = self.run_tool(*arguments, env=locking("TRUE"), code=None)
                self.assertIn(result.code, (3, 4), str(result))
                self.assert_says(result, "in.h5", "another process has the file open", "HDF5_USE_FILE_LOCKING=FALSE")
            self.run_tool("transpose", "in.h5:/A", "-o", "out.h5", env=locking("FALSE"))
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], VALUES.T)
        self.run_tool("transpose", "in.h5:/A", env=locking("TRUE"))

    def test_locking_is_no_reason(self):
        """What is wrong with a truncated file is not explained by file locks."""
        write_h5(self.path("in.h5"), VALUES)
        with open(self.path("in.h5"), "r+b") as file:
            file.truncate(600)
        result = self.run_tool("info", "in.h5", code=3)
        self.assert_says(result, "truncated file")
        self.assertNotIn("LOCKING", result.err)

    def test_a_file_on_which_hdf5_never_ends_is_refused(self):
        with h5py.File(self.path("in.h5"), "a") as file:
            file["A"].attrs["note"] = "in the global heap"
        with open(self.path("in.h5"), "r+b") as file:
            data = file.read()
            file.seek(data.index(b"GCOL") + 24)  # the size of its first object
            file.write((2**64 - 16).to_bytes(8, "little"))
        # Whether this version of HDF5 sees the damage or is stopped, the attribute is what cannot be kept.
        result = self.run_tool("transpose", "in.h5:/A", "-o", "out.h5", code=None)
        if result.code == 0:
            self.assert_says(result, "does not keep the attribute 'note'")
        else:
            self.assertEqual(result.code, 3, str(result))
            self.assert_says(result, "in.h5", "HDF5 was still reading it after")


class Booleans(Case):
    """h5py's, an enumeration of FALSE and TRUE: the type stays where elements only move."""

    def setUp(self):
        super().setUp()
        self.values = np.arange(60).reshape(12, 5) % 7 < 3
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = self.values
            file.create_dataset("C", data=self.values, chunks=(4, 3), compression="gzip", shuffle=True)

    def transposed(self, *arguments):
        self.run_tool("transpose", *arguments, "-o", "out.h5", "--force")
        with h5py.File(self.path("out.h5"), "r") as file:
            return next(iter(file.values()))[()]

    def test_the_type_is_kept(self):
        for arguments in (["in.h5:/A"], ["in.h5:/C"], ["in.h5:/C", "--chunk", "2x2", "--deflate", "1"]):
            found = self.transposed(*arguments)
            self.assertEqual(found.dtype, bool)
            np.testing.assert_array_equal(found, self.values.T)

    def test_a_type_that_is_asked_for_is_delivered(self):
        self.assertEqual(self.transposed("in.h5:/A", "-t", "u8").dtype, np.uint8)

    def test_text_has_integers(self):
        self.run_tool("transpose", "in.h5:/A", "-o", "out.mtx")
        found = read_mtx(self.path("out.mtx"))
        self.assertEqual(found.dtype.kind, "u")
        np.testing.assert_array_equal(found, self.values.T)


class FilesThatAreLedTo(Case):
    """A file to which an input leads is an input too: nothing is written over it."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("sub"))
        write_h5(self.path("sub/far.h5"), VALUES)
        with h5py.File(self.path("between.h5"), "w") as file:
            file["A"] = h5py.ExternalLink("sub/far.h5", "/A")
        with h5py.File(self.path("sub/virtual.h5"), "w") as file:
            layout = h5py.VirtualLayout((2, 3), "f8")
            layout[:] = h5py.VirtualSource("far.h5", "A", (2, 3))
            file.create_virtual_dataset("V", layout)
        with h5py.File(self.path("in.h5"), "w") as file:
            file["linked"] = h5py.ExternalLink("between.h5", "/A")
            file.create_dataset("raw", data=VALUES, external=[(self.path("raw.bin"), 0, 48)])
            layout = h5py.VirtualLayout((2, 3), "f8")
            layout[:] = h5py.VirtualSource("sub/virtual.h5", "V", (2, 3))
            file.create_virtual_dataset("virtual", layout)

    def both(self):
        return snapshot(self.path("")), snapshot(self.path("sub"))

    def test_are_not_written_over(self):
        before = self.both()
        for name, *files in [("linked", "between.h5", "sub/far.h5"), ("raw", "raw.bin"),
                             ("virtual", "sub/virtual.h5", "sub/far.h5")]:
            for target in files:
                for more in ([], ["--dry-run"]):
                    with self.subTest(name, target=target, more=more):
                        result = self.run_tool("transpose", f"in.h5:/{name}", "--allow-external", "--force", "-o", target,
                                               "--to", "hdf5", *more, code=4)
                        self.assert_says(result, target, "the same file as the input")
                        self.assertEqual(self.both(), before)
            self.run_tool("transpose", f"in.h5:/{name}", "--allow-external", "-o", f"out_{name}.h5")
            np.testing.assert_array_equal(read_h5(self.path(f"out_{name}.h5"))[1], VALUES.T)
            before = self.both()


class PipeAsPiece(Case):
    """A virtual dataset whose piece is a pipe is refused; nobody writes to the pipe."""

    def test_it_is_refused(self):
        os.mkfifo(self.path("pipe.h5"))
        layout = h5py.VirtualLayout(shape=(2, 3), dtype="f8")
        layout[:] = h5py.VirtualSource("pipe.h5", "A", shape=(2, 3))
        with h5py.File(self.path("virtual.h5"), "w") as file:
            file.create_virtual_dataset("V", layout)
        result = self.run_tool("transpose", "virtual.h5", "--allow-external", "-o", "out.h5", code=3)
        self.assert_says(result, "pipe.h5", "no regular file")

    def test_behind_external_links_too(self):
        """Of the file itself, of a file that it leads to, and of a piece."""
        os.mkfifo(self.path("pipe.h5"))
        write_h5(self.path("real.h5"), VALUES)
        with h5py.File(self.path("real.h5"), "a") as file:
            file["far"] = h5py.ExternalLink("pipe.h5", "/A")
        layout = h5py.VirtualLayout(shape=(2, 3), dtype="f8")
        layout[:] = h5py.VirtualSource("real.h5", "far", shape=(2, 3))
        with h5py.File(self.path("in.h5"), "w") as file:
            file["far"] = h5py.ExternalLink("pipe.h5", "/A")
            file["further"] = h5py.ExternalLink("real.h5", "/far")
            file["real"] = h5py.ExternalLink("real.h5", "/A")
            file.create_virtual_dataset("V", layout)
        for name in ("far", "further", "V"):
            result = self.run_tool("transpose", f"in.h5:/{name}", "--allow-external", code=3)
            self.assert_says(result, f"in.h5:/{name}", "pipe.h5 is no regular file")
        self.run_tool("transpose", "in.h5:/real", "--allow-external", "-o", "out.h5:/A")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], VALUES.T)

    def test_as_the_type_of_an_octave_value(self):
        os.mkfifo(self.path("pipe.h5"))
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("A")
            group.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
            group["value"] = VALUES
            group.create_dataset("type", (1,), "S6", external=[("pipe.h5", 0, 6)])
        self.assert_says(self.run_tool("transpose", "in.h5:/A", code=3), "in.h5:/A: its type", "in other files")

    def test_beside_the_file_that_a_symbolic_link_leads_to(self):
        os.mkdir(self.path("real"))
        os.mkfifo(self.path("real/pipe.h5"))
        with h5py.File(self.path("real/in.h5"), "w") as file:
            file["far"] = h5py.ExternalLink("pipe.h5", "/A")
        os.symlink("real/in.h5", self.path("link.h5"))
        result = self.run_tool("transpose", "link.h5:/far", "--allow-external", code=3)
        self.assert_says(result, "real/pipe.h5 is no regular file")

    def test_of_a_virtual_dataset_that_grows(self):
        """HDF5 would open its pieces to tell its extents, also in a listing."""
        os.mkfifo(self.path("pipe.h5"))
        os.mkfifo(self.path("pipe0.h5"))
        endless = h5py.h5s.UNLIMITED
        rows = h5py.h5s.create_simple((4, 3), (endless, 3))
        rows.select_hyperslab((0, 0), (1, 1), block=(endless, 3))
        files = h5py.h5s.create_simple((4, 3), (endless, 3))
        files.select_hyperslab((0, 0), (endless, 1), stride=(4, 3), block=(4, 3))
        one = h5py.h5s.create_simple((4, 3))

        def add(file, name, target, piece, source, dataset=b"A"):
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_virtual(target, piece, dataset, source)
            h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_DOUBLE, target, dcpl=creation)

        with h5py.File(self.path("in.h5"), "w", libver=("v110", "v110")) as file:
            file["a"] = VALUES
            add(file, b"rows", rows, b"pipe.h5", rows)
            add(file, b"files", files, b"pipe%b.h5", one)
            add(file, b"whole", one, b".", one, b"rows")
            for name, kind in (("octave", "matrix"), ("sparse", "sparse matrix")):
                group = file.create_group(name)
                group.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
                group["type"] = np.bytes_(kind)
            add(file["octave"], b"value", rows, b"pipe.h5", rows)
            add(file, b"empty", rows, b"pipe.h5", rows)
            file["empty"].attrs["MATLAB_class"] = np.bytes_("double")
            file["empty"].attrs["MATLAB_empty"] = np.uint8(1)
            part = file["sparse"].create_group("value")
            part["nr"] = np.int32(3)
            add(part, b"cidx", rows, b"pipe.h5", rows)
        why = "grows with its pieces ("
        result = self.run_tool("info", "in.h5", "--json", code=3)
        self.assertEqual([matrix["dataset"] for matrix in result.json()["matrices"]], ["/a", "/whole"])
        for name in ("empty", "files", "octave", "rows", "sparse"):
            self.assertRegex(result.err, f"in.h5:/{name}: .*grows with its pieces")
        for name in ("empty", "files", "octave", "rows", "sparse", "whole"):
            self.assert_says(self.run_tool("transpose", f"in.h5:/{name}", "--allow-external", code=3), f"in.h5:/{name}", why)
        self.run_tool("transpose", "in.h5:/a", "-o", "out.h5")


class PiecesOfLikeNames(Case):
    """FILE and DATASET of two pieces are different, and FILE:DATASET are the same."""

    def setUp(self):
        super().setUp()
        write_h5(self.path("x.h5:"), VALUES, dataset="y")
        layout = h5py.VirtualLayout((4, 3), "f8")
        layout[:2] = h5py.VirtualSource("x.h5:", "y", (2, 3))
        layout[2:] = h5py.VirtualSource("x.h5", ":y", (2, 3))
        with h5py.File(self.path("in.h5"), "w") as file:
            file.create_virtual_dataset("V", layout)

    def transpose(self, **options):
        return self.run_tool("transpose", "in.h5", "--allow-external", "-o", "out.h5:/A", **options)

    def test_both_are_read(self):
        write_h5(self.path("x.h5"), VALUES + 6, dataset=":y")
        self.transpose()
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], np.arange(12.0).reshape(4, 3).T)

    def test_a_missing_one_is_missed(self):
        write_h5(self.path("x.h5"), VALUES, dataset="z")
        self.assert_says(self.transpose(code=3), "its piece x.h5::y is missing")
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_a_damaged_chunk_of_one_is_found(self):
        with h5py.File(self.path("x.h5"), "w", libver="earliest") as file:
            made = file.create_dataset(":y", data=VALUES, chunks=(2, 3), compression=1)
            chunk = made.id.get_chunk_info(0)
        with open(self.path("x.h5"), "r+b") as file:
            data = file.read()
            key = struct.pack("<2I3Q", chunk.size, 0, 0, 0, 0)
            self.assertEqual(data.count(key), 1)
            file.seek(data.index(key))
            file.write(bytes(4))
        self.assert_says(self.transpose(code=3), "in.h5:/V: cannot be read")


class FilesOfTwoPrograms(Case):
    """An external link leads to a file in which dimensions or complex numbers are stored otherwise."""

    def julia(self, name, value):
        with h5py.File(self.path(name), "w", userblock_size=512) as file:
            file["A"] = value
        with open(self.path(name), "r+b") as file:
            file.write(b"HDF5-based Julia Data Format, version 0.1.1")

    def transposed(self, name):
        self.run_tool("transpose", name, "--allow-external", "-o", "out.h5:/A", "--force")
        return read_h5(self.path("out.h5"))[1]

    def test_dimensions_are_those_of_the_file_that_holds_the_matrix(self):
        self.julia("julia.jld2", VALUES)
        write_h5(self.path("plain.h5"), VALUES)
        self.julia("to_plain.jld2", h5py.ExternalLink("plain.h5", "/A"))
        self.julia("to_julia.jld2", h5py.ExternalLink("julia.jld2", "/A"))
        with h5py.File(self.path("to_julia.h5"), "w") as file:
            file["A"] = h5py.ExternalLink("julia.jld2", "/A")
            file["soft"] = h5py.SoftLink("/A")
        for name in ("julia.jld2:/A", "to_julia.jld2:/A", "to_julia.h5:/A", "to_julia.h5:/soft"):
            np.testing.assert_array_equal(self.transposed(name), VALUES, name)
        np.testing.assert_array_equal(self.transposed("to_plain.jld2:/A"), VALUES.T)

    def test_complex_pieces_with_parts_of_other_names(self):
        """HDF5 would make zeros of them."""
        names = (("r", "i"), ("real", "imag"), ("re", "im"))
        for of_whole in names:
            for of_piece in names:
                piece = np.zeros((2, 3), [(part, "f4") for part in of_piece])
                for factor, part in enumerate(of_piece, 1):
                    piece[part] = factor * VALUES
                layout = h5py.VirtualLayout((2, 3), [(part, "f8") for part in of_whole])
                layout[:] = h5py.VirtualSource(".", "A", (2, 3))
                with h5py.File(self.path("in.h5"), "w") as file:
                    file["A"] = piece
                    file.create_virtual_dataset("V", layout)
                if of_whole == of_piece:
                    np.testing.assert_array_equal(self.transposed("in.h5:/V"), (VALUES + 2j * VALUES).T)
                    continue
                result = self.run_tool("transpose", "in.h5:/V", "--allow-external", code=3)
                self.assert_says(result, "in.h5:/V: its piece .:A", "parts of its complex numbers otherwise")


@unittest.skipIf(SANITIZED, "the sanitizer itself takes more")
class LittleMemory(Case):
    def test_is_told(self):
        """HDF5 would crash."""
        write_h5(self.path("a.h5"), VALUES)
        limit = ["bash", "-c", 'ulimit -d 16384; exec "$@"', "-"]
        for words in (["transpose", "a.h5", "-o", "b.h5"], ["info", "a.h5", "--stats"]):
            self.assert_says(self.run_tool(*words, code=6, before=limit), "the system refuses 32.00 MiB of memory")
        self.assertEqual(os.listdir(self.folder), ["a.h5"])


class NarrowIntegers(Case):
    """Of the bytes of some HDF5 only changes the order, and does not extend the sign."""

    def stored(self, kind, offset=0):
        kind = kind.copy()
        kind.set_precision(12)
        kind.set_offset(offset)
        values = np.array([[-1149, 5, 7], [2000, -2048, -1]], np.int32)
        with h5py.File(self.path("in.h5"), "w") as file:
            made = h5py.h5d.create(file.id, b"A", kind, h5py.h5s.create_simple(values.shape))
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        return values

    def test_those_are_refused(self):
        self.stored(h5py.h5t.STD_I16BE)
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5:/A", code=3)
        self.assert_says(result, "an integer of 12 bits, of whose bytes HDF5 only changes the order")

    def test_others_are_read(self):
        for kind, offset in ((h5py.h5t.STD_I16LE, 0), (h5py.h5t.STD_I16BE, 1), (h5py.h5t.STD_I32BE, 0)):
            try:
                values = self.stored(kind, offset)
            except ValueError:  # from version 2 on, HDF5 makes none that would fit into fewer bytes
                self.assertEqual(kind.get_size(), 4)
                continue
            self.run_tool("transpose", "in.h5", "-o", "out.h5:/A", "--force")
            np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], values.T)


class DamagedConventions(Case):
    """What says how a matrix is stored cannot be read: it is not taken for one that is stored as any other."""

    def damage(self, place, value=b"\x63"):
        with open(self.path("in.h5"), "r+b") as file:
            file.seek(place)
            file.write(value)

    def place(self, name):
        with h5py.File(self.path("in.h5")) as file:
            return h5py.h5o.get_info(file[name].id).addr

    def refused(self, *words):
        for command in (("info", "in.h5"), ("transpose", "in.h5", "-o", "out.h5")):
            self.assert_says(self.run_tool(*command, code=3), *words)
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_the_class_of_matlab(self):
        with self.subTest("text that is nowhere"):
            with h5py.File(self.path("in.h5"), "w") as file:
                file["A"] = VALUES
                file["A"].attrs["MATLAB_class"] = "double"
            with open(self.path("in.h5"), "rb") as file:
                heap = file.read().index(b"GCOL")
            self.damage(heap)
            self.refused("in.h5:/A: its attribute 'MATLAB_class'")
        with self.subTest("a number"):
            with h5py.File(self.path("in.h5"), "w") as file:
                file["A"] = VALUES
                file["A"].attrs["MATLAB_class"] = 3
            self.refused("in.h5:/A: its attribute 'MATLAB_class': expected one text")
        with self.subTest("no word"):
            with h5py.File(self.path("in.h5"), "w") as file:
                file["A"] = VALUES
                file["A"].attrs["MATLAB_class"] = np.bytes_(b"\0ouble")
            self.assertEqual(self.run_tool("info", "in.h5", "--json").json()["matrices"], [])

    def octave(self, kind):
        with h5py.File(self.path("in.h5"), "w", libver="earliest") as file:
            file["good"] = VALUES
            group = file.create_group("A")
            group.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
            group["type"] = np.bytes_(kind)
            if kind == "matrix":
                group["value"] = VALUES
                return
            part = group.create_group("value")
            for name, values in (("nr", np.int32(3)), ("nc", np.int32(2)), ("nz", np.int32(1)), ("cidx", [0, 1, 1]),
                                 ("ridx", [1]), ("data", [5.0])):
                part[name] = values

    def test_parts_of_octave(self):
        """None of them makes the other matrix of the file the only one."""
        for kind, part in (("matrix", "type"), ("matrix", "value"), ("sparse matrix", "value/nr"), ("sparse matrix", "value/cidx")):
            with self.subTest(kind, part=part):
                self.octave(kind)
                self.damage(self.place(f"A/{part}"))
                self.refused("in.h5:/A: its ", "version")

    def test_numbers_of_rows_that_are_none(self):
        """HDF5 would change 3.7 to 3 and 2^63 to 2^63 - 1."""
        for rows in (3.7, np.uint64(1 << 63)):
            with self.subTest("Octave", rows=rows):
                self.octave("sparse matrix")
                with h5py.File(self.path("in.h5"), "a") as file:
                    del file["A/value/nr"]
                    file["A/value/nr"] = rows
                self.assert_says(self.run_tool("transpose", "in.h5:/A", code=3),
                                 "a sparse (Octave) matrix without its number of rows 'nr'")
        with self.subTest("MATLAB, sparse"):
            with h5py.File(self.path("in.h5"), "w") as file:
                file["A/jc"] = np.array([0], "u8")
                file["A"].attrs["MATLAB_sparse"] = np.uint64(1 << 63)
            self.refused("in.h5:/A: its attribute 'MATLAB_sparse': cannot be read, or passes 64 bits")
        with self.subTest("MATLAB, empty"):
            with h5py.File(self.path("in.h5"), "w") as file:
                file["A"] = np.array([0, 1 << 63], "u8")
                file["A"].attrs["MATLAB_class"] = np.bytes_(b"double")
                file["A"].attrs["MATLAB_empty"] = np.uint8(1)
            self.assert_says(self.run_tool("transpose", "in.h5:/A", code=3), "holds no shape of two extents")

    def test_numbers_that_the_parts_contradict(self):
        for name in ("nc", "nz"):
            with self.subTest(name):
                self.octave("sparse matrix")
                with h5py.File(self.path("in.h5"), "a") as file:
                    file[f"A/value/{name}"][()] = 7
                self.assert_says(self.run_tool("transpose", "in.h5:/A", code=3),
                                 f"a sparse (Octave) matrix whose '{name}' is not {2 if name == 'nc' else 1}")

    def test_mappings_of_parts_are_counted(self):
        self.octave("matrix")
        layout = h5py.VirtualLayout((200, 3), "f8")
        for row in range(200):
            layout[row] = h5py.VirtualSource("piece.h5", "A", (3,))
        with h5py.File(self.path("in.h5"), "a", libver=("v110", "v110")) as file:
            del file["A/value"]
            file.create_virtual_dataset("A/value", layout)
        result = self.run_tool("info", "in.h5", "--memory-limit", "4MiB", code=6)
        self.assert_says(result, "in.h5:/A: opening the virtual dataset with its 200 mappings (")
        self.assertIn("in.h5:/good", result.out)


class WhatCannotBeOpened(Case):
    """The listing of a file shows what can be opened, and says why the rest cannot."""

    def setUp(self):
        super().setUp()
        with h5py.File(self.path("in.h5"), "w") as file:
            file["a"] = VALUES
            file["g/z"] = np.ones((4, 5), "f4")

    def add_virtual(self, name, mappings):
        layout = h5py.VirtualLayout((mappings, 3), "f8")
        source = h5py.VirtualSource("piece.h5", "A", (mappings, 3))
        for row in range(mappings):
            layout[row] = source[row]
        with h5py.File(self.path("in.h5"), "a", libver=("v110", "v110")) as file:
            file.create_virtual_dataset(name, layout)

    def damage(self, name):
        """Its object header has a version that there is not."""
        with h5py.File(self.path("in.h5")) as file:
            place = h5py.h5o.get_info(file[name].id).addr
        with open(self.path("in.h5"), "r+b") as file:
            file.seek(place)
            file.write(b"\x63")

    def assert_listed(self, names, code, words, *arguments):
        result = self.run_tool("info", "in.h5", "--json", *arguments, code=code)
        self.assertEqual([matrix["dataset"] for matrix in result.json()["matrices"]], names)
        for line in words:
            self.assertEqual(result.err.count(line), 1, str(result))
        table = self.run_tool("info", "in.h5", *arguments, code=code).out
        self.assertEqual(table.count("in.h5:/"), len(names) * (2 if "--stats" in arguments else 1), table)

    def test_a_virtual_dataset_of_too_many_mappings(self):
        self.add_virtual("m", 200)
        limit = ("--memory-limit", "4MiB")
        why = "in.h5:/m: opening the virtual dataset with its 200 mappings ("
        self.assert_listed(["/a", "/g/z"], 6, [why], *limit)
        self.assert_listed(["/a", "/g/z"], 6, [why], "--stats", *limit)
        self.assert_listed(["/a", "/g/z", "/m"], 0, [])
        for arguments in (("info", "in.h5:/m"), ("transpose", "in.h5:/m", "--allow-external")):
            self.assert_says(self.run_tool(*arguments, *limit, code=6), why, "the limit is 4.00 MiB")

    def test_a_damaged_one(self):
        self.damage("g/z")
        self.assert_listed(["/a"], 3, ["in.h5:/g/z: "])
        self.run_tool("transpose", "in.h5:/a", "-o", "out.h5")
        self.assert_says(self.run_tool("transpose", "in.h5:/g/z", code=3), "in.h5:/g/z: ", "the file holds", "/a 2x3 f64")

    def test_a_damaged_group(self):
        self.damage("g")
        self.assert_listed(["/a"], 3, ["in.h5:/g: "])

    def test_the_code_is_of_the_first_and_all_are_named(self):
        self.add_virtual("m", 200)
        self.damage("g/z")
        self.assert_listed(["/a"], 3, ["in.h5:/g/z: ", "in.h5:/m: "], "--memory-limit", "4MiB")

    def test_no_matrix_is_the_only_one_beside_what_cannot_be_opened(self):
        self.damage("g/z")
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5", code=3)
        self.assert_says(result, "in.h5:/g/z: ", "FILE:/DATASET", "/a 2x3 f64")
        self.assertFalse(os.path.exists(self.path("out.h5")))

    def test_groups_that_lie_very_deep(self):
        with h5py.File(self.path("in.h5"), "a") as file:
            file["/".join(["d"] * 64)] = VALUES
            file["/".join(["e"] * 70)] = VALUES
        self.assert_listed(["/a", "/" + "/".join(["d"] * 64), "/g/z"], 3, ["in.h5:/" + "/".join(["e"] * 65) + ": lies in more than 64 groups"])


class EndBeforeData(Case):
    """A superblock may say that the file ends before its data. What HDF5 then reads is read, or nothing."""

    def test_as_hdf5_reads_it(self):
        matrix = np.random.default_rng(1).integers(1, 100, (100, 120)).astype(np.float64)
        refused = 0
        for storage in ({}, {"chunks": (16, 16)}, {"chunks": (16, 16), "compression": 1}, {"chunks": (100, 120)}):
            write_h5(self.path("in.h5"), matrix, **storage)
            with open(self.path("in.h5"), "rb") as file:
                sound = file.read()
            place = sound.index(len(sound).to_bytes(8, "little"))
            for end in (len(sound) - 1, len(sound) - 1000, len(sound) // 2, 4096, 2048, 1000):
                with open(self.path("in.h5"), "wb") as file:
                    file.write(sound[:place] + end.to_bytes(8, "little") + sound[place + 8 :])
                try:
                    expected = read_h5(self.path("in.h5"))[1]
                except (OSError, KeyError, RuntimeError):
                    expected = None
                result = self.run_tool("transpose", "in.h5", "-o", "out.h5", "--force", code=None)
                note = f"{storage}, {end} of {len(sound)}: {result}"
                if expected is None:
                    self.assertEqual(result.code, 3, note)
                    refused += 1
                elif result.code == 0:
                    self.assert_same_bits(read_h5(self.path("out.h5"))[1], expected.T.copy(), note)
                else:
                    self.assertEqual(result.code, 3, note)
        self.assertGreater(refused, 10)


class SparseChunks(Case):
    def test_several_threads_read_the_parts(self):
        """Each thread takes chunks; none waits for one that the opening holds."""
        matrix = scipy.sparse.random(3000, 200, 0.1, "csc", random_state=3)
        with h5py.File(self.path("in.mat"), "w") as file:
            group = file.create_group("S")
            group.attrs["MATLAB_class"] = np.bytes_("double")
            group.attrs["MATLAB_sparse"] = np.uint64(3000)
            for name, values in (("data", matrix.data), ("ir", matrix.indices.astype(np.uint64)),
                                 ("jc", matrix.indptr.astype(np.uint64))):
                group.create_dataset(name, data=values, chunks=(50,), compression=1)
        for _ in range(5):
            self.run_tool("transpose", "in.mat", "-o", "out.h5", "--force", "--dense", "--threads", "8")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.toarray().T.copy())


class SparseMemory(Case):
    """What the entries of a sparse matrix take counts beside the dense matrix and the result."""

    def test_it_is_counted(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("A")
            group.attrs["MATLAB_sparse"] = np.uint64(300)
            group["jc"] = np.arange(301) * 300
            group["ir"] = np.tile(np.arange(300), 300)
            group["data"] = np.ones(90000, "i1")
        # As read with row, column and value; by rows, with their starts, and where in a block of rows; row numbers as stored, of 8 bytes;
        # and two dense matrices.
        needed = 90000 * (4 + 4 + 1) + 90000 * (4 + 1 + 4) + 301 * 8 + 90000 * 8 + 2 * 90000
        command = ("transpose", "in.h5", "--dense", "--verify", "none", "--device", "cpu", "--memory-limit")
        entries = needed - 2 * 90000
        self.assert_says(self.run_tool(*command, str(entries), code=6), "to read virtual datasets and sparse matrices")
        parts = [json.loads(self.run_tool(*command, str(limit), "-o", "out.h5:/A", "--force", "--json").out)["parts"]
                 for limit in (needed - 1, needed)]
        self.assertGreater(parts[0], parts[1])
        self.assertEqual(parts[1], 1)
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], np.ones((300, 300), "i1"))
        statistics = ("info", "in.h5", "--stats", "--memory-limit")
        self.run_tool(*statistics, str(entries), code=6)
        self.run_tool(*statistics, str(needed - 90000))


class ManyMappings(Case):
    """Virtual datasets of thousands of mappings, of which HDF5 keeps much in memory."""

    def virtual(self, name, shape, takes, libver=("v110", "v110")):
        """A virtual dataset of f64: `takes` gives the selection of each part, the piece's number and what it takes there."""
        layout = h5py.VirtualLayout(shape, "f8")
        pieces = [h5py.VirtualSource("pieces.h5", f"piece{i}", piece.shape) for i, piece in enumerate(self.pieces)]
        for part, index, taken in takes:
            layout[part] = pieces[index][taken]
        with h5py.File(self.path(name), "w", libver=libver) as file:
            file.create_virtual_dataset("A", layout)

    def setUp(self):
        super().setUp()
        self.pieces = list(np.random.default_rng(3).random((10, 1000, 8)))
        with h5py.File(self.path("pieces.h5"), "w") as file:
            for i, piece in enumerate(self.pieces):
                file.create_dataset(f"piece{i}", data=piece, chunks=(100, 8) if i % 2 else None)

    def alternating_rows(self, name, count):
        self.virtual(name, (count, 8), [(i, i % 10, i // 10) for i in range(count)])
        return np.stack(self.pieces, axis=1).reshape(-1, 8)[:count]

    def test_ten_thousand_rows_of_ten_pieces_in_turn(self):
        expected = self.alternating_rows("rows.h5", 10000)
        self.run_tool("transpose", "rows.h5", "--allow-external", "-o", "out.h5:/A")
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], expected.T))

    def test_columns_of_ten_pieces_in_turn(self):
        takes = [(np.s_[:, i], i % 10, np.s_[:, i // 10 % 8]) for i in range(2000)]
        self.virtual("columns.h5", (1000, 2000), takes)
        self.run_tool("transpose", "columns.h5", "--allow-external", "-o", "out.h5:/A")
        expected = np.stack([self.pieces[index][taken] for _, index, taken in takes])
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], expected))

    @unittest.skipIf(SANITIZED, "libhdf5 1.10.8 reads past the end of a list of blocks")
    def test_selections_that_are_listed_block_by_block(self):
        """HDF5 merges each block with those before it, which takes seconds."""
        takes = [(np.s_[:, i], i % 10, np.s_[::2, i // 10]) for i in range(12)]
        self.pieces = list(np.random.default_rng(4).random((10, 6000, 8)))
        with h5py.File(self.path("pieces.h5"), "w") as file:
            for i, piece in enumerate(self.pieces):
                file[f"piece{i}"] = piece
        self.virtual("blocks.h5", (3000, 12), takes, libver="earliest")
        self.run_tool("transpose", "blocks.h5:/A", "--allow-external", "-o", "out.h5:/A")
        expected = np.stack([self.pieces[index][taken] for _, index, taken in takes])
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], expected))

    def test_a_selection_of_many_blocks(self):
        values = np.random.default_rng(6).random((1000, 1000))
        with h5py.File(self.path("pieces.h5"), "w") as file:
            file["piece0"] = values
        layout = h5py.VirtualLayout((500, 500), "f8")
        layout[...] = h5py.VirtualSource("pieces.h5", "piece0", (1000, 1000))[::2, ::2]
        with h5py.File(self.path("blocks.h5"), "w", libver="earliest") as file:
            file.create_virtual_dataset("A", layout)
        self.run_tool("transpose", "blocks.h5:/A", "--allow-external", "-o", "out.h5:/A")
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], values[::2, ::2].T))

    @unittest.skipUnless(PLAIN, "sanitizers take memory of their own")
    def test_their_memory_is_counted(self):
        """The tool takes no more than the limit beside what it takes to read one mapping, but for the child that counts
        the mappings; and it takes the limit that it names."""
        self.alternating_rows("one.h5", 1)
        small, _ = self.peak_bytes("info", "--stats", "one.h5", "--allow-external")
        for count in (1024, 4096):
            self.alternating_rows("rows.h5", count)
            for command in (("info", "--stats", "rows.h5"), ("transpose", "rows.h5:/A", "--device", "cpu", "--verify", "none")):
                needed = count * 32 << 10
                said = self.run_tool(*command, "--allow-external", "--memory-limit", str(needed - 1), code=6).err
                self.assertIn(f"rows.h5:/A: opening the virtual dataset with its {count} mappings", said)
                limit = needed + (12 << 20)
                taken, _ = self.peak_bytes(*command, "--allow-external", "--memory-limit", str(limit))
                self.assertLess(taken, small + limit)
                self.assertGreater(taken, small + needed // 2)  # else the constant is far from what HDF5 takes

    def test_information_needs_no_room_for_the_matrix(self):
        with h5py.File(self.path("pieces.h5"), "w") as file:
            file.create_dataset("piece0", (100000, 10000), "f8", chunks=(1000, 1000), fillvalue=1)
        layout = h5py.VirtualLayout((100000, 10000), "f8")
        layout[...] = h5py.VirtualSource("pieces.h5", "piece0", (100000, 10000))
        with h5py.File(self.path("large.h5"), "w") as file:
            file.create_virtual_dataset("A", layout)
        for name in ("large.h5:/A", "large.h5"):
            self.run_tool("info", name, "--allow-external", "--memory-limit", "1GiB")
        result = self.run_tool("transpose", "large.h5:/A", "--allow-external", "--memory-limit", "1MiB", code=6)
        self.assert_says(result, "large.h5:/A", "the limit is 1.00 MiB")

    def test_pieces_of_long_names(self):
        """A name that is longer than a path may be is whole all the same, and another of its first bytes is another."""
        names = ["z" * 4095, "z" * 5000]
        with h5py.File(self.path("pieces.h5"), "w") as file:
            file[names[0]] = np.ones((10, 8))
        layout = h5py.VirtualLayout((10, 8), "f8")
        layout[...] = h5py.VirtualSource("pieces.h5", names[1], (10, 8))
        with h5py.File(self.path("long.h5"), "w") as file:
            file.create_virtual_dataset("A", layout)
        result = self.run_tool("transpose", "long.h5:/A", "--allow-external", code=3)
        self.assert_says(result, names[1] + " is missing")
        with h5py.File(self.path("pieces.h5"), "a") as file:
            file[names[1]] = np.full((10, 8), 2.0)
        self.run_tool("transpose", "long.h5:/A", "--allow-external", "-o", "out.h5:/A")
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], np.full((8, 10), 2.0)))

    def test_pieces_behind_external_links(self):
        """Their mappings are counted when HDF5 has found them; what lies at the same address here is not theirs."""
        self.alternating_rows("rows.h5", 1024)
        with h5py.File(self.path("small.h5"), "w") as file:
            file["x"] = self.pieces[0]
        with h5py.File(self.path("rows.h5"), "a") as file:
            file["link"] = h5py.ExternalLink("small.h5", "/x")
        with h5py.File(self.path("links.h5"), "w") as file:
            file["link"] = h5py.ExternalLink("rows.h5", "/A")
        for name, piece, rows in (("a.h5", "links.h5", 1024), ("b.h5", "rows.h5", 1000)):
            layout = h5py.VirtualLayout((rows, 8), "f8")
            layout[...] = h5py.VirtualSource(piece, "link", (rows, 8))
            with h5py.File(self.path(name), "w") as file:
                file.create_virtual_dataset("A", layout)
        result = self.run_tool("info", "a.h5:/A", "--allow-external", "--memory-limit", "16MiB", code=6)
        self.assert_says(result, "1025 mappings (32.")
        self.run_tool("transpose", "b.h5:/A", "--allow-external", "--memory-limit", "16MiB", "-o", "out.h5:/A")
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], self.pieces[0].T))

    def test_what_is_needed_together_is_told(self):
        self.alternating_rows("rows.h5", 1024)
        result = self.run_tool("transpose", "rows.h5:/A", "--allow-external", "--memory-limit", "34MiB", code=6)
        self.assert_says(result, "1024 mappings (32.", "10 pieces (320.00 KiB) in 1 file (640.00 KiB)", "34.00 MiB")

    def test_the_result_counts_too(self):
        """Mappings, input and result are in memory together."""
        pieces = np.random.default_rng(5).random((1, 1024, 2048))
        self.pieces = list(pieces)
        with h5py.File(self.path("pieces.h5"), "w") as file:
            file["piece0"] = pieces[0]
        self.virtual("rows.h5", (1024, 2048), [(i, 0, 1023 - i) for i in range(1024)])
        command = ("transpose", "rows.h5:/A", "--allow-external", "-o", "out.h5:/A", "--force", "--json", "--memory-limit")
        self.assertGreater(json.loads(self.run_tool(*command, "64MiB").out)["parts"], 1)
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], pieces[0][::-1].T))
        self.assertEqual(json.loads(self.run_tool(*command, "72MiB").out)["parts"], 1)
        self.assertTrue(np.array_equal(read_h5(self.path("out.h5"))[1], pieces[0][::-1].T))


if __name__ == "__main__":
    unittest.main()
