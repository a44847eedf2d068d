"""What an HDF5 file holds: every matrix counts, one is taken only where it is the only one, and then it is named; `info` says
what there is. The files are as AnnData, 10x Genomics, Seurat, cooler, binsparse, MATLAB and Octave lay them out."""

import json
import unittest

import h5py
import numpy as np
import scipy.sparse

from harness import Case, read_h5, write_h5

DENSE = np.arange(12.0).reshape(6, 2)
SPARSE = scipy.sparse.random(6, 4, density=0.4, random_state=5, format="csr")
ENTRIES = SPARSE.nnz


def put_arrays(group, matrix):
    for name in ("data", "indices", "indptr"):
        group[name] = getattr(matrix, name)
    return group


def anndata(file, kind):
    group = put_arrays(file.create_group("X"), SPARSE.asformat(kind))
    group.attrs.update({"encoding-type": f"{kind}_matrix", "encoding-version": "0.1.0", "shape": np.array(SPARSE.shape)})
    return "/X"


def old_anndata(file, kind):
    group = put_arrays(file.create_group("raw.X"), SPARSE.asformat(kind))
    group.attrs.update({"h5sparse_format": kind, "h5sparse_shape": np.array(SPARSE.shape)})
    return "/raw.X"


def tenx(file, kind, name="matrix"):
    group = put_arrays(file.create_group(name), SPARSE.asformat(kind))
    group["shape"] = np.array(SPARSE.shape, "i4")
    group["barcodes"] = np.array([b"AAAC"] * 4)
    return "/" + name


def seurat(file, kind):
    group = put_arrays(file.create_group("assays/RNA/counts"), SPARSE.asformat(kind))
    group.attrs["dims"] = np.array(SPARSE.shape, "i4")
    return "/assays/RNA/counts"


def binsparse(file, kind, nested=True):
    matrix = SPARSE.asformat(kind)
    group = file.create_group("B")
    described = {"version": "0.1", "format": kind.upper(), "shape": list(SPARSE.shape), "number_of_stored_values": ENTRIES}
    group.attrs["binsparse"] = json.dumps({"binsparse": described} if nested else described)
    group["pointers_to_1"], group["indices_1"], group["values"] = matrix.indptr, matrix.indices, matrix.data
    return "/B"


def scipy_coo(file, kind):
    """As scipy.sparse.save_npz names the parts."""
    matrix = SPARSE.tocoo()
    group = file.create_group("coo")
    group["data"], group["row"], group["col"] = matrix.data, matrix.row, matrix.col
    group.attrs["shape"] = matrix.shape
    return "/coo"


LAYOUTS = [(anndata, "csr"), (anndata, "csc"), (old_anndata, "csr"), (old_anndata, "csc"), (tenx, "csc"), (seurat, "csc"),
           (binsparse, "csr")]


