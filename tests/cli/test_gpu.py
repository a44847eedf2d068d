"""Every GPU level through the built tool, against NumPy. Without a usable GPU all of it is skipped."""

import json
import subprocess
import unittest

import numpy as np

from harness import (GPUMAT, MULTIPLY_TYPES, Case, cases, is_integer, levels, multiply_reference, random_bits,
                     random_values, read_h5, same_bits, values_of, wrapped_product, write_h5)


def why_no_gpu():
    listed = subprocess.run([GPUMAT, "devices", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(listed.stdout)["why_no_gpu"]


WHY = why_no_gpu()
SHAPES = [(0, 3), (1, 1), (1, 129), (65, 1), (129, 257)]


@unittest.skipIf(WHY, f"no GPU: {WHY}")
@cases([(level["name"].replace("-", "_"), level["name"]) for level in levels("transpose", "gpu")])
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
@cases([(f"{level['name'].replace('-', '_')}_{name}", level["name"], name) for level in levels("multiply", "gpu")
        for name in MULTIPLY_TYPES if name in level["types"]])
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
    def test_auto_takes_the_gpu(self):
        write_h5(self.path("in.h5"), random_values("f32", (50, 60)))
        record = self.record("transpose", "in.h5", gpu=True)
        self.assertEqual(record["device"]["kind"], "gpu")
        self.assertRegex(record["device"]["compute_capability"], r"^\d+\.\d$")
        stages = record["stages_ms"]
        self.assertTrue(all(stages[name] is not None for name in ("host_to_device", "device_to_host")))


if __name__ == "__main__":
    unittest.main()
