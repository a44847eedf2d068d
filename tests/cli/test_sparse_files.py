"""Sparse matrices in other people's files, as AnnData, 10x Genomics, Seurat, SciPy, cooler, binsparse, MATLAB and Octave lay them
out, beside h5py and SciPy."""

import json
import os
import unittest
from fractions import Fraction

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import Case, only_dataset, digest, read_h5

RNG = np.random.default_rng(7)
SPARSE = scipy.sparse.random(6, 4, density=0.4, random_state=5, format="csr")
ENTRIES = SPARSE.nnz


def put_arrays(group, matrix, names=("data", "indices", "indptr")):
    for name, part in zip(names, ("data", "indices", "indptr")):
        group[name] = getattr(matrix, part)
    return group


def anndata(file, kind, matrix=SPARSE, name="X"):
    group = put_arrays(file.create_group(name), matrix.asformat(kind))
    group.attrs.update({"encoding-type": f"{kind}_matrix", "encoding-version": "0.1.0", "shape": np.array(matrix.shape)})
    return "/" + name


def old_anndata(file, kind, matrix=SPARSE):
    """Of versions before 0.7: other attributes, and indices that descend."""
    matrix = matrix.asformat(kind, copy=True)
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:]):
        for part in (matrix.indices, matrix.data):
            part[begin:end] = part[begin:end][::-1].copy()
    group = put_arrays(file.create_group("raw.X"), matrix)
    group.attrs.update({"h5sparse_format": kind, "h5sparse_shape": np.array(matrix.shape)})
    return "/raw.X"


def tenx(file, kind, matrix=SPARSE, name="matrix"):
    """Indices in any order, unsigned numbers, and the shape as a dataset."""
    matrix = matrix.asformat(kind, copy=True)
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:]):
        order = begin + RNG.permutation(end - begin)
        matrix.indices[begin:end], matrix.data[begin:end] = matrix.indices[order].copy(), matrix.data[order].copy()
    group = file.create_group(name)
    for part, number in (("data", None), ("indices", "u4"), ("indptr", "u8")):
        values = getattr(matrix, part)
        group.create_dataset(part, data=values.astype(number or values.dtype), chunks=(3,), compression="gzip", maxshape=(None,))
    group["shape"] = np.array(matrix.shape, "i4")
    group["barcodes"] = np.array([b"AAAC"] * matrix.shape[1])
    return "/" + name


def seurat(file, kind, matrix=SPARSE):
    group = put_arrays(file.create_group("assays/RNA/counts"), matrix.asformat(kind))
    group.attrs["dims"] = np.array(matrix.shape, "i4")
    return "/assays/RNA/counts"


def binsparse(file, kind, matrix=SPARSE, **changed):
    group = file.create_group("B")
    group.attrs["binsparse"] = json.dumps({"binsparse": {"version": "0.1", "format": kind.upper(), "shape": list(matrix.shape),
                                                         "number_of_stored_values": matrix.nnz, **changed}})
    if kind == "coo":
        matrix = matrix.tocoo()
        group["indices_0"], group["indices_1"], group["values"] = matrix.row, matrix.col, matrix.data
    else:
        put_arrays(group, matrix.asformat(kind), ("values", "indices_1", "pointers_to_1"))
    return "/B"


def scipy_coo(file, kind, matrix=SPARSE):
    matrix = matrix.tocoo()
    group = file.create_group("coo")
    order = RNG.permutation(matrix.nnz)
    group["data"], group["row"], group["col"] = matrix.data[order], matrix.row[order], matrix.col[order]
    group.attrs["shape"] = matrix.shape
    return "/coo"


def matlab(file, kind, matrix=SPARSE, name="S"):
    csc = matrix.tocsc()
    group = file.create_group(name)
    group.attrs["MATLAB_class"] = np.bytes_("logical" if csc.dtype == bool else "double")
    group.attrs["MATLAB_sparse"] = np.uint64(csc.shape[0])
    group["jc"] = csc.indptr.astype("u8")
    if csc.dtype == bool:
        group.attrs["MATLAB_int_decode"] = np.int32(1)
    if csc.nnz:
        group["ir"] = csc.indices.astype("u8")
        data = csc.data.astype("u1") if csc.dtype == bool else csc.data
        if np.iscomplexobj(data):
            data = np.array(list(zip(data.real, data.imag)), [("real", "f8"), ("imag", "f8")])
        group["data"] = data
    return "/" + name