class SparseGroups(Case):
    def make(self, layout, kind, with_dense=True):
        with h5py.File(self.path("in.h5"), "w") as file:
            if with_dense:
                file["obsm/X_pca"] = DENSE
            return layout(file, kind)

    def test_counts_beside_a_dense_one(self):
        for layout, kind in LAYOUTS:
            with self.subTest(layout.__name__, kind=kind):
                name = self.make(layout, kind)
                for verb in (("reduce", "in.h5"), ("transpose", "in.h5", "-o", "out.h5"), ("convert", "in.h5", "-o", "out.h5")):
                    self.assert_says(self.run_tool(*verb, code=3), "holds 2 matrices, name one", f"{name} 6x4", "/obsm/X_pca 6x2")
                self.assertAlmostEqual(float(self.run_tool("reduce", f"in.h5:{name}").out), SPARSE.sum())
                self.assertEqual(float(self.run_tool("reduce", "in.h5:/obsm/X_pca").out), DENSE.sum())
                dense, sparse = sorted(self.run_tool("info", "in.h5", "--json").json()["matrices"], key=lambda found: found["cols"])
                self.assertEqual((sparse["dataset"], sparse["rows"], sparse["cols"], sparse["stored_entries"], sparse["unread"]),
                                 (name, 6, 4, ENTRIES, None))
                self.assertEqual((dense["dataset"], dense["unread"]), ("/obsm/X_pca", None))
                self.assertIn(kind.upper(), self.run_tool("info", "in.h5").out)

    def test_parts_behind_links(self):
        """What leads to a part does not matter; where it leads out of the file, that must be allowed."""
        def soft(group, part):
            group.file["elsewhere/part"] = group[part][()]
            return h5py.SoftLink("/elsewhere/part")

        def relative(group, part):
            group["kept/part"] = group[part][()]
            return h5py.SoftLink("kept/part")

        def external(group, part):
            write_h5(self.path("other.h5"), group[part][()], dataset="part")
            return h5py.ExternalLink("other.h5", "/part")

        for layout, link, part in ((tenx, soft, "data"), (tenx, relative, "indptr"), (tenx, soft, "shape"), (seurat, soft, "indices"),
                                   (anndata, soft, "data"), (scipy_coo, soft, "col"), (tenx, external, "data")):
            with self.subTest(layout.__name__, part=part, link=link.__name__):
                name = self.make(layout, "csc")
                with h5py.File(self.path("in.h5"), "a") as file:
                    leads = link(file[name], part)
                    del file[name][part]
                    file[name][part] = leads
                if link is external:
                    self.assert_says(self.run_tool("reduce", "in.h5", code=3), f"in.h5:{name}: its member 'data'", "--allow-external")
                self.assert_says(self.run_tool("reduce", "in.h5", "--allow-external", code=3), "holds 2 matrices", f"{name} 6x4")
                self.assertAlmostEqual(float(self.run_tool("reduce", f"in.h5:{name}", "--allow-external").out), SPARSE.sum())

    def test_part_of_matlab_behind_a_link(self):
        """It is read as one that lies in the group, and does not count as one without entries."""
        with h5py.File(self.path("in.mat"), "w") as file:
            group = file.create_group("S")
            group.attrs["MATLAB_sparse"] = np.uint64(6)
            csc = SPARSE.tocsc()
            file["elsewhere"] = csc.data
            group["data"], group["ir"], group["jc"] = h5py.SoftLink("/elsewhere"), csc.indices, csc.indptr
        self.run_tool("transpose", "in.mat:/S", "-o", "out.h5", "--dense")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], SPARSE.toarray().T)

    def test_coordinates(self):
        self.make(scipy_coo, "coo")
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "holds 2 matrices", "/coo 6x4 f64")
        self.assertAlmostEqual(float(self.run_tool("reduce", "in.h5:/coo").out), SPARSE.sum())
        with h5py.File(self.path("in.h5"), "a") as file:
            del file["coo"].attrs["shape"]
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "in.h5:/coo: is a COO matrix that says no shape")

    def test_members_of_these_names_that_are_no_coordinates(self):
        for name, data, row in (("an image", DENSE, np.arange(6)), ("labels", DENSE, np.array([b"a"] * 6)),
                                ("other lengths", np.arange(5.0), np.arange(6))):
            with self.subTest(name):
                with h5py.File(self.path("in.h5"), "w") as file:
                    file["scan/data"], file["scan/row"], file["scan/col"] = data, row, np.arange(2)
                    if data.ndim == 1:
                        file["A"] = DENSE
                self.assertEqual(float(self.run_tool("reduce", "in.h5").out), DENSE.sum())

    def test_a_square_one_may_be_either(self):
        """The lengths do not tell, where there is no mark."""
        with h5py.File(self.path("in.h5"), "w") as file:
            put_arrays(file.create_group("g"), scipy.sparse.eye(4, format="csr")).attrs["shape"] = (4, 4)
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "in.h5:/g: a CSR or CSC matrix of 4 × 4, 4 entries")

    def test_damaged_words_of_binsparse(self):
        def described(**changed):
            return json.dumps({"binsparse": {"format": "CSR", "shape": [6, 4], "number_of_stored_values": ENTRIES, **changed}})

        texts = [described(format="\x1b[31mCSR"), described(format="C\0SR"), described(format="C" * 5000), described(format=["CSR"]),
                 described(format="csr\nin.h5:/A"), described(shape=[6, -4]), described(shape=[2**63, 4]), described(shape=[6, 4.0]),
                 described(shape="6x4"), described(shape=[]), described(shape=[6, 4, 1]), described(shape=None), "[]", "7", "CSR",
                 described(number_of_stored_values=-1), described(number_of_stored_values="many"), '{"binsparse": "CSR"}']
        for text in texts:
            with self.subTest(text[:60]):
                self.make(binsparse, "csr")
                with h5py.File(self.path("in.h5"), "a") as file:
                    file["B"].attrs["binsparse"] = text
                for verb in (("reduce", "in.h5"), ("info", "in.h5"), ("info", "in.h5:/B")):
                    result = self.run_tool(*verb, code=3)
                    self.assert_says(result, "in.h5:/B", "damaged")
                    self.assertTrue(result.err.rstrip("\n").isprintable() and len(result.err) < 400, result.err)

    def test_statistics_of_what_cannot_be_read(self):
        self.make(binsparse, "csr")
        with h5py.File(self.path("in.h5"), "a") as file:
            file["B"].attrs["binsparse"] = file["B"].attrs["binsparse"].replace("CSR", "DCSR")
        what = f"a DCSR matrix of 6 × 4, {ENTRIES} entries, which cannot be read yet"
        self.assertRegex(self.run_tool("info", "in.h5:/B").out, f"DCSR.*, {ENTRIES} entries; cannot be read yet\n")
        self.assert_says(self.run_tool("reduce", "in.h5:/B", code=3), f"in.h5:/B: {what}")
        result = self.run_tool("info", "in.h5", "--stats", "--json", code=3)
        self.assert_says(result, f"in.h5:/B: {what}")
        listed = {found["dataset"]: found for found in result.json()["matrices"]}
        self.assertEqual((listed["/B"]["statistics"], listed["/B"]["unread"]), (None, what))
        self.assertEqual(listed["/obsm/X_pca"]["statistics"]["nonzeros"], 11)

    def test_several_genomes(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            for genome in ("hg19", "mm10"):
                tenx(file, "csc", genome)
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "holds 2 matrices", "/hg19 6x4", "/mm10 6x4")

    def test_cooler(self):
        for place in ("", "resolutions/1000/"):
            with self.subTest(place=place):
                with h5py.File(self.path("in.cool"), "w") as file:
                    group = file.create_group(place + "pixels")
                    group.parent.attrs["nbins"] = 4
                    for name, values in (("bin1_id", [0, 0, 2]), ("bin2_id", [0, 3, 3]), ("count", [5, 1, 2])):
                        group[name] = values
                    group.parent["bins/start"] = [0, 1, 2, 3]
                self.assertEqual(float(self.run_tool("reduce", "in.cool").out), 5 + 1 + 1 + 2 + 2)
                listed = self.run_tool("info", "in.cool", "--json").json()
                self.assertEqual([found["dataset"] for found in listed["matrices"]], [f"/{place}pixels"])
                self.assertEqual([other["dataset"] for other in listed["others"]], [f"/{place}bins/start"])

    def test_a_vector_of_binsparse_is_no_matrix(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = DENSE
            group = file.create_group("v")
            group.attrs["binsparse"] = json.dumps({"binsparse": {"format": "CVEC", "shape": [9]}})
            group["values"] = [1.0]
        self.assertEqual(float(self.run_tool("reduce", "in.h5").out), DENSE.sum())

    def test_what_is_malformed_makes_no_other_the_only_one(self):
        def short_pointers(group):
            del group["indptr"]
            group["indptr"] = np.zeros(3, "i4")

        def no_shape(group):
            del group.attrs["shape"]

        def three_extents(group):
            group.attrs["shape"] = np.array([6, 4, 1])

        def other_lengths(group):
            del group["indices"]
            group["indices"] = np.zeros(2, "i4")

        def no_values(group):
            del group["data"]

        def negative(group):
            group.attrs["shape"] = np.array([-6, 4])

        for harm in (short_pointers, no_shape, three_extents, other_lengths, no_values, negative):
            with self.subTest(harm.__name__):
                self.make(anndata, "csr")
                with h5py.File(self.path("in.h5"), "a") as file:
                    harm(file["X"])
                for verb in (("reduce", "in.h5"), ("info", "in.h5"), ("reduce", "in.h5:/X")):
                    self.assert_says(self.run_tool(*verb, code=3), "in.h5:/X")

    def test_arrays_without_a_shape(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = DENSE
            put_arrays(file.create_group("g"), SPARSE)
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "in.h5:/g: is a sparse matrix", "says no shape")
        self.assertEqual(self.run_tool("reduce", "in.h5:/g/data", "--as-column", "--op", "max").out, f"{float(SPARSE.data.max())!r}\n")


class Structs(Case):
    DATA = np.arange(12.0).reshape(3, 4)

    def make(self, *others):
        with h5py.File(self.path("in.mat"), "w", userblock_size=512) as file:
            struct = file.create_group("EEG")
            struct.attrs["MATLAB_class"] = np.bytes_("struct")
            inner = struct.create_group("inner")
            inner.attrs["MATLAB_class"] = np.bytes_("struct")
            inner["data"] = self.DATA.T
            inner["data"].attrs["MATLAB_class"] = np.bytes_("double")
            struct["name"] = np.array([[69], [69]], "u2")
            struct["name"].attrs["MATLAB_class"] = np.bytes_("char")
            for name in others:
                file[name] = np.ones((1, 4))
                file[name].attrs["MATLAB_class"] = np.bytes_("double")

    def test_fields_count(self):
        self.make("rates")
        self.assert_says(self.run_tool("reduce", "in.mat", code=3), "holds 2 matrices", "/EEG/inner/data 3x4", "/rates 4x1")
        self.assertEqual(float(self.run_tool("reduce", "in.mat:/EEG/inner/data").out), self.DATA.sum())
        listed = self.run_tool("info", "in.mat", "--json").json()
        self.assertEqual([found["dataset"] for found in listed["matrices"]], ["/EEG/inner/data", "/rates"])
        self.assertEqual(listed["others"], [{"path": "in.mat", "dataset": "/EEG/name", "what": "is a MATLAB char, expected a matrix of numbers"}])

    def test_the_only_field_is_taken_and_named(self):
        self.make()
        name = "in.mat:/EEG/inner/data"
        result = self.run_tool("transpose", "in.mat", "-o", "out.mtx")
        self.assert_says(result, f"transpose f64 3x4 of {name}, level", f"wrote out.mtx from {name}")
        result = self.run_tool("convert", "in.mat", "-o", "out.h5")
        self.assert_says(result, f"from {name} (")
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], self.DATA)
        record = self.record("reduce", "in.mat")
        self.assertEqual((record["inputs"][0]["dataset"], record["answer"]), ("/EEG/inner/data", self.DATA.sum()))
        self.assert_says(self.run_tool("verify", "transpose", "in.mat", "out.mtx"), f"of {name}: out.mtx passed")
        self.assertIn(name, self.run_tool("compare", "in.mat", "out.h5").out)
        self.assertNotIn(f"of {name}", self.run_tool("reduce", name).err)

    def test_struct_of_octave(self):
        def value(group, name, kind):
            made = group.create_group(name)
            made.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
            made["type"] = np.bytes_(kind)
            return made

        with h5py.File(self.path("in.h5"), "w") as file:
            struct = value(file, "s", "scalar struct").create_group("value")
            value(struct, "m", "matrix")["value"] = self.DATA.T
            value(file, "x", "matrix")["value"] = DENSE
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "holds 2 matrices", "/s/value/m 3x4", "/x 2x6")
        self.assertEqual(float(self.run_tool("reduce", "in.h5:/s/value/m").out), self.DATA.sum())


