#!/usr/bin/env python3
"""The h5py side of the HDF5 tests.

    make_hdf5.py generate DIR   writes files, the elements that they hold as raw bytes, and cases.tsv
    make_hdf5.py check DIR      compares the files that the tests wrote, listed in written.tsv, with raw bytes

A line of cases.tsv is either
    read<TAB>NAME<TAB>FILE<TAB>DATASET<TAB>OPTIONS<TAB>TYPE<TAB>ROWS<TAB>COLS<TAB>RAW
or
    fail<TAB>NAME<TAB>FILE<TAB>DATASET<TAB>OPTIONS<TAB>CODE<TAB>WORDS OF THE MESSAGE
OPTIONS are words such as column, unpack, external, matlab, row, type=f32, limit=1024 (bytes of memory); a dash stands for nothing.
"""
import os
import shutil
import struct
import sys
import zlib

import h5py
import numpy as np

NEWEST = ("v110", "v110")  # the newest file format that HDF5 1.10 reads, whatever h5py has

TYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128,
}


def patch(path, old, new):
    """Replaces the only place where `old` is in a file."""
    assert len(old) == len(new)
    with open(path, "r+b") as file:
        data = file.read()
        assert data.count(old) == 1, f"{path}: {data.count(old)} places"
        file.seek(data.index(old))
        file.write(new)


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.lines = []

    def path(self, name):
        return os.path.join(self.folder, name)

    def reads(self, name, file, expected, type_name, dataset="-", options="-"):
        """`expected` is what must be delivered, row by row."""
        raw = f"{name}.raw"
        expected = np.ascontiguousarray(expected)
        with open(self.path(raw), "wb") as out:
            out.write(expected.tobytes())
        rows, cols = expected.shape
        self.lines.append(["read", name, file, dataset, options, type_name, str(rows), str(cols), raw])

    def fails(self, name, file, code, words, dataset="-", options="-"):
        self.lines.append(["fail", name, file, dataset, options, str(code), words])

    def save(self):
        with open(self.path("cases.tsv"), "w") as out:
            for line in self.lines:
                out.write("\t".join(line) + "\n")


