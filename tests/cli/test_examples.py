"""The scripts of examples/ do what they say; the results are checked with NumPy."""

import json
import os
import subprocess
import unittest

import numpy as np

from harness import GPUMAT, Case, random_values, read_h5, read_mtx, write_h5

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


class ExampleCase(Case):
    def example(self, name, *arguments, code=0):
        environment = {**os.environ, "GPUMAT": os.path.abspath(GPUMAT), "GPUMAT_CACHE": "", "CUDA_VISIBLE_DEVICES": ""}
        found = subprocess.run([os.path.join(FOLDER, name), *arguments], cwd=self.folder, env=environment, check=False,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(found.returncode, code, found.stdout + found.stderr)
        return found.stdout + found.stderr


class Pipeline(ExampleCase):
    def test_runs(self):
        said = self.example("pipeline", self.folder)
        self.assertIn("are equal", said)
        words = np.random.Philox(key=7).random_raw(300 * 200)
        expected = np.array([-9 + (int(word) * 19 >> 64) for word in words], np.int32).reshape(300, 200).T.copy()
        found, matrix = read_h5(self.path("transposed.h5"))
        self.assertEqual(found, "i32")
        self.assert_same_bits(matrix, expected)


class Quickstart(Case):
    def test_asks_the_tool_for_its_table(self):
        """No record is taken apart by text tools."""
        with open(os.path.join(FOLDER, "quickstart"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn('report "$log"', text)
        self.assertNotIn("awk", text)


class Batch(ExampleCase):
    def test_makes_its_folder_and_runs_twice(self):
        for _ in range(2):
            said = self.example("batch", "new/folder")
            self.assertIn("exit code 3: one input is missing", said)
            self.assertIn("3 jobs: 1 done, 2 done before", said)
            self.assertRegex(said, r"(?m)^\d+\.\d+  in/1.h5$")

    def test_runs(self):
        said = self.example("batch", self.folder)
        self.assertIn("exit code 3: one input is missing", said)
        self.assertIn("3 jobs: 1 done, 2 done before", said)
        a, b = (read_h5(self.path(f"in/{number}.h5"))[1].astype(np.float64) for number in (1, 2))
        product = read_h5(self.path("out/product.h5"))[1]
        bound = 200 * 2.0**-24 * (np.abs(a) @ np.abs(b)) * 1.01  # γ_k of the products' worst case, and the last rounding
        self.assertTrue(np.all(np.abs(product - a @ b) <= bound))
        self.assert_same_bits(read_h5(self.path("out/product_transposed.h5"))[1], product.T.copy())
        np.testing.assert_array_equal(read_mtx(self.path("out/late.mtx")), np.eye(3))


class NightlyCheck(ExampleCase):
    def test_finds_the_result_that_differs(self):
        for folder in ("in", "re sults"):
            os.mkdir(self.path(folder))
        for name in ("a", "it's b"):
            matrix = random_values("f32", (20, 30))
            write_h5(self.path(f"in/{name}.h5"), matrix)
            write_h5(self.path(f"re sults/{name}_t.h5"), matrix.T.copy())
        self.assertIn("2 jobs: 2 done", self.example("nightly_check", "in", "re sults", "log.jsonl"))
        matrix[3, 4] += 1
        write_h5(self.path("re sults/it's b_t.h5"), matrix.T.copy())
        self.assertIn("1 done, 1 differs", self.example("nightly_check", "in", "re sults", "log.jsonl", code=1))
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line)["exit_code"] for line in file][-2:].count(1), 1)


if __name__ == "__main__":
    unittest.main()