class References(Case):
    """MATLAB keeps what cells, arrays of structs and objects hold in /#refs#, and refers to it."""

    CELLS = {"b": np.arange(6.0).reshape(2, 3), "c": np.arange(20.0).reshape(4, 5)}

    def make(self, put, with_variable=True):
        with h5py.File(self.path("in.mat"), "w", userblock_size=512) as file:
            if with_variable:
                self.put_matrix(file, "A", DENSE)
            refs = file.create_group("#refs#")
            refs["a"] = np.zeros(2, "u8")
            refs["a"].attrs.update({"MATLAB_class": np.bytes_("canonical empty"), "MATLAB_empty": np.uint8(1)})
            for name, values in self.CELLS.items():
                self.put_matrix(refs, name, values)
            put(file, np.array([[refs["b"].ref], [refs["c"].ref]], h5py.ref_dtype))

    @staticmethod
    def put_matrix(group, name, values):
        group[name] = values.T
        group[name].attrs["MATLAB_class"] = np.bytes_("double")

    @staticmethod
    def cell(file, references):
        file["cells"] = references
        file["cells"].attrs["MATLAB_class"] = np.bytes_("cell")

    @staticmethod
    def struct_array(file, references):
        file.create_group("runs").attrs["MATLAB_class"] = np.bytes_("struct")
        file["runs/data"] = references

    def test_they_count(self):
        for put in (self.cell, self.struct_array):
            with self.subTest(put.__name__):
                self.make(put)
                self.assert_says(self.run_tool("reduce", "in.mat", code=3),
                                 "holds 3 matrices, name one as FILE:/DATASET: /A 6x2 f64; "
                                 "/#refs#/b 2x3 f64, in a cell, struct array or object (MATLAB); /#refs#/c 4x5 f64, in a cell")
                listed = self.run_tool("info", "in.mat", "--json").json()["matrices"]
                self.assertEqual([(found["dataset"], found["rows"], found["cols"]) for found in listed],
                                 [("/A", 6, 2), ("/#refs#/b", 2, 3), ("/#refs#/c", 4, 5)])
                self.assertIn("in a cell, struct array or object", self.run_tool("info", "in.mat").out)
                for name, values in (("/A", DENSE), ("/#refs#/b", self.CELLS["b"]), ("/#refs#/c", self.CELLS["c"])):
                    self.run_tool("transpose", f"in.mat:{name}", "-o", "out.h5", "--force")
                    np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], values.T)

    def test_sparse_and_struct_in_a_cell(self):
        def put(file, references):
            self.cell(file, references)
            sparse = file["#refs#"].create_group("d")
            sparse.attrs["MATLAB_sparse"] = np.uint64(6)
            csc = SPARSE.tocsc()
            sparse["data"], sparse["ir"], sparse["jc"] = csc.data, csc.indices, csc.indptr
            file["#refs#"].create_group("e").attrs["MATLAB_class"] = np.bytes_("struct")
            self.put_matrix(file["#refs#/e"], "field", DENSE)

        self.make(put, with_variable=False)
        self.assert_says(self.run_tool("reduce", "in.mat", code=3), "holds 4 matrices", "/#refs#/d 6x4 f64", "/#refs#/e/field 6x2 f64")


