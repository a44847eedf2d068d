"""Pipes between commands: HDF5 and text through them keep elements, types and attributes; nothing is left behind."""

import json
import os
import signal
import subprocess
import unittest

import h5py
import numpy as np

from harness import TYPES, Case, cases, random_bits, random_values, read_h5, snapshot, wait_for, write_any, write_h5


def whole_numbers(shape):
    """Sums and products of these are exact."""
    return np.random.default_rng(5).integers(-9, 10, shape).astype("f8")


class PipeCase(Case):
    def read_file(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def through(self, data, *arguments, **options):
        """What a command makes of what comes in."""
        return self.run_tool(*arguments, stdin=data, **options).out_bytes


@cases([(name, name) for name in TYPES])
class Types(PipeCase):
    def check(self, name):
        """As HDF5 and as text, through several commands."""
        matrix = random_values(name, (37, 53), span=100)
        write_h5(self.path("in.h5"), matrix, name)
        text = self.through(b"", "convert", "in.h5", "-o", "-")
        self.run_tool("transpose", "-", "-o", "text.h5", stdin=text)
        self.assertEqual(read_h5(self.path("text.h5"))[0], name)
        self.assert_same_bits(read_h5(self.path("text.h5"))[1], matrix.T.copy())
        data = self.through(self.read_file("in.h5"), "convert", "--from", "hdf5", "-", "--to", "hdf5", "-o", "-",
                            "--chunk", "16x16", "--deflate", "1")
        self.run_tool("transpose", "--from", "hdf5", "-", "-o", "binary.h5", stdin=data)
        self.assertEqual(read_h5(self.path("binary.h5"))[0], name)
        self.assert_same_bits(read_h5(self.path("binary.h5"))[1], matrix.T.copy())


class TypeComment(PipeCase):
    def info(self, text):
        return self.run_tool("info", "-", "--json", stdin=text.encode()).json()["matrices"][0]["type"]

    def test_is_read_where_it_fits_the_field(self):
        head = "%%MatrixMarket matrix array {} general\n{}1 1\n1{}\n"
        for field, comment, expected in [("real", "f32", "f32"), ("real", "bf16", "bf16"), ("integer", "i8", "i8"),
                                         ("unsigned-integer", "u16", "u16"), ("real", "i8", "f64"), ("integer", "f32", "i64"),
                                         ("real", "magic", "f64"), ("complex", "c64", "c64"), ("complex", "f64", "c128")]:
            text = head.format(field, f"% gpumat_type: {comment}\n", " 0" if field == "complex" else "")
            self.assertEqual(self.info(text), expected, text)
            self.assertEqual(self.info(text.replace("\n", "\r\n")), expected, text)

    def test_values_that_it_cannot_hold_are_refused(self):
        text = "%%MatrixMarket matrix array integer general\n% gpumat_type: i8\n1 1\n300\n"
        self.assert_says(self.run_tool("info", "--stats", "-", stdin=text.encode(), code=3), "300", "i8")

    def test_option_decides(self):
        text = b"%%MatrixMarket matrix array real general\n% gpumat_type: f32\n1 1\n0.1\n"
        self.run_tool("convert", "-", "-t", "f64", "-o", "out.h5", stdin=text)
        self.assertEqual(read_h5(self.path("out.h5"))[1][0, 0], 0.1)


class Hdf5(PipeCase):
    def setUp(self):
        super().setUp()
        self.matrix = random_bits("f64", (60, 41))
        write_h5(self.path("in.h5"), self.matrix, chunks=(16, 16), compression="gzip")

    def test_every_command_reads_it(self):
        data = self.read_file("in.h5")
        listed = self.run_tool("info", "--from", "hdf5", "-", "--stats", "--json", stdin=data).json()["matrices"]
        direct = self.run_tool("info", "in.h5", "--stats", "--json").json()["matrices"]
        self.assertEqual({**listed[0], "path": "in.h5"}, {**direct[0]})
        self.run_tool("compare", "--from", "hdf5", "-", "in.h5", stdin=data)
        self.run_tool("transpose", "--from", "hdf5", "-", "-o", "t.h5", stdin=data)
        self.assert_same_bits(read_h5(self.path("t.h5"))[1], self.matrix.T.copy())
        self.run_tool("verify", "transpose", "--from", "hdf5", "-", "t.h5", stdin=data)

    def test_through_a_named_pipe(self):
        os.mkfifo(self.path("fifo"))
        process = self.start("convert", "--from", "hdf5", "fifo:/A", "-o", "out.h5")
        with open(self.path("fifo"), "wb") as fifo:
            fifo.write(self.read_file("in.h5"))
        self.assertEqual((process.communicate()[1].count(b"wrote"), process.returncode), (1, 0))
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.matrix)

    def test_every_command_reads_a_dataset_of_it(self):
        """Where the word stands makes no difference: before an option, last, as the value of one."""
        write_h5(self.path("in.h5"), self.matrix[:41], dataset="B", mode="a")
        data = self.read_file("in.h5")
        square = self.matrix[:41]
        listed = self.run_tool("info", "-:/B", "--from", "hdf5", "--json", stdin=data).json()["matrices"]
        self.assertEqual([(found["path"], found["dataset"], found["rows"]) for found in listed], [("-", "/B", 41)])
        self.run_tool("convert", "-:/B", "--from", "hdf5", "-o", "b.h5", stdin=data)
        self.assert_same_bits(read_h5(self.path("b.h5"), "B")[1], square)
        self.run_tool("transpose", "--from", "hdf5", "-o", "t.h5", "--", "-:/B", stdin=data)
        self.assert_same_bits(read_h5(self.path("t.h5"))[1], square.T.copy())
        self.run_tool("compare", "b.h5", "--from", "hdf5", "-:/B", stdin=data)
        self.run_tool("verify", "transpose", "--from", "hdf5", "-:/B", "t.h5", stdin=data)
        self.run_tool("reduce", "-:/B", "--op", "nan-count", "--from", "hdf5", stdin=data)
        ones = np.ones((41, 41))
        write_h5(self.path("ones.h5"), ones)
        data = self.read_file("ones.h5")
        self.run_tool("multiply", "ones.h5", "-:/A", "--from", "hdf5", "-o", "c.h5", stdin=data)
        np.testing.assert_array_equal(read_h5(self.path("c.h5"))[1], ones @ ones)
        self.run_tool("multiply", "ones.h5", "ones.h5", "--add", "-:/A", "--beta", "2", "--from", "hdf5", "-o", "d.h5", stdin=data)
        np.testing.assert_array_equal(read_h5(self.path("d.h5"))[1], ones @ ones + 2)

    def test_it_can_be_read_once(self):
        data = self.read_file("in.h5")
        for words in (["compare", "-:/A", "-:/A"], ["compare", "-", "-:/A"], ["multiply", "-:/A", "-:/A"]):
            result = self.run_tool(*words, "--from", "hdf5", stdin=data, code=2)
            self.assert_says(result, "standard input ('-') can be only one of")

    def test_several_datasets(self):
        write_h5(self.path("in.h5"), self.matrix[:3], dataset="B", mode="a")
        data = self.read_file("in.h5")
        listed = self.run_tool("info", "--from", "hdf5", "-", "--stats", "--json", stdin=data).json()["matrices"]
        self.assertEqual([(found["path"], found["dataset"], found["rows"]) for found in listed],
                         [("-", "/A", 60), ("-", "/B", 3)])
        result = self.run_tool("convert", "--from", "hdf5", "-", "-o", "out.h5", stdin=data, code=3)
        self.assert_says(result, "standard input", "/A", "/B")
        self.run_tool("convert", "--from", "hdf5", "/dev/stdin:/B", "-o", "out.h5", stdin=data)
        self.assert_same_bits(read_h5(self.path("out.h5"), "B")[1], self.matrix[:3])

    def test_attributes_are_kept(self):
        with h5py.File(self.path("in.h5"), "a") as file:
            file["A"].attrs["unit"] = "metre"
        data = self.through(self.read_file("in.h5"), "convert", "--from", "hdf5", "-", "--to", "hdf5", "-o", "-")
        with open(self.path("out.h5"), "wb") as file:
            file.write(data)
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(file["A"].attrs["unit"], "metre")

    def test_what_is_written_is_what_a_file_would_be(self):
        for options in ([], ["--chunk", "8x8", "--deflate", "2"], ["--memory-limit", "100KiB"]):
            self.run_tool("convert", "in.h5", "-o", "file.h5", "--force", *options)
            data = self.through(b"", "convert", "in.h5", "--to", "hdf5", "-o", "-", *options)
            with open(self.path("pipe.h5"), "wb") as file:
                file.write(data)
            self.assert_same_bits(read_h5(self.path("pipe.h5"))[1], self.matrix)

    def test_damaged(self):
        data = self.read_file("in.h5")
        for cut in (data[:-100], data[:50], b"", b"no matrix at all", self.through(b"", "convert", "in.h5", "-o", "-")):
            result = self.run_tool("convert", "--from", "hdf5", "-", "-o", "out.h5", stdin=cut, code=3)
            self.assert_says(result, "standard input")
            self.assertNotIn("/proc", result.err)
        self.assertNotIn("out.h5", os.listdir(self.folder))

    def test_without_from(self):
        self.assert_says(self.run_tool("transpose", "-", stdin=self.read_file("in.h5"), code=3), "--from hdf5")