def sample(dtype, shape, seed=1):
    """Every bit pattern is allowed in integers; floats have special values at the front."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = np.float32 if dtype.itemsize == 8 else np.float64
        return complex_of(sample(part, shape, seed), sample(part, shape, seed + 1), dtype)
    if dtype.kind == "f":
        values = rng.standard_normal(shape).astype(dtype)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny]
        flat = values.reshape(-1)
        flat[: min(len(special), flat.size)] = np.array(special, dtype)[: flat.size]
        return values
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)


def complex_of(real, imaginary, dtype):
    values = np.empty(real.shape, dtype)
    values.real, values.imag = real, imaginary
    return values


def bf16_type():
    type_id = h5py.h5t.IEEE_F32LE.copy()
    type_id.set_fields(15, 7, 8, 0, 7)
    type_id.set_precision(16)
    type_id.set_size(2)
    type_id.set_ebias(127)
    return type_id


def write_low(path, dataset, type_id, shape, data, dcpl=None):
    """A dataset of a type that NumPy has no name for, from its bytes."""
    with h5py.File(path, "a") as file:
        space = h5py.h5s.create_simple(shape)
        made = h5py.h5d.create(file.id, dataset.encode(), type_id, space, dcpl=dcpl)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(data), type_id)


def types_and_orders(cases):
    for name, dtype in TYPES.items():
        for order, word in (("<", "little"), (">", "big")):
            values = sample(dtype, (7, 5))
            file = f"type_{name}_{word}.h5"
            with h5py.File(cases.path(file), "w") as out:
                out["A"] = values.astype(np.dtype(dtype).newbyteorder(order))
                out.create_dataset("Z", data=values.astype(np.dtype(dtype).newbyteorder(order)), chunks=(3, 2),
                                   compression=4, shuffle=True)
                wide = sample(dtype, (9, 83))  # rows of more elements than a vector register has bytes
                out.create_dataset("W", data=wide.astype(np.dtype(dtype).newbyteorder(order)), chunks=(5, 40),
                                   shuffle=True)
            cases.reads(f"{name}_{word}_wide", file, wide, name, "/W")
            cases.reads(f"{name}_{word}", file, values, name, "/A")
            cases.reads(f"{name}_{word}_chunked", file, values, name, "/Z")
    bits = sample(np.uint16, (6, 4))
    for order, word in ((h5py.h5t.ORDER_LE, "little"), (h5py.h5t.ORDER_BE, "big")):
        type_id = bf16_type()
        type_id.set_order(order)
        stored = bits if order == h5py.h5t.ORDER_LE else bits.byteswap()
        write_low(cases.path(f"bf16_{word}.h5"), "A", type_id, bits.shape, stored)
        cases.reads(f"bf16_{word}", f"bf16_{word}.h5", bits, "bf16")
    flags = np.array([[True, False, True], [False, False, True]])
    with h5py.File(cases.path("bool.h5"), "w") as out:
        out["A"] = flags
    cases.reads("bool", "bool.h5", flags.astype(np.uint8), "u8")
    for real, imaginary in (("real", "imag"), ("i", "r"), ("r", "i")):
        parts = np.zeros((3, 4), dtype=[(real, ">f4"), (imaginary, ">f4")])
        parts[real], parts[imaginary] = sample("f4", (3, 4), 3), sample("f4", (3, 4), 4)
        with h5py.File(cases.path(f"complex_{real}.h5"), "w") as out:
            out["A"] = parts
        first, second = (real, imaginary) if real != "i" else (imaginary, real)
        expected = complex_of(parts[first], parts[second], np.complex64)
        cases.reads(f"complex_{real}", f"complex_{real}.h5", expected, "c64")
    padded = np.zeros((3, 4), dtype=np.dtype({"names": ["r", "i"], "formats": ["<f8", "<f8"],
                                              "offsets": [4, 20], "itemsize": 32}))
    padded["r"], padded["i"] = sample("f8", (3, 4), 3), sample("f8", (3, 4), 4)
    with h5py.File(cases.path("complex_padded.h5"), "w") as out:
        out["A"] = padded
    cases.reads("complex_padded", "complex_padded.h5", complex_of(padded["r"], padded["i"], np.complex128), "c128")
    odd = h5py.h5t.STD_I32LE.copy()  # 13 bits in 3 bytes: HDF5 refuses to leave more of them unused
    odd.set_precision(13)
    odd.set_offset(3)
    odd.set_size(3)
    few = np.array([[-4096, 4095, -1], [0, 1, 5]], np.int32)
    packed = ((few << 3) & 0xFFF8).astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3]
    write_low(cases.path("int13.h5"), "A", odd, few.shape, packed)
    cases.reads("integer_of_13_bits", "int13.h5", few.astype(np.int16), "i16")
    write_low(cases.path("bitfield.h5"), "A", h5py.h5t.STD_B16BE, (2, 3), np.arange(6, dtype=">u2"))
    cases.reads("bitfield", "bitfield.h5", np.arange(6, dtype=np.uint16).reshape(2, 3), "u16")


def extended(cases):
    wide = np.array([[np.longdouble("0.1"), -np.inf, np.nan], [2 ** 63, 1.5, -0.0]], np.longdouble)
    with h5py.File(cases.path("extended.h5"), "w") as out:
        out["A"] = wide
        out["C"] = complex_of(wide, wide, np.clongdouble)
    cases.fails("extended_unasked", "extended.h5", 3, "--type f64", "/A")
    cases.reads("extended_f64", "extended.h5", wide.astype(np.float64), "f64", "/A", "type=f64")
    cases.reads("extended_f32", "extended.h5", wide.astype(np.float32), "f32", "/A", "type=f32")
    cases.fails("extended_i64", "extended.h5", 3, "row 1, column 1", "/A", "type=i64")
    whole = np.array([[2 ** 63, 3], [2 ** 64 - 1, 0]], np.longdouble)
    with h5py.File(cases.path("extended_whole.h5"), "w") as out:
        out["A"] = whole
        out["big"] = np.array([[np.longdouble("1e400")]])
    cases.reads("extended_u64", "extended_whole.h5", np.array([[2 ** 63, 3], [2 ** 64 - 1, 0]], np.uint64), "u64",
                "/A", "type=u64")
    cases.fails("extended_overflow", "extended_whole.h5", 3, "row 1, column 1", "/big", "type=f64")
    # 1 + 2^-24 + 2^-63 lies just above a tie of f32: rounding twice would lose it.
    tie = np.array([[np.longdouble(1) + np.longdouble(2) ** -24 + np.longdouble(2) ** -63]])
    with h5py.File(cases.path("tie.h5"), "w") as out:
        out["A"] = tie
    cases.reads("extended_tie", "tie.h5", np.array([[1 + 2.0 ** -23]], np.float32), "f32", "-", "type=f32")
    quad = h5py.h5t.IEEE_F64LE.copy()
    quad.set_size(16)
    quad.set_precision(128)
    quad.set_fields(127, 112, 15, 0, 112)
    quad.set_ebias(16383)
    # 1 + 2^-53 + 2^-112: above a tie of f64 by a bit that only binary128 has.
    bits = (16383 << 112) | (1 << 59) | 1
    write_low(cases.path("quad.h5"), "A", quad, (1, 1), np.frombuffer(bits.to_bytes(16, "little"), np.uint8))
    cases.reads("quad_tie", "quad.h5", np.array([[1 + 2.0 ** -52]]), "f64", "-", "type=f64")


def float_type(order, size, exponent_bits, mantissa_bits, bias, first=0):
    """Sign, exponent and mantissa side by side from bit `first` of `size` bytes."""
    kind = {"<": h5py.h5t.IEEE_F64LE, ">": h5py.h5t.IEEE_F64BE}[order].copy()
    kind.set_fields(first + exponent_bits + mantissa_bits, first + mantissa_bits, exponent_bits, first, mantissa_bits)
    kind.set_precision(first + 1 + exponent_bits + mantissa_bits)
    kind.set_size(size)
    kind.set_ebias(bias)
    return kind


def unusual_floats(cases):
    """Floats of other layouts than those of the types: in the narrowest type that holds all of their values."""
    halves = sample("f2", (4, 5), 3)
    with h5py.File(cases.path("half_complex.h5"), "w") as out:
        for order, word in (("<", "little"), (">", "big")):
            parts = np.zeros(halves.shape, [("r", order + "f2"), ("i", order + "f2")])
            parts["r"], parts["i"] = halves, halves[::-1]
            out[word] = parts
            out.create_dataset(word + "_chunked", data=parts, chunks=(3, 2), compression=4, shuffle=True)
    for name in ("little", "big", "little_chunked", "big_chunked"):
        cases.reads(f"half_complex_{name}", "half_complex.h5", complex_of(halves, halves[::-1], np.complex64), "c64",
                    "/" + name)
    cases.reads("half_complex_c128", "half_complex.h5", complex_of(halves, halves[::-1], np.complex128), "c128", "/big",
                "type=c128")
    # Name, bytes, exponent bits, mantissa bits, bias, first bit; the type, or nothing where none holds all values.
    # An 8-bit exponent with one more step below those of bfloat16 fits f32, one with a bias of 150 only f64.
    layouts = (("e4m3", 1, 4, 3, 7, 0, "f16"), ("e5m2", 1, 5, 2, 15, 0, "f16"), ("e5m2_up", 2, 5, 2, 15, 4, "f16"),
               ("e6m9", 2, 6, 9, 31, 0, "f32"), ("e8m8", 4, 8, 8, 127, 0, "f32"), ("e8m7_low", 2, 8, 7, 150, 0, "f64"),
               ("e7m20", 4, 7, 20, 63, 0, "f32"), ("e10m40", 8, 10, 40, 511, 0, "f64"),
               ("e12m40", 8, 12, 40, 2047, 0, None), ("e11m52_low", 8, 11, 52, 1024, 0, None))
    numbers = [0.0, -0.0, 1.0, -1.5, 0.25, 3.0, np.inf, -np.inf]
    for name, size, exponent_bits, mantissa_bits, bias, first, expected in layouts:
        for order, word in (("<", "little"), (">", "big")):
            values = numbers + [2.0 ** (1 - bias - mantissa_bits)] if bias < 1000 else numbers  # the finest step

            def bits_of(value):
                sign = int(np.signbit(value)) << (exponent_bits + mantissa_bits)
                value = abs(value)
                if np.isinf(value):
                    return sign | (2 ** exponent_bits - 1) << mantissa_bits
                fraction, exponent = np.frexp(value)  # fraction × 2 in [1, 2)
                if value == 0 or exponent - 1 < 1 - bias:
                    return sign | (1 if value else 0)
                return sign | (int(exponent) - 1 + bias) << mantissa_bits | int((fraction * 2 - 1) * 2.0 ** mantissa_bits)
            data = b"".join((bits_of(v) << first).to_bytes(size, "little" if order == "<" else "big") for v in values)
            file, case = f"float_{name}_{word}.h5", f"float_{name}_{word}"
            kind = float_type(order, size, exponent_bits, mantissa_bits, bias, first)
            write_low(cases.path(file), "A", kind, (1, len(values)), np.frombuffer(data, np.uint8))
            if expected is None:
                cases.fails(case, file, 3, "fit no type exactly", "/A")
            else:
                cases.reads(case, file, np.array([values], TYPES[expected]), expected, "/A")
            cases.reads(case + "_f64", file, np.array([values]), "f64", "/A", "type=f64")
    # Damaged: the sign in the mantissa, the mantissa in the exponent.
    fields = struct.pack("<BBIHH", 15, 0, 2, 0, 16)
    for name, sign, mantissa_bits in (("sign", 3, 9), ("mantissa", 15, 10)):
        file = f"float_overlap_{name}.h5"
        write_low(cases.path(file), "A", float_type("<", 2, 6, 9, 31, 0), (1, 2), np.array([[1, 2]], "u2"))
        patch(cases.path(file), fields + bytes((9, 6, 0, 9)), struct.pack("<BBIHH", sign, 0, 2, 0, 16) + bytes((9, 6, 0, mantissa_bits)))
        cases.fails(f"float_overlap_{name}", file, 3, "floating-point number of an unknown layout", "/A")


def layouts(cases):
    values = sample("f8", (37, 23))
    with h5py.File(cases.path("layouts.h5"), "w") as out:
        out["contiguous"] = values
        out.create_dataset("chunked", data=values, chunks=(10, 7))
        for level in (1, 4, 9):
            out.create_dataset(f"deflate{level}", data=values, chunks=(10, 7), compression=level)
        out.create_dataset("shuffle", data=values, chunks=(10, 7), shuffle=True)
        out.create_dataset("both", data=values, chunks=(10, 7), compression=4, shuffle=True)
        out.create_dataset("fletcher", data=values, chunks=(10, 7), compression=4, shuffle=True, fletcher32=True)
        out.create_dataset("lzf", data=values, chunks=(10, 7), compression="lzf", shuffle=True)
        out.create_dataset("lzf_plain", data=np.zeros((40, 40)), chunks=(16, 16), compression="lzf")
        out.create_dataset("szip", data=values, chunks=(10, 8), compression="szip")
        out.create_dataset("growing", data=values, chunks=(10, 7), maxshape=(None, None))
        out.create_dataset("one_chunk", data=values, chunks=(37, 23), compression=1)
        out.create_dataset("wide_chunk", data=values, chunks=(50, 40), maxshape=(None, None), compression=1)
        out.create_dataset("scale", data=np.arange(60).reshape(6, 10), chunks=(4, 4), scaleoffset=True)
        some = out.create_dataset("fill", (37, 23), "f8", chunks=(10, 7), fillvalue=2.5, compression=4)
        some[12:15, 8:9] = values[12:15, 8:9]
        out.create_dataset("unwritten", (5, 4), "f8", fillvalue=-1.0)
        out.create_dataset("zeros", (5, 4), ">i4")
        out.create_dataset("no_rows", (0, 4), "f4")
        out.create_dataset("no_columns", (4, 0), "f4", chunks=(2, 2), maxshape=(None, None))
        out.create_dataset("big_fill", (3, 3), ">f4", chunks=(2, 2), fillvalue=1.5)
        narrow = np.arange(100).reshape(100, 1)
        out.create_dataset("narrow", data=narrow.astype(np.uint8), chunks=(16, 1))
        out.create_dataset("narrow_big", data=narrow.astype(">u2"), chunks=(16, 1), compression=1, shuffle=True)
        out.create_dataset("narrow_fill", (100, 1), "i2", chunks=(16, 1), fillvalue=-7)[40:50] = 3
    for name in ("contiguous", "chunked", "deflate1", "deflate4", "deflate9", "shuffle", "both", "fletcher", "lzf",
                 "szip", "growing", "one_chunk", "wide_chunk"):
        cases.reads(f"layout_{name}", "layouts.h5", values, "f64", f"/{name}")
        cases.reads(f"layout_{name}_reversed", "layouts.h5", values.T, "f64", f"/{name}", "matlab")
        cases.reads(f"layout_{name}_converted", "layouts.h5", values.astype(np.complex128), "c128", f"/{name}",
                    "type=c128")
    cases.reads("lzf_plain", "layouts.h5", np.zeros((40, 40)), "f64", "/lzf_plain")
    cases.reads("scaleoffset", "layouts.h5", np.arange(60).reshape(6, 10), "i64", "/scale")
    filled = np.full((37, 23), 2.5)
    filled[12:15, 8:9] = values[12:15, 8:9]
    cases.reads("fill", "layouts.h5", filled, "f64", "/fill")
    cases.reads("unwritten", "layouts.h5", np.full((5, 4), -1.0), "f64", "/unwritten")
    cases.reads("zeros", "layouts.h5", np.zeros((5, 4), np.int32), "i32", "/zeros")
    cases.reads("no_rows", "layouts.h5", np.zeros((0, 4), np.float32), "f32", "/no_rows")
    cases.reads("no_columns", "layouts.h5", np.zeros((4, 0), np.float32), "f32", "/no_columns")
    cases.reads("big_fill", "layouts.h5", np.full((3, 3), 1.5, np.float32), "f32", "/big_fill")
    cases.reads("narrow", "layouts.h5", narrow.astype(np.uint8), "u8", "/narrow")
    cases.reads("narrow_big", "layouts.h5", narrow.astype(np.uint16), "u16", "/narrow_big")
    filled = np.full((100, 1), -7, np.int16)
    filled[40:50] = 3
    cases.reads("narrow_fill", "layouts.h5", filled, "i16", "/narrow_fill")
    cases.fails("several", "layouts.h5", 3, "/contiguous 37x23 f64")
    cases.fails("absent", "layouts.h5", 3, "there is no 'nothing'; the file holds", "/nothing")
    cases.fails("inside_a_dataset", "layouts.h5", 3, "is no group", "/contiguous/x")

    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    write_low(cases.path("compact.h5"), "A", h5py.h5t.IEEE_F64LE, (3, 4), np.arange(12.0), compact)
    cases.reads("compact", "compact.h5", np.arange(12.0).reshape(3, 4), "f64")
    latest = sample("f4", (50, 30))
    with h5py.File(cases.path("latest.h5"), "w", libver=NEWEST) as out:
        out.create_dataset("fixed", data=latest, chunks=(8, 8), compression=4)
        out.create_dataset("grows", data=latest, chunks=(8, 8), compression=4, maxshape=(None, 30))
        out.create_dataset("both", data=latest, chunks=(8, 8), compression=4, maxshape=(None, None))
        out.create_dataset("single", data=latest, chunks=(50, 30), compression=4)
    for name in ("fixed", "grows", "both", "single"):
        cases.reads(f"latest_{name}", "latest.h5", latest, "f32", f"/{name}")
    for size in (512, 1024, 8192):
        file = f"user_block_{size}.h5"
        with h5py.File(cases.path(file), "w", userblock_size=size) as out:
            out["A"] = values
        with open(cases.path(file), "r+b") as out:
            out.write(b"a note before the data")
        cases.reads(f"user_block_{size}", file, values, "f64")

    with h5py.File(cases.path("masks.h5"), "w") as out:
        made = out.create_dataset("A", (4, 4), "f4", chunks=(2, 2), compression=4, shuffle=True)
        expected = np.arange(16, dtype=np.float32).reshape(4, 4)
        made[...] = expected
        made.id.write_direct_chunk((0, 2), np.ascontiguousarray(expected[0:2, 2:4]).tobytes(), filter_mask=3)
        block = np.ascontiguousarray(expected[2:4, 0:2])
        shuffled = np.frombuffer(block.tobytes(), np.uint8).reshape(4, 4).T.tobytes()
        made.id.write_direct_chunk((2, 0), shuffled, filter_mask=2)
    cases.reads("filter_masks", "masks.h5", expected, "f32")

    never = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    never.set_chunk((2, 2))
    never.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    whole = never.copy()
    whole.set_scaleoffset(h5py.h5z.SO_INT, 0)  # not a filter that is undone here
    with h5py.File(cases.path("never.h5"), "w") as out:
        space = h5py.h5s.create_simple((4, 4))
        made = h5py.h5d.create(out.id, b"A", h5py.h5t.IEEE_F32LE, space, dcpl=never)
        h5py.Dataset(made)[0:2, 0:2] = 1
        made = h5py.h5d.create(out.id, b"B", h5py.h5t.STD_I32LE, space, dcpl=whole)
        h5py.Dataset(made)[...] = 7
    cases.fails("no_fill_value", "never.h5", 3, "never written", "/A")
    cases.reads("no_fill_value_needed", "never.h5", np.full((4, 4), 7, np.int32), "i32", "/B")


def names_and_shapes(cases):
    values = np.arange(6.0).reshape(2, 3)
    with h5py.File(cases.path("groups.h5"), "w") as out:
        out["a/b/c"] = values
        out["v"] = np.arange(5.0)
        out["t"] = "text"
        out["cube"] = np.zeros((2, 3, 4))
    cases.reads("only_matrix", "groups.h5", values, "f64")
    cases.reads("nested", "groups.h5", values, "f64", "/a/b/c")
    cases.reads("nested_slashes", "groups.h5", values, "f64", "//a/./b//c/")
    cases.reads("column", "groups.h5", np.arange(5.0).reshape(5, 1), "f64", "/v", "column")
    cases.fails("one_dimension", "groups.h5", 3, "1 dimensions (5), expected 2 (--as-column", "/v")
    cases.fails("three_dimensions", "groups.h5", 3, "3 dimensions (2x3x4), expected 2", "/cube")
    cases.fails("text", "groups.h5", 3, "holds text, expected numbers", "/t")
    cases.fails("group", "groups.h5", 3, "is a group", "/a/b")
    cases.fails("column_is_ambiguous", "groups.h5", 3, "/v 5x1 f64", "-", "column")
    with h5py.File(cases.path("not_numeric.h5"), "w") as out:
        out.create_dataset("strings", (2, 2), h5py.string_dtype())
        out.create_dataset("pairs", (2, 2), [("x", "f4"), ("y", "i4"), ("z", "f4")])
        out.create_dataset("refs", (2, 2), h5py.ref_dtype)
        out.create_dataset("opaque", (2, 2), "V5")
        out.create_dataset("null", dtype="f4", shape=None, data=h5py.Empty("f4"))
        out.create_dataset("scalar", data=1.0)
        out.create_dataset("swapped", (2, 2), [("q", "f4"), ("i", "f4")])
        out.create_dataset("others", (2, 2), [("x", "i4"), ("y", "i4")])
        out.create_dataset("vlen", (2, 2), h5py.vlen_dtype(np.int32))
    for name, words in (("strings", "holds text"), ("pairs", "a compound of x, y, z"), ("refs", "references"),
                        ("opaque", "opaque"), ("null", "null dataspace"), ("scalar", "0 dimensions"),
                        ("swapped", "a compound of q, i"), ("others", "a compound of x, y"), ("vlen", "varying length")):
        cases.fails(f"not_numeric_{name}", "not_numeric.h5", 3, words, f"/{name}")
    cases.fails("numbers_that_count", "not_numeric.h5", 3, "holds 2 matrices")
    with h5py.File(cases.path("links.h5"), "w") as out:
        out["real/A"] = values
        out["soft"] = h5py.SoftLink("/real/A")
        out["relative/up"] = h5py.SoftLink("../real/A")
        out["middle"] = h5py.SoftLink("real")
        out["round"] = h5py.SoftLink("/about")
        out["about"] = h5py.SoftLink("/round")
        out["dangling"] = h5py.SoftLink("/nowhere")
        out["real/again"] = out["real"]
        out["outside"] = h5py.ExternalLink("groups.h5", "/a/b/c")
        out["abroad"] = h5py.ExternalLink("groups.h5", "/a")
        out["missing"] = h5py.ExternalLink("no_such_file.h5", "/A")
        out["lost"] = h5py.ExternalLink("groups.h5", "/no_such")
        out["via"] = h5py.SoftLink("/abroad/b/c")
    cases.reads("hard_links_once", "links.h5", values, "f64")
    cases.reads("soft_link", "links.h5", values, "f64", "/soft")
    cases.reads("soft_link_in_path", "links.h5", values, "f64", "/middle/A")
    cases.reads("hard_link_cycle", "links.h5", values, "f64", "/real/again/again/A")
    cases.fails("soft_link_loop", "links.h5", 3, "leads round in circles", "/round")
    cases.fails("soft_link_dangling", "links.h5", 3, "there is no 'nowhere'", "/dangling")
    for name, dataset in (("outside", "/outside"), ("abroad", "/abroad/b/c"), ("via", "/via")):
        cases.fails(f"external_{name}_refused", "links.h5", 3, "--allow-external", dataset)
        cases.reads(f"external_{name}", "links.h5", values, "f64", dataset, "external")
    cases.fails("external_missing", "links.h5", 3, "leads nowhere", "/missing", "external")
    cases.fails("external_lost", "links.h5", 3, "leads nowhere", "/lost", "external")


def external_data(cases):
    values = np.arange(20.0).reshape(4, 5)
    for name, data in (("whole", values.tobytes()), ("short", values.tobytes()[:-8])):
        with open(cases.path(f"{name}.dat"), "wb") as out:
            out.write(b"skip" + data)
        with h5py.File(cases.path(f"storage_{name}.h5"), "w") as out:
            out.create_dataset("A", (4, 5), "f8", external=[(cases.path(f"{name}.dat"), 4, 160)])
    # h5py truncates nothing, but creating the dataset may extend the file: write the bytes again.
    for name, data in (("whole", values.tobytes()), ("short", values.tobytes()[:-8])):
        with open(cases.path(f"{name}.dat"), "wb") as out:
            out.write(b"skip" + data)
    with h5py.File(cases.path("storage_missing.h5"), "w") as out:
        out.create_dataset("A", (4, 5), "f8", external=[(cases.path("absent.dat"), 0, 160)])
    if os.path.exists(cases.path("absent.dat")):
        os.remove(cases.path("absent.dat"))
    cases.fails("storage_refused", "storage_whole.h5", 3, "--allow-external")
    cases.reads("storage_external", "storage_whole.h5", values, "f64", "-", "external")
    cases.fails("storage_short", "storage_short.h5", 3, "short.dat", "-", "external")
    cases.fails("storage_missing", "storage_missing.h5", 3, "absent.dat", "-", "external")

    for name in ("one", "two"):
        with h5py.File(cases.path(f"part_{name}.h5"), "w") as out:
            out["row"] = np.arange(5.0) + (10 if name == "two" else 0)
    layout = h5py.VirtualLayout((2, 5), "f8")
    layout[0] = h5py.VirtualSource("part_one.h5", "row", (5,))
    layout[1] = h5py.VirtualSource("part_two.h5", "row", (5,))
    missing = h5py.VirtualLayout((2, 5), "f8")
    missing[0] = h5py.VirtualSource("part_one.h5", "row", (5,))
    missing[1] = h5py.VirtualSource("part_three.h5", "row", (5,))
    lost = h5py.VirtualLayout((2, 5), "f8")
    lost[0] = h5py.VirtualSource("part_one.h5", "row", (5,))
    lost[1] = h5py.VirtualSource("part_two.h5", "column", (5,))
    small = h5py.VirtualLayout((2, 9), "f8")
    small[0] = h5py.VirtualSource("part_one.h5", "row", (9,))
    narrow = h5py.VirtualLayout((2, 5), "f4")
    narrow[0] = h5py.VirtualSource("part_one.h5", "row", (5,))
    wide = h5py.VirtualLayout((1, 2), "i8")
    wide[0] = h5py.VirtualSource(".", "bytes", (2,))
    with h5py.File(cases.path("virtual.h5"), "w", libver=NEWEST) as out:
        out.create_virtual_dataset("A", layout)
        out.create_virtual_dataset("missing", missing)
        out.create_virtual_dataset("lost", lost)
        out.create_virtual_dataset("small", small)
        out.create_virtual_dataset("narrow", narrow)
        out["bytes"] = np.array([1, 255], "u1")
        out.create_virtual_dataset("wide", wide)
        out["inner"] = np.ones((2, 2))
        same = h5py.VirtualLayout((2, 2), "f8")
        same[:] = h5py.VirtualSource(".", "inner", (2, 2))
        out.create_virtual_dataset("same", same)
        chain = h5py.VirtualLayout((2, 5), "f8")
        chain[:] = h5py.VirtualSource(".", "missing", (2, 5))
        out.create_virtual_dataset("chain", chain)
        round_trip = h5py.VirtualLayout((2, 5), "f8")
        round_trip[:] = h5py.VirtualSource(".", "circle", (2, 5))
        out.create_virtual_dataset("circle", round_trip)
    cases.fails("virtual_refused", "virtual.h5", 3, "--allow-external", "/A")
    cases.reads("virtual", "virtual.h5", np.stack([np.arange(5.0), np.arange(5.0) + 10]), "f64", "/A", "external")
    cases.reads("virtual_same_file", "virtual.h5", np.ones((2, 2)), "f64", "/same", "external")
    cases.fails("virtual_missing", "virtual.h5", 3, "part_three.h5", "/missing", "external")
    cases.fails("virtual_lost", "virtual.h5", 3, "column", "/lost", "external")
    cases.fails("virtual_small", "virtual.h5", 3, "part_one.h5", "/small", "external")
    cases.fails("virtual_narrow", "virtual.h5", 3, "exactly", "/narrow", "external")
    cases.reads("virtual_wide", "virtual.h5", np.array([[1, 255]]), "i64", "/wide", "external")
    cases.fails("virtual_chain", "virtual.h5", 3, "part_three.h5", "/chain", "external")
    cases.fails("virtual_circle", "virtual.h5", 3, "virtual", "/circle", "external")


    # Pieces of which parts were never written: their fill value stands for those, and without one they are missing.
    never = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    never.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    never_chunked = never.copy()
    never_chunked.set_chunk((2, 2))
    with h5py.File(cases.path("pieces.h5"), "w", libver=NEWEST) as out:
        filled = out.create_dataset("filled", (4, 4), "f8", chunks=(2, 2), fillvalue=2.5, compression=4)
        filled[0:2, 0:2] = 1
        space = h5py.h5s.create_simple((4, 4))
        h5py.h5d.create(out.id, b"unwritten", h5py.h5t.IEEE_F64LE, space, dcpl=never)
        holes = h5py.Dataset(h5py.h5d.create(out.id, b"holes", h5py.h5t.IEEE_F64LE, space, dcpl=never_chunked))
        holes[0:2, 0:2] = 1
        whole = h5py.Dataset(h5py.h5d.create(out.id, b"whole", h5py.h5t.IEEE_F64LE, space, dcpl=never_chunked))
        whole[...] = 3
    with h5py.File(cases.path("of_pieces.h5"), "w", libver=NEWEST) as out:
        for name in ("filled", "unwritten", "holes", "whole"):
            layout = h5py.VirtualLayout((4, 4), "f8")
            layout[:] = h5py.VirtualSource("pieces.h5", name, (4, 4))
            out.create_virtual_dataset(name, layout)
    expected = np.full((4, 4), 2.5)
    expected[0:2, 0:2] = 1
    cases.reads("virtual_filled", "of_pieces.h5", expected, "f64", "/filled", "external")
    cases.reads("virtual_whole", "of_pieces.h5", np.full((4, 4), 3.0), "f64", "/whole", "external")
    cases.fails("virtual_unwritten", "of_pieces.h5", 3, "never written", "/unwritten", "external")
    cases.fails("virtual_holes", "of_pieces.h5", 3, "never written", "/holes", "external")


def matlab_string(text):
    return np.bytes_(text)


def conventions(cases):
    values = np.arange(6.0).reshape(2, 3)
    with h5py.File(cases.path("matlab.mat"), "w", userblock_size=512) as out:
        def put(name, data, kind, **more):
            made = out.create_dataset(name, data=data)
            made.attrs["MATLAB_class"] = matlab_string(kind)
            for key, value in more.items():
                made.attrs[key] = value
        put("A", values.T, "double")
        put("flags", values.T.astype(np.uint8), "logical", MATLAB_int_decode=np.int32(1))
        put("name", np.array([[104], [105]], np.uint16), "char", MATLAB_int_decode=np.int32(2))
        put("none", np.array([0, 3], np.uint64), "single", MATLAB_empty=np.uint8(1))
        put("wrong", np.array([2, 3], np.uint64), "single", MATLAB_empty=np.uint8(1))
        parts = np.zeros((3, 2), dtype=[("real", "f8"), ("imag", "f8")])
        parts["real"], parts["imag"] = values.T, -values.T
        put("C", parts, "double")
        group = out.create_group("S")
        group.attrs["MATLAB_class"] = matlab_string("double")
        group.attrs["MATLAB_sparse"] = np.uint64(4)
        group["data"] = np.array([1.5, 2.5, 3.5])
        group["ir"] = np.array([0, 3, 1], np.uint64)
        group["jc"] = np.array([0, 2, 2, 3], np.uint64)
        empty = out.create_group("E")
        empty.attrs["MATLAB_class"] = matlab_string("double")
        empty.attrs["MATLAB_sparse"] = np.uint64(2)
        empty["jc"] = np.array([0, 0, 0], np.uint64)
        for name, rows, starts in (("row_outside", [0, 4, 1], [0, 2, 2, 3]), ("unsorted", [3, 0, 1], [0, 2, 2, 3]),
                                   ("starts_fall", [0, 3, 1], [0, 2, 1, 3]), ("starts_long", [0, 3, 1], [0, 2, 2, 4]),
                                   ("starts_late", [0, 3, 1], [1, 2, 2, 3])):
            bad = out.create_group(name)
            bad.attrs["MATLAB_sparse"] = np.uint64(4)
            bad["data"] = np.array([1.5, 2.5, 3.5])
            bad["ir"] = np.array(rows, np.uint64)
            bad["jc"] = np.array(starts, np.uint64)
        cell = out.create_dataset("cells", (1, 1), h5py.ref_dtype)
        cell.attrs["MATLAB_class"] = matlab_string("cell")
        out.create_group("#refs#")["a"] = values
        out.create_group("struct").attrs["MATLAB_class"] = matlab_string("struct")
    with open(cases.path("matlab.mat"), "r+b") as out:
        out.write(b"MATLAB 7.3 MAT-file")
    cases.reads("matlab", "matlab.mat", values, "f64", "/A")
    cases.reads("matlab_as_stored", "matlab.mat", values.T, "f64", "/A", "row")
    cases.reads("matlab_logical", "matlab.mat", values.astype(np.uint8), "u8", "/flags")
    cases.fails("matlab_char", "matlab.mat", 3, "is a MATLAB char", "/name")
    cases.reads("matlab_empty", "matlab.mat", np.zeros((0, 3), np.float32), "f32", "/none")
    cases.fails("matlab_empty_wrong", "matlab.mat", 3, "marked as an empty", "/wrong")
    cases.reads("matlab_complex", "matlab.mat", np.dstack((values, -values)).view(np.complex128)[:, :, 0], "c128", "/C")
    dense = np.zeros((4, 3))
    dense[0, 0], dense[3, 0], dense[1, 2] = 1.5, 2.5, 3.5
    cases.reads("matlab_sparse", "matlab.mat", dense, "f64", "/S")
    cases.reads("matlab_sparse_f32", "matlab.mat", dense.astype(np.float32), "f32", "/S", "type=f32")
    cases.reads("matlab_sparse_empty", "matlab.mat", np.zeros((2, 2)), "f64", "/E")
    cases.fails("matlab_sparse_row", "matlab.mat", 3, "/ir[1] is 4, expected a row from 0 to 3", "/row_outside")
    unsorted = np.zeros((4, 3))
    unsorted[3, 0], unsorted[0, 0], unsorted[1, 2] = 1.5, 2.5, 3.5
    cases.reads("matlab_sparse_order", "matlab.mat", unsorted, "f64", "/unsorted")
    for name, words in (("fall", "[2] is 1, expected at least 2"), ("long", "[3] is 4, expected at most 3"), ("late", "[0] is 1, expected 0")):
        cases.fails(f"matlab_sparse_starts_{name}", "matlab.mat", 3, f"/jc{words}", f"/starts_{name}")
    cases.fails("matlab_cell", "matlab.mat", 3, "is a MATLAB cell", "/cells")
    cases.fails("matlab_struct", "matlab.mat", 3, "is a MATLAB struct", "/struct")

    with h5py.File(cases.path("octave.h5"), "w") as out:
        def octave(name, kind):
            group = out.create_group(name)
            group.attrs["OCTAVE_GLOBAL"] = np.int32(0)
            group.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
            group["type"] = np.bytes_(kind)
            return group
        octave("A", "matrix")["value"] = values.T
        octave("x", "scalar")["value"] = 2.5
        octave("f", "float matrix")["value"] = values.T.astype(np.float32)
        octave("b", "bool matrix")["value"] = np.array([[1, 0], [0, 1], [1, 1]], np.uint8)
        octave("c", "complex matrix")["value"] = parts
        octave("i", "int16 matrix")["value"] = values.T.astype(np.int16)
        octave("s", "string")["value"] = np.zeros((2, 2), np.int8)
        octave("r", "range")["value"] = np.zeros(1, [("base", "f8"), ("limit", "f8"), ("increment", "f8")])
        none = octave("none", "matrix")
        none["value"] = np.array([3, 0], np.int32)
        none.attrs["OCTAVE_EMPTY_MATRIX"] = np.uint8(1)
        for name, kind in (("none_sp", "sparse matrix"), ("none_sp_c", "sparse complex matrix")):
            none = octave(name, kind)
            none["value"] = np.array([0, 4], np.int32)
            none.attrs["OCTAVE_EMPTY_MATRIX"] = np.uint8(1)
        sparse = octave("sp", "sparse matrix").create_group("value")
        for key, value in (("nr", 4), ("nc", 3), ("nz", 3)):
            sparse[key] = np.int32(value)
        sparse["cidx"] = np.array([[0], [2], [2], [3]], np.int32)
        sparse["ridx"] = np.array([[0], [3], [1]], np.int32)
        sparse["data"] = np.array([[1.5], [2.5], [3.5]])
    cases.reads("octave", "octave.h5", values, "f64", "/A")
    cases.reads("octave_value", "octave.h5", values.T, "f64", "/A/value")
    cases.reads("octave_scalar", "octave.h5", np.array([[2.5]]), "f64", "/x")
    cases.reads("octave_float", "octave.h5", values.astype(np.float32), "f32", "/f")
    cases.reads("octave_bool", "octave.h5", np.array([[1, 0, 1], [0, 1, 1]], np.uint8), "u8", "/b")
    cases.reads("octave_complex", "octave.h5", np.dstack((values, -values)).view(np.complex128)[:, :, 0], "c128", "/c")
    cases.reads("octave_int16", "octave.h5", values.astype(np.int16), "i16", "/i")
    cases.reads("octave_empty", "octave.h5", np.zeros((3, 0)), "f64", "/none")
    cases.reads("octave_sparse", "octave.h5", dense, "f64", "/sp")
    cases.reads("octave_sparse_empty", "octave.h5", np.zeros((0, 4)), "f64", "/none_sp")
    cases.reads("octave_sparse_complex_empty", "octave.h5", np.zeros((0, 4), np.complex128), "c128", "/none_sp_c")
    cases.fails("octave_string", "octave.h5", 3, "is an Octave value (string)", "/s")
    cases.fails("octave_range", "octave.h5", 3, "is an Octave value (range)", "/r")

    with h5py.File(cases.path("julia.jld2"), "w", userblock_size=512) as out:
        out["A"] = values.T
        parts = np.zeros((3, 2), dtype=[("re", "f4"), ("im", "f4")])
        parts["re"] = values.T
        out["C"] = parts
    with open(cases.path("julia.jld2"), "r+b") as out:
        out.write(b"HDF5-based Julia Data Format, version 0.1.1\0")
    cases.reads("julia", "julia.jld2", values, "f64", "/A")
    cases.reads("julia_complex", "julia.jld2", values.astype(np.complex64), "c64", "/C")
    cases.reads("julia_as_stored", "julia.jld2", values.T, "f64", "/A", "row")
    with h5py.File(cases.path("julia.jld"), "w", userblock_size=512) as out:
        out["A"] = values.T
    with open(cases.path("julia.jld"), "r+b") as out:
        out.write(b"Julia data file (HDF5), version 0.1.3\0")
    cases.reads("julia_jld", "julia.jld", values, "f64", "/A")
    # HDF5.jl leaves no mark: its dimensions are reversed only where that is asked for. Bool is a bit field.
    with h5py.File(cases.path("julia_plain.h5"), "w") as out:
        out["A"] = values.T
        parts = np.zeros((3, 2), dtype=[("r", "f8"), ("i", "f8")])
        parts["r"], parts["i"] = values.T, -values.T
        out["C"] = parts
    write_low(cases.path("julia_plain.h5"), "B", h5py.h5t.NATIVE_B8, (3, 2), np.arange(6, dtype="u1"))
    cases.reads("julia_unmarked", "julia_plain.h5", values.T, "f64", "/A")
    cases.reads("julia_unmarked_reversed", "julia_plain.h5", values, "f64", "/A", "matlab")
    cases.reads("julia_unmarked_complex", "julia_plain.h5", np.dstack((values, -values)).view(np.complex128)[:, :, 0],
                "c128", "/C", "matlab")
    cases.reads("julia_unmarked_bool", "julia_plain.h5", np.arange(6, dtype=np.uint8).reshape(3, 2).T, "u8", "/B",
                "matlab")


def damaged(cases):
    values = sample("f8", (64, 64))
    with h5py.File(cases.path("good.h5"), "w") as out:
        out["A"] = values
    with open(cases.path("good.h5"), "rb") as file:
        data = file.read()
    for name, keep in (("short", len(data) - 4096), ("head", 600), ("signature", 8)):
        with open(cases.path(f"truncated_{name}.h5"), "wb") as out:
            out.write(data[:keep])
        cases.fails(f"truncated_{name}", f"truncated_{name}.h5", 3, "truncated")
    with h5py.File(cases.path("good.h5"), "r") as file:
        layout = struct.pack("<QQ", file["A"].id.get_offset(), values.nbytes)
    assert data.count(b"\3\1" + layout) == 1  # version 3, contiguous
    with open(cases.path("newer.h5"), "wb") as out:
        out.write(data.replace(b"\3\1" + layout, b"\x63\1" + layout))
    cases.fails("newer_format", "newer.h5", 3, "newer HDF5")
    with h5py.File(cases.path("bad_chunk.h5"), "w") as out:
        made = out.create_dataset("A", (8, 8), "f8", chunks=(4, 4), compression=4)
        made[...] = 1.0
        made.id.write_direct_chunk((4, 4), b"this is not a deflate stream", filter_mask=0)
    cases.fails("bad_deflate", "bad_chunk.h5", 3, "chunk at row 5, column 5")
    with h5py.File(cases.path("bomb.h5"), "w") as out:
        made = out.create_dataset("A", (8, 8), "f8", chunks=(4, 4), compression=4)
        made[...] = 1.0
        made.id.write_direct_chunk((4, 0), zlib.compress(bytes(50_000_000), 9), filter_mask=0)
        made = out.create_dataset("few", (8, 8), "f8", chunks=(4, 4), compression=4)
        made[...] = 1.0
        made.id.write_direct_chunk((0, 4), zlib.compress(bytes(100), 9), filter_mask=0)
        made = out.create_dataset("long", (8, 8), "f8", chunks=(4, 4), compression=4)
        made[...] = 1.0
        made.id.write_direct_chunk((0, 4), bytes(8000), filter_mask=0)
    cases.fails("deflate_long", "bomb.h5", 3, "takes 8000 bytes, more than its filters make", "/long")
    cases.fails("deflate_bomb", "bomb.h5", 3, "chunk at row 5, column 1", "/A")
    cases.fails("deflate_short", "bomb.h5", 3, "chunk at row 1, column 5", "/few")
    with h5py.File(cases.path("fletcher.h5"), "w") as out:
        made = out.create_dataset("A", (8, 8), "f8", chunks=(4, 4), fletcher32=True)
        made[...] = 1.0
        chunk = bytearray(made.id.read_direct_chunk((4, 4))[1])
        chunk[5] ^= 1
        made.id.write_direct_chunk((4, 4), bytes(chunk), filter_mask=0)
    cases.fails("bad_checksum", "fletcher.h5", 3, "checksum")
    parts = np.zeros((3, 4), dtype=np.dtype({"names": ["r", "i"], "formats": ["<f8", "<f8"], "offsets": [4, 20],
                                             "itemsize": 32}))
    with h5py.File(cases.path("member.h5"), "w") as out:
        out["A"] = parts
    with open(cases.path("member.h5"), "r+b") as file:  # its second member lies far behind each element
        data = file.read()
        member = b"i" + bytes(7) + struct.pack("<I", 20)
        assert data.count(member) == 1
        file.seek(0)
        file.write(data.replace(member, b"i" + bytes(7) + struct.pack("<I", 1 << 28)))
    cases.fails("member_outside", "member.h5", 3, "each a compound of r, i, which cannot be read yet", "/A")
    with h5py.File(cases.path("heap.h5"), "w") as out:
        out["A"] = np.ones((2, 2))
        out["A"].attrs["MATLAB_class"] = "double"  # of varying length, so in the global heap
    with open(cases.path("heap.h5"), "r+b") as file:
        data = bytearray(file.read())
        size = data.index(b"GCOL") + 24  # of the first object
        assert struct.unpack_from("<Q", data, size) == (len("double") + 1,) or data[size] == len("double")
        # The next object is where this one ends, which is now where it began: HDF5 1.10 goes on for ever.
        struct.pack_into("<Q", data, size, 2 ** 64 - 16)
        file.seek(0)
        file.write(data)
    cases.fails("endless_heap", "heap.h5", 3, "heap.h5")
    wrong_chunk_sizes(cases)
    windows(cases)
    wrong_size_parts(cases)
    wrong_size_shapes(cases)
    empty_chunks(cases)
    chunks_outside(cases)
    chunks_of_no_bytes(cases)
    endless_filters(cases)
    library_filters(cases)
    damaged_parts(cases)
    endless_chunks(cases)
    fill_times(cases)
    lzf_in_the_library(cases)
    plugin(cases)
    endless_index(cases)
    too_few_bytes(cases)
    row_by_row(cases)
    with h5py.File(cases.path("huge_chunk.h5"), "w") as out:
        out.create_dataset("A", (1, 1), "f8", chunks=(1 << 15, (1 << 14) - 1), maxshape=(None, None), compression=1)
    cases.fails("huge_chunk", "huge_chunk.h5", 6, "(chunked 32768x16383, deflate 1) needs", "-", "limit=1000000000")
    with h5py.File(cases.path("library_memory.h5"), "w") as out:  # chunks of 4 MiB and 2 MiB
        numbers = np.arange(1 << 20, dtype=np.int32).reshape(1024, 1024) % 2048
        out.create_dataset("scale", data=numbers, chunks=(1024, 1024), scaleoffset=True)
        for name, fill in (("12_bits", lambda creation: None), ("nbit", LIBRARY_FILTERS["nbit"][1])):
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_chunk(numbers.shape)
            fill(creation)
            space = h5py.h5s.create_simple(numbers.shape)
            made = h5py.h5d.create(out.id, name.encode(), twelve_bits(), space, dcpl=creation)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers)
        parts = out.create_group("sparse")
        parts.attrs["MATLAB_class"] = matlab_string("double")
        parts.attrs["MATLAB_sparse"] = np.uint64(4)
        parts["jc"] = np.arange(5, dtype="u8")
        parts.create_dataset("ir", data=np.arange(4, dtype="u8"), chunks=(1 << 19,), maxshape=(None,), compression=1)
        parts["data"] = np.ones(4)
    virtual_of(cases, "memory_piece.h5", "library_memory.h5:/scale", (1024, 1024), "i4", np.s_[:2, :2])
    cases.fails("memory_piece", "memory_piece.h5", 6, "needs 16.69 MiB", "/A", f"external limit={16 << 20}")
    cases.reads("memory_piece_enough", "memory_piece.h5", numbers[:2, :2], "i32", "/A", f"external limit={17 << 20}")
    cases.fails("memory_sparse", "library_memory.h5", 6, "to read it (CSC (MATLAB), 4 entries) needs 8.51 MiB", "/sparse", f"limit={8 << 20}")
    cases.reads("memory_sparse_enough", "library_memory.h5", np.eye(4), "f64", "/sparse", f"limit={13 << 20}")
    for name, limit in (("scale", 19 << 20), ("12_bits", 11 << 20), ("nbit", 11 << 20)):
        cases.fails(f"library_memory_{name}", "library_memory.h5", 6, "to read it (chunked 1024x1024", "/" + name,
                    f"limit={limit}")
    with h5py.File(cases.path("huge.h5"), "w") as out:
        out.create_dataset("A", (1 << 30, 1 << 30), "f8", chunks=(64, 64))
        out.create_dataset("B", (1 << 40, 1 << 40), "f8", chunks=(64, 64))
        out.create_dataset("C", (1 << 20, 1 << 20), "f8")
    for name in "ABC":
        cases.fails(f"huge_{name}", "huge.h5", 6, "1", f"/{name}")
    with h5py.File(cases.path("unknown_filter.h5"), "w") as out:
        made = out.create_dataset("A", (8, 8), "f8", chunks=(4, 4), compression=4)
        made[...] = 1.0
    with open(cases.path("unknown_filter.h5"), "rb") as file:
        data = file.read()
    # The filter message: identifier 1, name length 8, flags 1, one value, "deflate\0".
    message = struct.pack("<HHHH", 1, 8, 1, 1) + b"deflate\0"
    assert data.count(message) == 1
    with open(cases.path("unknown_filter.h5"), "wb") as out:
        out.write(data.replace(message, struct.pack("<HHHH", 32015, 8, 1, 1) + b"zstd\0\0\0\0"))
    cases.fails("unknown_filter", "unknown_filter.h5", 3, "filter 32015 (zstd)")


def set_chunk_sizes(path, rank, chunk_bytes, sizes):
    """Makes the index of the only chunked dataset of a file, which has no filters, say that its chunks take `sizes` bytes."""
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        assert data.count(b"TREE\1\0") == 1
        node = data.index(b"TREE\1\0")
        for entry, size in enumerate(sizes):
            at = node + 24 + entry * (24 + 8 * rank)  # size, mask and rank + 1 offsets; the address of the chunk
            assert struct.unpack_from("<I", data, at) == (chunk_bytes,)
            struct.pack_into("<I", data, at, size)
        file.seek(0)
        file.write(data)


def set_storage_bytes(path, dataset, size):
    """Makes the layout of a compact or contiguous dataset say that it takes `size` bytes."""
    with h5py.File(path, "r") as file:
        stored = file[dataset]
        data, address, bytes_there = stored[...].tobytes(), stored.id.get_offset(), stored.id.get_storage_size()
    if address is None:
        patch(path, struct.pack("<BBH", 3, 0, bytes_there) + data, struct.pack("<BBH", 3, 0, size) + data)
    else:
        head = struct.pack("<BBQ", 3, 1, address)
        patch(path, head + struct.pack("<Q", bytes_there), head + struct.pack("<Q", size))


def too_few_bytes(cases):
    """Data without chunks that take fewer bytes in the file than the elements do, which HDF5 1.10 does not look at."""
    values = sample("f4", (5, 9))
    compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    compact.set_layout(h5py.h5d.COMPACT)
    for kind, creation in (("compact", compact), ("contiguous", None)):
        for size in (180, 176, 1, 0):
            file = f"bytes_{kind}_{size}.h5"
            write_low(cases.path(file), "A", h5py.h5t.IEEE_F32LE, values.shape, values, creation)
            if size != 180:
                set_storage_bytes(cases.path(file), "A", size)
            virtual_of(cases, "virtual_" + file, file, values.shape, "f8")
            for name, options in ((file, "-"), ("virtual_" + file, "external")):
                if size != 180:
                    cases.fails(name[:-3], name, 3, f"its data take {size} bytes in the file", "-", options)
                else:
                    cases.reads(name[:-3], name, values.astype("f8" if options == "external" else "f4"),
                                "f64" if options == "external" else "f32", "-", options)
        file = f"bytes_sparse_{kind}.h5"
        with h5py.File(cases.path(file), "w") as out:
            group = out.create_group("A")
            group.attrs["MATLAB_sparse"] = np.uint64(9)
            group["jc"], group["ir"] = np.array([0, 9, 9], "u8"), np.arange(9, dtype="u8")
        write_low(cases.path(file), "A/data", h5py.h5t.IEEE_F32LE, (9,), values[0], creation)
        set_storage_bytes(cases.path(file), "A/data", 32)
        cases.fails(file[:-3], file, 3, "its data take 32 bytes in the file", "/A")
    numbers = np.arange(45, dtype="i2").reshape(5, 9)
    ends = (("sound", 512, 0), ("cut", 0, 89), ("cut_userblock", 512, 1))
    kinds = (("", h5py.h5t.STD_I16LE), ("_12_bits", twelve_bits()))  # read by the project's threads, and by HDF5
    for (name, userblock, cut), (word, kind) in ((end, kind) for end in ends for kind in kinds):
        file = f"end_{name}{word}.h5"
        with h5py.File(cases.path(file), "w", userblock_size=userblock) as out:
            made = h5py.h5d.create(out.id, b"A", kind, h5py.h5s.create_simple(numbers.shape))
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, numbers)
            last = made.get_offset() + numbers.nbytes
        if cut:
            with open(cases.path(file), "r+b") as out:
                out.seek(userblock + 40)  # the end of the file in the superblock, from the userblock on
                assert struct.unpack("<Q", out.read(8))[0] >= last - userblock
                out.seek(userblock + 40)
                out.write(struct.pack("<Q", last - userblock - cut))
        virtual_of(cases, "virtual_" + file, file, numbers.shape, "i2")
        for dataset_file, options in ((file, "-"), ("virtual_" + file, "external")):
            if cut:
                cases.fails(dataset_file[:-3], dataset_file, 3, "pass the end that the file says it has", "-", options)
            else:
                cases.reads(dataset_file[:-3], dataset_file, numbers, "i16", "-", options)


def row_by_row(cases):
    """Virtual datasets that take their pieces row by row: each row anew from a chunk that is larger than HDF5's own cache of
    chunks, or from several chunks of two pieces."""
    large = sample("u1", (2048, 1024))
    small = sample("i4", (20, 6))
    with h5py.File(cases.path("by_row_pieces.h5"), "w") as out:
        out.create_dataset("large", data=large, chunks=large.shape, compression=1)
        out.create_dataset("small", data=small, chunks=(7, 5), compression=1, fletcher32=True)
        out.create_dataset("scaled", data=small // 256, chunks=(7, 5), scaleoffset=True)
    with h5py.File(cases.path("by_row.h5"), "w", libver=NEWEST) as out:
        few = h5py.VirtualLayout((3, 4), "u1")
        for row in range(3):
            few[row] = h5py.VirtualSource("by_row_pieces.h5", "large", large.shape)[100 * row, :4]
        out.create_virtual_dataset("few", few)
        mixed = h5py.VirtualLayout((6, 20), "i4")
        pieces = [h5py.VirtualSource("by_row_pieces.h5", name, small.shape) for name in ("small", "scaled")]
        for row in range(6):
            mixed[row] = pieces[row % 2][:, row // 2]
        out.create_virtual_dataset("mixed", mixed)
    expected = np.stack([(small if row % 2 == 0 else small // 256)[:, row // 2] for row in range(6)])
    cases.fails("by_row_too_little", "by_row.h5", 6, "1 file (640.00 KiB)) needs 10.76 MiB", "/few", f"external limit={9 << 20}")
    for name, limit in (("", ""), ("_little", f" limit={11 << 20}"), ("_more", f" limit={32 << 20}")):
        cases.reads("by_row_few" + name, "by_row.h5", large[[0, 100, 200], :4], "u8", "/few", "external" + limit)
    for name, limit in (("", ""), ("_little", f" limit={(5 << 20) - 100000}")):
        cases.reads("by_row_mixed" + name, "by_row.h5", expected, "i32", "/mixed", "external" + limit)


def virtual_of(cases, name, piece, shape, dtype, part=np.s_[:, :]):
    """A file with the virtual dataset /A of a part of the dataset `piece` ("FILE" for /A, or "FILE:/DATASET")."""
    layout = h5py.VirtualLayout(np.empty(shape)[part].shape, dtype)
    file, _, dataset = piece.partition(":")
    layout[...] = h5py.VirtualSource(file, dataset or "A", shape)[part]
    with h5py.File(cases.path(name), "w", libver=NEWEST) as out:
        out.create_virtual_dataset("A", layout)


def wrong_chunk_sizes(cases):
    """Chunks without filters whose index says that they are longer or shorter than they are; both where they balance.
    HDF5 gives what is in memory behind the shorter ones. Small numbers: bytes that are left out would be zeros."""
    values = (np.arange(64) % 7 + 1).reshape(8, 8)
    harms = {"long": (1, 9, 1, 1), "short": (1, 1, 1 / 8, 1), "balanced": (1 / 8, 15 / 8, 1, 1), "nothing": (0, 2, 1, 1),
             "empty": (0, 0, 0, 0)}
    for edge, extent in (("", 8), ("_edge", 6)):
        for harm, factors in harms.items():
            name = f"chunk_plain{edge}_{harm}"
            with h5py.File(cases.path(name + ".h5"), "w", libver="earliest") as out:
                filtered(out, "A", h5py.h5t.IEEE_F64LE, np.ascontiguousarray(values[:extent, :extent], "f8"), lambda creation: None)
                out["padding"] = np.zeros(200)
            set_chunk_sizes(cases.path(name + ".h5"), 2, 128, [int(128 * factor) for factor in factors])
            words = "cannot be read" if harm == "long" else "takes fewer bytes in the file than its 128"
            cases.fails(name, name + ".h5", 3, words, "/A")
    shifted = twelve_bits(h5py.h5t.STD_I16BE)
    shifted.set_offset(1)  # else HDF5 only reverses their bytes
    gaps = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
    gaps.insert(b"r", 4, h5py.h5t.IEEE_F64BE)
    gaps.insert(b"i", 16, h5py.h5t.IEEE_F64BE)
    with h5py.File(cases.path("chunk_sound.h5"), "w", libver="earliest") as out:
        filtered(out, "converted", shifted, values[:6, :7], lambda creation: None)
        filtered(out, "gaps", gaps, complex_of(values[:6, :7], -values[:6, :7], "c16"), lambda creation: None)
    cases.reads("chunk_converted", "chunk_sound.h5", values[:6, :7].astype("i2"), "i16", "/converted")
    cases.reads("chunk_gaps", "chunk_sound.h5", complex_of(values[:6, :7], -values[:6, :7], "c16"), "c128", "/gaps")


def windows(cases):
    """Virtual datasets that take parts of a piece in chunks."""
    values = np.arange(64.0).reshape(8, 8)
    swapped = np.vstack((values[4:], values[:4]))
    takes = {"quarter": values[0:4, 4:8], "strided": values[1::4, 2::4], "column": values[:, 5:6],
             "nested": swapped[0:4, 0:4], "rows": values[[6, 1, 5], :4]}
    with h5py.File(cases.path("windows.h5"), "w", libver=NEWEST) as out:
        source = h5py.VirtualSource(out.create_dataset("A", data=values, chunks=(4, 4), compression=1))
        layouts = {name: h5py.VirtualLayout(expected.shape, "f8") for name, expected in takes.items()}
        layouts["swapped"] = h5py.VirtualLayout((8, 8), "f8")
        layouts["swapped"][0:4], layouts["swapped"][4:8] = source[4:8], source[0:4]
        layouts["quarter"][:] = source[0:4, 4:8]
        layouts["strided"][:] = source[1::4, 2::4]
        layouts["column"][:] = source[:, 5:6]
        layouts["nested"][:] = h5py.VirtualSource(".", "swapped", (8, 8))[0:4, 0:4]
        for to, row in enumerate((6, 1, 5)):
            layouts["rows"][to] = source[row, :4]
        for name, layout in layouts.items():
            out.create_virtual_dataset(name, layout)
    for name, expected in takes.items():
        cases.reads(f"window_{name}", "windows.h5", expected, "f64", "/" + name, "external")


def wrong_size_parts(cases):
    """The same in each part of a sparse matrix."""
    parts = {"jc": np.arange(8, dtype="u8"), "ir": np.arange(7, dtype="u8"), "data": np.arange(1.0, 8.0)}
    for damaged_part in parts:
        for harm, sizes in (("balanced", (16, 48)), ("nothing", (0, 64)), ("empty", (0, 0))):
            name = f"sparse_{damaged_part}_{harm}.h5"
            with h5py.File(cases.path(name), "w", libver="earliest") as out:
                group = out.create_group("S")
                group.attrs["MATLAB_class"] = matlab_string("double")
                group.attrs["MATLAB_sparse"] = np.uint64(7)
                for part, content in parts.items():
                    group.create_dataset(part, data=content, chunks=(4,) if part == damaged_part else None)
                out["padding"] = np.zeros(200)
            set_chunk_sizes(cases.path(name), 1, 32, sizes)
            cases.fails(name, name, 3, "takes fewer bytes in the file than its 32", "/S")


def wrong_size_shapes(cases):
    """The same where a dataset only says what the shape of a matrix is."""
    for name, whole in (("shape_empty", True), ("shape_damaged", False)):
        with h5py.File(cases.path(name + ".h5"), "w", libver="earliest") as out:
            made = out.create_dataset("A", data=np.array([0, 3], "u8"), chunks=(2,))
            made.attrs["MATLAB_class"] = matlab_string("double")
            made.attrs["MATLAB_empty"] = np.uint8(1)
        set_chunk_sizes(cases.path(name + ".h5"), 1, 16, (16 if whole else 8,))
        with h5py.File(cases.path(name + "_octave.h5"), "w", libver="earliest") as out:
            group = out.create_group("S")
            group.attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
            group["type"] = np.bytes_("sparse matrix")
            value = group.create_group("value")
            value.create_dataset("nr", data=np.array([3], "i8"), chunks=(1,))
            value["nc"], value["nz"] = 1, 1
            value["cidx"], value["ridx"], value["data"] = np.array([0, 1], "i4"), np.array([0], "i4"), np.ones(1)
        set_chunk_sizes(cases.path(name + "_octave.h5"), 1, 8, (8 if whole else 1,))
    cases.reads("shape_empty", "shape_empty.h5", np.zeros((0, 3)), "f64", "/A")
    cases.fails("shape_damaged", "shape_damaged.h5", 3, "holds no shape of two extents", "/A")
    cases.reads("shape_empty_octave", "shape_empty_octave.h5", np.array([[1.0], [0], [0]]), "f64", "/S")
    cases.fails("shape_damaged_octave", "shape_damaged_octave.h5", 3, "without its number of rows 'nr'", "/S")


def empty_chunks(cases):
    """A part of a sparse matrix in chunks without elements."""
    with h5py.File(cases.path("empty_chunks.h5"), "w", libver="earliest") as out:
        group = out.create_group("S")
        group.attrs["MATLAB_sparse"] = np.uint64(7)
        group["jc"], group["data"] = np.arange(8, dtype="u8"), np.ones(7)
        group.create_dataset("ir", data=np.arange(7, dtype="u8"), chunks=(4,))
    # The layout message: version 3, chunked, 2 dimensions (the last is the size of an element), where the index is.
    with open(cases.path("empty_chunks.h5"), "rb") as file:
        layout = b"\3\2\2" + struct.pack("<Q", file.read().index(b"TREE\1\0"))
    patch(cases.path("empty_chunks.h5"), layout + struct.pack("<II", 4, 8), layout + struct.pack("<II", 0, 8))
    cases.fails("empty_chunks", "empty_chunks.h5", 3, "empty_chunks.h5", "/S")


def chunks_outside(cases):
    """Chunks beyond the extents, which make up for what is wrong within: sizes, and chunks that were never written."""
    values = (np.arange(64) % 7 + 1).reshape(8, 8)
    for kind, (type_id, element) in {"plain": (h5py.h5t.IEEE_F64LE, 8)}.items():
        for harm in ("size", "missing"):
            name = f"outside_{kind}_{harm}"
            part = np.ascontiguousarray(values, "f8" if kind == "plain" else "i8")
            with h5py.File(cases.path(name + ".h5"), "w", libver="earliest") as out:
                if harm == "size":
                    filtered(out, "A", type_id, part, lambda creation: None)
                else:
                    made = filtered(out, "A", type_id, part,
                                    lambda creation: creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER), extents=(8, 8))
                    for place in ((0, 0), (4, 0)):
                        made.write_direct_chunk(place, bytes(16 * element))
                out["padding"] = np.zeros(200)
            if harm == "size":
                set_chunk_sizes(cases.path(name + ".h5"), 2, 16 * element, [2 * element, 30 * element, 16 * element, 16 * element])
                half = (8, 4)  # chunks at (0, 0) and (4, 0)
            else:
                half = (4, 8)  # at (0, 0) and (0, 4)
            with open(cases.path(name + ".h5"), "r+b") as file:
                data = file.read()
                assert data.count(struct.pack("<QQQQ", 8, 8, 8, 8)) == 1
                file.seek(0)
                file.write(data.replace(struct.pack("<QQQQ", 8, 8, 8, 8), struct.pack("<QQQQ", *half, *half)))
            words = "takes fewer bytes" if harm == "size" else "was never written, and the dataset defines no fill value"
            cases.fails(name, name + ".h5", 3, words, "/A")


def filtered(file, name, kind, values, fill, extents=None):
    """A dataset in chunks of 4 × 4 whose filters `fill` adds to its properties; of `extents`, nothing is written."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((4, 4))
    fill(creation)
    made = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(extents or values.shape), dcpl=creation)
    if extents is None:
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(values))
    return made


