"""Files as other programs write them: what has one meaning is read, and what is of another format is named."""

import gzip
import io
import subprocess
import sys
import tarfile
import unittest
import zipfile

import h5py
import numpy as np
import scipy.io
import scipy.sparse

import harness
from harness import Case, cases, write_h5

VALUES = np.array([[1.5, -2, 3], [0, 25, -0.125]])


def read_h5(path):
    return harness.read_h5(path)[1]


class MatrixMarket(Case):
    """Deviations from the format; tests/data/lenient has one of each kind."""

    TEXT = "%MatrixMarket matrix array real general\n% made by hand\n2 1\n1.5D+00\n% between\n-2\n"

    def put(self, text, name="in.mtx"):
        with open(self.path(name), "wb") as file:
            file.write(text.encode())

    def test_read_and_told_only_where_asked(self):
        self.put(self.TEXT)
        plain = self.run_tool("transpose", "in.mtx", "-o", "out.h5")
        self.assertNotIn("--strict", plain.err)
        np.testing.assert_array_equal(read_h5(self.path("out.h5")), [[1.5, -2]])
        told = self.run_tool("transpose", "in.mtx", "-v").err
        for words in ("a banner with one %", "comments between the values", "exponents with the letter D"):
            self.assertEqual(told.count(f"in.mtx: has {words} (--strict refuses this)"), 1, told)

    def test_every_command_that_reads_can_refuse(self):
        self.put(self.TEXT)
        write_h5(self.path("good.h5"), np.array([[1.5], [-2]]))
        for command in ("transpose in.mtx", "reduce in.mtx", "info in.mtx", "convert in.mtx -o out.h5", "compare in.mtx good.h5",
                        "compare good.h5 in.mtx", "verify transpose in.mtx good.h5", "multiply in.mtx in.mtx --transpose-b"):
            with self.subTest(command):
                result = self.run_tool(*command.split(), "--strict", code=3)
                self.assert_says(result, "in.mtx:1:1: found '%MatrixMarket', expected '%%MatrixMarket'")
        self.run_tool("compare", "in.mtx", "good.h5")

    def test_a_job_of_a_batch_can_refuse(self):
        self.put(self.TEXT)
        jobs = b"transpose in.mtx -o a.h5\ntranspose in.mtx -o b.h5 --strict\n"
        self.assert_says(self.run_tool("batch", "-", stdin=jobs, code=3), "in.mtx:1:1")
        np.testing.assert_array_equal(read_h5(self.path("a.h5")), [[1.5, -2]])

    def test_what_cannot_be_seen_is_shown_in_batch_files(self):
        for jobs, words in ((b"\xef\xbb\xbftranspose in.mtx", "\\u{feff}transpose' is no command"),
                            (b"transpose in.mtx\rtranspose in.mtx", "the control character \\x0d at byte 17")):
            self.assert_says(self.run_tool("batch", "-", stdin=jobs, code=2), words)

    def test_through_a_pipe(self):
        for text in (self.TEXT, self.TEXT.replace("\n", "\r"), "\ufeff\n" + self.TEXT):
            result = self.run_tool("transpose", "-", "-o", "out.h5", "--force", stdin=text.encode())
            np.testing.assert_array_equal(read_h5(self.path("out.h5")), [[1.5, -2]], str(result))

    def test_random_texts_against_scipy(self):
        """What SciPy wrote, with comments, other exponents, other line ends and mirrored entries put in."""
        random = np.random.default_rng(7)
        for trial in range(12):
            rows, cols = random.integers(1, 40, 2)
            matrix = scipy.sparse.random(rows, rows if trial % 2 else cols, 0.3, random_state=trial, format="coo")
            if trial % 2:
                matrix = scipy.sparse.coo_matrix(scipy.sparse.tril(matrix + matrix.T))
            stream = io.BytesIO()
            scipy.io.mmwrite(stream, matrix, symmetry="general", precision=17)
            head, *lines = stream.getvalue().decode().splitlines()
            size = next(i for i, line in enumerate(lines) if not line.startswith("%"))
            body = []
            expected = matrix.toarray()
            for line in lines[size + 1:]:
                row, col, value = line.split()
                if trial % 2 and random.random() < 0.5:
                    row, col = col, row
                body.append(f"{row} {col} {value.replace('e', 'D') if 'e' in value else value + 'D0'}")
                if random.random() < 0.3:
                    body.append("%" + "1 1 1 " * random.integers(4))
            if trial % 2:
                head = head.replace("general", "symmetric")
                expected = expected + np.tril(expected, -1).T
            end = ["\n", "\r\n", "\r"][trial % 3]
            self.put(end.join([head, *lines[:size + 1], *body, ""]))
            for threads in ("1", "2"):
                self.run_tool("convert", "in.mtx", "-o", "out.h5", "--force", "--threads", threads)
                np.testing.assert_array_equal(read_h5(self.path("out.h5")), expected)

    def test_pairs_on_both_sides_of_a_pipe(self):
        both = "%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 4\n1 3 5\n"
        self.put(both)
        self.run_tool("convert", "in.mtx", "-o", "out.h5")
        np.testing.assert_array_equal(read_h5(self.path("out.h5")), [[0, 4, 5], [4, 0, 0], [5, 0, 0]])
        self.assert_says(self.run_tool("convert", "-", "-o", "out2.h5", stdin=both.encode(), code=3),
                         "standard input: found entries on both sides of the diagonal", "expected a file")

    def test_beyond_64_bits_with_a_sign(self):
        self.put("%%MatrixMarket matrix array integer general\n2 1\n1\n9223372036854775808\n")
        self.assert_says(self.run_tool("reduce", "in.mtx", code=3), "in.mtx:4:1", "(u64 can: -t u64)")
        self.assertEqual(int(self.run_tool("reduce", "in.mtx", "-t", "u64").out), 2**63 + 1)


