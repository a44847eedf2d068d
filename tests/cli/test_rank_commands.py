"""generate, convert, compare and verify on ranks: what one machine gives. Commands that ranks do not share are refused under mpirun.

GPUMAT_RANK_CASES draws so many of all operations, types, shapes and storages (six else) from GPUMAT_TEST_SEED on.
"""

import glob
import json
import os
import random
import time
import unittest

import h5py
import jsonschema
import numpy as np

from harness import DTYPES, cases, is_integer, random_bits, random_values, read_h5, same_bits, snapshot, write_h5, write_mtx
from test_ranks import ALL_TYPES, ENVIRONMENT, MPIRUN, SCHEMAS, TYPES, Ranks

ENGINE = ["--engine", "scalapack"]
# One row, a prime, fewer rows than ranks, no rows.
SHAPES = {"row": (1, 37), "prime": (131, 137), "few": (2, 3), "no_rows": (0, 7)}


def without_ranks(record):
    """Of a record, what is the same on one machine."""
    own = ("engine", "command_line", "stages_ms", "time", "run_id", "processor")
    return {name: value for name, value in record.items() if name not in own}


class Commands(Ranks):
    def share(self, *arguments, ranks=4, **options):
        return self.on_ranks(ranks, *arguments, *ENGINE, **options)

    def assert_record(self, record, stages):
        with open(os.path.join(SCHEMAS, record["schema"].split(".")[1].split("/")[0] + ".json"), encoding="utf-8") as file:
            jsonschema.validate(record, json.load(file))
        self.assertEqual(record["engine"]["ranks"], 4)
        self.assertEqual({stage["name"] for stage in record["engine"]["stages"]}, stages)
        for stage in record["engine"]["stages"]:
            self.assertLessEqual(stage["least_ms"], stage["median_ms"])
            self.assertLessEqual(stage["median_ms"], stage["most_ms"])


@cases([(f"{kind}_{dtype}_{shape}", shape, kind, dtype)
        for shape, kind, dtype in [("row", "uniform", "f64"), ("prime", "normal", "c64"), ("few", "integers", "i32"), ("no_rows", "hilbert", "f32"),
                                   ("prime", "toeplitz", "u16"), ("prime", "sparse", "bf16")]])
class Generated(Commands):
    def check(self, shape, kind, dtype):
        matrix = ["generate", kind, "--shape", "{}x{}".format(*SHAPES[shape]), "-t", dtype]
        alone = self.record(*matrix, "-o", "alone.h5")
        record = self.share(*matrix, "-o", "G.h5", "--json").json()
        self.assertEqual(record["output"]["hash"], alone["output"]["hash"])
        self.assert_record(record, {"read", "write"})
        self.assertEqual(read_h5(self.path("G.h5"))[0], dtype)
        self.assertTrue(same_bits(read_h5(self.path("G.h5"))[1], read_h5(self.path("alone.h5"))[1]))


class GeneratedFiles(Commands):
    def test_in_chunks_by_rank_0(self):
        self.run_tool("generate", "--shape", "70x50", "-o", "alone.npy")
        said = self.share("generate", "--shape", "70x50", "-o", "G.h5", "--chunk", "16x16", "--deflate", "1", "-v")
        self.assert_says(said, "is written by rank 0 for all")
        self.assertTrue(same_bits(read_h5(self.path("G.h5"))[1], np.load(self.path("alone.npy"))))

    def test_what_stays_sparse(self):
        before = snapshot(self.folder)
        said = self.share("generate", "sparse", "--entries", "9", "--shape", "9x9", "-o", "G.h5", "--sparse-layout", "anndata", code=5)
        self.assert_says(said, "ranks have no sparse matrices")
        self.assertEqual(snapshot(self.folder), before)


# Every element size and shape class, and chunks that no rank's rows are whole multiples of.
@cases([("row_u8", "u8", (1, 37), {}), ("prime_f16", "f16", (131, 137), {"chunks": (7, 9), "compression": "gzip"}),
        ("few_c128", "c128", (2, 3), {"chunks": (1, 2)}), ("no_rows_i64", "i64", (0, 7), {}),
        ("one_chunk_f32", "f32", (50, 40), {"chunks": (50, 40), "compression": "gzip"})])
class Converted(Commands):
    def check(self, name, shape, how):
        a = random_bits(name, shape)
        write_h5(self.path("A.h5"), a, name, **how)
        record = self.share("convert", "A.h5", "-o", "B.h5", "--contiguous", "--json").json()
        self.assert_record(record, {"read", "write"})
        alone = self.record("convert", "A.h5", "-o", "alone.h5")
        self.assertEqual([record["inputs"][0]["hash"], record["output"]["hash"]], [alone["inputs"][0]["hash"], alone["output"]["hash"]])
        kind, b = read_h5(self.path("B.h5"))
        self.assertEqual(kind, name)
        self.assertTrue(same_bits(b, a))


