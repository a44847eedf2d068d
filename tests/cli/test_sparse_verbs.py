"""Kinds of sparse matrices through the verbs, beside SciPy and NumPy."""

import math
import os
import unittest

import h5py
import numpy as np
import scipy.io
import scipy.sparse

from harness import Case

WIDE = 2**31 + 7  # columns of the kind that no memory holds dense


def entries(shape, rows, columns, values):
    matrix = scipy.sparse.coo_matrix((values, (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def kinds():
    """Name, header of Matrix Market and matrix, with entries that are zero, negative and -0."""
    rng = np.random.default_rng(5)
    found = {}
    n = 60
    i, j = np.indices((n, n))
    near = abs(i - j) <= 2
    found["banded"] = ("real general", entries((n, n), i[near], j[near], rng.normal(size=near.sum())))
    rows = np.minimum((rng.pareto(1.0, 900)).astype(int), 199)
    found["power-law"] = ("real general", entries((200, 90), rows, rng.integers(0, 90, 900), rng.normal(size=900)))
    dense_row = np.full(400, 3)
    found["one dense row"] = ("real general", entries((7, 400), dense_row, np.arange(400), rng.normal(size=400) * 1e3))
    found["empty rows"] = ("real general", entries((50, 20), [3, 3, 49, 10], [0, 19, 7, 2], [-1.5, 2.0, 0.0, -0.0]))
    found["rectangular"] = ("real general", entries((11, 301), rng.integers(0, 11, 250), rng.integers(0, 301, 250), rng.normal(size=250)))
    lower = np.tril(rng.normal(size=(25, 25)) + 1j * rng.normal(size=(25, 25))) * (rng.random((25, 25)) < 0.2)
    found["complex Hermitian"] = ("complex hermitian", scipy.sparse.coo_matrix(np.tril(lower, -1) + np.tril(lower, -1).conj().T + np.diag(lower.diagonal().real)))
    found["pattern"] = ("pattern general", entries((40, 30), rng.integers(0, 40, 90), rng.integers(0, 30, 90), np.ones(90)).astype(bool).astype(np.int64))
    found["integer"] = ("integer general", entries((30, 40), rng.integers(0, 30, 200), rng.integers(0, 40, 200), rng.integers(-9, 10, 200)))
    found["one column"] = ("real general", entries((80, 1), rng.permutation(80)[:30], np.zeros(30, int), rng.normal(size=30)))
    return found


def write_coordinates(path, header, matrix):
    """As text, every value exactly; of what is Hermitian the lower triangle."""
    matrix = scipy.sparse.coo_matrix(matrix)
    keep = matrix.row >= matrix.col if header.endswith("hermitian") else np.ones(matrix.nnz, bool)
    with open(path, "w") as file:
        file.write(f"%%MatrixMarket matrix coordinate {header}\n{matrix.shape[0]} {matrix.shape[1]} {keep.sum()}\n")
        for row, column, value in zip(matrix.row[keep], matrix.col[keep], matrix.data[keep]):
            numbers = ([] if header.startswith("pattern") else [repr(float(value.real)), repr(float(value.imag))] if np.iscomplexobj(matrix.data) else
                       [str(value)])
            file.write(" ".join([str(row + 1), str(column + 1), *numbers]) + "\n")


def write_wide(path):
    with open(path, "w") as file:
        file.write(f"%%MatrixMarket matrix coordinate real general\n3 {WIDE} 4\n1 1 1.5\n1 {WIDE} -2\n3 {2**31} 4\n3 {2**31 + 1} 8\n")


def reduced(dense, op, axis):
    """What NumPy gives, sums without rounding."""
    exact = (lambda values: sum(int(v) for v in values)) if dense.dtype.kind in "iu" else math.fsum
    parts = [dense.ravel()] if axis == "all" else list(dense) if axis == "rows" else list(dense.T)

    def one(values):
        if op in ("sum", "mean"):
            total = complex(math.fsum(values.real), math.fsum(values.imag)) if np.iscomplexobj(values) else exact(values)
            return total / len(values) if op == "mean" else total
        if op == "norm":
            return math.sqrt(math.fsum(np.concatenate([values.real.astype(float)**2, values.imag.astype(float)**2])))
        return {"min": np.min, "max": np.max, "absmax": lambda v: np.max(abs(v)), "nan-count": lambda v: np.isnan(v).sum()}[op](values)

    result = np.array([one(values) for values in parts])
    return result.reshape(-1, 1) if axis == "rows" else result.reshape(1, -1)


class Verbs(Case):
    def each(self):
        for name, (header, matrix) in kinds().items():
            write_coordinates(self.path("A.mtx"), header, matrix)
            yield name, header, matrix

    def test_transpose(self):
        for _, _, matrix in self.each():
            record = self.record("transpose", "A.mtx", "-o", "B.mtx", "--force")
            self.assertEqual(record["output"]["structure"], "sparse")
            found = scipy.sparse.coo_matrix(scipy.io.mmread(self.path("B.mtx")))
            self.assertEqual(found.nnz, matrix.nnz)
            np.testing.assert_array_equal(found.toarray(), matrix.toarray().T)

    def test_reduce(self):
        """As the dense matrix is reduced: what is not stored is zero."""
        for name, _, matrix in self.each():
            dense = matrix.toarray()
            for op in ["sum", "min", "max", "absmax", "norm", "mean", "nan-count"]:
                if np.iscomplexobj(dense) and op in ("min", "max"):
                    continue
                for axis in ["all", "rows", "columns"]:
                    for options in (["--level", "serial"], ["--level", "rows", "--threads", "3"])[len(op + axis + name) % 2:][:1]:
                        with self.subTest(name, op=op, axis=axis, options=options):
                            record = self.record("reduce", "A.mtx", "--op", op, "--axis", axis, "-o", "R.npy", "--force", *options)
                            self.assertEqual(record["inputs"][0]["structure"], "sparse")
                            self.assertEqual(record["verification"]["verdict"], "passed")
                            found = np.load(self.path("R.npy"))
                            size = reduced(abs(dense), "sum", axis) if op in ("sum", "mean", "norm") or np.iscomplexobj(dense) else np.zeros(1)
                            error = abs(found - reduced(dense, op, axis))
                            self.assertTrue((error <= 1e-13 * size).all(), error.max())

    def test_reduce_is_verified(self):
        """Each result, and by itself."""
        for _, _, matrix in self.each():
            for op in ["sum", "absmax"]:
                for axis in ["rows", "columns"]:
                    self.run_tool("reduce", "A.mtx", "--op", op, "--axis", axis, "-o", "R.npy", "--force")
                    self.run_tool("verify", "reduce", "A.mtx", "R.npy", "--op", op, "--axis", axis)
                    result = np.load(self.path("R.npy"))
                    result.flat[result.size // 2] += 1
                    np.save(self.path("R.npy"), result)
                    self.run_tool("verify", "reduce", "A.mtx", "R.npy", "--op", op, "--axis", axis, code=1)

    def test_reduce_what_no_memory_holds(self):
        write_wide(self.path("A.mtx"))
        for axis, sums, means, least in (("all", [[11.5]], [[11.5 / (3 * WIDE)]], [[-2]]),
                                         ("rows", [[-0.5], [0], [12]], [[-0.5 / WIDE], [0], [12 / WIDE]], [[-2], [0], [0]])):
            for op, expected in (("sum", sums), ("mean", means), ("min", least)):
                self.run_tool("reduce", "A.mtx", "--op", op, "--axis", axis, "-o", "R.npy", "--force")
                np.testing.assert_allclose(np.load(self.path("R.npy")), expected, rtol=1e-15)
        self.assert_says(self.run_tool("reduce", "A.mtx", "--axis", "columns", "-o", "C.npy", "--memory-limit", "64MiB", code=6),
                         "dense, which can go in parts")

    def test_reduce_special_values(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n4 3 5\n1 1 nan\n1 2 -4\n2 1 inf\n3 2 5\n3 3 7\n")
        dense = scipy.io.mmread(self.path("A.mtx")).toarray()
        for op in ["sum", "min", "max", "absmax", "norm", "mean", "nan-count"]:
            for level in ["serial", "rows"]:
                record = self.record("reduce", "A.mtx", "--op", op, "--axis", "rows", "-o", "R.npy", "--force", "--level", level)
                self.assertEqual(record["verification"]["verdict"], "passed")
                expected = {"sum": dense.sum(1), "min": dense.min(1), "max": dense.max(1), "absmax": abs(dense).max(1), "norm": np.linalg.norm(dense, axis=1),
                            "mean": dense.mean(1), "nan-count": np.isnan(dense).sum(1)}[op]
                np.testing.assert_allclose(np.load(self.path("R.npy")).ravel(), expected, rtol=1e-15)
        self.write("B.mtx", "%%MatrixMarket matrix coordinate real general\n0 3 0\n")
        self.run_tool("reduce", "B.mtx", "--op", "min", code=3)
        self.assertEqual(float(self.run_tool("reduce", "B.mtx").out), 0)

    def test_convert(self):
        for _, _, matrix in self.each():
            record = self.record("convert", "A.mtx", "-o", "B.mtx", "--force")
            self.assertEqual((record["inputs"][0]["entries"], record["output"]["entries"]), (matrix.nnz, matrix.nnz))
            found = scipy.sparse.coo_matrix(scipy.io.mmread(self.path("B.mtx")))
            self.assertEqual(found.nnz, matrix.nnz)
            np.testing.assert_array_equal(found.toarray(), matrix.toarray())
            dense = self.record("convert", "A.mtx", "-o", "C.mtx", "--force", "--dense")
            self.assertNotIn("structure", dense["output"])
            np.testing.assert_array_equal(scipy.io.mmread(self.path("C.mtx")), matrix.toarray())
            self.assertEqual(record["output"]["hash"], dense["output"]["hash"])

    def test_convert_to_a_type(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 3 0.1\n2 1 -7\n")
        self.run_tool("convert", "A.mtx", "-o", "B.mtx", "-t", "f16")
        self.assertEqual(np.float16(scipy.io.mmread(self.path("B.mtx")).toarray()[0, 2]), np.float16(0.1))
        self.assert_says(self.run_tool("convert", "A.mtx", "-o", "C.mtx", "-t", "i8", code=3), "0.1")
        self.assert_says(self.run_tool("convert", "A.mtx", "-o", "C.mtx", "--memory-limit", "1KiB", code=6), "--dense")
        self.assertFalse(os.path.exists(self.path("C.mtx")))
        write_wide(self.path("W.mtx"))
        self.run_tool("convert", "W.mtx", "-o", "V.mtx")
        with open(self.path("W.mtx")) as before, open(self.path("V.mtx")) as after:
            self.assertEqual(after.read(), before.read().replace("1.5", "1.5"))

    def findings(self, x, y, *options, code):
        """Of two files, both sparse, and with each of them dense: the same."""
        found = [self.record("compare", a, b, *options, code=code) for a, b in ((x, y), (x, f"dense-{y}"), (f"dense-{x}", y), (f"dense-{x}", f"dense-{y}"))]
        kept = [{key: value for key, value in record.items() if key not in ("x", "y", "run_id", "processor", "working_folder", "command_line", "origin", "started", "time", "host", "stages_ms")} for record in found]
        for record in kept:  # sums in another order
            for norms in record["norms"].values():
                for name in norms:
                    norms[name] = None if norms[name] is None else float(f"{norms[name]:.12g}")
        for other in kept[1:]:
            self.assertEqual(other, kept[0])
        return found[0]

    def test_compare(self):
        """The same findings as of dense matrices: counts, places, norms, records."""
        rng = np.random.default_rng(3)
        for name, header, matrix in self.each():
            self.run_tool("convert", "A.mtx", "-o", "dense-A.mtx", "--dense", "--force")
            self.run_tool("compare", "A.mtx", "dense-A.mtx")
            other = scipy.sparse.lil_matrix(matrix)
            kept = scipy.sparse.coo_matrix(matrix)
            at = rng.integers(0, kept.nnz, 3)
            other[kept.row[at[0]], kept.col[at[0]]] = 5  # another value
            other[kept.row[at[1]], kept.col[at[1]]] = 0  # none
            other[matrix.shape[0] - 1, matrix.shape[1] - 1] += 3
            other[0, 0] += 1
            write_coordinates(self.path("B.mtx"), header.replace("hermitian", "general").replace("pattern", "integer"), other.tocoo())
            self.run_tool("convert", "B.mtx", "-o", "dense-B.mtx", "--dense", "--force")
            found = self.findings("A.mtx", "B.mtx", "--max-differences", "3", code=1)
            apart = np.argwhere(matrix.toarray() != other.toarray())
            self.assertEqual(found["differing"] if "differing" in found else found["findings"]["differing"], len(apart), found)
            self.findings("A.mtx", "B.mtx", "--rtol", "0.5", "--ulp", "3", code=None)

    def test_compare_transposed_and_wide(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n3 4 3\n1 4 nan\n3 2 -2\n2 2 0\n")
        self.run_tool("transpose", "A.mtx", "-o", "T.mtx")
        self.run_tool("compare", "A.mtx", "T.mtx", "--transposed")
        self.run_tool("compare", "A.mtx", "T.mtx", "--transposed", "--nan", "differ", code=1)
        self.run_tool("compare", "A.mtx", "T.mtx", code=8)
        self.run_tool("compare", "A.mtx", "A.mtx", "--save-mismatch", "M.npy")
        self.assertEqual(np.load(self.path("M.npy")).sum(), 0)
        write_wide(self.path("W.mtx"))
        with open(self.path("W.mtx")) as file:
            text = file.read()
        self.write("X.mtx", text.replace(f"3 {2**31} 4", "3 1 4"))
        found = self.record("compare", "W.mtx", "X.mtx", code=1)
        self.assertIn(str(2**31 - 1), str(found))

    def test_statistics(self):
        """Those of the dense matrix."""
        for _, header, matrix in self.each():
            self.run_tool("convert", "A.mtx", "-o", "dense-A.npy", "--force")
            sparse, dense = (self.run_tool("info", file, "--stats", "--json").json()["matrices"][0] for file in ("A.mtx", "dense-A.npy"))
            self.assertEqual(sparse["hash"], dense["hash"])
            for name, value in dense["statistics"].items():
                if isinstance(value, float):
                    self.assertAlmostEqual(sparse["statistics"][name], value, delta=1e-12 * abs(value))
                else:
                    self.assertEqual(sparse["statistics"][name], value, name)
            if header.endswith("hermitian"):
                self.assertTrue(sparse["statistics"]["hermitian"], sparse)
        for symmetry, body in (("symmetric", "3 3 2\n2 1 4\n3 3 2\n"), ("skew-symmetric", "3 3 1\n2 1 4\n")):
            self.write("A.mtx", f"%%MatrixMarket matrix coordinate real {symmetry}\n{body}")
            self.assertIn(symmetry, self.run_tool("info", "A.mtx", "--stats").out)
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 2\n2 1 4\n3 3 2\n")
        self.assertIn("general", self.run_tool("info", "A.mtx", "--stats").out)
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n3000000 3000000 2\n2 1 4\n1 2 4\n")
        found = self.run_tool("info", "A.mtx", "--stats", "--json").json()["matrices"][0]["statistics"]
        self.assertTrue(found["symmetric"])
        write_wide(self.path("A.mtx"))
        found = self.run_tool("info", "A.mtx", "--stats", "--memory-limit", "64MiB", "--json").json()["matrices"][0]["statistics"]
        self.assertEqual((found["nonzeros"], found["smallest"], found["largest"]), (4, -2, 8))
        self.assertEqual((found["one_norm"], found["infinity_norm"], found["frobenius_norm"]), (8, 12, math.sqrt(86.25)))

    def test_norms_of_many_entries(self):
        """Added up by shares, and of values whose squares pass what a double holds."""
        rng = np.random.default_rng(3)
        matrix = scipy.sparse.random(500, 40, density=0.6, random_state=2, format="csr")
        for scale in (1, 1e170, 1e-170):
            matrix.data = scale * rng.normal(size=matrix.nnz)
            matrix.data[::50] = 0
            scipy.io.mmwrite(self.path("A.mtx"), matrix, precision=17)
            for threads in ("1", "2", "7"):
                found = self.run_tool("info", "A.mtx", "--stats", "--threads", threads, "--json").json()["matrices"][0]["statistics"]
                sizes = abs(matrix.toarray())
                for name, expected in (("one_norm", sizes.sum(axis=0).max()), ("infinity_norm", sizes.sum(axis=1).max()),
                                       ("frobenius_norm", scale * np.linalg.norm(sizes / scale))):
                    self.assertAlmostEqual(found[name] / expected, 1, delta=1e-13)
                self.assertEqual((found["smallest"], found["largest"], found["nonzeros"]), (matrix.data.min(), matrix.data.max(), np.count_nonzero(matrix.data)))

    def test_multiply(self):
        """Each kind by dense matrices from both sides, and by its own transpose; exact, as numbers are whole."""
        for name, _, matrix in self.each():
            numbers = matrix.data if matrix.data.dtype.kind == "i" else np.rint(8 * matrix.data)
            matrix = scipy.sparse.csr_matrix(scipy.sparse.coo_matrix((numbers, (matrix.row, matrix.col)), matrix.shape))
            scipy.sparse.save_npz(self.path("A.npz"), matrix)
            kind = matrix.dtype if matrix.dtype.kind in "fc" else np.dtype("i4")
            names = {"f": "f64", "c": "c128", "i": "i32"}
            rows, columns = matrix.shape
            left, right = (np.rint(9 * np.sin(np.arange(m * n))).reshape(m, n).astype(kind) for m, n in ((5, rows), (columns, 6)))
            np.save(self.path("L.npy"), left)
            np.save(self.path("R.npy"), right)
            for words, expected in ((("A.npz", "R.npy"), matrix @ right), (("L.npy", "A.npz"), left @ matrix.toarray()),
                                    (("A.npz", "L.npy", "--transpose-a", "--transpose-b"), matrix.T @ left.T)):
                with self.subTest(name, words=words):
                    record = self.record("multiply", *words, "-t", names[kind.kind], "-o", "C.npy", "--force")
                    self.assertEqual(record["verification"]["verdict"], "passed")
                    np.testing.assert_array_equal(np.load(self.path("C.npy")), expected)
            ones = scipy.sparse.csr_matrix((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
            for level in ("expand", "hash", "binned"):
                with self.subTest(name, level=level):
                    record = self.record("multiply", "A.npz", "A.npz", "--transpose-b", "-t", names[kind.kind], "-o", "C.npz", "--force", "--level", level)
                    found = scipy.sparse.load_npz(self.path("C.npz"))
                    np.testing.assert_array_equal(found.toarray(), (matrix @ matrix.T).toarray())
                    self.assertEqual((record["verification"]["verdict"], found.nnz), ("passed", (ones @ ones.T).nnz))
                    meetings = np.square(np.bincount(matrix.indices, minlength=columns), dtype=int).sum()
                    self.assertEqual(record["kernel_flops"], (8 if kind.kind == "c" else 2) * meetings)

    def test_verify_a_transpose(self):
        """Each fault that a transpose may have, and none that it has not."""
        for _, _, matrix in self.each():
            self.run_tool("transpose", "A.mtx", "-o", "B.mtx", "--force")
            record = self.record("verify", "transpose", "A.mtx", "B.mtx")
            self.assertEqual(record["result"]["structure"], "sparse")
            with open(self.path("B.mtx")) as file:
                head, size, *lines = file.read().splitlines()
            rows, columns, count = map(int, size.split())
            wrong = {"without entries": lines[:0], "the last entry lost": lines[:-1] if matrix.toarray().any() else None}
            for at, line in enumerate(lines):
                row, column, *value = line.split()
                if not any(float(number) for number in value):
                    continue
                free = [c for c in range(1, columns + 1) if matrix.toarray()[c - 1, int(row) - 1] == 0]
                if free:
                    wrong["an entry moved by a column"] = lines[:at] + [" ".join([row, str(free[0]), *value])] + lines[at + 1:]
                wrong["another value"] = lines[:at] + [" ".join([row, column, str(float(value[0]) * 2 + 1), *value[1:]])] + lines[at + 1:]
                wrong["a duplicate"] = lines + [line]
                wrong["one lost"] = lines[:at] + lines[at + 1:]
            wrong.pop("the last entry lost")
            for name, body in wrong.items():
                with self.subTest(name):
                    self.write("C.mtx", "\n".join([head.replace("integer", "real"), f"{rows} {columns} {len(body)}", *body]) + "\n")
                    found = self.record("verify", "transpose", "A.mtx", "C.mtx", "-t", "c128" if "complex" in head else "f64", code=1)
                    self.run_tool("convert", "C.mtx", "-o", "C.npy", "--force")
                    dense = self.record("verify", "transpose", "A.mtx", "C.npy", "-t", "c128" if "complex" in head else "f64", code=1)
                    if found["verification"]["mismatches"] == 1:  # of several, the worst is any that is so
                        self.assertEqual(found["verification"], dense["verification"])
                    self.assertEqual(found["verification"]["mismatches"], dense["verification"]["mismatches"])

    def test_generate(self):
        """As many entries as were asked for, where they were, the same every time, and the same dense."""
        for pattern in ["uniform", "banded", "power-law"]:
            for kind in ["f64", "i8", "c64"]:
                asked = ["generate", "sparse", "--pattern", pattern, "--entries", "300", "--shape", "90x70", "-t", kind, "--seed", "4"]
                record = self.record(*asked, "-o", "A.mtx", "--force")
                found = scipy.io.mmread(self.path("A.mtx"))
                self.assertTrue(scipy.sparse.issparse(found))
                self.assertEqual((found.shape, found.nnz, record["output"]["entries"]), ((90, 70), 300, 300))
                self.assertTrue((found.data != 0).all())
                self.run_tool("info", "A.mtx", "--stats")
                dense = self.record(*asked, "-o", "A.npy", "--force")
                self.assertEqual(dense["output"]["hash"], record["output"]["hash"])
                other = self.record(*asked[:-1], "5", "-o", "B.mtx", "--force")
                self.assertNotEqual(other["output"]["hash"], record["output"]["hash"])
                counts = np.bincount(found.row, minlength=90)
                if pattern == "uniform":
                    self.assertLessEqual(np.ptp(counts), 1)
                elif pattern == "banded":
                    self.assertLess(abs(found.col - found.row * 70 / 90).max(), 6)
                else:
                    self.assertGreater(counts.max(), 10 * np.median(counts))
        self.run_tool("generate", "sparse", "--entries", "1000", "--shape", "10000000x10000000", "-o", "L.mtx")
        refused = self.run_tool("generate", "sparse", "--pattern", "power-law", "--density", "0.9", "--shape", "40x10", "-o", "D.mtx", code=2)
        self.assert_says(refused, "its fullest row would have 48 or more of 10 columns")  # 360 · 48 / (40 · 9)
        for wrong in (["--entries", "401"], ["--entries", "-1"], ["--entries", "x"], ["--entries", "1", "--density", "0.1"], ["--pattern", "ring"]):
            self.run_tool("generate", "sparse", "--shape", "40x10", "-o", "E.mtx", *wrong, code=2)
        self.run_tool("generate", "sparse", "--entries", "0", "--pattern", "power-law", "--shape", "0x10", "-o", "Z.mtx")

    def test_layouts_of_other_verbs(self):
        """`convert` and `generate` write what SciPy makes of the arrays; of what is dense there is no layout."""
        for name, header, matrix in self.each():
            if matrix.dtype != float or header.endswith("hermitian"):
                continue
            for layout in ("anndata", "matlab", "binsparse"):
                self.run_tool("convert", "A.mtx", "-o", f"{layout}.h5", "--sparse-layout", layout, "--force")
                self.run_tool("compare", "A.mtx", f"{layout}.h5")
                structure = self.run_tool("info", f"{layout}.h5", "--json").json()["matrices"][0]["structure"]
                self.assertEqual(structure, "sparse", (name, layout))
        self.run_tool("generate", "sparse", "--shape", "50x40", "--entries", "70", "--pattern", "uniform", "-t", "f64", "-o", "G.h5", "--sparse-layout",
                      "anndata")
        self.run_tool("generate", "sparse", "--shape", "50x40", "--entries", "70", "--pattern", "uniform", "-t", "f64", "-o", "G.mtx")
        self.run_tool("compare", "G.h5", "G.mtx")
        with h5py.File(self.path("G.h5")) as file:
            found = scipy.sparse.csr_matrix((file["A/data"], file["A/indices"], file["A/indptr"]), shape=tuple(file["A"].attrs["shape"]))
        np.testing.assert_array_equal(found.toarray(), scipy.io.mmread(self.path("G.mtx")).toarray())
        np.save(self.path("D.npy"), np.eye(3))
        for words in (("generate", "uniform", "--shape", "3x3", "-o", "N.h5"), ("convert", "D.npy", "-o", "N.h5"), ("convert", "A.mtx", "-o", "N.mtx"),
                      ("convert", "A.mtx", "--dense", "-o", "N.h5")):
            self.assertIn("--sparse-layout", self.run_tool(*words, "--sparse-layout", "anndata", code=2).err)
        self.assertFalse(os.path.exists(self.path("N.h5")))

    def test_a_dry_run_refuses_what_the_run_would(self):
        self.write("A.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 2 1.5\n")
        with h5py.File(self.path("out.h5"), "w") as file:
            file["A"] = np.eye(3)
        for code, words in ((5, ("-o", "out.mat", "--sparse-layout", "matlab", "-t", "f32")), (4, ("-o", "out.h5:/A", "--sparse-layout", "anndata")),
                            (4, ("-o", "out.h5:/A/B", "--sparse-layout", "binsparse"))):
            said = [self.run_tool("transpose", "A.mtx", *words, *dry, code=code).err for dry in ([], ["--dry-run"])]
            self.assertEqual(said[0], said[1])
        self.run_tool("transpose", "A.mtx", "-o", "out.h5:/B", "--sparse-layout", "anndata", "--dry-run")

    def test_sparse_is_asked_for(self):
        """Zeros of a dense matrix are left out, those with a sign and stored ones are not; what is written is that of SciPy."""
        rng = np.random.default_rng(9)
        dense = np.rint(3 * rng.normal(size=(70, 41))) * (rng.random((70, 41)) < 0.2)
        dense[0, 0], dense[5] = -0.0, 0
        kept = np.count_nonzero(dense.view(np.int64))
        np.save(self.path("D.npy"), dense)
        with h5py.File(self.path("D.h5"), "w") as file:
            file.create_dataset("D", data=dense, chunks=(7, 11))
        for source in ("D.npy", "D.h5"):
            told = self.run_tool("convert", source, "-o", "S.mtx", "--sparse", "--force").err
            self.assertIn(f"{dense.size - kept} of {dense.size} elements are zero, and are left out", told)
            found = scipy.io.mmread(self.path("S.mtx"))
            self.assertEqual(found.nnz, kept)
            placed = np.zeros(dense.shape)
            placed[found.row, found.col] = found.data  # adding them to zeros would lose their signs
            np.testing.assert_array_equal(placed.view(np.int64), dense.view(np.int64))
            record = self.record("transpose", source, "-o", "T.mtx", "--sparse", "--force")
            self.assertEqual((record["output"]["entries"], record["inputs"][0]["structure"]), (kept, "sparse"))
            np.testing.assert_array_equal(scipy.io.mmread(self.path("T.mtx")).toarray(), dense.T)
        self.assertEqual(record["output"]["hash"], self.record("transpose", "D.npy", "-o", "T.npy")["output"]["hash"])
        self.run_tool("transpose", "D.npy", "-o", "T.h5", "--sparse")
        with h5py.File(self.path("T.h5")) as file:
            self.assertEqual(file["A"].attrs["encoding-type"], "csr_matrix")
        self.run_tool("convert", "D.npy", "-o", "D.mat", "--sparse")
        with h5py.File(self.path("D.mat")) as file:
            self.assertEqual(file["A"].attrs["MATLAB_sparse"], 70)
        self.run_tool("compare", "D.mat", "D.npy")
        self.run_tool("multiply", "D.npy", "S.mtx", "--transpose-a", "-o", "P.mtx", "--sparse")
        np.testing.assert_array_equal(scipy.io.mmread(self.path("P.mtx")).toarray(), dense.T @ dense)

    def test_sparse_is_asked_for_in_vain(self):
        np.save(self.path("D.npy"), np.eye(3))
        for words in (("transpose", "D.npy", "-o", "T.npy"), ("convert", "D.npy", "-o", "T.npy"), ("reduce", "D.npy", "--op", "sum")):
            self.assertIn("--sparse asks for", self.run_tool(*words, "--sparse", code=2).err)
        self.run_tool("transpose", "D.npy", "--sparse", "--dense", code=2)
        self.assertFalse(os.path.exists(self.path("T.npy")))

    def test_without_an_output(self):
        """What is sparse is computed so where nothing is written, too."""
        for name, _, _ in self.each():
            record = self.record("transpose", "A.mtx")
            self.assertEqual((record["inputs"][0]["structure"], record["level"], record["verification"]["verdict"]), ("sparse", "blocked", "passed"), name)
            product = self.record("multiply", "A.mtx", "A.mtx", "--transpose-b")
            self.assertEqual((product["level"], product["verification"]["verdict"]), ("binned", "passed"), name)
        self.assertNotIn("structure", self.record("transpose", "A.mtx", "--dense")["inputs"][0])

    def test_rows_or_columns_beyond_memory(self):
        """Of a matrix without elements, and of more elements than 64 bits count."""
        self.write("none.mtx", "%%MatrixMarket matrix coordinate real general\n0 1125899906842624 0\n")
        self.run_tool("transpose", "none.mtx", "-o", "across.mtx")
        with open(self.path("across.mtx")) as file:
            self.assertIn("\n1125899906842624 0", file.read())
        self.run_tool("transpose", "across.mtx", "-o", "back.mtx")
        self.run_tool("compare", "none.mtx", "back.mtx")
        self.write("tall.mtx", "%%MatrixMarket matrix coordinate real general\n1125899906842624 0 0\n")
        for words in (("transpose", "tall.mtx", "-o", "low.mtx"), ("convert", "tall.mtx", "-o", "tall2.mtx")):
            self.run_tool(*words)
        most = 2**63 - 1
        self.write("most.mtx", f"%%MatrixMarket matrix coordinate real general\n3 {most} 2\n1 1 2\n3 {most} 4\n")
        self.write("other.mtx", f"%%MatrixMarket matrix coordinate real general\n3 {most} 2\n1 1 2\n3 {most} 5\n")
        self.run_tool("compare", "most.mtx", "most.mtx")
        said = self.run_tool("compare", "most.mtx", "other.mtx", code=1)
        self.assertIn(f"1 of {3 * most} elements", said.out)
        found = self.run_tool("compare", "most.mtx", "other.mtx", "--json", code=1).json()
        self.assertEqual((found["elements"], found["equal"], found["differing"]), (None, None, 1))

    def test_batches(self):
        write_wide(self.path("W.mtx"))
        self.write("jobs.txt", "reduce W.mtx --axis rows -o R.npy\nconvert W.mtx -o X.mtx\n"
                               "generate sparse --entries 5 --shape 9x9 -o G.mtx\n")
        self.run_tool("batch", "jobs.txt", "--log", "log.jsonl")
        self.assert_says(self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", "--resume"), "3 done before")
        np.testing.assert_array_equal(np.load(self.path("R.npy")), [[-0.5], [0], [12]])

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)


if __name__ == "__main__":
    unittest.main()
