"""--engine scalapack under mpirun: the same numbers, files, exit codes and records as on one machine."""

import json
import os
import shutil
import subprocess
import unittest
import zlib

import h5py
import jsonschema
import numpy as np

from harness import (DTYPES, GPUMAT, PLAIN, Case, cases, multiply_reference, random_bits, random_values, read_h5, same_bits,
                     snapshot, write_h5, write_mtx)

MODULE = os.path.join(os.path.dirname(GPUMAT), "libgpumat_mpi.so")
MPIRUN = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np"]
# One thread a rank, ranks that wait give way, and no copies between processes that containers forbid.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# MPI, which is not built with them, leaks and races.
NO_RANKS = ("MPI and sanitizers do not go together" if not PLAIN else
            "" if shutil.which("mpirun") and os.path.exists(MODULE) else "no mpirun, or no module")
SCHEMAS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "schemas")


class Ranks(Case):
    def setUp(self):
        if NO_RANKS:
            self.skipTest(NO_RANKS)
        super().setUp()

    def on_ranks(self, ranks, *arguments, env=None, **options):
        return self.run_tool(*arguments, before=[*MPIRUN, str(ranks)], env={**ENVIRONMENT, **(env or {})}, **options)

    def multiply(self, ranks, *arguments, **options):
        return self.on_ranks(ranks, "multiply", "A.h5", "B.h5", "--engine", "scalapack", *arguments, **options)

    def write_operands(self, name, m, n, k, transpose_a=False, transpose_b=False):
        a = random_values(name, (k, m) if transpose_a else (m, k), 1)
        b = random_values(name, (n, k) if transpose_b else (k, n), 2)
        write_h5(self.path("A.h5"), a)
        write_h5(self.path("B.h5"), b)
        return a.T if transpose_a else a, b.T if transpose_b else b

    def assert_product(self, path, name, a, b, **more):
        exact, bound = multiply_reference(name, a, b, **more)
        kind, c = read_h5(self.path(path))
        self.assertEqual((kind, c.shape), (name, exact.shape))
        self.assertTrue(np.all(np.abs(c - exact) <= bound))


TYPES = ["f32", "f64", "c64", "c128"]
ALL_TYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", *TYPES]
# m, n, k: one row, a prime, fewer rows than ranks, no rows, no terms, several blocks.
SHAPES = {"row": (1, 37, 11), "column": (37, 1, 11), "prime": (31, 37, 41), "few": (2, 3, 5), "no_rows": (0, 7, 5), "no_terms": (7, 5, 0),
          "blocks": (100, 130, 90)}


@cases([(f"{shape}_{name}", name, *SHAPES[shape]) for shape in SHAPES for name in (TYPES if shape in ("prime", "blocks") else ["f64"])])
class Products(Ranks):
    def check(self, name, m, n, k):
        a, b = self.write_operands(name, m, n, k)
        self.multiply(4, "-o", "C.h5")
        self.assert_product("C.h5", name, a, b)


@cases([(f"{grid}_{'at' if ta else 'a'}_{'bt' if tb else 'b'}", grid, ta, tb)
        for grid, ta, tb in [("2x3", True, False), ("3x2", False, True), ("6x1", True, True), ("1x6", False, False)]])
class Grids(Ranks):
    def check(self, grid, transpose_a, transpose_b):
        a, b = self.write_operands("c64", 50, 40, 30, transpose_a, transpose_b)
        d = random_values("c64", (50, 40), 3)
        write_h5(self.path("D.h5"), d)
        flags = [*(["--transpose-a"] if transpose_a else []), *(["--transpose-b"] if transpose_b else [])]
        self.multiply(6, "-o", "C.h5", "--add", "D.h5", "--alpha", "2,-1", "--beta", "0.5,3", "--grid", grid, "--block-size", "7", *flags)
        self.assert_product("C.h5", "c64", a, b, alpha=2 - 1j, beta=0.5 + 3j, d=d)


# Every element size and shape class; the long ones go in several pieces.
@cases([("row_u8", "u8", 4, (1, 37)), ("column_f16", "f16", 4, (37, 1)), ("prime_f32", "f32", 6, (131, 137)), ("few_c64", "c64", 4, (2, 3)),
        ("no_rows_i64", "i64", 4, (0, 7)), ("many_c128", "c128", 6, (1, 500003)), ("tall_c128", "c128", 4, (400009, 1)),
        ("alone_bf16", "bf16", 1, (50, 60))])
