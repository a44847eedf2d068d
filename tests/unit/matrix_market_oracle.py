"""Compares the Matrix Market reader and writer with SciPy and with exact arithmetic.

Usage: matrix_market_oracle.py TOOL, where TOOL is the built matrix_market_tool. Exits with 77 (skipped) where
SciPy is missing.
"""

import fractions
import gzip
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import scipy.io
    import scipy.sparse
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL = sys.argv[1]
DTYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip


def deliver(what, path, kind, threads, dtype_of, stdin=None):
    """What the tool reads, as an array of dtype_of(its type), and the shape of the matrix."""
    with tempfile.NamedTemporaryFile() as out:
        run = subprocess.run(
            [TOOL, what, path, kind, str(threads), out.name], input=stdin, capture_output=True, check=False
        )
        assert run.returncode == 0, run.stderr
        found, shape = run.stdout.decode().split()
        return np.fromfile(out.name, dtype_of(DTYPES[found])), tuple(map(int, shape.split("x")))


def read(path, kind="-", threads=2, stdin=None):
    """The matrix as the tool reads it; bf16 as its bits."""
    elements, shape = deliver("read", path, kind, threads, lambda value: value, stdin)
    return elements.reshape(shape)


def read_entries(path):
    """The entries as the tool reads them, in SciPy's form."""
    entries, shape = deliver(
        "entries", path, "-", 2, lambda value: np.dtype([("row", "<i8"), ("col", "<i8"), ("value", value)])
    )
    return scipy.sparse.coo_matrix((entries["value"], (entries["row"], entries["col"])), shape)


def assert_same_entries(a, b, what):
    """The same entries, of which several may be for one element, in any order."""
    assert a.shape == b.shape and a.nnz == b.nnz, (what, a.nnz, b.nnz)
    order_a, order_b = (np.lexsort((m.data.imag, m.data.real, m.col, m.row)) for m in (a, b))
    for part in ["row", "col", "data"]:
        same = getattr(a, part)[order_a] == getattr(b, part)[order_b]
        assert same.all(), (what, part)


def write(path, matrix, kind, threads=2):
    with tempfile.NamedTemporaryFile() as raw:
        matrix.tofile(raw.name)
        rows, cols = map(str, matrix.shape)
        subprocess.run([TOOL, "write", raw.name, kind, rows, cols, str(threads), path], check=True)


def assert_same_bits(a, b, what):
    assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, b.shape, a.dtype, b.dtype)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.dtype.kind in "fc":
        part = np.dtype(f"f{a.dtype.itemsize // (2 if a.dtype.kind == 'c' else 1)}")
        a, b = a.view(part), b.view(part)
        both_nan = np.isnan(a) & np.isnan(b)
        a, b = np.where(both_nan, 0, a), np.where(both_nan, 0, b)
    assert a.tobytes() == b.tobytes(), (what, a.ravel()[a.ravel() != b.ravel()][:5], b.ravel()[a.ravel() != b.ravel()][:5])


def random_matrix(random_state, shape, kind):
    if kind[0] in "iu":
        info = np.iinfo(DTYPES[kind])
        return random_state.integers(info.min, info.max, shape, DTYPES[kind], endpoint=True)
    size = np.dtype(DTYPES[kind]).itemsize
    with np.errstate(all="ignore"):
        matrix = np.frombuffer(random_state.bytes(shape[0] * shape[1] * size), DTYPES[kind]).reshape(shape)
    return matrix


def test_written_files_in_scipy(folder):
    state = np.random.default_rng(1)
    for kind in DTYPES:
        if kind == "bf16":
            continue
        for shape in [(1, 1), (7, 3), (61, 130)]:
            matrix = random_matrix(state, shape, kind)
            write(f"{folder}/a.mtx", matrix, kind)
            with np.errstate(all="ignore"):
                assert_same_bits(scipy.io.mmread(f"{folder}/a.mtx").astype(matrix.dtype), matrix, kind)


