"""Every GPU level through the built tool, against NumPy. Without a usable GPU all of it is skipped."""

import json
import subprocess
import unittest

import numpy as np
import scipy.io
import scipy.sparse

from harness import (GPUMAT, MULTIPLY_TYPES, Case, cases, is_integer, levels, multiply_reference, random_bits,
                     random_values, read_h5, same_bits, values_of, wrapped_product, write_h5)


def why_no_gpu():
    listed = subprocess.run([GPUMAT, "devices", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(listed.stdout)["why_no_gpu"]


WHY = why_no_gpu()
SHAPES = [(0, 3), (1, 1), (1, 129), (65, 1), (129, 257)]


@unittest.skipIf(WHY, f"no GPU: {WHY}")
@cases([(level["name"].replace("-", "_"), level["name"]) for level in levels("transpose", "gpu")
        if level["role"] == "rung"])
class Transpose(Case):
    def check(self, level):
        for name in ("u8", "i16", "f32", "f64", "c128"):
            for shape in SHAPES[(name != "f32") * 4 :]:  # the odd ones once: a run costs the start of CUDA
                matrix = random_bits(name, shape)
                write_h5(self.path("in.h5"), matrix, name)
                result = self.run_tool("transpose", "in.h5", "-o", "out.h5", "--force", "-d", "gpu", "-l", level,
                                       "--json", gpu=True, code=None)
                if level == "tma" and result.code == 5:  # the copy engine takes whole 16-byte words only
                    self.assert_says(result, "multiple of 16 bytes")
                    continue
                self.assertEqual(result.code, 0, str(result))
                record = result.json()
                self.assertEqual((record["level"], record["device"]["kind"]), (level, "gpu"))
                self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy(), f"{name} {shape}")


@unittest.skipIf(WHY, f"no GPU: {WHY}")
class SparseTranspose(Case):
    def test_every_level_gives_what_the_cpu_gives(self):
        random = np.random.default_rng(1)
        matrix = scipy.sparse.random(700, 900, 0.02, "coo", random_state=random)
        scipy.io.mmwrite(self.path("a.mtx"), matrix, precision=17)
        expected = self.record("transpose", "a.mtx", "-o", "cpu.mtx", "-d", "cpu")
        for level in ["auto", "atomic", "sorted", "blocked", "onesweep", "vendor"]:
            record = self.record("transpose", "a.mtx", "-o", f"{level}.mtx", "-d", "gpu", "-l", level, gpu=True)
            self.assertEqual(record["device"]["kind"], "gpu")
            self.assertEqual(record["level"], "onesweep" if level == "auto" else level)
            self.assertEqual(record["output"]["hash"], expected["output"]["hash"])
            self.assertGreater(record["peak_device_bytes"], 0)
            with open(self.path(f"{level}.mtx")) as file, open(self.path("cpu.mtx")) as cpu:
                self.assertEqual(file.read(), cpu.read())
        # Only GPUs have this level.
        record = self.record("transpose", "a.mtx", "-o", "sorted.mtx", "--force", "-l", "sorted", gpu=True)
        self.assertEqual(record["device"]["kind"], "gpu")
        said = self.run_tool("transpose", "a.mtx", "-o", "b.mtx", "-d", "gpu", "--device-memory-limit", "4KiB", code=6,
                             gpu=True).err
        self.assertIn("may be taken", said)


@unittest.skipIf(WHY, f"no GPU: {WHY}")
class SparseMultiply(Case):
    def test_every_level(self):
        a = scipy.sparse.random(300, 500, 0.05, "csr", random_state=np.random.default_rng(1))
        scipy.io.mmwrite(self.path("a.mtx"), a, precision=17)
        b, d = random_values("f64", (500, 70), 2), random_values("f64", (300, 70), 3)
        write_h5(self.path("b.h5"), b)
        write_h5(self.path("d.h5"), d)
        expected = 2 * (a @ b) - d
        bound = 500 * 2.0**-52 * (2 * (abs(a) @ abs(b)) + abs(d))
        for level in ["auto", "serial", "rows", "merge", "tiled", "vendor"]:
            record = self.record("multiply", "a.mtx", "b.h5", "--add", "d.h5", "--alpha", "2", "--beta", "-1", "-o", "out.h5", "--force",
                                 "-d", "gpu", "-l", level, gpu=True)
            self.assertEqual((record["device"]["kind"], record["level"]), ("gpu", "tiled" if level == "auto" else level))
            self.assertTrue(np.all(abs(read_h5(self.path("out.h5"))[1] - expected) <= bound), level)


TENSOR_LEVELS = ("tensor", "wgmma")  # they take f32 only where its factors may be rounded


@unittest.skipIf(WHY, f"no GPU: {WHY}")
@cases([(f"{level}_{factors}", level, factors, bits) for level in TENSOR_LEVELS for factors, bits in (("tf32", 11), ("bf16", 8), ("f16", 11))])
class FewerBits(Case):
    def check(self, level, factors, bits):
        a, b = random_values("f32", (35, 670), 1), random_values("f32", (670, 42), 2)
        write_h5(self.path("a.h5"), a)
        write_h5(self.path("b.h5"), b)
        words = ["multiply", "a.h5", "b.h5", "-o", "out.h5", "-d", "gpu", "-l", level, "--verify", "full"]
        self.run_tool(*words, code=5, gpu=True)
        record = self.record(*words, "--compute", factors, gpu=True)
        self.assertEqual((record["level"], record["settings"]["compute"]), (level, factors))
        wide = a.astype(np.float64), b.astype(np.float64)
        # Both factors are rounded, or cut, by 2^(1-bits) at most; each of the 670 additions in f32 is cut by 2^-23.
        bound = (2.01 * 2.0 ** (1 - bits) + 670 * 2.0**-23) * (abs(wide[0]) @ abs(wide[1]))
        self.assertTrue(np.all(abs(read_h5(self.path("out.h5"))[1] - wide[0] @ wide[1]) <= bound))


@unittest.skipIf(WHY, f"no GPU: {WHY}")
@cases([(f"{level['name'].replace('-', '_')}_{name}", level["name"], name) for level in levels("multiply", "gpu")
        for name in MULTIPLY_TYPES if name in level["types"] and (name != "f32" or level["name"] not in TENSOR_LEVELS)])
class Multiply(Case):
    def check(self, level, name):
        a, b, d = (random_values(name, shape, seed) for seed, shape in enumerate([(35, 67), (67, 42), (35, 42)]))
        for path, matrix in [("a.h5", a), ("b.h5", b.T), ("d.h5", d)]:
            write_h5(self.path(path), matrix, name)
        record = self.record("multiply", "a.h5", "b.h5", "--transpose-b", "--alpha", "2", "--beta", "-1",
                             "--add", "d.h5", "-o", "out.h5", "-d", "gpu", "-l", level, "--verify", "full", gpu=True)
        self.assertEqual((record["level"], record["device"]["kind"]), (level, "gpu"))
        result = read_h5(self.path("out.h5"))[1]
        if is_integer(name):
            self.assertTrue(same_bits(result, wrapped_product(name, a, b, 2, -1, d)))
            return
        a, b, d = (values_of(name, matrix) for matrix in (a, b, d))
        reference, bound = multiply_reference(name, a, b, 2, -1, d)
        self.assertTrue(np.all(np.abs(values_of(name, result).astype(reference.dtype) - reference) <= bound))


@unittest.skipIf(WHY, f"no GPU: {WHY}")
class Auto(Case):
    def test_auto_takes_the_device_that_is_done_sooner(self):
        write_h5(self.path("in.h5"), random_values("f32", (50, 60)))
        self.assertEqual(self.record("transpose", "in.h5", gpu=True)["device"]["kind"], "cpu")
        # Half a second and more on one thread of any processor.
        write_h5(self.path("large.h5"), random_values("f32", (900, 900)))
        record = self.record("multiply", "large.h5", "large.h5", "-l", "naive", "--threads", "1",
                             env={"GPUMAT_CACHE": ""}, gpu=True)
        self.assertEqual(record["device"]["kind"], "gpu")
        self.assertRegex(record["level_reason"], r"on the gpu, expected [\d.e+]+ ms for [\d.e+]+ ms on the cpu")
        self.assertRegex(record["device"]["compute_capability"], r"^\d+\.\d$")
        stages = record["stages_ms"]
        self.assertTrue(all(stages[name] is not None for name in ("host_to_device", "device_to_host")))

    def test_auto_takes_the_cpu_where_the_gpu_has_no_room(self):
        write_h5(self.path("large.h5"), random_values("f32", (900, 900)))
        record = self.record("multiply", "large.h5", "large.h5", "-l", "naive", "--threads", "1", "--device-memory-limit", "1KiB",
                             env={"GPUMAT_CACHE": ""}, gpu=True)
        self.assertEqual(record["device"]["kind"], "cpu")
        self.assertRegex(record["level_reason"], r"on the cpu, because the gpu has no room: .*on the device")


@unittest.skipIf(WHY, f"no GPU: {WHY}")
@cases([(level["name"].replace("-", "_"), level["name"]) for level in levels("transpose", "gpu")
        if level["role"] == "rung"])
class InPlace(Case):
    def check(self, level):
        """In place it is right or refused with the reason; on the GPU the whole result is compared."""
        for size in (1, 33, 260):
            matrix = random_bits("f32", (size, size), seed=size)
            write_h5(self.path("in.h5"), matrix)
            result = self.run_tool("transpose", "in.h5", "-o", "out.h5", "--force", "-d", "gpu", "-l", level,
                                   "--in-place", "--repeat", "2", "--json", gpu=True, code=None)
            if result.code == 5:
                self.assert_says(result, "cannot transpose in place")
                continue
            self.assertEqual(result.code, 0, str(result))
            self.assertEqual(result.json()["verification"]["mode"], "full")
            self.assert_same_bits(read_h5(self.path("out.h5"))[1], matrix.T.copy(), f"{size}")


@unittest.skipIf(WHY, f"no GPU: {WHY}")
class BenchInPlace(Case):
    def test_levels_are_right_or_rows_with_their_reason(self):
        rows = self.run_tool("bench", "transpose", "--in-place", "-d", "gpu", "-s", "260,30x20", "-l", "all,auto", "-a",
                             "copy,memcpy,padded", "--time-limit", "0.01", "--json", gpu=True).json()["rows"]
        for row in rows:
            self.assertEqual(row["in_place"], not row["baseline"])
            if row["in_place"] and (row["n"] == 20 or row["reason"]):
                self.assertIn("in place", row["reason"], str(row))
            else:
                self.assertEqual((row["verdict"], row["reason"]), ("passed", None), str(row))
        ran = {row["level"] for row in rows if row["in_place"] and not row["reason"]}
        self.assertEqual(ran, {"tiled", "padded", "vectorized", "auto"})


@unittest.skipIf(WHY, f"no GPU: {WHY}")
class Explained(Case):
    def test_dry_run_tells_the_launch(self):
        write_h5(self.path("in.h5"), random_values("f32", (500, 600)))
        record = self.record("transpose", "in.h5", "-d", "gpu", "-l", "padded", "--dry-run", gpu=True)
        launch = record["parameters"]
        self.assertEqual((launch["grid"], launch["block"]), ("19x16", "32x8"))
        self.assertIn(launch["occupancy_limit"], ("threads", "registers", "shared memory", "blocks"))
        self.assertGreater(record["bound_ms"], 0)

    def test_every_level_can_be_explained(self):
        for operation in ("transpose", "multiply"):
            listed = self.run_tool("levels", operation, "--size", "256", "-d", "gpu", "--json", gpu=True).json()
            for level in listed["levels"]:
                self.assertTrue(level["reasons"] or level["bound_ms"] > 0, str(level))

    def test_dry_run_launch_is_the_one_that_runs(self):
        write_h5(self.path("in.h5"), random_values("f32", (500, 500)))
        command = ["multiply", "in.h5", "in.h5", "-d", "gpu"]
        foretold = self.record(*command, "--dry-run", gpu=True)
        ran = self.record(*command, gpu=True)
        self.assertEqual(foretold["parameters"], ran["parameters"])
        self.assertLessEqual(ran["fraction_of_bound"], 1)


@unittest.skipIf(WHY, f"no GPU: {WHY}")
class Tune(Case):
    def test_tune_is_what_auto_takes(self):
        environment = {"GPUMAT_CACHE": self.path("cache")}
        self.run_tool("tune", "transpose", "-d", "gpu", "-t", "f32", "-s", "1000", env=environment, gpu=True)
        write_h5(self.path("in.h5"), random_values("f32", (1000, 1000)))
        result = self.run_tool("transpose", "in.h5", "-d", "gpu", "--json", env=environment, gpu=True)
        self.assertIn("gpumat tune", result.json()["level_reason"])


if __name__ == "__main__":
    unittest.main()
