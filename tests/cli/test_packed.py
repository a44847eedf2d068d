"""Packed numbers of netCDF: a warning says that they are taken as they are stored, and --unpack gives what they stand for. The
oracle is NumPy: number × scale_factor + add_offset in f64, rounded after each, and NaN where a number is missing."""

import os
import unittest

import h5py
import numpy as np

from harness import Case, read_h5, same_bits

STORED = np.array([[0, 1, -5], [100, -32767, 7]], np.int16)
ATTRIBUTES = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": np.int16(-32767)}


def unpacked(stored, scale=1.0, offset=0.0, missing=()):
    values = stored.astype(np.float64) * np.float64(scale) + np.float64(offset)
    values[np.isin(stored, missing)] = np.nan
    return values


class Packed(Case):
    def make(self, stored=STORED, attributes=None, name="in.h5", **storage):
        with h5py.File(self.path(name), "w") as file:
            made = file.create_dataset("temp", data=stored, **storage)
            made.attrs["units"] = "K"
            made.attrs.update(ATTRIBUTES if attributes is None else attributes)

    def values(self, *options, name="in.h5"):
        """What is read, and what is said."""
        result = self.run_tool("convert", name, "-o", "out.h5", "--force", *options)
        return read_h5(self.path("out.h5"))[1], result.err

    def test_stored_numbers_are_used_with_a_warning(self):
        self.make()
        warning = "in.h5:/temp is packed (scale_factor, add_offset, _FillValue): its numbers are used as they are stored"
        for verb in (("reduce", "in.h5"), ("convert", "in.h5", "-o", "a.h5"), ("transpose", "in.h5", "-o", "b.h5"),
                     ("verify", "transpose", "in.h5", "b.h5"), ("compare", "in.h5", "a.h5"), ("transpose", "in.h5", "--dry-run")):
            with self.subTest(verb):
                self.assert_says(self.run_tool(*verb), warning, "--unpack")
        _, transposed = read_h5(self.path("b.h5"))
        np.testing.assert_array_equal(transposed, STORED.T)
        with h5py.File(self.path("b.h5")) as file:
            self.assertEqual({*ATTRIBUTES, "units"} - {*file["temp"].attrs}, set())  # what is stored is packed still
        (listed,) = self.run_tool("info", "in.h5", "--json").json()["matrices"]
        self.assertEqual((listed["type"], listed["packing"], listed["unpacked"]), ("i16", "scale_factor, add_offset, _FillValue", False))
        record = self.record("reduce", "in.h5")
        self.assertEqual((record["answer"], record["inputs"][0]["packing"], record["inputs"][0]["unpacked"]),
                         (int(STORED.sum()), "scale_factor, add_offset, _FillValue", False))

    def test_unpacked(self):
        expected = unpacked(STORED, 0.01, 273.15, [-32767])
        for storage in ({}, {"chunks": (1, 2)}, {"chunks": (2, 2), "compression": 4, "shuffle": True}, {"dtype": ">i2"}):
            with self.subTest(**storage):
                self.make(**storage)
                found, said = self.values("--unpack")
                self.assert_same_bits(found, expected)
                self.assertNotIn("packed", said)
                with h5py.File(self.path("out.h5")) as file:  # nobody unpacks them again
                    self.assertEqual([name for name in ATTRIBUTES if name in file["temp"].attrs], [])
                    self.assertEqual(file["temp"].attrs["units"], "K")

    def test_types(self):
        rng = np.random.default_rng(3)
        for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
            with self.subTest(dtype):
                kind = np.dtype(dtype)
                limits = np.iinfo(kind) if kind.kind in "iu" else None
                stored = rng.integers(limits.min, limits.max, (40, 30), kind, True) if limits else rng.normal(size=(40, 30)).astype(kind)
                fill = stored[3, 4]
                self.make(stored, {"scale_factor": np.float32(0.1), "add_offset": -3.5, "_FillValue": fill})
                found, _ = self.values("--unpack")
                self.assert_same_bits(found, unpacked(stored, np.float32(0.1), -3.5, [fill]), dtype)
                self.assertTrue(np.isnan(found[3, 4]))

    def test_as_another_type(self):
        self.make(np.array([[3, 4]], "i2"), {"scale_factor": 0.1})
        found, _ = self.values("--unpack", "-t", "f32")
        self.assert_same_bits(found, (np.array([[3, 4]]) * 0.1).astype(np.float32))
        self.make(np.array([[3, 4]], "i2"), {"scale_factor": 2})
        found, _ = self.values("--unpack", "-t", "i64")
        self.assert_same_bits(found, np.array([[6, 8]], "i8"))
        self.make()
        self.assert_says(self.run_tool("convert", "in.h5", "-o", "no.h5", "--unpack", "-t", "i32", code=3), "in.h5:/temp")
        self.assertFalse(os.path.exists(self.path("no.h5")))

    def test_several_missing_values(self):
        self.make(attributes={"missing_value": np.array([-5.0, 100.0, np.nan, 1e20]), "_FillValue": np.int16(7)})
        found, _ = self.values("--unpack")
        self.assert_same_bits(found, unpacked(STORED, missing=[-5, 100, 7]))

    def test_64_bits_are_compared_exactly(self):
        stored = np.array([[2**62, 2**62 + 1]], "i8")
        self.make(stored, {"_FillValue": np.int64(2**62 + 1)})
        found, _ = self.values("--unpack")
        self.assertEqual(np.isnan(found).tolist(), [[False, True]])

    def test_signed_numbers_that_are_meant_unsigned(self):
        stored = np.array([[-1, 5, -2]], "i1")
        self.make(stored, {"_Unsigned": "true", "_FillValue": np.int8(-2), "scale_factor": 2.0})
        found, _ = self.values("--unpack")
        self.assert_same_bits(found, np.array([[510, 10, np.nan]]))

    def test_missing_numbers_are_named_with_or_without_the_sign(self):
        """What is missing may be given as the number that is meant, or as the one that is stored."""
        stored = np.array([[-1, -2, 3]], np.int8)
        for fill in (np.int16(255), np.uint8(255), np.int8(-1), 255.0):
            with self.subTest(repr(fill)):
                self.make(stored, {"_Unsigned": "True", "missing_value": fill})
                self.assert_same_bits(self.values("--unpack")[0], np.array([[np.nan, 254, 3]]))
        self.make(stored.view(np.uint8), {"_Unsigned": "false"})
        self.assert_same_bits(self.values("--unpack")[0], np.array([[-1.0, -2, 3]]))
        self.make(stored, {"_Unsigned": "maybe"})
        self.assert_says(self.run_tool("reduce", "in.h5", "--unpack", code=3), "_Unsigned", "maybe", "true or false")

    def test_another_type_has_other_signs(self):
        self.make(np.array([[-1, 2]], np.int8), {"_Unsigned": "true"})
        self.run_tool("convert", "in.h5", "-t", "i16", "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as file:
            self.assertNotIn("_Unsigned", file["temp"].attrs)

    def test_64_bits_never_lose_digits(self):
        """Neither scaled nor held by f64: refused, for what is read would be another number."""
        for kind, number in ((np.int64, 2**53 + 1), (np.int64, 2**63 - 1), (np.uint64, 2**64 - 1)):
            with self.subTest(number):
                self.make(np.array([[number, 1]], kind), {"_FillValue": kind(7)})
                self.assert_says(self.run_tool("reduce", "in.h5", "--unpack", code=3), "in.h5:/temp", str(number), "f64")
        self.make(np.array([[2**53, 7]], np.int64), {"_FillValue": np.int64(7)})
        self.assert_same_bits(self.values("--unpack")[0], np.array([[2.0**53, np.nan]]))

    def test_floating_point_in_which_only_nan_is_missing(self):
        self.make(np.array([[1.0, np.nan]]), {"_FillValue": np.nan})
        self.assertNotIn("packed", self.run_tool("convert", "in.h5", "-o", "out.h5").err)
        self.make(np.array([[1.0, 1e20]], "f4"), {"_FillValue": np.float32(1e20)})
        self.assert_says(self.run_tool("reduce", "in.h5"), "is packed (_FillValue)")
        self.assertEqual(self.run_tool("reduce", "in.h5", "--op", "nan-count", "--unpack").out, "1\n")

    def test_all_verbs_take_the_same_numbers(self):
        self.make(np.arange(12, dtype="i2").reshape(3, 4), {"scale_factor": 0.5, "add_offset": 1.0})
        expected = unpacked(np.arange(12).reshape(3, 4), 0.5, 1.0)
        record = self.record("transpose", "in.h5", "--unpack", "-o", "t.h5")
        self.assertEqual((record["type"], record["inputs"][0]["unpacked"], record["verification"]["verdict"]), ("f64", True, "passed"))
        self.assert_same_bits(read_h5(self.path("t.h5"))[1], np.ascontiguousarray(expected.T))
        self.assert_says(self.run_tool("verify", "transpose", "in.h5", "t.h5", "--unpack"), "passed")
        self.run_tool("verify", "transpose", "in.h5", "t.h5", code=8)  # i16
        self.run_tool("compare", "in.h5", "t.h5", "--transposed", "--unpack")
        self.run_tool("compare", "in.h5", "t.h5", "--transposed", code=1)
        self.assertEqual(float(self.run_tool("reduce", "in.h5", "--unpack").out), expected.sum())
        self.run_tool("multiply", "in.h5", "t.h5", "--unpack", "-o", "c.h5", "--force")
        self.assert_same_bits(read_h5(self.path("c.h5"))[1], expected @ expected.T)
        (listed,) = self.run_tool("info", "in.h5", "--stats", "--unpack", "--json").json()["matrices"]
        self.assertEqual((listed["type"], listed["unpacked"], listed["statistics"]["largest"], listed["hash"]),
                         ("f64", True, 6.5, record["inputs"][0]["hash"]))

    def test_reversed_dimensions(self):
        self.make()
        found, _ = self.values("--unpack", "--layout", "matlab")
        self.assert_same_bits(found, np.ascontiguousarray(unpacked(STORED, 0.01, 273.15, [-32767]).T))

    def test_in_parts(self):
        stored = np.random.default_rng(1).integers(-9, 9, (1500, 1000)).astype("i2")
        self.make(stored, {"scale_factor": 0.25}, chunks=(100, 100))
        self.run_tool("transpose", "in.h5", "--unpack", "-o", "out.h5", "--memory-limit", "20MiB")
        self.assertTrue(same_bits(read_h5(self.path("out.h5"))[1], np.ascontiguousarray(unpacked(stored, 0.25).T)))

    def test_nothing_to_unpack(self):
        self.make(attributes={})
        found, said = self.values("--unpack")
        self.assert_same_bits(found, STORED)
        self.assertIn("--unpack has nothing to unpack: in.h5:/temp", said)

    def test_attributes_that_cannot_be_used(self):
        for attributes, words in (({"scale_factor": "a tenth"}, "'scale_factor': expected a number"),
                                  ({"scale_factor": np.array([1.0, 2.0])}, "'scale_factor': expected one number"),
                                  ({"_FillValue": "none"}, "'_FillValue': expected a number")):
            with self.subTest(words):
                self.make(attributes=attributes)
                self.assert_says(self.run_tool("reduce", "in.h5", "--unpack", code=3), f"in.h5:/temp: its attribute {words}")
                self.assert_says(self.run_tool("reduce", "in.h5"), "is packed")
        self.make(np.ones((2, 2), "c16"), {"scale_factor": 2.0})
        self.assert_says(self.run_tool("reduce", "in.h5", "--unpack", code=3), "holds c128, which --unpack does not unpack")

    def test_a_batch_resumes(self):
        self.make()
        with open(self.path("jobs.txt"), "w", encoding="ascii") as file:
            file.write("convert in.h5 -o out.h5 --unpack\n")
        self.run_tool("batch", "jobs.txt", "--log", "log.jsonl")
        self.assert_says(self.run_tool("batch", "jobs.txt", "--log", "log.jsonl", "--resume"), "1 ")
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], unpacked(STORED, 0.01, 273.15, [-32767]))


if __name__ == "__main__":
    unittest.main()