class ConvertedFiles(Commands):
    def test_types_slices_and_formats(self):
        a = random_values("f64", (60, 50), 1)
        with h5py.File(self.path("A.h5"), "w") as file:
            file.create_dataset("stack", data=np.stack([a, 2 * a]), chunks=(1, 8, 50), compression="gzip")
        said = self.share("convert", "A.h5:/stack[1,:,:]", "-o", "B.npy", "-t", "f32", "-v")
        self.assertNotIn("is read by rank 0", said.err)
        np.testing.assert_array_equal(np.load(self.path("B.npy")), (2 * a).astype(np.float32))
        said = self.share("convert", "B.npy", "-o", "C.mtx", "-t", "f64", "-v")
        self.share("convert", "C.mtx", "-o", "D.h5", ranks=3)
        np.testing.assert_array_equal(read_h5(self.path("D.h5"))[1], (2 * a).astype(np.float32).astype(np.float64))
        with open(self.path("A.h5"), "rb") as file:
            self.share("convert", "-", "--from", "hdf5", "--dataset", "/stack[0,:,:]", "-o", "E.h5", stdin=file.read())
        np.testing.assert_array_equal(read_h5(self.path("E.h5"))[1], a)

    def test_a_value_that_one_rank_meets(self):
        a = np.ones((40, 30))
        a[35, 7] = 1e300
        write_h5(self.path("A.h5"), a, chunks=(4, 30))
        before = snapshot(self.folder)
        said = self.share("convert", "A.h5", "-o", "B.h5", "-t", "f32", code=3)
        self.assertEqual(said.err.count("gpumat: "), 1, str(said))
        self.assert_says(said, "(rank 2 on ")
        self.assertEqual(snapshot(self.folder), before)


class Chunks(Commands):
    def test_a_product_of_chunks(self):
        a = random_values("f64", (60, 40), 1)
        b = random_values("f64", (40, 50), 2)
        write_h5(self.path("A.h5"), a, chunks=(7, 9), compression="gzip")
        write_h5(self.path("B.h5"), b, chunks=(16, 50))
        said = self.multiply(4, "-o", "C.h5", "-v", "--block-size", "8")
        self.assertNotIn("is read by rank 0", said.err)
        self.assert_product("C.h5", "f64", a, b)

    def test_each_chunk_is_read_once(self):
        a = random_bits("f64", (400, 500))
        write_h5(self.path("A.h5"), a, chunks=(30, 500), compression="gzip")
        trace = ["strace", "-ff", "-qq", "-y", "-e", "trace=pread64", "-o", "trace"]
        self.run_tool("transpose", "A.h5", "-o", "T.h5", *ENGINE, before=[*MPIRUN, "4", *trace], env=ENVIRONMENT)
        self.assertTrue(same_bits(read_h5(self.path("T.h5"))[1], a.T))
        read = 0
        for name in glob.glob(self.path("trace.*")):
            with open(name, encoding="utf-8") as file:
                read += sum(int(line.rsplit("= ", 1)[1]) for line in file if "A.h5>" in line and line.rstrip()[-1].isdigit())
        with h5py.File(self.path("A.h5")) as file:
            stored = file["A"].id.get_storage_size()
        self.assertGreaterEqual(read, stored)
        self.assertLess(read, 1.1 * stored)


@cases([("equal", "prime", "f64", "f64", 0, []), ("differ", "prime", "f64", "f32", 1, []), ("within", "prime", "f64", "f32", 0, ["--rtol", "1e-6"]),
        ("transposed", "prime", "c64", "c64", 1, ["--transposed"]), ("few", "few", "i32", "i32", 1, []), ("no_rows", "no_rows", "u8", "u8", 0, [])])
class Compared(Commands):
    def check(self, shape, of_x, of_y, code, flags):
        x = random_values(of_x, SHAPES[shape], 1)
        y = x.astype(DTYPES[of_y])
        if code == 1 and of_x == of_y:
            y[-1, -1] += 1
            y[0, 1] += 2
        write_h5(self.path("X.h5"), x, of_x)
        write_h5(self.path("Y.h5"), y.T if "--transposed" in flags else y, of_y, chunks=(1, 2) if y.size else None)
        both = ["compare", "X.h5", "Y.h5", *flags]
        record = self.share(*both, "--json", code=code).json()
        self.assert_record(record, {"read", "compare"})
        self.assertEqual(without_ranks(record), without_ranks(self.run_tool(*both, "--json", code=code).json()))
        self.assertEqual(self.share(*both, code=code).out, self.run_tool(*both, code=code).out)


