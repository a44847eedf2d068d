"""An operation that is made of a row, its levels and a verification runs, is verified, benches and is listed."""

import json
import os
import subprocess
import tempfile
import unittest


class ThirdOperation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.input = os.path.join(folder.name, "a.mtx")
        with open(self.input, "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n")

    def run_tool(self, *words, code=0):
        done = subprocess.run([os.environ["GPUMAT_SCALE"], *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def test_runs(self):
        written = self.run_tool("scale", self.input, "-t", "f32", "--alpha", "0.5", "-o", "-", "-q")
        self.assertTrue(written.endswith("2 3\n0.5\n1\n1.5\n2\n2.5\n3\n"), written)
        self.run_tool("scale", self.input, "-t", "f32", "--dry-run", "-q")

    def test_is_verified(self):
        record = json.loads(self.run_tool("scale", self.input, "-t", "f32", "--alpha", "3", "--json", "-q"))
        self.assertEqual((record["op"], record["alpha"], record["shape"]["k"]), ("scale", 3, None))
        self.assertEqual(record["verification"]["verdict"], "passed")
        self.run_tool("scale", self.input, "-t", "f32", "--level", "wrong", "-q", code=1)

    def test_refuses(self):
        self.run_tool("scale", self.input, "-t", "f64", "--level", "plain", "-q", code=5)
        self.run_tool("scale", self.input, "--level", "absent", "-q", code=2)
        self.run_tool("scale", self.input, "--beta", "2", code=2)
        self.run_tool("tune", "scale", "-d", "cpu", "-q", code=2)

    def test_verifies_stored_results(self):
        self.run_tool("verify", "scale", self.input, self.input, "-t", "f32", "-q")
        self.run_tool("verify", "scale", self.input, self.input, "--alpha", "2", "-t", "f32", "-q", code=1)

    def test_benches(self):
        words = ["bench", "scale", "--size", "8x9", "--time-limit", "0.01", "-d", "cpu", "--hot"]
        self.assertIn(",scale,plain,plain,", self.run_tool(*words, "--levels", "plain", "--csv"))
        self.assertIn("of plain", self.run_tool(*words, "-q", code=1))

    def test_is_listed(self):
        self.assertIn("plain", self.run_tool("levels", "scale"))
        self.assertTrue(self.run_tool("levels", "scale", "--size", "5x7", "-d", "cpu").startswith("scale f32 5x7"))
        self.assertIn("scale a stored matrix", self.run_tool("--help"))
        self.assertIn("--alpha", self.run_tool("scale", "--help"))


if __name__ == "__main__":
    unittest.main()