def twelve_bits(order=h5py.h5t.STD_I16LE):
    kind = order.copy()
    kind.set_precision(12)
    return kind


LIBRARY_FILTERS = {  # what HDF5 alone undoes: type, filters
    "scaleoffset": (h5py.h5t.STD_I32LE, lambda creation: creation.set_scaleoffset(h5py.h5z.SO_INT, 0)),
    "scaleoffset_float": (h5py.h5t.IEEE_F64BE, lambda creation: creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 2)),
    "nbit": (twelve_bits(), lambda creation: creation.set_filter(h5py.h5z.FILTER_NBIT, 0, ())),
    "szip": (h5py.h5t.STD_I32LE, lambda creation: creation.set_szip(h5py.h5z.SZIP_NN_OPTION_MASK, 8)),
    "deflate_12_bits": (twelve_bits(), lambda creation: creation.set_deflate(4)),
}


def library_filters(cases):
    """What HDF5 alone undoes. It does not notice all that can be wrong with a chunk; what it notices is refused."""
    values = (np.arange(64, dtype=np.int32).reshape(8, 8) * 37) % 2048
    types = {"scaleoffset": "i32", "scaleoffset_float": "f64", "nbit": "i16", "szip": "i32", "deflate_12_bits": "i16"}
    with h5py.File(cases.path("library_filters.h5"), "w") as out:
        for name, (kind, fill) in LIBRARY_FILTERS.items():
            filtered(out, name, kind, values, fill)
            cases.reads(f"filter_{name}", "library_filters.h5", values.astype(TYPES[types[name]]), types[name], "/" + name)
            whole = filtered(out, name + "_again", kind, values, fill).read_direct_chunk((4, 4))[1]
            harm = {}
            if name == "szip":
                harm = {"head": whole[:5], "nothing": struct.pack("<I", 64)}
            if name == "deflate_12_bits":
                harm = {"cut": whole[:len(whole) * 3 // 4], "head": whole[:5]}
            for how, chunk in harm.items():
                made = filtered(out, f"{name}_{how}", kind, values, fill)
                made.write_direct_chunk((4, 4), bytes(chunk), filter_mask=0)
                cases.fails(f"{name}_{how}", "library_filters.h5", 3, "cannot be read", f"/{name}_{how}")
        # Edges that are stored without filters, and a chunk that skips one of two.
        made = filtered(out, "skips", h5py.h5t.STD_I32LE, values,
                        lambda creation: (creation.set_scaleoffset(h5py.h5z.SO_INT, 0), creation.set_deflate(1)))
        made.write_direct_chunk((4, 0), np.ascontiguousarray(values[4:, :4]).tobytes(), filter_mask=3)
        packed = made.read_direct_chunk((0, 0))[1]
        made.write_direct_chunk((0, 0), zlib.decompress(packed), filter_mask=2)
        # nbit has nothing to leave out of a whole type, and hands on its buffer; a checksum over that.
        nbit = LIBRARY_FILTERS["nbit"][1]
        filtered(out, "nbit_whole", h5py.h5t.IEEE_F64LE, values.astype("f8"), nbit)
        filtered(out, "nbit_checked", h5py.h5t.IEEE_F64LE, values.astype("f8"),
                 lambda creation: (nbit(creation), creation.set_fletcher32()))
    cases.reads("filter_skips", "library_filters.h5", values, "i32", "/skips")
    cases.reads("nbit_whole", "library_filters.h5", values.astype("f8"), "f64", "/nbit_whole")
    cases.reads("nbit_checked", "library_filters.h5", values.astype("f8"), "f64", "/nbit_checked")
    # HDF5 1.8 left the parameters of scaleoffset that are not used as they were in memory: those behind the ninth.
    with h5py.File(cases.path("scaleoffset_1_8.h5"), "w", libver="earliest") as out:
        filtered(out, "A", *LIBRARY_FILTERS["scaleoffset"][:1], values, LIBRARY_FILTERS["scaleoffset"][1])
        parameters = out["A"].id.get_create_plist().get_filter(0)[2][:16]  # h5py has room for 16 of the 20
    patch(cases.path("scaleoffset_1_8.h5"), struct.pack("<16I", *parameters),
          struct.pack("<16I", *parameters[:9], *range(77, 84)))
    cases.reads("scaleoffset_1_8", "scaleoffset_1_8.h5", values, "i32")
    # Floating point of 20 bits from the 8th bit on, as the tests of HDF5 have it.
    floats = np.array([[188.0, -3.5, 0.0625], [1.0, 0.0, -1024.0]], "f4")
    for name, order in (("little", h5py.h5t.IEEE_F32LE), ("big", h5py.h5t.IEEE_F32BE)):
        kind = order.copy()
        kind.set_fields(26, 20, 6, 7, 13)
        kind.set_offset(7)
        kind.set_precision(20)
        kind.set_size(4)
        kind.set_ebias(31)
        for filters in ("plain", "nbit"):
            file = f"float_20_bits_{name}_{filters}.h5"
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_chunk((1, 2))
            if filters == "nbit":
                nbit(creation)
            with h5py.File(cases.path(file), "w") as out:
                made = h5py.h5d.create(out.id, b"A", kind, h5py.h5s.create_simple(floats.shape), dcpl=creation)
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, floats)
                assert (out["A"].astype("f4")[()] == floats).all()
            cases.reads(file[:-3], file, floats, "f32")


def damaged_parts(cases):
    """Damaged chunks that H5Dread reads: of a sparse matrix in compressed columns, and behind a virtual dataset."""
    short = zlib.compress(bytes(20), 9)  # of 32 or more
    with h5py.File(cases.path("parts.h5"), "w") as out:
        for name, part in (("starts", "jc"), ("rows", "ir"), ("values", "data"), ("good", None)):
            group = out.create_group(name)
            group.attrs["MATLAB_sparse"] = np.uint64(4)
            group.attrs["MATLAB_class"] = np.bytes_("double")
            for key, values in (("jc", np.arange(5, dtype="u8")), ("ir", np.arange(4, dtype="u8")), ("data", np.ones(4))):
                made = group.create_dataset(key, data=values, chunks=(4,), compression=4, shuffle=True)
                if key == part:
                    made.id.write_direct_chunk((0,), short, filter_mask=0)
            if part:
                cases.fails(f"part_{name}", "parts.h5", 3, "holds 20 bytes, expected 32", "/" + name)
        for name in ("virtual", "unwritten"):
            group = out.create_group("sparse_" + name)
            group.attrs["MATLAB_sparse"] = np.uint64(4)
            group["jc"], group["ir"] = np.arange(5, dtype="u8"), np.arange(4, dtype="u8")
            if name == "virtual":
                layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
                layout[:] = h5py.VirtualSource("not_there.h5", "d", shape=(4,))
                group.create_virtual_dataset("data", layout)
            else:
                creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                h5py.h5d.create(group.id, b"data", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4,)), dcpl=creation)
        cases.fails("sparse_virtual", "parts.h5", 3, "/sparse_virtual/data: its data are a virtual dataset", "/sparse_virtual")
        cases.fails("sparse_missing", "parts.h5", 3, "its piece in not_there.h5 is missing", "/sparse_virtual", "external")
        cases.fails("sparse_unwritten", "parts.h5", 3, "parts of it were never written", "/sparse_unwritten")
        cube = (np.arange(64, dtype=np.int32) % 5).reshape(4, 4, 4)
        made = out.create_dataset("cube", data=cube, chunks=(2, 2, 4), scaleoffset=True)
        layout = h5py.VirtualLayout((4, 4), np.int32)
        layout[...] = h5py.VirtualSource(made)[1]
        out.create_virtual_dataset("virtual_cube", layout)
    cases.reads("part_good", "parts.h5", np.eye(4), "f64", "/good")
    cases.reads("virtual_filtered", "parts.h5", cube[1], "i32", "/virtual_cube", "external")