class RefusedNumbers(Case):
    """Numbers that cannot be read are a matrix all the same; text and records are none."""

    @staticmethod
    def odd_integers():
        """12 bits at the end of two bytes of the other order, which HDF5 does not read rightly."""
        kind = h5py.h5t.STD_I16BE.copy()
        kind.set_precision(12)
        return kind

    def make(self, kind, shape=(3, 2)):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = DENSE
            kind = kind if isinstance(kind, h5py.h5t.TypeID) else h5py.h5t.py_create(np.dtype(kind), logical=True)
            h5py.h5d.create(file.id, b"X", kind, h5py.h5s.create_simple(shape))

    def test_they_count(self):
        kinds = [([("x", "f8"), ("y", "f8")], "c128", "a compound of x, y"), ([("q", "f4"), ("i", "f4")], "c64", "a compound of q, i"),
                 (self.odd_integers(), "i16", "an integer of 12 bits, of whose bytes HDF5 only changes the order")]
        for kind, name, words in kinds:
            with self.subTest(words):
                self.make(kind)
                what = f"a matrix of 3 × 2, each {words}, which cannot be read yet"
                self.assert_says(self.run_tool("reduce", "in.h5", code=3), "holds 2 matrices", "/A 6x2 f64", f"/X 3x2 contiguous, {words}")
                self.assert_says(self.run_tool("reduce", "in.h5:/X", code=3), f"in.h5:/X: {what}")
                self.assertEqual(float(self.run_tool("reduce", "in.h5:/A").out), DENSE.sum())
                listed = self.run_tool("info", "in.h5", "--json").json()
                (named,) = self.run_tool("info", "in.h5:/X", "--json").json()["matrices"]
                self.assertEqual((listed["matrices"][1], listed["others"]), (named, []))
                self.assertEqual((named["rows"], named["cols"], named["type"], named["stored_entries"], named["unread"]), (3, 2, name, 6, what))
                self.assertIn(f"{words}; cannot be read yet", self.run_tool("info", "in.h5:/X").out)

    def test_what_is_no_matrix_of_numbers(self):
        for kind, shape in ((h5py.string_dtype(), (3, 2)), ("S4", (3, 2)), (h5py.ref_dtype, (3, 2)), ("V5", (3, 2)),
                            ([("a", "f8"), ("b", "f8"), ("c", "f8")], (3, 2)), ([("a", "f8"), ("b", "i4")], (3, 2)),
                            ([("a", "S3"), ("b", "S3")], (3, 2)), ([("x", "f8"), ("y", "f8")], (6,))):
            with self.subTest(kind=str(kind), shape=shape):
                self.make(kind, shape)
                self.assertEqual(float(self.run_tool("reduce", "in.h5").out), DENSE.sum())
                self.assert_says(self.run_tool("info", "in.h5:/X", code=3), "in.h5:/X: holds", "expected numbers")