def archive(kind):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=kind) as file:
        file.addfile(tarfile.TarInfo("A/A.mtx"))
    return stream.getvalue()


def zip_file():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("a", "b")
    return stream.getvalue()


def written_by(write, values):
    stream = io.BytesIO()
    write(stream, values)
    return stream.getvalue()


HARWELL_BOEING = f"{'title':72}{'key':8}\n" + f"{4:14}{1:14}{1:14}{2:14}{0:14}\n" + f"{'RUA':14}{2:14}{2:14}{2:14}{0:14}\n(3I14) (2I14) (2D20.12)\n"
FOREIGN = [
    ("a.mat", written_by(scipy.io.savemat, {"A": VALUES}), "a MATLAB 5 file; save it with -v7.3"),
    ("a.csv", b"1,2\n3,4\n", "text in columns (CSV)"), ("a.txt", b"x;y\r\n1;2\r\n", "text in columns (CSV)"),
    ("a.tsv", b"1\t2\n3\t4\n", "text in columns (CSV)"), ("a.nc", b"CDF\x01" + bytes(28), "a netCDF-3 file; nccopy -k nc4"),
    ("b.nc", b"CDF\x02" + bytes(28), "a netCDF-3 file"), ("a.rua", HARWELL_BOEING.encode(), "a Harwell-Boeing file"),
    ("a.zip", zip_file(), "a ZIP archive"), ("a.tar", archive("w"), "a tar archive; tar -xf"),
    ("a.tar.gz", archive("w:gz"), "a tar archive compressed by gzip"), ("a.tar.bz2", archive("w:bz2"), "bzip2"),
    ("a.tar.xz", archive("w:xz"), "unxz"), ("a.h5.gz", gzip.compress(b"\x89HDF\r\n\x1a\n" + bytes(99)), "HDF5 compressed by gzip; gunzip"),
    ("a.gz", gzip.compress(b"nothing"), "compressed by gzip, and no Matrix Market"),
]


@cases([(name.replace(".", "_"), name, content, words) for name, content, words in FOREIGN])
class Named(Case):
    def check(self, name, content, words):
        with open(self.path(name), "wb") as file:
            file.write(content)
        self.assert_says(self.run_tool("info", name, code=3), f"{name}: is of no known format (hdf5, matrix-market", words)


class Unnamed(Case):
    def test_other_text_is_not_guessed(self):
        for text in (b"hello\n", b"1 2\n3 4\n", b"\x00\x01\x02,1\n", b"a, b\nc\nd\n"):
            with open(self.path("in.dat"), "wb") as file:
                file.write(text)
            result = self.run_tool("info", "in.dat", code=3)
            self.assert_says(result, "in.dat: is of no known format")
            self.assertNotIn("it is", result.err)