class ComparedFiles(Commands):
    def test_the_mask_and_several_matrices(self):
        x = random_values("f32", (33, 20), 1)
        y = x.copy()
        y[30, 4] += 1
        for name, first in (("X.h5", x), ("Y.h5", y)):
            with h5py.File(self.path(name), "w") as file:
                file["a"] = first
                file["b"] = np.arange(12).reshape(3, 4)
        self.share("compare", "X.h5:/a", "Y.h5:/a", "--save-mismatch", "M.h5", code=1)
        np.testing.assert_array_equal(read_h5(self.path("M.h5"))[1], (x != y).astype(np.uint8))
        self.assertEqual(self.share("compare", "X.h5", "Y.h5", code=1).out, self.run_tool("compare", "X.h5", "Y.h5", code=1).out)

    def test_other_shapes(self):
        write_h5(self.path("X.h5"), np.ones((3, 4)))
        write_h5(self.path("Y.h5"), np.ones((4, 4)))
        said = self.share("compare", "X.h5", "Y.h5", code=8)
        self.assertEqual(said.err.count("gpumat: "), 1, str(said))


class Verified(Commands):
    def check_verdict(self, code, *arguments):
        record = self.share("verify", *arguments, "--json", code=code).json()
        alone = self.run_tool("verify", *arguments, "--json", code=code).json()
        self.assertEqual(record["verification"]["verdict"], alone["verification"]["verdict"])
        self.assertEqual(record["exit_code"], code)
        self.assertEqual(record["engine"]["ranks"], 4)
        return record

    def test_products(self):
        a, b = self.write_operands("f64", 60, 50, 40, transpose_a=True)
        write_h5(self.path("C.h5"), 2 * (a @ b), chunks=(7, 50))
        product = ["multiply", "A.h5", "B.h5", "C.h5", "--transpose-a", "--alpha", "2"]
        self.check_verdict(0, *product)
        record = self.check_verdict(0, *product, "--mode", "freivalds")
        self.assertIn("verify", {stage["name"] for stage in record["engine"]["stages"]})
        with h5py.File(self.path("C.h5"), "r+") as file:
            file["A"][47, 3] += 1
        for mode in ("full", "freivalds"):
            self.check_verdict(1, *product, "--mode", mode)

    def test_a_product_of_integers(self):
        a = random_values("i32", (17, 19), 1)
        b = random_values("i32", (19, 23), 2)
        for name, matrix in (("A.h5", a), ("B.h5", b), ("C.h5", a @ b)):
            write_h5(self.path(name), matrix)
        self.check_verdict(0, "multiply", "A.h5", "B.h5", "C.h5")

    def test_transposes(self):
        a = random_values("f64", (31, 37), 1)
        a[5, 6] = np.nan
        write_h5(self.path("A.h5"), a)
        write_mtx(self.path("T.mtx"), a.T)
        self.check_verdict(0, "transpose", "A.h5", "T.mtx")
        a[30, 1] += 1
        write_h5(self.path("A.h5"), a)
        self.check_verdict(1, "transpose", "A.h5", "T.mtx")

    def test_reductions(self):
        a = random_values("f32", (31, 37), 1)
        write_h5(self.path("A.h5"), a)
        for axis in ("rows", "columns"):
            self.run_tool("reduce", "A.h5", "-o", "S.h5", "--op", "sum", "--axis", axis, "--force")
            self.check_verdict(0, "reduce", "A.h5", "S.h5", "--op", "sum", "--axis", axis)
            sums = read_h5(self.path("S.h5"))[1]
            sums.flat[-1] += 1
            write_h5(self.path("S.h5"), sums)
            self.check_verdict(1, "reduce", "A.h5", "S.h5", "--op", "sum", "--axis", axis)


