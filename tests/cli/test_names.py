"""Names from files are not trusted: what a dataset, an attribute or a class is called forges no line of output and
steers no terminal, and logs are UTF-8 whatever names hold."""

import csv
import json
import os
import subprocess
import unittest

import h5py
import numpy as np

from harness import Case

EVIL = b"A\ngpumat: wrote B.h5\x1b[2J\r\x9b31m\xff\xe2\x80\xae"
STEERING = "".join(map(chr, (*range(0x7f, 0xa0), 0x61c, 0x200e, 0x200f, *range(0x2028, 0x202f), *range(0x2066, 0x206a))))
SHOWN = r"A\ngpumat: wrote B.h5\x1b[2J\x0d\x9b31m\xff\u{202e}"


def texts_in(value):
    """The strings that an object of JSON holds."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in texts_in(part)]


class NamesCase(Case):
    def setUp(self):
        super().setUp()
        self.matrix = np.arange(12.0).reshape(3, 4)

    def write(self, path, names=(EVIL,), attributes=(), matrix=None):
        matrix = self.matrix if matrix is None else matrix
        with h5py.File(self.path(path), "w") as file:
            for name in names:
                space = h5py.h5s.create_simple(matrix.shape)
                dataset = h5py.h5d.create(file.id, name, h5py.h5t.NATIVE_DOUBLE, space)
                dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(matrix))
                for key, value in attributes:
                    kind = h5py.h5t.C_S1.copy()
                    kind.set_size(len(value) + 1)
                    attribute = h5py.h5a.create(dataset, key, kind, h5py.h5s.create(h5py.h5s.SCALAR))
                    attribute.write(np.array(value, f"S{len(value) + 1}"))

    def assert_harmless(self, result, lines=None):
        """Text in whole lines of ours: no control characters, all of it UTF-8."""
        for stream in (result.out_bytes, result.err_bytes):
            text = stream.decode("utf-8")
            for character in text:
                self.assertTrue(character == "\n" or ord(character) >= 0x20, repr(text))
                self.assertNotIn(character, STEERING, repr(text))
        for line in result.err.splitlines():
            self.assertTrue(line.startswith("gpumat: "), result.err)
            self.assertNotRegex(line, "^gpumat: wrote B.h5")
        if lines is not None:
            self.assertEqual(len(result.out.splitlines()), lines, result.out)


class Datasets(NamesCase):
    def test_tables(self):
        self.write("a.h5")
        for statistics, lines in (([], 2), (["--stats"], 5)):
            result = self.run_tool("info", "a.h5", *statistics)
            self.assert_harmless(result)
            self.assertIn(SHOWN, result.out)
            self.assertGreaterEqual(len(result.out.splitlines()), 2)

    def test_every_verb(self):
        self.write("a.h5")
        self.write("b.h5", matrix=self.matrix + 1)
        self.write("t.h5", matrix=self.matrix.T)
        self.write("square.h5", matrix=self.matrix @ self.matrix.T)
        for arguments, code in ((["transpose", "a.h5", "-v"], 0), (["transpose", "a.h5", "-o", "o.h5", "-v"], 0),
                                (["transpose", "a.h5", "--dry-run", "-v"], 0),
                                (["multiply", "a.h5", "t.h5", "-v"], 0), (["multiply", "a.h5", "b.h5"], 3),
                                (["compare", "a.h5", "a.h5", "-v"], 0), (["compare", "a.h5", "b.h5"], 1),
                                (["compare", "a.h5", "t.h5"], 8),
                                (["verify", "transpose", "a.h5", "t.h5", "-v"], 0),
                                (["verify", "transpose", "b.h5", "t.h5"], 1),
                                (["verify", "transpose", "a.h5", "b.h5"], 8),
                                (["verify", "multiply", "a.h5", "t.h5", "square.h5", "-v"], 0),
                                (["transpose", "a.h5", "-t", "u8", "--memory-limit", "1"], 6),
                                (["transpose", "b.h5", "-o", "b.h5"], 4)):
            with self.subTest(arguments=arguments):
                self.assert_harmless(self.run_tool(*arguments, code=code))

    def test_lists_of_names(self):
        self.write("a.h5", [EVIL, EVIL + b"2", b"gpumat: x"])
        result = self.run_tool("transpose", "a.h5", code=3)
        self.assert_harmless(result)
        self.assertEqual(len(result.err.splitlines()), 1)
        self.assertIn(SHOWN, result.err)

    def test_names_that_are_asked_for(self):
        self.write("a.h5")
        for name in (EVIL, b"/none" + EVIL):
            result = self.run_tool("transpose", b"a.h5:/" + name, code=None)
            self.assert_harmless(result)

    def test_paths(self):
        path = b"p\x1b[31m\n\xff.h5"
        self.write("a.h5")
        os.rename(self.path("a.h5"), os.path.join(os.fsencode(self.folder), path))
        for arguments in (["info", path], ["transpose", path, "-v"], ["transpose", b"none" + path],
                          ["transpose", path, "-o", path], ["compare", path, path], [b"\x1b[1m"], ["transpose", b"--\x1b"]):
            self.assert_harmless(self.run_tool(*arguments, code=None))

    def test_words_of_any_language_stay(self):
        with h5py.File(self.path("a.h5"), "w") as file:
            file["Größe â 行列 ∑ 🙂"] = self.matrix
        for options in ([], ["--json"]):
            self.assertIn("Größe â 行列 ∑ 🙂", self.run_tool("info", "a.h5", *options).out)

    def test_json(self):
        """It says the same names, and a terminal shows it as it is."""
        name = f"A{STEERING}â„¢Ã€z"
        self.write(f"a{name}.h5", [name.encode()])
        path = f"a{name}.h5"
        for arguments, code in ((["info", path], 0), (["transpose", path], 0), (["compare", path, path], 0),
                                (["convert", path, "-o", f"c{name}.h5"], 0), (["verify", "transpose", path, path], 8)):
            with self.subTest(arguments=arguments):
                result = self.run_tool(*arguments, "--json", "-q", code=code)
                self.assert_harmless(result)
                self.assertIn(path, texts_in(json.loads(result.out_bytes)))
                self.assertIn(f"/{name}", texts_in(json.loads(result.out_bytes)))

    def test_json_of_a_command_line_that_is_no_utf8(self):
        name = b"c\xff" + STEERING.encode()
        with open(os.path.join(os.fsencode(self.folder), name), "wb"):
            pass
        result = self.run_tool("probe", "occupancy", "--compute-capability", "8.6", "--block", "256", "--registers", "40",
                               "--json", "--config", name)
        self.assert_harmless(result)
        words = subprocess.run(["bash", "-c", "printf '%s\\0' " + result.json()["command_line"]], check=True, capture_output=True).stdout
        self.assertEqual(words.split(b"\0")[-2], name)  # a shell takes back the bytes

    def test_the_path_of_the_cache(self):
        for options in ([], ["--json"]):
            result = self.run_tool("tune", "--show", *options, "-d", "cpu", env={"GPUMAT_CACHE": f"x\x1b[31m{STEERING}"})
            self.assert_harmless(result)
            self.assertIn("x\\", result.out)


class Attributes(NamesCase):
    def test_names_and_classes(self):
        self.write("a.h5", [b"A"], [(EVIL, b"x"), (b"MATLAB_class", b"double\x1b[2J\ngpumat: wrote")])
        for arguments in (["info", "a.h5"], ["transpose", "a.h5", "-v"], ["transpose", "a.h5", "-o", "o.h5", "-v"],
                          ["transpose", "a.h5", "-o", "o.mtx"], ["convert", "a.h5", "-o", "c.h5", "-v"]):
            with self.subTest(arguments=arguments):
                self.assert_harmless(self.run_tool(*arguments, code=None))
        self.write("a.h5", [b"A"], [(EVIL, b"x"), (b"MATLAB_class", b"double")])
        for arguments in (["transpose", "a.h5", "-o", "o.h5", "-v"], ["transpose", "a.h5", "-o", "o.mtx", "-v"]):
            self.assert_harmless(self.run_tool(*arguments, code=0))


class Logs(NamesCase):
    def test_csv_is_utf8_in_every_column(self):
        """The paths of input, output and log, the dataset, the command line, the error."""
        folder = os.fsencode(self.folder)
        self.write("a.h5")
        path = b"in\xff\xe2\x80.h5"
        os.rename(self.path("a.h5"), os.path.join(folder, path))
        for output, code in ((b"out\xfe.h5", 0), (b"none\xfe/out.h5", 4)):
            self.run_tool("transpose", path, "-o", output, "--log", "log.csv", code=code)
        with open(self.path("log.csv"), "rb") as file:
            text = file.read().decode("utf-8")  # throws where it is none
        rows = list(csv.DictReader(text.splitlines(keepends=True)))
        self.assertEqual(len(rows), 2)
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        self.assertEqual(rows[0]["inputs.0.path"], "in\ufffd\ufffd.h5")
        self.assertEqual(rows[0]["output.path"], "out\ufffd.h5")
        self.assertIn("none\ufffd/out.h5", rows[1]["error"])


if __name__ == "__main__":
    unittest.main()