def octave(file, kind, matrix=SPARSE):
    csc = matrix.tocsc()
    group = file.create_group("o")
    group.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
    group["type"] = np.bytes_("sparse matrix")
    value = group.create_group("value")
    value["nr"], value["nc"], value["nz"] = (np.int32(number) for number in (*csc.shape, csc.nnz))
    for name, part in (("cidx", csc.indptr), ("ridx", csc.indices), ("data", csc.data)):
        value[name] = part.reshape(-1, 1)
    return "/o"


LAYOUTS = [(anndata, "csr"), (anndata, "csc"), (old_anndata, "csr"), (old_anndata, "csc"), (tenx, "csc"), (seurat, "csc"),
           (binsparse, "csr"), (binsparse, "csc"), (binsparse, "coo"), (scipy_coo, "coo"), (matlab, "csc"), (octave, "csc")]


class Files(Case):
    def make(self, layout, kind, *arguments, **options):
        with h5py.File(self.path("in.h5"), "w") as file:
            return layout(file, kind, *arguments, **options)

    def check(self, name, expected, *options):
        """It is transposed sparse into the entries of `expected`, and dense into the same."""
        record = self.record("transpose", f"in.h5:{name}", "-o", "out.mtx", "--force", *options)
        self.assertEqual(record["output"]["structure"], "sparse", name)
        found = scipy.io.mmread(self.path("out.mtx"))
        np.testing.assert_array_equal(found.toarray(), np.asarray(expected).T)
        dense = self.record("transpose", f"in.h5:{name}", "-o", "dense.h5", "--dense", "--force", *options)
        with h5py.File(self.path("dense.h5")) as file:
            written = file[only_dataset(file)][()]
        self.assertEqual(written.dtype == bool, np.asarray(expected).dtype == bool)  # MATLAB's logicals stay logical
        np.testing.assert_array_equal(written, np.asarray(expected).T)
        self.assertEqual(record["inputs"][0]["hash"], dense["inputs"][0]["hash"])
        return found


