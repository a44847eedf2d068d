"""A small limit of the stack (`ulimit -s`) is no fault of a file: the tool gives itself the stack that it needs."""

import unittest

import h5py
import numpy as np

from harness import SANITIZED, Case, read_h5, write_h5, write_mtx


@unittest.skipIf(SANITIZED, "the sanitizers need more stack than that")
class SmallStack(Case):
    def test_every_verb(self):
        values = np.random.default_rng(1).normal(size=(60, 60))
        write_h5(self.path("a.h5"), values, chunks=(20, 20), compression=4)
        write_mtx(self.path("a.mtx"), values)
        with h5py.File(self.path("column.h5"), "w") as file:
            file["data"] = np.arange(5.0)
        for kibibytes in (64, 128):
            limited = {"before": ("bash", "-c", f'ulimit -s {kibibytes} && exec "$@"', "bash")}
            with self.subTest(kibibytes=kibibytes):
                self.assertEqual(self.run_tool("reduce", "column.h5:/data", "--as-column", **limited).out, "10.0\n")
                for name in ("a.h5", "a.mtx"):
                    self.run_tool("transpose", name, "-o", "t.h5", "--force", "--device", "cpu", **limited)
                    np.testing.assert_array_equal(read_h5(self.path("t.h5"))[1], values.T)
                    self.run_tool("verify", "transpose", name, "t.h5", **limited)
                    self.run_tool("multiply", name, name, "-o", "c.h5", "--force", "--device", "cpu", **limited)
                    self.run_tool("info", name, "--stats", **limited)
                    self.run_tool("compare", name, "a.h5", **limited)
                self.run_tool("convert", "a.h5", "-o", "b.h5", "--force", "--chunk", "7x7", **limited)


if __name__ == "__main__":
    unittest.main()