class Drawn(Commands):
    """Any operation of any type, on any shape, stored in any way: on ranks as on one machine."""

    def storage(self, rng, shape):
        if 0 in shape or rng.random() < 0.5:
            return {}
        chunks = tuple(rng.randint(1, extent) for extent in shape)
        return {"chunks": chunks, **({"compression": "gzip"} if rng.random() < 0.5 else {})}

    def operation(self, rng, kind, dtype, shape):
        if kind == "multiply":
            b = random_values(dtype, (shape[1], rng.choice([1, 7, 19])), 2)
            write_h5(self.path("B.h5"), b, dtype, **self.storage(rng, b.shape))
            return ["multiply", "A.h5", "B.h5"]
        if kind == "reduce":  # these do not depend on the order
            return ["reduce", "A.h5", "--axis", rng.choice(["rows", "columns"]), "--op", "sum" if is_integer(dtype) else "nan-count"]
        return [kind, "A.h5"]

    def test_drawn(self):
        rng = random.Random(int(os.environ.get("GPUMAT_TEST_SEED", "1")))
        for draw in range(int(os.environ.get("GPUMAT_RANK_CASES", "6"))):
            kind = rng.choice(["transpose", "multiply", "reduce", "convert"])
            dtype = rng.choice(TYPES if kind == "multiply" else ALL_TYPES)
            shape = rng.choice([(1, 37), (37, 1), (31, 37), (2, 3), (0, 7), (7, 0), (97, 5), (3, 200)])
            storage = self.storage(rng, shape)
            with self.subTest(draw=draw, kind=kind, dtype=dtype, shape=shape, storage=storage):
                a = random_values(dtype, shape, 1)
                write_h5(self.path("A.h5"), a, dtype, **storage)
                command = self.operation(rng, kind, dtype, shape)
                kept = ["--contiguous"] if kind == "convert" and rng.random() < 0.5 else []
                ranked = self.share(*command, "-o", "ranks.h5", "--force", *kept, ranks=rng.choice([2, 3, 4]), code=None)
                alone = self.run_tool(*command, "-o", "alone.h5", "--force", code=None)
                self.assertEqual(ranked.code, alone.code, str(ranked) + str(alone))
                if alone.code != 0:
                    continue
                (kind_r, c), (kind_a, d) = read_h5(self.path("ranks.h5")), read_h5(self.path("alone.h5"))
                self.assertEqual((kind_r, c.shape), (kind_a, d.shape))
                if kind == "multiply":
                    self.assert_product("ranks.h5", dtype, a, read_h5(self.path("B.h5"))[1])
                else:
                    self.assertTrue(same_bits(c, d))


class Refused(Commands):
    def test_memory(self):
        write_h5(self.path("A.h5"), np.ones((400, 40)), chunks=(30, 30))
        self.run_tool("reduce", "A.h5", "-o", "S.h5")
        for command in (["generate", "--shape", "400x40", "-o", "B.h5"], ["convert", "A.h5", "-o", "B.h5"], ["compare", "A.h5", "A.h5"],
                        ["verify", "reduce", "A.h5", "S.h5"]):
            said = self.share(*command, "--memory-limit", "8KiB", code=6)
            self.assertEqual(said.err.count("gpumat: "), 1, str(said))
            self.assertFalse(os.path.exists(self.path("B.h5")))

    def test_without_an_engine(self):
        write_h5(self.path("A.h5"), np.ones((4, 4)))
        with open(self.path("jobs"), "w", encoding="utf-8") as file:
            file.write("transpose A.h5 -o B.h5\n")
        before = snapshot(self.folder)
        for command in (["generate", "--shape", "4x4", "-o", "B.h5"], ["convert", "A.h5", "-o", "B.h5"], ["compare", "A.h5", "A.h5"],
                        ["verify", "transpose", "A.h5", "A.h5"], ["batch", "jobs"], ["bench", "transpose", "--size", "64"], ["tune"],
                        ["probe", "roofline"], ["report", "jobs", "-o", "report.html"]):
            with self.subTest(command=command):
                said = self.on_ranks(3, *command, code=2)
                self.assertEqual(said.err.count("gpumat: "), 1, str(said))
                self.assert_says(said, "3 processes were started together, and each would")
                self.assertEqual(snapshot(self.folder), before)

    def test_answers_that_each_gives(self):
        write_h5(self.path("A.h5"), np.ones((4, 4)))
        for command in (["info", "A.h5"], ["--version"], ["levels", "transpose"], ["generate", "--help"]):
            alone = self.run_tool(*command).out
            self.assertEqual(len(self.on_ranks(2, *command).out), 2 * len(alone))

    def test_how_soon(self):
        """What is wrong with a call is said within two seconds of its start, by rank 0 alone."""
        write_h5(self.path("A.h5"), np.ones((4, 4)))
        write_h5(self.path("C.h5"), np.ones((5, 4)))
        for code, command in ((3, ["convert", "none.h5", "-o", "B.h5"]), (4, ["generate", "--shape", "4x4", "-o", "A.h5"]),
                              (8, ["compare", "A.h5", "C.h5"]), (8, ["verify", "transpose", "A.h5", "C.h5"]),
                              (3, ["multiply", "A.h5", "C.h5"]), (2, ["transpose", "A.h5", "-o", "B.h5", "--grid", "3x3"])):
            seconds = []
            while len(seconds) < 3 and min(seconds, default=9) > 2:  # of a machine that does other work too
                begin = time.monotonic()
                with self.start(*command, *ENGINE, before=[*MPIRUN, "4"], env=ENVIRONMENT) as process:
                    said = process.stderr.readline()
                    seconds.append(time.monotonic() - begin)
                    rest = process.communicate()[1]
                self.assertTrue(said.startswith(b"gpumat: "), said)
                self.assertNotIn(b"gpumat: ", rest)
                self.assertEqual(process.returncode, code)
            self.assertLessEqual(min(seconds), 2, command)


if __name__ == "__main__":
    unittest.main()