class Layouts(Files):
    def test_every_layout(self):
        for layout, kind in LAYOUTS:
            with self.subTest(layout.__name__, kind=kind):
                name = self.make(layout, kind)
                self.check(name, SPARSE.toarray())
                (listed,) = self.run_tool("info", "in.h5", "--json").json()["matrices"]
                self.assertEqual([listed[key] for key in ("dataset", "rows", "cols", "stored_entries", "structure", "entries", "density", "unread")],
                                 [name, 6, 4, ENTRIES, "sparse", ENTRIES, ENTRIES / 24, None])
                self.assertRegex(self.run_tool("info", "in.h5").out, f"{kind.upper()}.*, {ENTRIES} entries, density {100 * ENTRIES / 24:.3g} %")

    def test_square_ones_whose_program_is_known(self):
        matrix = scipy.sparse.random(5, 5, density=0.5, random_state=3, format="csr")
        for layout in (tenx, seurat):
            with self.subTest(layout.__name__):
                self.check(self.make(layout, "csc", matrix), matrix.toarray())

    def test_types(self):
        for kind in ("f4", "f8", "i1", "u2", "i8", "?", "c16"):
            with self.subTest(kind):
                matrix = SPARSE.copy()
                matrix.data = (RNG.integers(1, 9, ENTRIES) * (1 + 2j if kind == "c16" else 1)).astype(kind)
                self.check(self.make(matlab if kind in "?c16" else anndata, "csc", matrix), matrix.toarray())

    def test_inside_a_struct_of_matlab(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            file.create_group("s").attrs["MATLAB_class"] = np.bytes_("struct")
            matlab(file["s"], "csc", name="field")
        self.check("/s/field", SPARSE.toarray())

    def test_empty_ones(self):
        for shape, layouts in (((0, 3), LAYOUTS[:1]), ((3, 0), LAYOUTS[1:2]), ((3, 2), LAYOUTS[4:])):
            for layout, kind in layouts:
                with self.subTest(layout.__name__, kind=kind, shape=shape):
                    self.run_tool("transpose", f"in.h5:{self.make(layout, kind, scipy.sparse.csr_matrix(shape))}", "-o", "out.mtx", "--force")
                    self.assertEqual((scipy.io.mmread(self.path("out.mtx")).shape, scipy.io.mmread(self.path("out.mtx")).nnz), (shape[::-1], 0))

    def test_cooler(self):
        pixels = [(0, 0, 5), (0, 3, 1), (2, 3, 2)]
        dense = np.zeros((4, 4), int)
        for row, col, count in pixels:
            dense[row, col] = count
        for mode, expected in (("square", dense), ("symmetric-upper", dense + np.triu(dense, 1).T), (None, dense + np.triu(dense, 1).T)):
            with self.subTest(mode):
                with h5py.File(self.path("in.h5"), "w") as file:
                    file.attrs["nbins"] = 4
                    if mode:
                        file.attrs["storage-mode"] = mode
                    for at, name in enumerate(("bin1_id", "bin2_id", "count")):
                        file[f"pixels/{name}"] = [pixel[at] for pixel in pixels]
                self.check("/pixels", expected)
                (listed,) = self.run_tool("info", "in.h5", "--json").json()["matrices"]
                self.assertEqual((listed["stored_entries"], listed["entries"]), (3, 3 if mode == "square" else 6))
        with h5py.File(self.path("in.h5"), "a") as file:
            file["pixels/bin1_id"][2], file["pixels/bin2_id"][2] = 3, 2
        self.assert_says(self.run_tool("transpose", "in.h5", "-o", "out.mtx", "--force", code=3), "in.h5:/pixels/bin2_id[2] is 2 in line 3",
                         "the same side of the diagonal")

    def test_binsparse_of_one_value_of_pairs_and_of_a_triangle(self):
        def change(**parts):
            with h5py.File(self.path("in.h5"), "a") as file:
                for name, values in parts.items():
                    del file["B"][name]
                    file["B"][name] = values

        for kind in ("csr", "csc", "coo"):
            self.make(binsparse, kind, data_types={"values": "iso[int32]"})
            change(values=np.array([7], "i4"))
            self.check("/B", 7 * (SPARSE.toarray() != 0))
            self.make(binsparse, kind, data_types={"values": "complex[float64]"})
            numbers = RNG.normal(size=ENTRIES) + 1j * RNG.normal(size=ENTRIES)
            change(values=numbers.view("f8"))
            with h5py.File(self.path("in.h5")) as file:
                parts = {name: file["B"][name][()] for name in file["B"]}
            places = (parts["indices_1"], parts.get("indices_0", parts.get("pointers_to_1")))
            wanted = {"csr": scipy.sparse.csr_matrix, "csc": scipy.sparse.csc_matrix, "coo": scipy.sparse.coo_matrix}[kind]
            wanted = wanted((numbers, places[::-1]) if kind == "coo" else (numbers, *places), shape=(6, 4))
            self.check("/B", wanted.toarray())
            self.assert_says(self.run_tool("transpose", "in.h5", "-t", "f64", "-o", "out.mtx", "--force", code=3), "its numbers are complex")
        lower = scipy.sparse.tril(scipy.sparse.random(5, 5, density=0.6, random_state=2)).tocsr()
        self.make(binsparse, "csr", lower, structure="symmetric_lower")
        self.check("/B", lower.toarray() + np.tril(lower.toarray(), -1).T)

    def test_binsparse_by_columns_and_with_a_fill_value(self):
        self.make(binsparse, "coo", format="COOR")
        self.check("/B", SPARSE.toarray())
        self.make(binsparse, "coo", format="COOC")
        with h5py.File(self.path("in.h5"), "a") as file:
            file["B"].move("indices_0", "columns")
            file["B"].move("indices_1", "indices_0")
            file["B"].move("columns", "indices_1")
            self.assertEqual(file["B/indices_0"][()].max(), SPARSE.tocoo().col.max())
        self.check("/B", SPARSE.toarray())
        self.make(binsparse, "coo", format="COOX")
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "COOX", "cannot be read yet")
        for value, code in ((np.zeros(1), 0), (np.zeros(2), 0), (np.array([9.0]), 3), (np.array([0, 1], "i4"), 3), (np.zeros(3), 3)):
            self.make(binsparse, "csr", fill=True)
            with h5py.File(self.path("in.h5"), "a") as file:
                file["B/fill_value"] = value
            refused = self.run_tool("reduce", "in.h5", "--op", "min", code=code)
            if code:
                self.assert_says(refused, "'fill_value'")
        self.make(binsparse, "csr", structure="skew_symmetric_lower")
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "of the structure 'skew_symmetric_lower'")

    def test_duplicates_are_added(self):
        coo = scipy.sparse.coo_matrix(([1e16, 2.0, 1.0, -1e16, 0.0], ([0, 1, 0, 0, 2], [2, 0, 2, 2, 1])), shape=(3, 3))
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("coo")
            group["data"], group["row"], group["col"] = coo.data, coo.row, coo.col
            group.attrs["shape"] = coo.shape
        expected = np.zeros((3, 3))
        expected[0, 2], expected[1, 0] = 1, 2
        found = self.check("/coo", expected)
        self.assertEqual(found.nnz, 3)
        self.assertIn("3 entries, after 2 were added to others", self.run_tool("transpose", "in.h5", "-o", "out.mtx", "--force", "-v").err)

    def test_duplicates_are_added_before_they_are_rounded(self):
        terms = [1.0] + [2e-8] * 1000
        exact = np.float16(float(sum(map(Fraction, terms))))
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("X")
            group["data"], group["indices"], group["indptr"] = terms, np.zeros(1001, "i4"), [0, 1001, 1001, 1001]
            group.attrs.update({"encoding-type": "csr_matrix", "shape": (3, 3)})
        self.run_tool("transpose", "in.h5", "-t", "f16", "-o", "out.mtx")
        self.assertEqual(np.float16(scipy.io.mmread(self.path("out.mtx")).toarray()[0, 0]), exact)

    def test_order_is_told(self):
        self.make(old_anndata, "csr")
        self.assertIn("in.h5:/raw.X: its indices are not in order", self.run_tool("transpose", "in.h5", "-o", "out.mtx", "-v").err)

    def test_what_no_memory_could_hold_dense(self):
        matrix = scipy.sparse.coo_matrix(([1.5, 2.5], ([7, 2_999_999], [1_999_999, 3])), shape=(3_000_000, 2_000_000))
        for layout, kind in ((anndata, "csr"), (tenx, "csc"), (scipy_coo, "coo")):
            with self.subTest(layout.__name__, kind=kind):
                name = self.make(layout, kind, matrix)
                self.run_tool("transpose", f"in.h5:{name}", "-o", "out.mtx", "--force")
                found = scipy.io.mmread(self.path("out.mtx"))
                self.assertEqual((found.shape, sorted(zip(found.row, found.col, found.data))),
                                 ((2_000_000, 3_000_000), [(3, 2_999_999, 2.5), (1_999_999, 7, 1.5)]))