class Hdf5Elements(Case):
    COMPLEX = np.array([[1 + 2j, 3 - 1j], [0, 5]])

    def check_reads(self, expected, dataset="A"):
        self.run_tool("convert", f"in.h5:/{dataset}", "-o", "out.h5", "--force")
        np.testing.assert_array_equal(read_h5(self.path("out.h5")), expected)
        self.run_tool("transpose", f"in.h5:/{dataset}", "-o", "out.h5", "--force")
        np.testing.assert_array_equal(read_h5(self.path("out.h5")), np.transpose(expected))

    def test_enumerations(self):
        plain, chunked, filtered = {}, {"chunks": (2, 2)}, {"chunks": (1, 3), "compression": "gzip", "shuffle": True}
        for base, low, high in (("u1", 0, 255), ("<i4", -7, 2**31 - 1), (">i2", -300, 300), ("<u8", 0, 2**63 - 1), (">i8", -(2**63), 1)):
            kind = h5py.enum_dtype({"LOW": low, "HIGH": high}, base)
            values = np.array([[low, high, low], [high, high, low]], base)
            for storage in (plain, chunked, filtered) if base == ">i2" else (filtered,):
                with self.subTest(base=base, storage=storage):
                    with h5py.File(self.path("in.h5"), "w") as file:
                        file.create_dataset("A", data=values, dtype=kind, **storage)
                        file.create_dataset("unwritten", (2, 2), kind, chunks=(1, 1), fillvalue=high)
                    self.check_reads(values.astype(np.dtype(base).newbyteorder("=")))
                    self.check_reads(np.full((2, 2), high, np.dtype(base).newbyteorder("=")), "unwritten")

    def test_complex_parts_of_other_names(self):
        for names in (("real", "imaginary"), ("Re", "Im"), ("REAL", "IMAG"), ("R", "I"), ("i", "q"), ("I", "Q"), ("Imaginary", "Real")):
            swapped = names[0] == "Imaginary"
            kinds = (("<f4", "c8"), (">f8", "c16"), ("i1", "c8"), ("<i2", "c8"), (">i2", "c8"), ("<i4", "c16"), (">u4", "c16"))
            storages = ({}, {"chunks": (1, 2)}, {"chunks": (2, 1), "compression": "gzip"})
            for kind, delivered in kinds if names[0] == "Re" else kinds[1:3]:
                for storage in storages if names[0] in ("Re", "I") and kind == ">i2" else storages[2:]:
                    if "u" in kind and self.COMPLEX.imag.min() < 0:
                        values = self.COMPLEX.real + 1j * np.abs(self.COMPLEX.imag)
                    else:
                        values = self.COMPLEX
                    parts = np.zeros(values.shape, [(name, kind) for name in names])
                    parts[names[swapped]], parts[names[not swapped]] = values.real, values.imag
                    with h5py.File(self.path("in.h5"), "w") as file:
                        file.create_dataset("A", data=parts, **storage)
                    with self.subTest(names=names, kind=kind, storage=storage):
                        self.run_tool("convert", "in.h5:/A", "-o", "out.h5", "--force")
                        found = read_h5(self.path("out.h5"))
                        self.assertEqual(found.dtype, np.dtype(delivered))
                        np.testing.assert_array_equal(found, values)

    def test_complex_integers_beyond_the_digits_of_f64(self):
        parts = np.array([[(2**53 + 1, 1)]], [("r", "i8"), ("i", "i8")])
        with h5py.File(self.path("in.h5"), "w") as file:
            file["A"] = parts
        self.assert_says(self.run_tool("reduce", "in.h5", code=3), "fit no type exactly", "--type c128")

    def test_arrays_as_rows(self):
        random = np.random.default_rng(3)
        for base in ("<f8", ">f4", "<i2", "u1", "<c16"):
            for rows, width in ((5, 3), (0, 4), (70, 129)) if base == ">f4" else ((5, 3),):
                values = (random.random((rows, width)) * 100).astype(base)
                for storage in ({}, {"chunks": (4,)}, {"chunks": (4,), "compression": "gzip", "shuffle": True}, {"chunks": (2,), "fletcher32": True}):
                    if rows == 0 and storage:
                        continue
                    with self.subTest(base=base, shape=values.shape, storage=storage):
                        with h5py.File(self.path("in.h5"), "w") as file:
                            kind = np.dtype((base, (width,)))
                            dataset = file.create_dataset("A", (rows,), kind, **storage)
                            if rows:
                                dataset[...] = values
                        self.run_tool("convert", "in.h5", "-o", "out.h5", "--force")
                        np.testing.assert_array_equal(read_h5(self.path("out.h5")), values)
                        if rows:
                            self.run_tool("transpose", "in.h5", "-o", "out.h5", "--force", "--memory-limit", "24MiB")
                            np.testing.assert_array_equal(read_h5(self.path("out.h5")), values.T)

    def test_arrays_that_are_no_rows(self):
        for kind, shape in ((np.dtype(("f8", (2, 2))), (3,)), (np.dtype(("f8", (2,))), (3, 2)), (np.dtype(("S3", (2,))), (3,))):
            with h5py.File(self.path("in.h5"), "w") as file:
                file.create_dataset("A", shape, kind)
            self.assert_says(self.run_tool("reduce", "in.h5", code=3), "holds arrays, expected numbers")

    def test_an_attribute_of_a_type_of_a_newer_hdf5(self):
        marker = np.frombuffer(b"gpumat-test-mark", "V16")[0]
        for name, is_plain in (("unit", True), ("MATLAB_class", False)):
            with h5py.File(self.path("in.h5"), "w", libver="earliest") as file:
                file["A"] = VALUES
                file["A"].attrs.create("newer", marker)
                file["A"].attrs[name] = np.bytes_(b"double")
            with open(self.path("in.h5"), "r+b") as file:
                content = file.read()
                at = content.index(b"newer\0") + 8  # the name takes whole eights of bytes; the type follows
                self.assertEqual(content[at], 0x15)  # opaque, of version 1
                file.seek(at)
                file.write(b"\x5b")  # complex, of version 5: HDF5 2.0
            if is_plain:
                self.assertEqual(float(self.run_tool("reduce", "in.h5").out), VALUES.sum())
                result = self.run_tool("convert", "in.h5", "-o", "out.h5", "--force")
                self.assert_says(result, "the result does not keep the attribute list, which cannot be read")
                np.testing.assert_array_equal(read_h5(self.path("out.h5")), VALUES)
            else:  # it may say that its dimensions are reversed
                self.assert_says(self.run_tool("reduce", "in.h5", code=3), "its attribute 'MATLAB_class'")