class Transposes(Ranks):
    def check(self, name, ranks, shape):
        a = random_bits(name, shape)
        write_h5(self.path("A.h5"), a, name)
        done = self.on_ranks(ranks, "transpose", "A.h5", "-o", "B.h5", "--engine", "scalapack")
        self.assert_says(done, "verification: passed (full)")
        kind, b = read_h5(self.path("B.h5"))
        self.assertEqual(kind, name)
        self.assertTrue(same_bits(b, a.T))
        if a.size == 0:  # through rank 0, which has nothing to be given
            self.on_ranks(ranks, "transpose", "A.h5", "-o", "B.npy", "--engine", "scalapack")
            self.assertEqual(np.load(self.path("B.npy")).shape, a.T.shape)


REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "absmax": lambda a, axis: np.max(np.abs(a), axis),
              "norm": lambda a, axis: np.sqrt(np.sum(np.abs(a) ** 2, axis)), "nan-count": lambda a, axis: np.sum(np.isnan(a), axis)}


@cases([("sum_all_f64", "sum", "all", "f64", 4, (131, 137)), ("mean_columns_f32", "mean", "columns", "f32", 6, (131, 137)),
        ("norm_rows_c128", "norm", "rows", "c128", 4, (37, 11)), ("absmax_few_rows_i16", "absmax", "columns", "i16", 4, (2, 30)),
        ("max_of_one_row_u8", "max", "rows", "u8", 4, (1, 37)), ("sum_of_no_rows_i64", "sum", "columns", "i64", 4, (0, 7)),
        ("nan_count_f16", "nan-count", "all", "f16", 4, (1000, 3))])
class Reductions(Ranks):
    """As NumPy, and as one process."""

    def check(self, op, axis, name, ranks, shape):
        a = random_values(name, shape)
        if op == "nan-count":
            a[5:700:3] = np.nan
        write_h5(self.path("A.h5"), a)
        flags = ["A.h5", "--op", op, "--axis", axis]
        done = self.on_ranks(ranks, "reduce", *flags, "-o", "R.h5", "--engine", "scalapack")
        self.assert_says(done, "verification: passed (full)")
        wide = a.astype(np.complex128 if name[0] == "c" else np.float64)
        expected = REDUCTIONS[op](wide, {"all": None, "rows": 1, "columns": 0}[axis])
        found = read_h5(self.path("R.h5"))[1]
        self.assertEqual(found.shape, {"all": (1, 1), "rows": (shape[0], 1), "columns": (1, shape[1])}[axis])
        np.testing.assert_allclose(found.ravel(), np.ravel(expected), rtol=1e-12, atol=1e-12)
        self.run_tool("reduce", *flags, "-o", "alone.h5")
        alone = read_h5(self.path("alone.h5"))[1]
        self.assertEqual(found.dtype, alone.dtype)
        np.testing.assert_allclose(found, alone, rtol=1e-15)


class Answers(Ranks):
    def test_a_number_is_printed(self):
        a = random_values("f64", (50, 20))
        write_h5(self.path("A.h5"), a, chunks=(7, 9))
        done = self.on_ranks(3, "reduce", "A.h5", "--op", "norm", "--engine", "scalapack")
        self.assertAlmostEqual(float(done.out), np.linalg.norm(a))
        self.assertNotIn("is read by rank 0", done.err)

    def test_what_has_no_answer(self):
        write_h5(self.path("A.h5"), np.ones((3, 3), np.complex64))
        said = self.on_ranks(3, "reduce", "A.h5", "--op", "min", "--engine", "scalapack", code=5)
        self.assert_says(said, "complex numbers have no order")