class Spool(PipeCase):
    """What does not fit into memory goes into a file without a name in TMPDIR."""

    def setUp(self):
        super().setUp()
        self.matrix = random_values("f64", (500, 400))
        write_h5(self.path("in.h5"), self.matrix)
        os.mkdir(self.path("spool"))
        self.env = {"TMPDIR": self.path("spool")}

    def test_reading(self):
        data = self.read_file("in.h5")
        for limit in ("1MiB", "100MiB"):
            self.run_tool("convert", "--from", "hdf5", "-", "-o", "out.h5", "--force", "--memory-limit", limit, stdin=data,
                          env=self.env)
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.matrix)
        self.assertEqual(os.listdir(self.path("spool")), [])

    def test_writing(self):
        for limit in ("1MiB", "100MiB"):
            data = self.through(b"", "convert", "in.h5", "--to", "hdf5", "-o", "-", "--memory-limit", limit, env=self.env)
            with open(self.path("out.h5"), "wb") as file:
                file.write(data)
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.matrix)
        self.assertEqual(os.listdir(self.path("spool")), [])

    def test_folder_is_missing(self):
        env = {"TMPDIR": self.path("nowhere")}
        for arguments in (["--from", "hdf5", "-", "-o", "out.h5"], ["in.h5", "--to", "hdf5", "-o", "-"]):
            result = self.run_tool("convert", *arguments, "--memory-limit", "1MiB", stdin=self.read_file("in.h5"), env=env,
                                   code=4)
            self.assert_says(result, "nowhere", "TMPDIR")

    def test_file_size_limit(self):
        result = self.run_tool("convert", "--from", "hdf5", "-", "-o", "out.h5", "--memory-limit", "1MiB",
                               stdin=self.read_file("in.h5"), env=self.env, file_bytes=100_000, code=4)
        self.assert_says(result, "standard input", "too large")
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.h5", "spool"])

    def test_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            before = snapshot(self.folder)
            process = self.start("convert", "--from", "hdf5", "-", "-o", "out.h5", "--memory-limit", "1MiB", env=self.env)
            process.stdin.write(self.read_file("in.h5")[:800_000])
            process.stdin.flush()
            wait_for(lambda: any("spool" in os.readlink(f"/proc/{process.pid}/fd/{name}")
                                 for name in os.listdir(f"/proc/{process.pid}/fd")), "the temporary file")
            process.send_signal(number)
            _, err = process.communicate()
            self.assertEqual((process.returncode, err), (-number, b""))
            self.assertEqual((snapshot(self.folder), os.listdir(self.path("spool"))), (before, []))

    def test_reader_is_gone(self):
        process = self.start("convert", "in.h5", "--to", "hdf5", "-o", "-")
        process.stdout.close()
        self.assertEqual((process.wait(60), process.stderr.read()), (141, b""))
        process.stderr.close()
        process.stdin.close()

    def test_closed_output(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        os.close(write_end)
        for arguments in (["generate", "--shape", "3x3", "-o", "-"], ["convert", "in.h5", "--to", "hdf5", "-o", "-"]):
            shell = ["sh", "-c", '"$0" "$@" >&-', self.tool, *arguments]
            found = subprocess.run(shell, cwd=self.folder, stderr=subprocess.PIPE, check=False)
            self.assertEqual(found.returncode, 4, found.stderr)
            self.assertIn(b"standard output", found.stderr)

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            for arguments in (["generate", "--shape", "300x300", "-o", "-"],
                              ["convert", "in.h5", "--to", "hdf5", "-o", "-"]):
                result = self.run_tool(*arguments, stdout=full, code=4)
                self.assert_says(result, "standard output", "No space left")


class InParts(PipeCase):
    """What is kept can be read in any order, and is cut into parts; so can what is redirected from a file."""

    def check(self, data, *words, expected, dataset):
        record = self.record(*words, "-o", "out.h5", "--force", "--memory-limit", "800KiB", stdin=data)
        self.assertGreater(record["parts"], 1)
        np.testing.assert_array_equal(read_h5(self.path("out.h5"), dataset)[1], expected)

    def test_hdf5(self):
        a = whole_numbers((400, 300))
        for storage in ({}, {"chunks": (50, 70), "compression": 1}):
            write_h5(self.path("a.h5"), a, **storage)
            data = self.read_file("a.h5")
            self.check(data, "transpose", "-", "--from", "hdf5", expected=a.T, dataset="A")
            self.check(data, "reduce", "-", "--from", "hdf5", "--axis", "columns", expected=a.sum(axis=0, keepdims=True), dataset="R")
            self.check(data, "multiply", "-", "a.h5", "--from", "hdf5", "--transpose-b", expected=a @ a.T, dataset="C")

    def test_matrix_market_from_a_file(self):
        a = random_values("f64", (400, 300))
        write_h5(self.path("a.h5"), a)
        self.run_tool("convert", "a.h5", "-o", "a.mtx")
        with open(self.path("a.mtx"), "rb") as file:
            with self.start("transpose", "-", "-o", "out.h5", "--memory-limit", "800KiB", "--json", stdin=file) as process:
                record = json.loads(process.communicate()[0])
        self.assertGreater(record["parts"], 1)
        np.testing.assert_array_equal(read_h5(self.path("out.h5"))[1], a.T)


class Results(PipeCase):
    """Results of operations go through pipes as HDF5, also those in parts, and to /dev/stdout and named pipes."""

    def setUp(self):
        super().setUp()
        self.a = whole_numbers((300, 200))
        self.b = whole_numbers((200, 250))
        write_h5(self.path("a.h5"), self.a)
        write_h5(self.path("b.h5"), self.b)
        os.mkdir(self.path("spool"))
        self.env = {"TMPDIR": self.path("spool")}
        self.runs = [(("transpose", "a.h5"), self.a.T, "A"), (("multiply", "a.h5", "b.h5"), self.a @ self.b, "C"),
                     (("reduce", "a.h5", "--axis", "rows"), self.a.sum(axis=1, keepdims=True), "R")]

    def check(self, data, expected, dataset):
        with open(self.path("out.h5"), "wb") as file:
            file.write(data)
        np.testing.assert_array_equal(read_h5(self.path("out.h5"), dataset)[1], expected)
        self.assertEqual(os.listdir(self.path("spool")), [])

    def test_standard_output(self):
        for words, expected, dataset in self.runs:
            for limit in ([], ["--memory-limit", "300KiB"], ["--chunk", "50x1", "--deflate", "1"]):
                for output in ("-", "/dev/stdout"):
                    command = [*words, "-o", output, "--to", "hdf5", *limit]
                    self.check(self.through(b"", *command, env=self.env), expected, dataset)
            record = self.record(*words, "-o", "/dev/null", "--to", "hdf5", "--memory-limit", "300KiB")
            self.assertGreater(record["parts"], 1)

    def test_named_pipe(self):
        os.mkfifo(self.path("fifo"))
        for words, expected, dataset in self.runs:
            process = self.start(*words, "-o", f"fifo:/g/{dataset}", "--to", "hdf5", env=self.env)
            with open(self.path("fifo"), "rb") as fifo:
                data = fifo.read()
            self.assertEqual((process.communicate()[1].count(b"wrote"), process.returncode), (1, 0))
            self.check(data, expected, f"g/{dataset}")

    def test_reader_is_gone(self):
        process = self.start("transpose", "a.h5", "--to", "hdf5", "-o", "-")
        process.stdout.close()
        self.assertEqual((process.wait(60), b"cannot be written" in process.stderr.read()), (141, False))
        process.stderr.close()
        process.stdin.close()

    def test_full_disk(self):
        self.assert_says(self.run_tool("transpose", "a.h5", "--to", "hdf5", "-o", "/dev/full", code=4), "/dev/full", "No space left")


class StandardOutput(PipeCase):
    """It may be a file that the run has in its hands already."""

    def test_is_an_input(self):
        for name, to in (("a.h5", "hdf5"), ("a.mtx", "matrix-market")):
            write_any(self.path(name), random_values("f64", (30, 20)), "f64")
            before = snapshot(self.folder)
            for command in ("transpose", "convert"):
                with open(self.path(name), "rb+") as out:
                    result = self.run_tool(command, name, "--to", to, "-o", "-", stdout=out, code=4)
                self.assert_says(result, f"it is the same file as the input {name}")
                self.assertEqual(snapshot(self.folder), before)

    def test_is_the_log(self):
        write_h5(self.path("a.h5"), random_values("f64", (30, 20)))
        for command in ("transpose", "convert"):
            for words in (["-o", "-"], ["-o", "b.h5", "--json"]):
                self.assert_says(self.run_tool(command, "a.h5", *words, "--log", "/dev/stdout", code=2), "can have standard output")
                with open(self.path("out.log"), "wb") as out:
                    self.run_tool(command, "a.h5", *words, "--log", "out.log", stdout=out, code=2)
                self.assertEqual(os.path.getsize(self.path("out.log")), 0)
        with open("/dev/null", "wb") as out:  # where all may be
            self.run_tool("transpose", "a.h5", "-o", "-", "--log", "/dev/null", stdout=out)


class Chain(PipeCase):
    def test_four_commands_in_a_shell(self):
        """The result is what NumPy makes of what generate gives."""
        line = ('"$0" generate integers --shape 40x30 --seed 3 -t i32 -o - | "$0" transpose - -o - | '
                '"$0" convert - --to hdf5 -o - | "$0" compare --from hdf5 - expected.h5')
        self.run_tool("generate", "integers", "--shape", "40x30", "--seed", "3", "-t", "i32", "-o", "plain.h5")
        write_h5(self.path("expected.h5"), np.ascontiguousarray(read_h5(self.path("plain.h5"))[1].T))
        found = subprocess.run(["bash", "-o", "pipefail", "-c", line, self.tool], cwd=self.folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, check=False)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertIn(b"are equal", found.stdout)


if __name__ == "__main__":
    unittest.main()