class Hdf5Virtual(Case):
    def make(self, source, name="piece"):
        layout = h5py.VirtualLayout(VALUES.shape, "f8")
        layout[...] = h5py.VirtualSource(source, name, VALUES.shape)
        with h5py.File(self.path("in.h5"), "w") as file:
            file["piece"] = VALUES
            file["far"] = h5py.ExternalLink("other.h5", "/piece")
            file.create_virtual_dataset("V", layout)

    def test_of_its_own_file(self):
        self.make(".")
        self.run_tool("transpose", "in.h5:/V", "-o", "out.h5")
        np.testing.assert_array_equal(read_h5(self.path("out.h5")), VALUES.T)

    def test_of_others(self):
        with h5py.File(self.path("other.h5"), "w") as file:
            file["piece"] = VALUES
        for source, name in (("other.h5", "piece"), (".", "far")):
            self.make(source, name)
            self.assert_says(self.run_tool("transpose", "in.h5:/V", code=3), "in.h5:/V", "--allow-external")
            self.run_tool("transpose", "in.h5:/V", "--allow-external")

    def test_of_a_virtual_dataset_of_others(self):
        self.make("other.h5")
        layout = h5py.VirtualLayout(VALUES.shape, "f8")
        layout[...] = h5py.VirtualSource(".", "V", VALUES.shape)
        with h5py.File(self.path("in.h5"), "a") as file:
            file.create_virtual_dataset("W", layout)
        self.assert_says(self.run_tool("transpose", "in.h5:/W", code=3), "in.h5:/W", "--allow-external")


class Hdf5Open(Case):
    WRITER = """
import h5py, numpy as np, sys
with h5py.File("in.h5", "w", libver="latest") as file:
    dataset = file.create_dataset("A", (2, 3), "f8", maxshape=(None, 3), chunks=(2, 3))
    dataset[...] = np.arange(6).reshape(2, 3)
    if {swmr}:
        file.swmr_mode = True
    dataset.flush()
    print("ready", flush=True)
    for line in sys.stdin:
        dataset.resize((dataset.shape[0] + 2, 3))
        dataset[-2:] = 9
        dataset.flush()
        print("more", flush=True)
    if not {closes}:
        import os
        file.flush()
        os._exit(0)
"""

    def writer(self, swmr, closes=True):
        process = subprocess.Popen([sys.executable, "-c", self.WRITER.format(swmr=swmr, closes=closes)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, cwd=self.path("."))
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_while_a_swmr_writer_has_it(self):
        process = self.writer(True)
        self.assertEqual(float(self.run_tool("reduce", "in.h5").out), 15)
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"more\n")
        self.assertEqual(float(self.run_tool("reduce", "in.h5").out), 15 + 6 * 9)
        result = self.run_tool("transpose", "in.h5", "-o", "out.h5")
        self.assertNotIn("clear", result.err)
        self.assertEqual(read_h5(self.path("out.h5")).shape, (3, 4))
        process.stdin.close()
        process.wait()
        self.assertEqual(float(self.run_tool("reduce", "in.h5").out), 15 + 6 * 9)

    def test_after_a_writer_that_did_not_close_it(self):
        for swmr in (False, True):
            process = self.writer(swmr, closes=False)
            process.stdin.close()
            process.wait()
            result = self.run_tool("reduce", "in.h5", code=0 if swmr else 3)
            self.assertNotIn("h5clear", result.err)
            if not swmr:
                self.assert_says(result, "a program that writes it has it open, or ended without closing it")


if __name__ == "__main__":
    unittest.main()