def test_files_of_scipy(folder):
    state = np.random.default_rng(2)
    n = 57
    for kind in ["i64", "f64", "c128"]:
        base = state.integers(-1000, 1000, (n, n))
        if kind == "f64":
            base = base * state.standard_normal((n, n))
        if kind == "c128":
            base = base + 1j * state.standard_normal((n, n))
        base = base.astype(DTYPES[kind]) + 0  # no negative zeros: SciPy's releases treat their sign differently
        forms = {"general": base, "symmetric": base + base.T, "skew-symmetric": base - base.T}
        if kind == "c128":
            forms["hermitian"] = base + base.conj().T
        for symmetry, dense in forms.items():
            keep = state.random((n, n)) < 0.2
            for matrix in [dense, scipy.sparse.coo_matrix(dense * (keep & keep.T) + 0)]:
                # SciPy writes the diagonal of complex skew-symmetric arrays, which the format leaves out, and
                # fails to read some of its other ones back; 17 digits give the matrix exactly.
                skew_array = symmetry == "skew-symmetric" and not scipy.sparse.issparse(matrix)
                if skew_array and kind == "c128":
                    continue
                path = f"{folder}/a.mtx"
                with open(path, "wb") as file:  # by name SciPy would compress or rename
                    precision = None if kind == "i64" else 17
                    scipy.io.mmwrite(file, matrix, precision=precision, symmetry=symmetry)
                expected = matrix if skew_array else scipy.io.mmread(path)
                if scipy.sparse.issparse(expected):
                    assert_same_entries(read_entries(path), expected, (kind, symmetry, "entries"))
                    expected = expected.toarray()
                assert_same_bits(read(path), expected.astype(DTYPES[kind]), (kind, symmetry))
                with open(path, "rb") as file, gzip.open(path + ".gz", "wb") as packed:
                    packed.write(file.read())
                assert_same_bits(read(path + ".gz"), expected.astype(DTYPES[kind]), (kind, symmetry, "gz"))


def test_many_entries(folder):
    """More than one batch of text, with several entries for one element."""
    state = np.random.default_rng(5)
    rows, cols, count = 300, 70_000, 400_000
    lines = zip(*(state.integers(1, end + 1, count).tolist() for end in (rows, cols, 1000)))
    path = f"{folder}/a.mtx"
    pathlib.Path(path).write_text(
        f"%%MatrixMarket matrix coordinate integer general\n{rows} {cols} {count}\n"
        + "".join(f"{i} {j % 200 + 1} {value}\n" for i, j, value in lines)
    )
    expected = scipy.io.mmread(path)
    assert_same_entries(read_entries(path), expected, "entries")
    assert_same_bits(read(path), expected.toarray().astype(np.int64), "dense")


def test_streams(folder):
    """Compressed and piped text of several megabytes: read ahead while it is parsed."""
    matrix = np.random.default_rng(6).standard_normal((700, 900))
    path = f"{folder}/a.mtx"
    write(path, matrix, "f64")
    text = pathlib.Path(path).read_bytes()
    packed = gzip.compress(text[:5_000_000], 1) + gzip.compress(text[5_000_000:], 1)
    pathlib.Path(path + ".gz").write_bytes(packed)
    for threads in [1, 2, 5]:
        assert_same_bits(read(path + ".gz", threads=threads), matrix, ("gz", threads))
        assert_same_bits(read("-", threads=threads, stdin=text), matrix, ("pipe", threads))
        assert_same_bits(read("-", threads=threads, stdin=packed), matrix, ("gz in a pipe", threads))
    pathlib.Path(path + ".gz").write_bytes(packed[:-100])
    for threads in [1, 2]:
        run = subprocess.run([TOOL, "read", path + ".gz", "-", str(threads), "/dev/null"], capture_output=True, check=False)
        assert run.returncode == 3 and b"inside compressed data" in run.stderr, run