class Choice(Files):
    def test_two_genomes(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            for genome in ("hg19", "mm10"):
                tenx(file, "csc", name=genome)
        self.assert_says(self.run_tool("transpose", "in.h5", "-o", "out.mtx", code=3), "holds 2 matrices", "/hg19 6x4 f64", "/mm10 6x4 f64")
        self.check("/mm10", SPARSE.toarray())

    def test_a_dense_one_beside_it(self):
        self.make(anndata, "csr")
        with h5py.File(self.path("in.h5"), "a") as file:
            file["obsm/X_pca"] = np.ones((6, 2))
            anndata(file, "csc", SPARSE * 2, "layers/counts")
        for verb in (("reduce", "in.h5"), ("transpose", "in.h5", "-o", "out.mtx")):
            self.assert_says(self.run_tool(*verb, code=3), "holds 3 matrices, name one", "/X 6x4", "/obsm/X_pca 6x2", "/layers/counts 6x4")
        self.check("/layers/counts", 2 * SPARSE.toarray())
        self.assertEqual(float(self.run_tool("reduce", "in.h5:/obsm/X_pca").out), 12)


class Damaged(Files):
    """Exit 3 with group, array and position."""

    dense = False

    def spoil(self, layout, kind, part, position, value):
        name = self.make(layout, kind)
        with h5py.File(self.path("in.h5"), "a") as file:
            values = file[name][part]
            if values.dtype.kind == "u" and value < 0:
                values = values[()].astype("i8")
                del file[name][part]
                file[name][part] = values
                values = file[name][part]
            values[position] = value
        return name

    def refused(self, name, *words):
        """As a sparse and, by turns, as a dense matrix."""
        self.dense = not self.dense
        self.assert_says(self.run_tool("transpose", f"in.h5:{name}", "-o", "out.mtx", *["--dense"] * self.dense, code=3), f"in.h5:{name}", *words)
        self.assertEqual(os.listdir(self.path(".")), ["in.h5"])

    def test_pointers(self):
        for layout, kind, part in ((anndata, "csr", "indptr"), (tenx, "csc", "indptr"), (matlab, "csc", "jc"), (binsparse, "csr", "pointers_to_1")):
            last = 6 if kind == "csr" else 4
            for position, value, words in ((0, 1, f"{part}[0] is 1, expected 0"), (2, -1, f"{part}[2] is -1, expected at least"),
                                           (2, 900, f"{part}[2] is 900, expected at most {ENTRIES}"),
                                           (last, ENTRIES + 1, f"{part}[{last}] is {ENTRIES + 1}, expected at most {ENTRIES}")):
                with self.subTest(layout.__name__, position=position, value=value):
                    self.refused(self.spoil(layout, kind, part, position, value), words)
        name = self.make(anndata, "csr")
        with h5py.File(self.path("in.h5"), "a") as file:
            file["X/indptr"][6] = file["X/indptr"][5] = file["X/indptr"][4]
        self.refused(name, f"indptr[6] is {SPARSE.indptr[4]}, expected {ENTRIES}, the entries that there are")

    def test_indices(self):
        for layout, kind, part, extent in ((anndata, "csr", "indices", 4), (anndata, "csc", "indices", 6), (tenx, "csc", "indices", 6),
                                           (matlab, "csc", "ir", 6), (scipy_coo, "coo", "row", 6), (scipy_coo, "coo", "col", 4)):
            word = "row" if extent == 6 else "column"
            for value in (-1, extent):
                with self.subTest(layout.__name__, part=part, value=value):
                    self.refused(self.spoil(layout, kind, part, 5, value), f"/{part}[5] is {value}, expected a {word} from 0 to {extent - 1}")

    def test_indices_beyond_any_extent(self):
        name = self.make(tenx, "csc")
        with h5py.File(self.path("in.h5"), "a") as file:
            values = file[name]["indices"][()].astype("u8")
            del file[name]["indices"]
            values[3] = 2**64 - 1
            file[name]["indices"] = values
        self.refused(name, "/indices", "row 4")

    def test_counts(self):
        name = self.make(anndata, "csr")
        with h5py.File(self.path("in.h5"), "a") as file:
            del file["X/data"]
            file["X/data"] = np.ones(ENTRIES - 1)
        self.refused(name, f"'indices' and 'data' do not agree: they have {ENTRIES} and {ENTRIES - 1} numbers")
        name = self.make(anndata, "csr")
        with h5py.File(self.path("in.h5"), "a") as file:
            file["X"].attrs["shape"] = (7, 4)
        self.refused(name, "of 7x4 whose 'indptr' has 7 numbers, expected 7 + 1")
        for part, values in (("indices", np.ones(ENTRIES)), ("indptr", np.ones(7))):
            name = self.make(anndata, "csr")
            with h5py.File(self.path("in.h5"), "a") as file:
                del file["X"][part]
                file["X"][part] = values
            self.refused(name, f"whose '{part}' holds f64, expected integers")

    def test_counts_that_no_memory_holds(self):
        """Of numbers that were never written, in a file of some bytes."""
        name = self.make(anndata, "csr")
        with h5py.File(self.path("in.h5"), "a") as file:
            for part, kind in (("data", "f8"), ("indices", "i8")):
                del file["X"][part]
                file["X"].create_dataset(part, (1 << 44,), kind, chunks=(1 << 20,), fillvalue=0)
        for options in (("out.mtx",), ("out.h5", "--dense")):
            self.run_tool("transpose", f"in.h5:{name}", "-o", *options, code=6)
        with h5py.File(self.path("in.h5"), "w") as file:
            group = file.create_group("S")
            group.attrs["MATLAB_sparse"] = np.uint64(2**62)
            group["jc"] = np.zeros(3, "u8")
        self.run_tool("transpose", "in.h5:/S", "-o", "out.h5", "--dense", code=6)

    def test_no_memory_within_the_limit(self):
        self.make(anndata, "csr", scipy.sparse.random(2000, 2000, density=0.1, format="csr"))
        self.assert_says(self.run_tool("transpose", "in.h5", "-o", "out.mtx", "--memory-limit", "4MiB", code=6), "in.h5:/X")


def read_anndata(group):
    """As AnnData reads it."""
    kind = {"csr_matrix": scipy.sparse.csr_matrix, "csc_matrix": scipy.sparse.csc_matrix}[group.attrs["encoding-type"]]
    assert group.attrs["encoding-version"] == "0.1.0"
    assert all(group[part].ndim == 1 for part in ("data", "indices", "indptr"))
    return kind((group["data"][()], group["indices"][()], group["indptr"][()]), shape=tuple(group.attrs["shape"]))


def read_matlab(group):
    """As MATLAB stores it: zero-based columns, pairs of numbers."""
    starts = group["jc"][()]
    assert starts.dtype == np.uint64 and group.attrs["MATLAB_class"] == b"double"
    indices, values = (group[part][()] if part in group else np.zeros(0, kind) for part, kind in (("ir", "u8"), ("data", "f8")))
    if values.dtype.names:
        values = values["real"] + 1j * values["imag"]
    return scipy.sparse.csc_matrix((values, indices.astype("i8"), starts.astype("i8")),
                                   shape=(int(group.attrs["MATLAB_sparse"]), len(starts) - 1))


def read_binsparse(group):
    described = json.loads(group.attrs["binsparse"])["binsparse"]
    values = group["values"][()]
    if described["data_types"]["values"].startswith("complex["):
        values = values.view("c8" if values.dtype == np.float32 else "c16")
    assert described["format"] == "CSR" and described["number_of_stored_values"] == len(values)
    return scipy.sparse.csr_matrix((values, group["indices_1"][()], group["pointers_to_1"][()]), shape=tuple(described["shape"]))


class Told(Files):
    def test_options_of_dense_datasets_change_nothing(self):
        self.make(anndata, "csr", SPARSE)
        for option in (["--layout", "matlab"], ["--as-column"], ["--unpack"]):
            told = self.run_tool("reduce", "in.h5", *option)
            self.assert_says(told, "in.h5:/X: is sparse, and read as its group says")
            self.assertAlmostEqual(float(told.out), SPARSE.sum())

    def test_a_shape_that_is_not_stored(self):
        with h5py.File(self.path("in.h5"), "w") as file:
            for name, matrix in (("R", SPARSE), ("C", SPARSE.tocsc()), ("square", scipy.sparse.eye(4, format="csr"))):
                for part in ("data", "indices", "indptr"):
                    file[f"{name}/{part}"] = getattr(matrix, part)
            for part in ("data", "row", "col"):
                file[f"coo/{part}"] = getattr(SPARSE.tocoo(), part)
            for part, values in (("bin1_id", [0, 1]), ("bin2_id", [3, 3]), ("count", [7, 8])):
                file[f"pixels/{part}"] = values
            file.create_group("marked").attrs["encoding-type"] = "csc_matrix"
            for part in ("data", "indices", "indptr"):
                file[f"marked/{part}"] = getattr(SPARSE.tocsc(), part)
            file["stated/data"], file["stated/indices"], file["stated/indptr"] = SPARSE.data, SPARSE.indices, SPARSE.indptr
            file["stated"].attrs["shape"] = SPARSE.shape
            file["dense"] = np.eye(3)
        for name in ("R", "C", "coo", "marked"):
            with self.subTest(name=name):
                self.assert_says(self.run_tool("convert", f"in.h5:/{name}", "-o", "out.npz", "--force", code=3), "no shape of two extents (--shape says it)")
                self.run_tool("convert", f"in.h5:/{name}", "--shape", "6x4", "-o", "out.npz", "--force")
                np.testing.assert_array_equal(scipy.sparse.load_npz(self.path("out.npz")).toarray(), SPARSE.toarray())
        self.run_tool("transpose", "in.h5:/pixels", "--shape", "4x4", "-o", "out.npz", "--force")
        self.assertEqual(scipy.sparse.load_npz(self.path("out.npz")).toarray()[3].tolist(), [7, 8, 0, 0])
        self.assertEqual(self.run_tool("info", "in.h5:/R", "--shape", "6x4", "--json").json()["matrices"][0]["rows"], 6)
        self.assert_says(self.run_tool("reduce", "in.h5:/R", "--shape", "4x4", code=3), "of 4x4 whose 'indptr' has 7 numbers, expected 4 + 1 or 4 + 1")
        self.assert_says(self.run_tool("reduce", "in.h5:/R", "--shape", "6x2", code=3), "expected a column from 0 to 1")
        self.assert_says(self.run_tool("reduce", "in.h5:/square", "--shape", "4x4", code=3), "CSR or CSC")
        # What states its shape must have that one.
        for name, shape in (("stated", "6x4"), ("dense", "3x3")):
            self.run_tool("reduce", f"in.h5:/{name}", "--shape", shape)
            for verb in (["reduce"], ["info"], ["convert", "-o", "no.npz"]):
                self.assert_says(self.run_tool(*verb, f"in.h5:/{name}", "--shape", "6x5", code=3), f"in.h5:/{name}: is {shape}, and --shape says 6x5")
        self.assert_says(self.run_tool("reduce", "in.h5:/R", "--shape", "6", code=2), "--shape is '6'; expected ROWSxCOLS")
        with open(self.path("jobs"), "w", encoding="utf-8") as file:
            file.write("convert in.h5:/R --shape 6x4 -o batch.npz\n")
        self.run_tool("batch", "jobs")
        np.testing.assert_array_equal(scipy.sparse.load_npz(self.path("batch.npz")).toarray(), SPARSE.toarray())

    def test_the_density_of_a_stored_triangle_is_at_most(self):
        head = "%%MatrixMarket matrix coordinate real symmetric\n"
        with open(self.path("in.mtx"), "w", encoding="utf-8") as file:
            file.write(head + "4 4 3\n1 1 1\n2 1 2\n4 4 3\n")
        self.assertIn("density at most 37.5 %", self.run_tool("info", "in.mtx").out)


class Written(Files):
    """`--sparse-layout` keeps a sparse matrix sparse in HDF5."""

    READERS = {"anndata": read_anndata, "matlab": read_matlab, "binsparse": read_binsparse}

    def check_written(self, matrix, layout, *options, dataset="X", output="out.h5"):
        self.run_tool("transpose", "in.h5", "-o", output, "--sparse-layout", layout, *options)
        with h5py.File(self.path(output.split(":")[0])) as file:
            found = self.READERS[layout](file[dataset])
            np.testing.assert_array_equal(found.toarray(), matrix.toarray().T)
            self.assertEqual(found.dtype, matrix.dtype)
            self.assertEqual(found.nnz, matrix.nnz)
            self.assertTrue(found.has_sorted_indices)
            self.assertEqual(file[dataset].attrs["gpumat_operation"], "transpose")
        if ":" not in output:
            self.check_back(matrix, output)

    def check_back(self, matrix, output):
        record = self.record("transpose", output, "-o", "back.mtx", "--force")
        np.testing.assert_array_equal(scipy.io.mmread(self.path("back.mtx")).toarray(), matrix.toarray())
        self.assertEqual(record["output"]["structure"], "sparse")

    def test_every_layout(self):
        matrices = [SPARSE, (SPARSE * (1 + 2j)).tocsr(), scipy.sparse.csr_matrix((3, 2)), scipy.sparse.csr_matrix((3, 2), dtype="c16")]
        for layout in self.READERS:
            for matrix in matrices:
                with self.subTest(layout, dtype=matrix.dtype, entries=matrix.nnz):
                    self.make(anndata, "csr", matrix)
                    self.check_written(matrix, layout, "--force")

    def test_a_result_has_the_layout_of_its_input(self):
        self.make(anndata, "csr", SPARSE)
        for layout, storage in (("anndata", "AnnData"), ("matlab", "MATLAB"), ("binsparse", "binsparse")):
            self.run_tool("convert", "in.h5", "-o", f"{layout}.h5", "--sparse-layout", layout)
            for verb in ("transpose", "convert"):
                with self.subTest(layout, verb=verb):
                    self.run_tool(verb, f"{layout}.h5", "-o", "out.h5", "--force")
                    (matrix,) = self.run_tool("info", "out.h5", "--json").json()["matrices"]
                    self.assertEqual((matrix["structure"], matrix["entries"]), ("sparse", SPARSE.nnz))
                    self.assertIn(storage, matrix["storage"])
                    self.run_tool(verb, f"{layout}.h5", "-o", "dense.h5", "--dense", "--force")
                    expected = SPARSE.toarray() if verb == "convert" else SPARSE.toarray().T
                    np.testing.assert_array_equal(read_h5(self.path("dense.h5"))[1], expected)
                    self.run_tool("compare", "out.h5", "dense.h5")
        self.run_tool("convert", "in.h5", "-o", "text.mtx")
        self.run_tool("transpose", "text.mtx", "-o", "of-text.h5")
        np.testing.assert_array_equal(read_h5(self.path("of-text.h5"))[1], SPARSE.toarray().T)

    def test_a_type_that_the_layout_has_not_is_kept_as_anndata_has_it(self):
        self.make(matlab, "csc", SPARSE)
        self.run_tool("transpose", "in.h5", "-t", "f32", "-o", "out.h5")
        (matrix,) = self.run_tool("info", "out.h5", "--json").json()["matrices"]
        self.assertEqual((matrix["type"], matrix["entries"]), ("f32", SPARSE.nnz))
        self.assertIn("AnnData", matrix["storage"])
        self.assert_says(self.run_tool("transpose", "in.h5", "-t", "f32", "-o", "out.mat", code=5), "--dense")

    def test_attributes_of_a_group_are_kept(self):
        self.make(anndata, "csc", SPARSE)
        with h5py.File(self.path("in.h5"), "a") as file:
            file["X"].attrs["units"] = "counts"
            file["X"].attrs["scale"] = [1.5, 2.5]
        for layout in ("anndata", "matlab", "binsparse"):
            self.run_tool("transpose", "in.h5", "-o", "out.h5", "--sparse-layout", layout, "--force")
            with h5py.File(self.path("out.h5")) as file:
                (group,) = file.values()
                self.assertEqual((group.attrs["units"], list(group.attrs["scale"])), ("counts", [1.5, 2.5]))
                self.assertEqual("encoding-type" in group.attrs, layout == "anndata")
        self.run_tool("convert", "in.h5", "-o", "dense.h5", "--dense")
        with h5py.File(self.path("dense.h5")) as file:
            (dense,) = file.values()
            self.assertEqual(dense.attrs["units"], "counts")
            self.assertNotIn("encoding-type", dense.attrs)

    def test_files_of_matlab_have_its_layout(self):
        self.make(anndata, "csr", SPARSE)
        for layout in ("anndata", "binsparse"):
            for output in (["out.mat"], ["out.h5", "--output-layout", "matlab"]):
                self.assert_says(self.run_tool("transpose", "in.h5", "-o", *output, "--sparse-layout", layout, code=2), "expected --sparse-layout matlab")

    def test_types(self):
        for kind in ("f4", "i1", "u8"):
            matrix = SPARSE.copy()
            matrix.data = RNG.integers(1, 100, ENTRIES).astype(kind)
            self.make(anndata, "csr", matrix)
            for layout in ("anndata", "binsparse"):
                self.check_written(matrix, layout, "--force")
            self.assert_says(self.run_tool("transpose", "in.h5", "-o", "out.mat", "--sparse-layout", "matlab", code=5), "are written in f64 and c128", "--dense")

    def test_chunks_and_filters(self):
        matrix = scipy.sparse.random(300, 200, density=0.1, random_state=1, format="csr")
        self.make(anndata, "csr", matrix)
        self.check_written(matrix, "anndata", "--deflate", "4", "--shuffle", "--chunk", "64x8", "--threads", "3")
        with h5py.File(self.path("out.h5")) as file:
            data = file["X/data"]
            self.assertEqual((data.chunks, data.compression, data.shuffle), ((512,), "gzip", True))

    def test_added_to_a_file(self):
        self.make(anndata, "csr")
        with h5py.File(self.path("out.h5"), "w") as file:
            file["A"] = np.eye(3)
        for layout in self.READERS:
            self.check_written(SPARSE, layout, dataset=f"g/{layout}", output=f"out.h5:/g/{layout}")
        with h5py.File(self.path("out.h5")) as file:
            np.testing.assert_array_equal(file["A"][()], np.eye(3))
        before = digest(self.path("out.h5"))
        for name, said in (("A", "is no group"), ("g", "holds 'anndata'"), ("g/matlab", "holds 'ir'"), ("g/anndata", "--force replaces it")):
            for force in ([], ["--force"])[: 1 if name == "g/anndata" else 2]:
                found = self.run_tool("transpose", "in.h5", "-o", f"out.h5:/{name}", "--sparse-layout", "anndata", *force, code=4)
            self.assert_says(found, said)
        self.assertEqual(digest(self.path("out.h5")), before)

    def test_what_it_is_not_for(self):
        self.make(anndata, "csr")
        with h5py.File(self.path("dense.h5"), "w") as file:
            file["A"] = np.eye(3)
        for words, said in ((("in.h5", "-o", "out.mtx"), "--sparse-layout is of HDF5 files"),
                            (("dense.h5", "-o", "out.h5"), "is to hold is dense"), (("in.h5", "-o", "out.h5", "--dense"), "--dense")):
            self.assert_says(self.run_tool("transpose", *words, "--sparse-layout", "anndata", code=2), said)
        self.assertEqual(sorted(os.listdir(self.path("."))), ["dense.h5", "in.h5"])

    def test_what_no_memory_could_hold_dense(self):
        matrix = scipy.sparse.coo_matrix(([1.5, 2.5], ([7, 2_999_999], [1_999_999, 3])), shape=(3_000_000, 2_000_000)).tocsr()
        self.make(anndata, "csr", matrix)
        self.run_tool("transpose", "in.h5", "-o", "out.h5", "--sparse-layout", "anndata")
        with h5py.File(self.path("out.h5")) as file:
            found = read_anndata(file["X"]).tocoo()
        self.assertEqual(sorted(zip(found.row, found.col, found.data)), [(3, 2_999_999, 2.5), (1_999_999, 7, 1.5)])


if __name__ == "__main__":
    unittest.main()
