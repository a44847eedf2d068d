"""levels, info, devices and help: tables for people, JSON for programs, and nothing loaded that is not needed."""

import gzip
import json
import os
import re
import unittest
import zlib

import numpy as np
import scipy.sparse

from harness import DTYPES, Case, cases, is_integer, random_values, values_of, write_any, write_h5, write_mtx

COMMANDS = ["transpose", "multiply", "reduce", "bench", "tune", "probe", "levels", "info", "devices", "verify", "compare", "generate",
            "convert", "batch"]

# What the tool may not load before it needs it: the driver, CUDA libraries, OpenBLAS, GraphBLAS.
LAZY = re.compile(r"libcuda|libcublas|libcudart|libnvidia|openblas|libblas|liblapack|graphblas")


@cases([(" ".join(words).replace(" ", "_").replace("-", "") or "none", words)
        for words in [["--help"], ["--version"], *[[command, "--help"] for command in COMMANDS], ["levels"]]])
class LoadsNothing(Case):
    def check(self, words):
        self.run_tool(*words, env={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": self.path("loaded")}, gpu=True)
        (log,) = [name for name in os.listdir(self.folder) if name.startswith("loaded")]
        with open(self.path(log), encoding="utf-8", errors="replace") as file:
            loaded = [line for line in file if "file=" in line]
        self.assertGreater(len(loaded), 3, "the loader said nothing")
        self.assertEqual([line for line in loaded if LAZY.search(line)], [])


@cases([("_".join(words), words) for words in [*([command] for command in COMMANDS), ["verify", "transpose"], ["verify", "multiply"],
                                               ["verify", "reduce"], ["completion"], ["manpage"]]])
class Help(Case):
    def check(self, words):
        """Every help fits in two screens of 80 columns, in groups, and ends with examples of the command."""
        text = self.run_tool(*words, "--help").out
        self.assertTrue(text.startswith(f"Usage: gpumat {' '.join(words)} ["), text)
        self.assertIn("Examples:", text)
        self.assertIn(f"gpumat {' '.join(words)}", text.split("Examples:")[1])
        self.assertLess(len(text.splitlines()), 120)
        self.assertRegex(text, r"\nGeneral:\n  -h, --help ")
        self.assertEqual([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [])


class Top(Case):
    def test_help_lists_every_command_and_the_exit_codes(self):
        text = self.run_tool("--help").out
        for word in [*COMMANDS, "Exit codes", "Examples"]:
            self.assertIn(word, text)
        self.assertEqual([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [])

    def test_every_listed_command_has_help_in_80_columns(self):
        listed = re.findall(r"^  ([a-z]+) ", self.run_tool("--help").out.split("Commands:")[1].split("General:")[0], re.MULTILINE)
        self.assertLessEqual(set(COMMANDS), set(listed))
        for command in listed:
            with self.subTest(command):
                text = self.run_tool(command, "--help").out
                self.assertEqual([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [])

    def test_version(self):
        """The first line is the version; the others say what it is built of."""
        first, *lines = self.run_tool("--version").out.splitlines()
        self.assertRegex(first, r"^gpumat \d+\.\d+\.\d+$")
        facts = dict(line.split(None, 1) for line in lines)
        self.assertRegex(facts["commit"], r"^([0-9a-f]{7,40}(-dirty)?|unknown)$")
        self.assertRegex(facts["build"], r"^\w+, \S+ \d+\.\d+")
        self.assertRegex(facts["CUDA"], r"^(none|\d+\.\d+.* for .*\d+[a-z]?(-real)?)$")
        self.assertRegex(facts["HDF5"], r"^\d+\.\d+\.\d+")
        self.assertIn("OpenBLAS, loaded", facts["multiply"])
        self.assertEqual(self.run_tool("-V").out, self.run_tool("--version").out)


class Levels(Case):
    def listed(self, *words):
        return self.run_tool("levels", *words, "--json").json()["levels"]

    def test_explained_for_a_problem(self):
        """--size prepares each level for the problem and bounds its time by the ceilings."""
        explained = self.run_tool("levels", "multiply", "--size", "300x200x100", "-t", "f64", "-d", "cpu", "--json").json()
        problem = explained["problem"]
        self.assertEqual((problem["m"], problem["n"], problem["k"], problem["type"]), (300, 200, 100, "f64"))
        self.assertEqual(problem["flops"], 2 * 300 * 200 * 100)
        self.assertEqual(problem["bytes"], 8 * (300 * 100 + 100 * 200 + 300 * 200))
        levels = {level["name"]: level for level in explained["levels"]}
        self.assertEqual(list(levels), [level["name"] for level in self.listed("multiply", "--device", "cpu")])
        self.assertEqual(levels["outer-product"]["reasons"], [])
        self.assertIn("x", levels["outer-product"]["launch"]["tile"])
        self.assertTrue(all(level["bound_ms"] > 0 for level in levels.values() if not level["reasons"]))
        self.assertEqual((problem["auto"], problem["auto_reason"]), ("outer-product", "it is the fastest of our own levels"))

    def test_explained_reasons(self):
        levels = self.run_tool("levels", "multiply", "--size", "64", "-t", "i32", "-d", "cpu", "--json").json()["levels"]
        reasons = {level["name"]: " ".join(level["reasons"]) for level in levels}
        self.assertIn("f32", reasons["vendor"])
        self.assertEqual(reasons["naive"], "")

    def test_explained_table(self):
        result = self.run_tool("levels", "transpose", "--size", "64x32", "-d", "cpu")
        for word in ["transpose f32 64x32", "16.00 KiB", "ceilings", "least time, whatever the level: none", "vectorized"]:
            self.assertIn(word, result.out)

    def test_explained_levels_differ(self):
        """What is known of each stands at it: what it removes and how it runs; what is the same for all stands above."""
        text = self.run_tool("levels", "multiply", "--size", "300x200x100", "-d", "cpu").out
        above, below = text.split("\n\n", 1)
        self.assertRegex(above, r"least time, whatever the level: [\d.e-]+ ms")
        self.assertIn("auto takes 'outer-product'", above)
        for level in self.listed("multiply", "--device", "cpu"):
            self.assertIn(level["name"], below)
            self.assertEqual(below.count("removes: " + level["removes"].split(",")[0][:30]), 1)
        self.assertIn("runs with: tile 64x64", below)
        self.assertNotIn(" ms", below)
        refused = self.run_tool("levels", "multiply", "--size", "64", "-t", "i8", "-d", "cpu").out
        self.assertIn("auto takes nothing: no multiply level", refused)

    def test_explained_beyond_any_memory(self):
        result = self.run_tool("levels", "multiply", "--size", "9223372036854775807", "-d", "cpu")
        for word in ["e+39 bytes", "cannot: ", "naive"]:
            self.assertIn(word, result.out)

    def test_explained_refusals(self):
        for words, said in [(["--size", "4096"], "operation"), (["transpose", "--size", "1:9:1"], "one size"),
                            (["transpose", "-t", "f32"], "--size"), (["transpose", "-d", "tpu"], "cpu, gpu"),
                            (["multiply", "--size", "4096x1"], "MxNxK"),
                            (["transpose", "--size", "64", "-t", "f80"], "'f80'")]:
            self.assert_says(self.run_tool("levels", *words, code=2), said)

    def test_every_ladder_counts_from_one(self):
        for operation in ("transpose", "multiply"):
            for device in ("cpu", "gpu"):
                ladder = self.listed(operation, "--device", device)
                rungs = [level for level in ladder if level["role"] == "rung"]
                self.assertEqual([level["number"] for level in rungs], list(range(1, len(rungs) + 1)))
                others = {(level["role"], level["number"]) for level in ladder if level not in rungs}
                self.assertLessEqual(others, {("vendor", None)})
                self.assertEqual(len({level["name"] for level in ladder}), len(ladder))
                self.assertTrue(all(level["op"] == operation and level["device"] == device for level in ladder))

    def test_the_levels_that_were_promised(self):
        for operation, device, names in [
            ("transpose", "gpu", "serial per-row per-element naive tiled padded"),
            ("multiply", "gpu", "naive-strided naive tiled"),
            ("transpose", "cpu", "serial per-row tiled vectorized"),
            ("multiply", "cpu", "naive interchanged tiled vendor"),
        ]:
            found = {level["name"] for level in self.listed(operation, "-d", device)}
            self.assertEqual(set(names.split()) - found, set())

    def test_table_has_every_level(self):
        """Under the title of its ladder; -v has the whole of its row, in other lines."""
        short, verbose = (self.run_tool("levels", *words).out for words in ([], ["-v"]))
        for text in (short, verbose):
            self.assertEqual([line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()], [])
        ladders = {}
        for text in re.split(r"\n\n", verbose):
            title, rest = text.split("\n", 1)
            ladders[title] = re.sub(r"\s+", " ", rest)
        for level in self.listed():
            ladder = ladders[f"{level['op']} on a {level['device']}"]
            self.assertIn(f" {level['number'] or '-'} {level['name']} {level['summary']}".replace("  ", " "), " " + ladder)
            self.assertIn(level["removes"], ladder)
            self.assertRegex(short, re.compile(rf"^ +{level['number'] or '-'}  {level['name']} ", re.MULTILINE))
            for parameter in level["parameters"]:
                self.assertIn(f"--{parameter['name']} ", ladder)

    def test_devices_of_the_list(self):
        """A default such as GPUMAT_DEVICE=auto or gpu:1 is one here too."""
        for device, expected in (("cpu", ["transpose on a cpu", "transpose of sparse matrices on a cpu"]),
                                 ("gpu", ["transpose on a gpu", "transpose of sparse matrices on a gpu"]),
                                 ("gpu:1", ["transpose on a gpu", "transpose of sparse matrices on a gpu"])):
            titles = re.findall("^[a-z].*", self.run_tool("levels", "transpose", env={"GPUMAT_DEVICE": device}).out, re.MULTILINE)
            self.assertEqual(titles, expected)
        self.assertEqual(self.run_tool("levels", "-d", "auto").out, self.run_tool("levels").out)

    def test_unknown_operation(self):
        self.assert_says(self.run_tool("levels", "invert", code=2), "invert", "transpose", "multiply")


class Devices(Case):
    def test_cpu_is_listed_and_the_missing_gpu_explained(self):
        listed = self.run_tool("devices", "--json").json()
        (cpu,) = listed["devices"]
        self.assertEqual((cpu["kind"], cpu["threads"]), ("cpu", len(os.sched_getaffinity(0))))
        self.assertTrue(listed["why_no_gpu"])
        table = self.run_tool("devices").out
        self.assertIn(cpu["name"], table)
        self.assertIn("no gpu: " + listed["why_no_gpu"], table)


class Info(Case):
    def info(self, *files, **options):
        return self.run_tool("info", *files, "--json", **options).json()["matrices"]

    def test_every_type(self):
        for name in DTYPES:
            write_h5(self.path("types.h5"), random_values(name, (3, 5)), name, dataset=name, mode="a")
        listed = {matrix["dataset"]: matrix for matrix in self.info("types.h5")}
        self.assertEqual(set(listed), {f"/{name}" for name in DTYPES})
        for name in DTYPES:
            matrix = listed[f"/{name}"]
            self.assertEqual((matrix["rows"], matrix["cols"], matrix["type"], matrix["format"]), (3, 5, name, "hdf5"))

    def test_a_named_dataset(self):
        write_h5(self.path("two.h5"), random_values("f32", (3, 5)), dataset="group/A")
        write_h5(self.path("two.h5"), random_values("f64", (4, 5)), dataset="group/B", mode="a")
        (matrix,) = self.info("two.h5:/group/B")
        self.assertEqual((matrix["dataset"], matrix["rows"], matrix["type"]), ("/group/B", 4, "f64"))

    def test_matrix_market(self):
        matrix = scipy.sparse.random(40, 50, 0.1, random_state=1)
        write_mtx(self.path("sparse.mtx"), matrix)
        write_mtx(self.path("dense.mtx"), np.ones((4, 4), int), "symmetric")
        sparse, dense = self.info("sparse.mtx", "dense.mtx")
        self.assertEqual((sparse["rows"], sparse["cols"], sparse["type"], sparse["stored_entries"], sparse["format"]),
                         (40, 50, "f64", matrix.nnz, "matrix-market"))
        self.assertEqual((dense["rows"], dense["type"], dense["dense_bytes"]), (4, "i64", 128))
        self.assertIn("symmetric", dense["storage"])

    def test_standard_input(self):
        (matrix,) = self.info("-", stdin=b"%%MatrixMarket matrix array real general\n2 1\n1\n2\n")
        self.assertEqual((matrix["path"], matrix["rows"], matrix["cols"]), ("-", 2, 1))

    def test_table(self):
        write_h5(self.path("a.h5"), random_values("f32", (3, 5)), chunks=(2, 2), compression="gzip", shuffle=True)
        text = self.run_tool("info", "a.h5").out
        for word in ("a.h5:/A", "hdf5", "3x5", "f32", "60 bytes", "2x2", "deflate", "shuffle"):
            self.assertIn(word, text)

    def test_headers_are_enough(self):
        """A matrix that no memory holds can still be described."""
        with open(self.path("huge.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix coordinate real general\n1000000 1000000 1\n1 1 1\n")
        (matrix,) = self.info("huge.mtx")
        self.assertEqual(matrix["dense_bytes"], 8 * 10**12)

    def test_headers_beyond_any_memory(self):
        with open(self.path("beyond.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix coordinate real general\n4000000000000 4000000000000 1\n1 1 1\n")
        (matrix,) = self.info("beyond.mtx")
        self.assertEqual((matrix["rows"], matrix["stored_entries"]), (4 * 10**12, 1))

    def statistics(self, name, array):
        """Of the matrix in a file, with every number as NumPy or Python has it."""
        write_h5(self.path("a.h5"), array, name)
        (matrix,) = self.info("a.h5", "--stats")
        return {key: float(value) if isinstance(value, str) else value for key, value in matrix["statistics"].items()}

    def test_statistics_of_every_type(self):
        for name in DTYPES:
            for shape in ((7, 5), (3, 9000)):
                array = random_values(name, shape)
                values = values_of(name, array)
                found = self.statistics(name, array)
                wide = values.astype(np.complex128 if name[0] == "c" else np.float64)
                self.assertEqual(found["nonzeros"], np.count_nonzero(values), name)
                for key, order in (("one_norm", 1), ("infinity_norm", np.inf), ("frobenius_norm", "fro")):
                    np.testing.assert_allclose(found[key], np.linalg.norm(wide, order), rtol=1e-12, err_msg=name)
                if name[0] == "c":
                    self.assertIsNone(found["smallest"])
                    np.testing.assert_allclose(found["largest_magnitude"], np.abs(wide).max(), rtol=1e-15)
                    continue
                extremes = [found["smallest"], found["largest"], found["largest_magnitude"]]
                self.assertEqual(extremes, [values.min().item(), values.max().item(), np.abs(wide).max()], name)
                self.assertEqual({type(value) for value in extremes}, {int if is_integer(name) else float}, name)

    def test_hash(self):
        """Of the elements, whatever they are stored in."""
        array = random_values("f64", (7, 5))
        expected = f"crc32:{zlib.crc32(array.tobytes()):08x}"
        write_h5(self.path("a.h5"), array, chunks=(3, 2), compression=4)
        write_any(self.path("a.mtx"), array, "f64")
        for file in ("a.h5", "a.mtx"):
            (matrix,) = self.info(file, "--stats")
            self.assertEqual(matrix["hash"], expected)
            self.assertIn(expected, self.run_tool("info", file, "--stats").out)
            (matrix,) = self.info(file)
            self.assertNotIn("hash", matrix)

    def test_integer_extremes_are_exact(self):
        """Integers that a double rounds, as integers in JSON and in the table."""
        for name, values in (("i64", [2**63 - 1, -2**63, 2**53 + 1]), ("u64", [2**64 - 1, 2**53 + 1, 2**63 + 1])):
            found = self.statistics(name, np.array([values], DTYPES[name]))
            for key, value in (("smallest", min(values)), ("largest", max(values)),
                               ("largest_magnitude", max(map(abs, values)))):
                self.assertIsInstance(found[key], int)
                self.assertEqual(found[key], value)
            text = self.run_tool("info", "--stats", "a.h5").out
            self.assertIn(str(min(values)), text)
            self.assertIn(str(max(values)), text)

    def test_statistics_tell_what_is_not_finite_from_what_is_not_there(self):
        for name in ("f16", "f32", "f64"):
            found = self.statistics(name, np.array([[1, np.inf], [-np.inf, 2]], DTYPES[name]))
            self.assertEqual((found["smallest"], found["largest"], found["infinities"], found["nans"]),
                             (-np.inf, np.inf, 2, 0))
            self.assertEqual([found[key] for key in ("one_norm", "infinity_norm", "frobenius_norm")], [np.inf] * 3)
            found = self.statistics(name, np.array([[1, np.nan], [-3, 2]], DTYPES[name]))
            self.assertEqual((found["smallest"], found["largest"], found["infinities"], found["nans"]), (-3, 2, 0, 1))
            self.assertTrue(all(np.isnan(found[key]) for key in ("one_norm", "infinity_norm", "frobenius_norm")))
            found = self.statistics(name, np.full((2, 2), np.nan, DTYPES[name]))
            self.assertEqual((found["smallest"], found["largest"], found["largest_magnitude"], found["nans"]),
                             (None, None, None, 4))
        for name, largest in (("c64", 3e38), ("c128", 1.6e308)):  # the moduli pass the range, no part does
            found = self.statistics(name, np.array([[largest * (1 + 1j), complex(1, np.inf)]], DTYPES[name]))
            self.assertEqual(found["infinities"], 1)
        found = self.statistics("f64", np.zeros((0, 3)))
        self.assertEqual((found["smallest"], found["largest"], found["largest_magnitude"], found["nans"]),
                         (None, None, None, 0))
        self.assertEqual([found[key] for key in ("one_norm", "infinity_norm", "frobenius_norm")], [0, 0, 0])

    def test_the_memory_limit_is_for_statistics(self):
        write_h5(self.path("a.h5"), np.ones((100, 10)))  # two blocks of 32 rows, and sums of rows and columns: 6000 bytes
        self.info("a.h5", "--memory-limit", "1")
        self.info("a.h5", "--stats", "--memory-limit", "6000")
        result = self.run_tool("info", "a.h5", "--stats", "--memory-limit", "5999", code=6)
        self.assert_says(result, "a.h5", "5.86 KiB")

    def test_what_can_be_read_is_shown_beside_what_cannot(self):
        write_h5(self.path("a.h5"), np.ones((2, 3)))
        write_h5(self.path("b.h5"), np.ones((4, 5)))
        with open(self.path("words.txt"), "w", encoding="ascii") as file:
            file.write("words\n")
        for arguments in ((), ("--stats",)):
            result = self.run_tool("info", "words.txt", "a.h5", "nowhere.mtx", "b.h5", "--json", *arguments, code=3)
            self.assertEqual([matrix["path"] for matrix in result.json()["matrices"]], ["a.h5", "b.h5"])
            self.assert_says(result, "words.txt", "no known format", "nowhere.mtx", "No such file")
            result = self.run_tool("info", "words.txt", "a.h5", "nowhere.mtx", "b.h5", *arguments, code=3)
            self.assertIn("a.h5:/A", result.out)
            self.assertIn("b.h5:/A", result.out)
        self.assertEqual(self.run_tool("info", "nowhere.mtx", code=3).out, "")

    def test_the_exit_code_is_of_the_first_failure(self):
        write_h5(self.path("a.h5"), np.ones((100, 10)))
        limited = ("--stats", "--memory-limit", "1")
        self.run_tool("info", "a.h5", "nowhere.mtx", *limited, code=6)
        self.run_tool("info", "nowhere.mtx", "a.h5", *limited, code=3)

    def test_one_matrix_without_statistics_hides_no_other(self):
        write_h5(self.path("a.h5"), np.ones((100, 10)), dataset="large")
        write_h5(self.path("a.h5"), np.ones((2, 3)), dataset="small", mode="a")
        arguments = ("info", "a.h5", "--stats", "--memory-limit", "100")
        result = self.run_tool(*arguments, "--json", code=6)
        found = {matrix["dataset"]: matrix["statistics"] for matrix in result.json()["matrices"]}
        self.assertIsNone(found["/large"])
        self.assertEqual(found["/small"]["one_norm"], 2)
        self.assert_says(result, "a.h5:/large", "limit is 100 bytes")
        result = self.run_tool(*arguments, code=6)
        self.assertEqual(result.out.count("a.h5:/large"), 1)
        self.assertEqual(result.out.count("a.h5:/small"), 2)

    def test_statistics_of_standard_input(self):
        text = b"%%MatrixMarket matrix coordinate integer general\n2 3 2\n1 1 9007199254740993\n2 3 -4\n"
        for options in ({"stdin": text}, {"stdin": gzip.compress(text)}):
            (matrix,) = self.info("-", "--stats", **options)
            found = matrix["statistics"]
            self.assertEqual((matrix["rows"], found["nonzeros"], found["smallest"], found["largest"]),
                             (2, 2, -4, 2**53 + 1))
        os.mkfifo(self.path("pipe"))
        with self.start("info", "pipe", "--stats", "--json") as process:
            with open(self.path("pipe"), "wb") as pipe:
                pipe.write(text)
            out, _ = process.communicate(timeout=60)
        self.assertEqual(json.loads(out)["matrices"][0]["statistics"]["largest"], 2**53 + 1)
        # Once is all: the second finds nothing, and the first is shown.
        result = self.run_tool("info", "-", "-", "--stats", "--json", stdin=text, code=3)
        self.assertEqual(len(result.json()["matrices"]), 1)
        with open(self.path("a.mtx"), "wb") as file:
            file.write(text + b"1 1 1\n")  # an entry too many, found after the header
        self.assert_says(self.run_tool("info", "a.mtx", "--stats", code=3), "a.mtx")

    def test_refusals(self):
        with open(self.path("words.txt"), "w", encoding="ascii") as file:
            file.write("words\n")
        for path, words in [("nowhere.h5", "No such file"), (".", "directory"), ("words.txt", "no known format")]:
            self.assert_says(self.run_tool("info", path, code=3), path, words)


class Explain(Case):
    def test_a_level_is_explained_by_its_section(self):
        text = self.run_tool("levels", "multiply", "--explain", "unrolled").out
        self.assertIn("multiply, gpu level 9: unrolled", text)
        self.assertIn("no address arithmetic", text)
        self.assertNotIn("###", text)

    def test_every_level_has_a_section(self):
        for level in self.run_tool("levels", "--json").json()["levels"]:
            words = ["levels", level["op"], "--explain", level["name"], "-d", level["device"], "--json"]
            section = self.run_tool(*words).json()["levels"][0]["section"]  # those for sparse matrices follow
            self.assertGreater(len(section), 30)

    def test_levels_for_sparse_matrices_are_explained(self):
        self.assertIn("multiply, cpu level 2: hash", self.run_tool("levels", "multiply", "--explain", "hash").out)
        self.assertIn("transpose, cpu level 2: counting", self.run_tool("levels", "transpose", "--explain", "counting").out)

    def test_refusals(self):
        self.run_tool("levels", "multiply", "--explain", "no-such-level", code=2)
        self.run_tool("levels", "--explain", "tiled", code=2)
        self.run_tool("levels", "multiply", "--explain", "tiled", "--size", "4", code=2)


if __name__ == "__main__":
    unittest.main()