def endless_chunks(cases):
    """Chunks of 2^64 + 64 bytes, of which 64 bits count 64: of a dataset, and of a piece of a virtual one."""
    edges = (4 * 536838145, 4 * 536903681)
    assert edges[0] * edges[1] * 4 == 2 ** 64 + 64
    for name, storage in (("plain", {}), ("deflate", {"compression": 1})):
        file = f"endless_chunks_{name}.h5"
        with h5py.File(cases.path(file), "w", libver="earliest") as out:
            out.create_dataset("A", data=np.ones((8, 8), "i4"), chunks=(4, 4), **storage)
        patch(cases.path(file), struct.pack("<3I", 4, 4, 4), struct.pack("<3I", *edges, 4))
        cases.fails(f"endless_chunks_{name}", file, 3, "has chunks of 2147352580x2147614724 elements", "/A")
        file = f"endless_chunks_of_piece_{name}.h5"
        with h5py.File(cases.path(file), "w", libver="earliest") as out:
            made = out.create_dataset("cube", data=np.ones((4, 4, 4), "i4"), chunks=(2, 2, 4), **storage)
            layout = h5py.VirtualLayout((4, 4), "i4")
            layout[...] = h5py.VirtualSource(made)[1]
            out.create_virtual_dataset("A", layout)
        patch(cases.path(file), struct.pack("<4I", 2, 2, 4, 4), struct.pack("<4I", edges[0], edges[1] // 4, 4, 4))
        cases.fails(f"endless_chunks_of_piece_{name}", file, 3, "a piece has chunks that are larger than any file", "/A", "external")


def fill_times(cases):
    """Parts that were never written: filled where the file says so, and never what memory happens to hold. The time at
    which they are filled has two bits, of which a damaged file can have the fourth value."""
    shape, edge = (8, 8), 4
    kinds = {"plain": (h5py.h5t.STD_I16LE, lambda creation: None),
             "contiguous": (h5py.h5t.STD_I16LE, None),
             "deflate": (h5py.h5t.STD_I16LE, lambda creation: creation.set_deflate(1)),
             "12_bits": (twelve_bits(), lambda creation: None),
             "scaleoffset": (h5py.h5t.STD_I16LE, lambda creation: creation.set_scaleoffset(h5py.h5z.SO_INT, 0))}
    for name, (kind, fill) in kinds.items():
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_fill_value(np.array(5, "i2"))
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        expected = np.full(shape, 5, "i2")
        if fill:
            creation.set_chunk((edge, edge))
            fill(creation)
            expected[:edge, :edge] = 3
        with h5py.File(cases.path("fill.h5"), "w", libver="earliest") as out:
            made = h5py.h5d.create(out.id, b"A", kind, h5py.h5s.create_simple(shape), dcpl=creation)
            if fill:
                h5py.Dataset(made)[:edge, :edge] = 3
        # The fill value message: type 5, 16 bytes; version 2, when allocated, when filled, that there is a value.
        start = struct.pack("<HHI", 5, 16, 1) + bytes((2, 3 if fill else 2))
        for time in range(4):
            file = f"fill_{name}_{time}.h5"
            shutil.copy(cases.path("fill.h5"), cases.path(file))
            patch(cases.path(file), start + bytes((h5py.h5d.FILL_TIME_NEVER, 1)), start + bytes((time, 1)))
            if time == h5py.h5d.FILL_TIME_NEVER:
                cases.fails(f"fill_{name}_{time}", file, 3, "never written")
            elif time == 3:
                cases.fails(f"fill_{name}_{time}", file, 3, "the time at which it is filled is 3")
            else:
                cases.reads(f"fill_{name}_{time}", file, expected, "i16")


def lzf_in_the_library(cases):
    """lzf where HDF5 decodes: beside a filter or a type that only it knows, in a sparse matrix and behind a virtual one."""
    values = (np.arange(64, dtype=np.int32).reshape(8, 8) // 5) % 2048
    lzf = lambda creation: creation.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL, ())
    ways = {"12_bits": (twelve_bits(), lzf, "i16"),
            "12_bits_shuffled": (twelve_bits(), lambda creation: (creation.set_shuffle(), lzf(creation)), "i16"),
            "12_bits_checked": (twelve_bits(), lambda creation: (lzf(creation), creation.set_fletcher32()), "i16"),
            "scaleoffset": (h5py.h5t.STD_I32LE, lambda creation: (creation.set_scaleoffset(h5py.h5z.SO_INT, 0),
                                                                  lzf(creation)), "i32")}
    with h5py.File(cases.path("lzf.h5"), "w") as out:
        for name, (kind, fill, type_name) in ways.items():
            filtered(out, name, kind, values, fill)
            cases.reads(f"lzf_{name}", "lzf.h5", values.astype(TYPES[type_name]), type_name, "/" + name)
        packed = filtered(out, "whole", twelve_bits(), values * 0, lzf).read_direct_chunk((4, 4))
        assert packed[0] == 0 and len(packed[1]) < 32, packed
        for how, chunk in (("cut", packed[1][:-1]), ("far", b"\0\0\x20\x05" + packed[1]), ("nothing", b"\0")):
            filtered(out, how, twelve_bits(), values * 0, lzf).write_direct_chunk((4, 4), chunk)
            cases.fails(f"lzf_{how}", "lzf.h5", 3, "cannot be read: filter returned failure", "/" + how)
        group = out.create_group("sparse")
        group.attrs["MATLAB_sparse"] = np.uint64(4)
        for key, part in (("jc", np.arange(5, dtype="u8")), ("ir", np.arange(4, dtype="u8")), ("data", np.ones(4))):
            group.create_dataset(key, data=part, chunks=(4,), compression="lzf", shuffle=True)
        made = out.create_dataset("piece", data=values, chunks=(4, 4), compression="lzf")
        layout = h5py.VirtualLayout(values.shape, values.dtype)
        layout[...] = h5py.VirtualSource(made)
        out.create_virtual_dataset("virtual", layout)
    cases.reads("lzf_sparse", "lzf.h5", np.eye(4), "f64", "/sparse")
    cases.reads("lzf_virtual", "lzf.h5", values, "i32", "/virtual", "external")


def plugin(cases):
    """The plugin of the tests, which says with what a chunk starts; not there when seeds are made for fuzzing, and of no use
    to an h5py with an HDF5 of its own."""
    if os.environ.get("GPUMAT_TEST_HDF5_VERSION") != h5py.version.hdf5_version or not h5py.h5z.filter_avail(300):
        return
    values = np.arange(64, dtype=np.int32).reshape(8, 8)
    packed = bytes(byte ^ 0x5c for byte in np.ascontiguousarray(values[4:, 4:]).tobytes())
    with h5py.File(cases.path("plugin.h5"), "w") as out:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((4, 4))
        creation.set_filter(300, h5py.h5z.FLAG_OPTIONAL, (0x5c,))
        for name in ("c", "t"):
            made = h5py.h5d.create(out.id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple((8, 8)), dcpl=creation)
            assert made.get_create_plist().get_filter(0)[2] == (1, 0x5c)
            for row, col in ((0, 0), (0, 4), (4, 0)):
                part = np.ascontiguousarray(values[row:row + 4, col:col + 4]).tobytes()
                made.write_direct_chunk((row, col), part, filter_mask=1)
            made.write_direct_chunk((4, 4), name.encode() + packed, filter_mask=0)
    cases.reads("plugin", "plugin.h5", values, "i32", "/c")
    cases.fails("plugin_endless", "plugin.h5", 3, "plugin.h5:/t: rows 1 to 8, columns 1 to 8: HDF5 was still reading it after", "/t")


def chunks_of_no_bytes(cases):
    """A chunk that was written, and takes no bytes as the index has it, is not one that was never written."""
    values = np.arange(1.0, 65.0).reshape(8, 8)
    with h5py.File(cases.path("no_bytes.h5"), "w", libver="earliest") as out:
        made = out.create_dataset("A", data=values, chunks=(4, 4), compression="gzip")
        out.flush()
        chunk = made.id.get_chunk_info(1)
        layout = h5py.VirtualLayout((8, 8), "f8")
        layout[:] = h5py.VirtualSource(".", "A", (8, 8))
        out.create_virtual_dataset("V", layout)
    with open(cases.path("no_bytes.h5"), "rb") as found:
        data = found.read()
    key = struct.pack("<2I3Q", chunk.size, 0, *chunk.chunk_offset, 0)
    assert data.count(key) == 1
    with open(cases.path("no_bytes.h5"), "wb") as out:
        out.write(data.replace(key, bytes(4) + key[4:]))
    words = "takes no bytes in the file"
    cases.fails("no_bytes", "no_bytes.h5", 3, "the chunk at row 1, column 5 is damaged: it " + words, "/A")
    cases.fails("no_bytes_of_piece", "no_bytes.h5", 3, "cannot be read", "/V", "external")


def endless_filters(cases):
    """Chunks that inflate to 4 GiB, where HDF5 itself inflates them: beside a filter that only it has, and in the
    parts of a sparse matrix."""
    packer = zlib.compressobj(9)
    start = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    more = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)  # the same bytes each time
    bomb = start + more * 255
    with h5py.File(cases.path("endless_filters.h5"), "w") as out:
        made = out.create_dataset("A", (8, 8), "i8", chunks=(8, 8), scaleoffset=True, compression=9)
        made[...] = 1
        made.id.write_direct_chunk((0, 0), bomb)
        group = out.create_group("S")
        group.attrs["MATLAB_class"] = matlab_string("double")
        group.attrs["MATLAB_sparse"] = np.uint64(400)
        group["ir"] = np.arange(400, dtype=np.uint64)
        group["jc"] = np.array([0, 400], np.uint64)
        data = group.create_dataset("data", data=np.ones(400), chunks=(400,), compression=9)
        data.id.write_direct_chunk((0,), bomb)
    cases.fails("endless_filters", "endless_filters.h5", 3, "endless_filters.h5:/A", "/A")
    cases.fails("endless_filters_sparse", "endless_filters.h5", 3, "endless_filters.h5:/S", "/S")


def endless_index(cases):
    """Indices of chunks that are their own branches, of a dataset and of a piece of a virtual one."""
    with h5py.File(cases.path("endless_index.h5"), "w", libver="earliest") as out:
        out.create_dataset("A", data=np.ones((4, 4)), chunks=(2, 2))
    with open(cases.path("endless_index.h5"), "r+b") as file:
        data = bytearray(file.read())
        nodes = [at for at in range(len(data)) if data[at:at + 6] == b"TREE\1\0"]
        assert len(nodes) == 1
        data[nodes[0] + 5] = 1  # a branch; its entries are a key of 32 bytes and an address each
        for entry in range(4):
            struct.pack_into("<Q", data, nodes[0] + 24 + 40 * entry + 32, nodes[0])
        file.seek(0)
        file.write(data)
    with h5py.File(cases.path("endless_piece.h5"), "w", libver=NEWEST) as out:
        layout = h5py.VirtualLayout((4, 4), "f8")
        layout[:] = h5py.VirtualSource("endless_index.h5", "A", (4, 4))
        out.create_virtual_dataset("A", layout)
    cases.fails("endless_index", "endless_index.h5", 3, "endless_index.h5")
    cases.fails("endless_piece", "endless_piece.h5", 3, "endless_piece.h5", "/A", "external")


def sparse_groups(cases):
    """Sparse matrices: 3×4 with two entries, by rows and by columns."""
    by_rows = {"data": [1.5, -2.0], "indices": np.array([3, 0], "i4"), "indptr": np.array([0, 1, 1, 2])}
    by_columns = {"data": [-2.0, 1.5], "indices": np.array([2, 0], "i4"), "indptr": np.array([0, 1, 1, 1, 2])}
    attributes = {
        "anndata_csr": (by_rows, {"encoding-type": "csr_matrix", "shape": np.array([3, 4])}),
        "anndata_csc": (by_columns, {"encoding-type": "csc_matrix", "shape": np.array([3, 4])}),
        "old_csr": (by_rows, {"h5sparse_format": "csr", "h5sparse_shape": np.array([3, 4], "u8")}),
        "seurat": (by_columns, {"dims": np.array([3, 4], "i4")}),
        "tenx": ({**by_columns, "shape": np.array([3, 4], "i4")}, {}),
        "binsparse_coo": ({"values": [1.5, -2.0], "indices_0": [0, 2], "indices_1": [3, 0]},
                          {"binsparse": '{"binsparse": {"format": "COO", "shape": [3, 4], "number_of_stored_values": 2}}'}),
        "binsparse_text": ({"values": [1.5]}, {"binsparse": "CSR"}),
        "binsparse_shape": ({"values": [1.5]}, {"binsparse": '{"format": "CSR", "shape": [3.5, 4]}'}),
        "pointers": ({**by_rows, "indptr": [0, 2]}, {"encoding-type": "csr_matrix", "shape": np.array([3, 4])}),
        "negative": (by_rows, {"encoding-type": "csr_matrix", "shape": np.array([-3, 4])}),
        "no_shape": (by_rows, {}),
    }
    with h5py.File(cases.path("sparse_groups.h5"), "w") as out:
        for name, (arrays, marks) in attributes.items():
            group = out.create_group(name)
            group.attrs.update(marks)
            for part, values in arrays.items():
                group[part] = values
        out.attrs["nbins"] = 4
        for part, values in (("bin1_id", [0, 1]), ("bin2_id", [3, 3]), ("count", [7, 8])):
            out[f"pixels/{part}"] = values
        out["dense"] = np.eye(2)
    dense = np.zeros((3, 4))
    dense[0, 3], dense[2, 0] = 1.5, -2
    for name in ("anndata_csr", "anndata_csc", "old_csr", "seurat", "tenx", "binsparse_coo"):
        cases.reads(f"sparse_{name}", "sparse_groups.h5", dense, "f64", f"/{name}")
    pixels = np.zeros((4, 4), "i8")
    pixels[0, 3] = pixels[3, 0] = 7
    pixels[1, 3] = pixels[3, 1] = 8
    cases.reads("sparse_pixels", "sparse_groups.h5", pixels, "i64", "/pixels")
    for name, words in (("binsparse_text", "is damaged"), ("binsparse_shape", "is damaged"), ("pointers", "expected 3 + 1"),
                        ("negative", "of -3x4"), ("no_shape", "no shape of two extents")):
        cases.fails(f"sparse_{name}", "sparse_groups.h5", 3, words, f"/{name}")
    cases.fails("sparse_only", "sparse_groups.h5", 3, "a matrix that can be opened is named")


def packed(cases):
    """Numbers of netCDF that stand for others."""
    stored = sample("i2", (30, 17))
    missing = stored[4, 5]
    values = stored.astype("f8") * 0.01 + 273.15
    values[stored == missing] = np.nan
    with h5py.File(cases.path("packed.h5"), "w") as out:
        for name, storage in (("A", {}), ("C", {"chunks": (7, 5), "compression": 4}), ("B", {"dtype": ">i2"})):
            made = out.create_dataset(name, data=stored, **storage)
            made.attrs.update({"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": missing})
        out["bad"] = stored
        out["bad"].attrs["scale_factor"] = "0.01"
    for name in "ACB":
        cases.reads(f"packed_{name}", "packed.h5", values, "f64", f"/{name}", "unpack")
        cases.reads(f"packed_{name}_reversed", "packed.h5", values.T, "f64", f"/{name}", "unpack matlab")
        cases.reads(f"packed_{name}_f32", "packed.h5", values.astype("f4"), "f32", f"/{name}", "unpack type=f32")
        cases.reads(f"packed_{name}_stored", "packed.h5", stored, "i16", f"/{name}")
    cases.fails("packed_bad", "packed.h5", 3, "'scale_factor': expected a number", "/bad", "unpack")
    cases.reads("packed_bad_stored", "packed.h5", stored, "i16", "/bad")


def generate(folder):
    cases = Cases(folder)
    for part in (types_and_orders, extended, unusual_floats, layouts, names_and_shapes, external_data, conventions,
                 sparse_groups, packed, damaged):
        part(cases)
    cases.save()


def check(folder):
    """FILE, DATASET, TYPE, ROWS, COLS, RAW, CHUNK (RxC or -), DEFLATE, SHUFFLE, ATTRIBUTE of every written file."""
    wrong = 0
    with open(os.path.join(folder, "written.tsv")) as lines:
        for line in lines:
            file, dataset, name, rows, cols, raw, chunk, deflate, shuffle, attribute = line.rstrip("\n").split("\t")
            with open(os.path.join(folder, raw), "rb") as data:
                expected = data.read()
            with h5py.File(os.path.join(folder, file), "r") as stored:
                made = stored[dataset]
                problems = []
                if made.shape != (int(rows), int(cols)):
                    problems.append(f"shape {made.shape}")
                if name == "bf16":
                    type_id = made.id.get_type()
                    if type_id.get_fields() != (15, 7, 8, 0, 7) or type_id.get_ebias() != 127:
                        problems.append("not bfloat16")
                    buffer = np.empty(made.shape, np.uint16)
                    if buffer.size:
                        made.id.read(h5py.h5s.ALL, h5py.h5s.ALL, buffer, type_id)
                    found = buffer.tobytes()
                else:
                    if made.dtype != np.dtype(TYPES[name]):
                        problems.append(f"type {made.dtype}")
                    found = made[...].tobytes()
                if found != expected:
                    problems.append("elements")
                if chunk != "-" and made.chunks != tuple(int(edge) for edge in chunk.split("x")):
                    problems.append(f"chunks {made.chunks}")
                if (made.compression_opts or 0) != int(deflate) or made.shuffle != (shuffle == "1"):
                    problems.append(f"filters {made.compression} {made.compression_opts} {made.shuffle}")
                if made.attrs["note"] != attribute:
                    problems.append(f"attribute {made.attrs['note']!r}")
            if problems:
                wrong += 1
                print(f"{file}:{dataset} ({name} {rows}x{cols}): {', '.join(problems)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "generate":
        generate(sys.argv[2])
    else:
        sys.exit(check(sys.argv[2]))