class TransposedFiles(Ranks):
    def test_formats_that_rank_0_reads_and_writes(self):
        a = random_values("c64", (140, 230), 1)
        write_h5(self.path("A.h5"), a, chunks=(7, 9), compression="gzip")
        said = self.on_ranks(3, "transpose", "A.h5", "--conjugate", "-o", "B.mtx", "--engine", "scalapack")
        self.assertNotIn("is read by rank 0", said.err)
        self.assert_says(said, "is written by rank 0 for all")
        said = self.on_ranks(3, "transpose", "B.mtx", "-o", "C.h5", "--engine", "scalapack", "--chunk", "16x8", "--deflate", "4")
        self.assert_says(said, "B.mtx (array", "is read by rank 0 for all")
        np.testing.assert_array_equal(read_h5(self.path("C.h5"))[1], a.conj())

    def test_the_record(self):
        a = random_values("f32", (60, 50), 1)
        write_h5(self.path("A.h5"), a)
        record = self.on_ranks(4, "transpose", "A.h5", "-o", "B.h5", "--engine", "scalapack", "--json").json()
        with open(os.path.join(SCHEMAS, "run.json"), encoding="utf-8") as file:
            jsonschema.validate(record, json.load(file))
        alone = self.record("transpose", "A.h5", "-o", "alone.h5")
        self.assertEqual([record["inputs"][0]["hash"], record["output"]["hash"]], [alone["inputs"][0]["hash"], alone["output"]["hash"]])
        engine = record["engine"]
        self.assertEqual((record["level"], engine["ranks"], engine["grid"], engine["library"]), ("alltoallv", 4, [4, 1], None))
        # Panels of 15 rows, 13 columns; what stays on a rank is not sent.
        stays = 3 * 15 * 13 + 15 * 11
        self.assertEqual(engine["bytes_sent"], 4 * (60 * 50 - stays))
        self.assertEqual({stage["name"] for stage in engine["stages"]}, {"read", "kernel", "verify", "write"})
        dry = self.on_ranks(4, "transpose", "A.h5", "-o", "C.h5", "--engine", "scalapack", "--json", "--dry-run").json()
        self.assertEqual((dry["level"], dry["parameters"]["rows_a_rank"]), ("alltoallv", "13"))