class Others(Case):
    def test_a_file_without_matrices(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file["data"] = np.arange(5.0)
            file["cube"] = np.zeros((2, 3, 4))
            file["table"] = np.zeros(3, [("a", "f8")])
        what = {"/data": "is a dataset of 1 dimensions (5), expected 2 (--as-column takes it as a matrix of one column)",
                "/cube": "is a dataset of 3 dimensions (2x3x4), expected 2 (a slice of it is named as 'in.h5:/cube[0,:,:]')",
                "/table": "holds a compound of a, expected numbers"}
        listed = self.run_tool("info", "in.h5", "--json").json()
        self.assertEqual((listed["matrices"], {other["dataset"]: other["what"] for other in listed["others"]}), ([], what))
        text = self.run_tool("info", "in.h5").out
        for name, why in what.items():
            self.assertIn(f"in.h5:{name} ", text)
            self.assertIn(why, text)
        self.assertEqual(self.run_tool("info", "in.h5", "--as-column", "--json").json()["matrices"][0]["rows"], 5)
        self.assertEqual(float(self.run_tool("reduce", "in.h5", "--as-column").out), 10)
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "in.h5: holds no matrix: /cube is a dataset of 3 dimensions")

    def test_a_file_that_holds_nothing(self):
        h5py.File(self.path("in.h5"), "w").close()
        self.assertEqual(self.run_tool("info", "in.h5").out, "in.h5 holds nothing\n")
        self.assertEqual(self.run_tool("info", "in.h5", "--json").json()["others"], [])

    def test_what_comes_through_a_pipe(self):
        write_h5(self.path("in.h5"), np.arange(5.0))
        with open(self.path("in.h5"), "rb") as file:
            listed = self.run_tool("info", "-", "--from", "hdf5", "--json", stdin=file.read()).json()
        self.assertEqual([(other["path"], other["dataset"]) for other in listed["others"]], [("-", "/A")])


if __name__ == "__main__":
    unittest.main()