def number_texts(count):
    """Numbers that are hard to read: of every form and size, and ties between two values."""
    pick = random.Random(3)
    digits = lambda n: "".join(pick.choice("0123456789") for _ in range(n))
    texts = []
    for _ in range(count):
        form = pick.randrange(7)
        if form == 0:
            text = digits(pick.randrange(1, 25))
        elif form == 1:
            text = f"{digits(pick.randrange(0, 20))}.{digits(pick.randrange(1, 30))}"
        elif form == 2:
            text = f"{digits(pick.randrange(1, 20))}e{pick.randrange(-345, 290)}"
        elif form == 3:
            text = f"{pick.choice('123456789')}.{digits(pick.choice([1, 15, 16, 17, 18, 19, 20, 40]))}E{pick.randrange(-330, 308):+d}"
        elif form == 4:
            text = repr(abs(np.frombuffer(pick.randbytes(8), np.float64)[0].item()))
        else:  # a tie between two doubles, or just beside it
            bits = pick.randrange(0, 0x7FE0000000000000) if form == 5 else pick.randrange(0, 1 << 53)
            low = np.frombuffer(bits.to_bytes(8, "little"), np.float64)[0].item()
            high = np.frombuffer((bits + 1).to_bytes(8, "little"), np.float64)[0].item()
            text = decimal_text((fractions.Fraction(low) + fractions.Fraction(high)) / 2)
            text = pick.choice([text, text + "1", text[:-1] + "49", text[: pick.randrange(17, 40)]])
            if pick.random() < 0.5:
                text += f"e{pick.randrange(-2, 3)}"
        texts.append(pick.choice(["", "-", "+"]) + text)
    return [text for text in texts if abs(float(text)) != float("inf") and "nan" not in text]


def decimal_text(value):
    """A fraction whose denominator is a power of two, exactly."""
    power = value.denominator.bit_length() - 1
    text = str(value.numerator * 5**power).rjust(power + 1, "0")
    return f"{text[:-power]}.{text[-power:]}" if power else text + ".0"


def column(folder, texts):
    path = f"{folder}/numbers.mtx"
    pathlib.Path(path).write_text(
        f"%%MatrixMarket matrix array real general\n{len(texts)} 1\n" + "\n".join(texts) + "\n"
    )
    return path


def test_doubles(folder):
    texts = number_texts(100_000)
    expected = np.array([float(text) for text in texts])
    found = read(column(folder, texts)).ravel()
    wrong = np.flatnonzero(found.view(np.int64) != expected.view(np.int64))
    assert wrong.size == 0, [(texts[i], found[i], expected[i]) for i in wrong[:5]]


def rounded(text, mantissa_bits, smallest_exponent):
    """The value rounded once to a binary format, by exact arithmetic."""
    value = fractions.Fraction(text)
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < fractions.Fraction(2) ** exponent:
        exponent -= 1
    step = fractions.Fraction(2) ** (max(exponent, smallest_exponent) - mantissa_bits)
    return float(round(value / step) * step)  # round() goes to even


def test_narrow_types(folder):
    pick = random.Random(4)
    formats = {"f16": (10, -14, 65504.0), "bf16": (7, -126, 3.3895313892515355e38), "f32": (23, -126, 3.4028234663852886e38)}
    for kind, (mantissa_bits, smallest, largest) in formats.items():
        texts = []
        for _ in range(20_000):
            exponent = pick.randrange(smallest - mantissa_bits - 2, 16 if kind == "f16" else 127)
            step = fractions.Fraction(2) ** (max(exponent, smallest) - mantissa_bits - 1)
            tie = decimal_text((pick.randrange(1, 1 << (mantissa_bits + 2)) * 2 + 1) * step / 4)
            texts.append(pick.choice([tie, tie + "0000000000000000000000000001", tie[:-1] + "4999999999999999999999999"]))
        texts = [text for text in texts if rounded(text, mantissa_bits, smallest) <= largest]
        assert len(texts) > 15_000
        expected = np.array([rounded(text, mantissa_bits, smallest) for text in texts])
        found = read(column(folder, texts), kind).ravel()
        if kind == "bf16":
            found = (found.astype(np.uint32) << 16).view(np.float32)
        wrong = np.flatnonzero(found.astype(np.float64) != expected)
        assert wrong.size == 0, (kind, [(texts[i], found[i], expected[i]) for i in wrong[:5]])


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in [test_written_files_in_scipy, test_files_of_scipy, test_many_entries, test_streams, test_doubles, test_narrow_types]:
            test(folder)
            print(f"{test.__name__}: passed")


main()