class Files(Ranks):
    def test_formats_that_rank_0_reads_and_writes(self):
        a = random_values("f64", (40, 30), 1)
        b = random_values("f64", (30, 50), 2)
        write_h5(self.path("A.h5"), a, chunks=(7, 9), compression="gzip")
        write_mtx(self.path("B.mtx"), b)
        said = self.on_ranks(3, "multiply", "A.h5", "B.mtx", "--engine", "scalapack", "-o", "C.h5", "--chunk", "16x8", "--deflate", "4")
        self.assert_says(said, "is read by rank 0 for all", "is written by rank 0 for all")
        self.assert_product("C.h5", "f64", a, b)
        self.on_ranks(3, "multiply", "A.h5", "B.mtx", "--engine", "scalapack", "-o", "C.mtx")
        self.run_tool("compare", "C.h5", "C.mtx", "--atol", "1e-10")

    def test_stored_in_other_ways(self):
        """Big-endian, and a dataset that is added to a file which has one."""
        a, b = self.write_operands("f64", 20, 30, 25)
        write_h5(self.path("A.h5"), a.astype(">f8"))
        write_h5(self.path("C.h5"), b, dataset="other")
        self.multiply(4, "-o", "C.h5:/C")
        with h5py.File(self.path("C.h5")) as file:
            self.assertEqual(sorted(file), ["C", "other"])
            np.testing.assert_allclose(file["C"][()], a @ b, rtol=1e-12, atol=1e-12)
            self.assertEqual(file["C"].attrs["gpumat_level"], "p?gemm")

    def test_a_dataset_of_another_file_and_a_pipe(self):
        a, b = self.write_operands("f64", 20, 30, 25)
        with h5py.File(self.path("link.h5"), "w") as file:
            file["A"] = h5py.ExternalLink("A.h5", "/A")
        self.on_ranks(3, "multiply", "link.h5:/A", "B.h5", "--engine", "scalapack", "--allow-external", "-o", "C.h5")
        self.assert_product("C.h5", "f64", a, b)
        with open(self.path("B.h5"), "rb") as file:
            self.on_ranks(3, "multiply", "A.h5", "-", "--from", "hdf5", "--engine", "scalapack", "-o", "D.h5", stdin=file.read())
        self.assert_product("D.h5", "f64", a, b)

    def test_conjugates(self):
        a, b = self.write_operands("c128", 9, 8, 7)
        self.multiply(2, "-o", "C.h5", "--conjugate-a")
        self.assert_product("C.h5", "c128", a.conj(), b)

    def test_the_record_of_rank_0_and_the_hashes_of_one_machine(self):
        self.write_operands("f64", 60, 50, 40)
        done = self.multiply(4, "-o", "C.h5", "--json", "--log", "runs.jsonl", "--repeat", "2")
        record = done.json()
        with open(os.path.join(SCHEMAS, "run.json"), encoding="utf-8") as file:
            jsonschema.validate(record, json.load(file))
        with open(self.path("runs.jsonl"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 1)
        alone = self.record("multiply", "A.h5", "B.h5", "-o", "alone.h5", "--level", "tiled")
        self.assertEqual([matrix["hash"] for matrix in record["inputs"]], [matrix["hash"] for matrix in alone["inputs"]])
        self.assertEqual(record["output"]["hash"], f"crc32:{zlib.crc32(read_h5(self.path('C.h5'))[1].tobytes()):08x}")
        engine = record["engine"]
        self.assertEqual((engine["name"], engine["ranks"], engine["grid"]), ("scalapack", 4, [2, 2]))
        self.assertIn("scalapack", engine["library"])
        self.assertEqual(len(engine["hosts"]), 1)
        self.assertGreater(engine["bytes_sent"], 0)
        self.assertEqual({stage["name"] for stage in engine["stages"]}, {"read", "kernel", "write"})
        for stage in engine["stages"]:
            self.assertLessEqual(stage["least_ms"], stage["median_ms"])
            self.assertLessEqual(stage["median_ms"], stage["most_ms"])
        self.assertEqual(len(record["kernel_ms"]["samples"]), 2)

    def test_one_rank_without_mpirun_and_nothing_written(self):
        self.write_operands("f32", 30, 20, 10)
        done = self.run_tool("multiply", "A.h5", "B.h5", "--engine", "scalapack", env=ENVIRONMENT)
        self.assert_says(done, "verification: passed (full)")

    def test_random_vectors_verify_what_the_ranks_have(self):
        self.write_operands("f64", 300, 200, 100)
        self.assert_says(self.multiply(4, "--verify", "freivalds"), "verification: passed (freivalds)")


class Failures(Ranks):
    def setUp(self):
        super().setUp()
        if not NO_RANKS:
            self.write_operands("f64", 60, 50, 40)

    def check_refused(self, code, words, *arguments, ranks=4, **options):
        """The message comes once, the exit code is the tool's, and the folder is as it was."""
        before = snapshot(self.folder)
        result = self.on_ranks(ranks, *arguments, code=code, **options)
        self.assertEqual(result.err.count("gpumat: "), 1, str(result))
        self.assert_says(result, words)
        self.assertEqual(snapshot(self.folder), before)

    def test_without_an_engine(self):
        self.check_refused(2, "4 processes were started together", "multiply", "A.h5", "B.h5", "-o", "C.h5")

    def test_each_its_own_run(self):
        self.on_ranks(2, "multiply", "A.h5", "B.h5", "--engine", "local")

    def test_what_the_engine_has_not(self):
        write_h5(self.path("S.h5"), np.ones((4, 4)))
        self.check_refused(5, "it has no --in-place", "transpose", "S.h5", "--in-place", "-o", "T.h5", "--engine", "scalapack")
        write_h5(self.path("I.h5"), np.ones((4, 4), np.int32))
        self.check_refused(5, "it has no i32", "multiply", "I.h5", "I.h5", "--engine", "scalapack")

    def test_usage(self):
        run = ["multiply", "A.h5", "B.h5", "--engine", "scalapack"]
        self.check_refused(2, "--grid 3x2 is of 6 ranks, and there are 4", *run, "--grid", "3x2")
        self.check_refused(2, "expected PxQ", *run, "--grid", "4")
        turn = ["transpose", "A.h5", "-o", "T.h5", "--engine", "scalapack"]
        self.check_refused(2, "expected 4x1", *turn, "--grid", "2x2")
        self.check_refused(2, "each rank has whole rows", *turn, "--block-size", "8")
        self.check_refused(2, "--level tiled is of the engine local", *run, "--level", "tiled")
        self.check_refused(2, "--tile is of the engine local", *run, "--tile", "32")
        self.check_refused(5, "it has no sparse matrices", *run, "-o", "C.h5", "--sparse-layout", "anndata")

    def test_inputs(self):
        self.check_refused(3, "none.h5", "multiply", "none.h5", "B.h5", "--engine", "scalapack", "-o", "C.h5")
        self.check_refused(3, "the shapes do not multiply", "multiply", "A.h5", "A.h5", "--engine", "scalapack", "-o", "C.h5")

    def test_an_output_that_exists(self):
        write_h5(self.path("C.h5"), np.ones((2, 2)))
        self.check_refused(4, "it exists", "multiply", "A.h5", "B.h5", "--engine", "scalapack", "-o", "C.h5")

    def test_memory(self):
        self.check_refused(6, "the share of a rank", "multiply", "A.h5", "B.h5", "--engine", "scalapack", "--memory-limit", "4KiB")
        self.check_refused(6, "the share of a rank", "transpose", "A.h5", "-o", "T.h5", "--engine", "scalapack", "--memory-limit", "4KiB")

    def test_a_library_that_is_none(self):
        self.check_refused(5, "GPUMAT_SCALAPACK", "multiply", "A.h5", "B.h5", "--engine", "scalapack", "-o", "C.h5",
                           env={"GPUMAT_SCALAPACK": "/nowhere/libscalapack.so"})
        self.check_refused(5, "has no", "multiply", "A.h5", "B.h5", "--engine", "scalapack", "-o", "C.h5",
                           env={"GPUMAT_SCALAPACK": "libm.so.6"})

    def test_one_rank_that_may_not_write_so_much(self):
        """Rank 2 meets its limit of file size while it writes; rank 0 takes the space before."""
        before = snapshot(self.folder)
        self.write_operands("f64", 300, 300, 10)
        before = snapshot(self.folder)
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then ulimit -f 200; fi; exec "$@"'
        result = self.run_tool("multiply", "A.h5", "B.h5", "--engine", "scalapack", "-o", "C.h5", code=4, env=ENVIRONMENT,
                               before=[*MPIRUN, "4", "sh", "-c", script, "sh"])
        self.assertEqual(result.err.count("gpumat: cannot") + result.err.count("cannot be written"), 1, str(result))
        self.assert_says(result, "(rank 2 on ")
        self.assertEqual(snapshot(self.folder), before)


class Example(Ranks):
    def test_runs(self):
        script = os.path.join(os.path.dirname(SCHEMAS), "examples", "cluster", "product")
        done = subprocess.run([script, self.folder], capture_output=True, text=True, check=False,
                              env={**os.environ, **ENVIRONMENT, "GPUMAT": os.path.abspath(GPUMAT), "MPIRUN": " ".join(MPIRUN[:-1])})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("verification: passed", done.stderr)


class WithoutMpi(Case):
    def test_exit_5_names_the_packages(self):
        """The tool alone, where there is no module beside it."""
        shutil.copy(GPUMAT, self.path("gpumat"))
        self.tool = self.path("gpumat")
        write_h5(self.path("A.h5"), np.ones((2, 2)))
        said = self.run_tool("multiply", "A.h5", "A.h5", "--engine", "scalapack", code=5)
        self.assert_says(said, "libgpumat_mpi.so", "libscalapack-openmpi-dev", "openmpi-bin")
        listed = self.run_tool("levels", "--engine", "scalapack").out
        self.assertIn("missing here: ", listed)

    def test_options_that_need_an_engine(self):
        write_h5(self.path("A.h5"), np.ones((2, 2)))
        self.run_tool("multiply", "A.h5", "A.h5", "--grid", "1x1", code=2)
        self.run_tool("multiply", "A.h5", "A.h5", "--engine", "local", "--grid", "1x1", code=2)
        self.run_tool("multiply", "A.h5", "A.h5", "--engine", "none", code=2)

    def test_the_list_of_an_engine(self):
        listed = self.run_tool("levels", "--engine", "scalapack", "--json").json()
        self.assertEqual(listed["engine"]["operations"], [{"op": "multiply", "routine": "p?gemm", "types": TYPES},
                                                         {"op": "transpose", "routine": "alltoallv", "types": ALL_TYPES},
                                                         {"op": "reduce", "routine": "parts", "types": ALL_TYPES},
                                                         *({"op": command, "routine": "rows", "types": ALL_TYPES}
                                                           for command in ("verify", "compare", "generate", "convert"))])
        self.assertEqual(set(TYPES) - set(DTYPES), set())


if __name__ == "__main__":
    unittest.main()
