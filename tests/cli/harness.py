"""What the tests of the built tool share: element types, files, a way to run the tool, and bounds.

The oracles are NumPy, h5py and SciPy: nothing here asks gpumat what is right. A test class that derives from
`Case` has a folder of its own, in which the tool runs. Unless a test says otherwise, no GPU is visible and
there are no cached measurements, so that the tests mean the same on every machine.
"""

import hashlib
import json
import mmap
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import h5py
import numpy as np
import scipy.io
import scipy.sparse

GPUMAT = os.environ["GPUMAT"]
TIMEOUT_S = 120  # of one run; nothing here takes a tenth of it

# The address sanitizer takes memory of its own, and ends the tool where libhdf5 reads past a list of its own.
with open(GPUMAT, "rb") as _tool, mmap.mmap(_tool.fileno(), 0, access=mmap.ACCESS_READ) as _bytes:
    SANITIZED = _bytes.find(b"__asan_init") >= 0
PLAIN = not SANITIZED and "TSAN_OPTIONS" not in os.environ

# ---------------------------------------------------------------------------------------------- types

# Element types and how their bits are held here. NumPy has no bfloat16: its bits travel as uint16.
DTYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
}
# Tests of every type take one of each size and kind under sanitizers: runs are slow there, and the code is the same.
TYPES = [name for name in DTYPES if PLAIN or name in ("u8", "i16", "bf16", "f32", "i64", "c128")]
MULTIPLY_TYPES = [name for name in ("f32", "f64", "c64", "c128", "f16", "bf16", "i32", "i64", "u64") if name in TYPES]

# What a Matrix Market file of a type's values is read as: its field has no width.
FIELD_TYPE = {name: "c128" if name[0] == "c" else "i64" if name[0] == "i" else "u64" if name[0] == "u" else "f64"
              for name in DTYPES}


def is_integer(name):
    return name[0] in "iu"


def to_bf16(values):
    """float32 values rounded to bfloat16, ties to even, as bits."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def values_of(name, array):
    """The numbers behind the bits, in a type that NumPy calculates with."""
    if name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).reshape(array.shape)
    return array


def encode(name, values):
    """Values, rounded once, as an array of the type."""
    if name == "bf16":
        return to_bf16(values)
    return np.ascontiguousarray(values).astype(DTYPES[name])


def random_bits(name, shape, seed=1):
    """Any bit pattern at all: with signalling NaNs, infinities and subnormal numbers."""
    rng = np.random.default_rng(seed)
    size = np.dtype(DTYPES[name]).itemsize
    return rng.integers(0, 256, (*shape, size), dtype=np.uint8).view(DTYPES[name]).reshape(shape)


def random_values(name, shape, seed=1, span=9):
    """Integers from -span to span (from 0 for unsigned types), or reals of that size that are no integers."""
    rng = np.random.default_rng(seed)
    if is_integer(name):
        return rng.integers(0 if name[0] == "u" else -span, span + 1, shape).astype(DTYPES[name])
    values = rng.uniform(-span, span, shape)
    if name[0] == "c":
        values = values + 1j * rng.uniform(-span, span, shape)
    return encode(name, values)


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


# ---------------------------------------------------------------------------------------------- files


def bf16_h5_type():
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_precision(16)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def write_h5(path, array, name=None, dataset="A", mode="w", **storage):
    """`name` is needed for bf16 only; `storage` goes to h5py (chunks, compression, shuffle, dtype)."""
    with h5py.File(path, mode) as file:
        if name != "bf16":
            file.create_dataset(dataset, data=array, **storage)
            return
        kind = bf16_h5_type()
        space = h5py.h5s.create_simple(array.shape)
        created = h5py.h5d.create(file.id, dataset.encode(), kind, space)
        if array.size:
            created.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array), mtype=kind)


def read_h5(path, dataset=None):
    """(type name, array) of the dataset, or of the only one in the file."""
    with h5py.File(path, "r") as file:
        found = file[dataset or only_dataset(file)]
        kind = found.id.get_type()
        if kind.get_class() == h5py.h5t.FLOAT and kind.get_size() == 2 and kind.get_ebias() == 127:
            bits = np.zeros(found.shape, np.uint16)
            if bits.size:
                found.id.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=kind)
            return "bf16", bits
        array = found[()]
        names = [name for name, dtype in DTYPES.items() if name != "bf16" and np.dtype(dtype) == array.dtype]
        return names[0], array


def only_dataset(file):
    names = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    assert len(names) == 1, f"{file.filename} holds {names}"
    return names[0]


def write_mtx(path, values, symmetry="general", **options):
    """A NumPy array as an array file, a SciPy sparse matrix as a coordinate file."""
    if 0 in values.shape:  # recent SciPy hangs on writing these
        field = {"c": "complex", "i": "integer", "u": "unsigned-integer"}.get(values.dtype.kind, "real")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"%%MatrixMarket matrix array {field} general\n{values.shape[0]} {values.shape[1]}\n")
        return
    scipy.io.mmwrite(path, values, symmetry=symmetry, **options)


def read_mtx(path):
    """The dense matrix. SciPy cannot read 0×N array files, so those are read here."""
    with open(path, encoding="ascii") as file:
        lines = [line for line in file if not line.startswith("%") or "MatrixMarket" in line]
    field, sizes = lines[0].split()[3], [int(word) for word in lines[1].split()]
    if 0 in sizes[:2]:
        assert len(lines) == 2, "values in an empty matrix"
        dtype = {"integer": np.int64, "unsigned-integer": np.uint64, "complex": np.complex128}.get(field, np.float64)
        return np.zeros(sizes[:2], dtype)
    matrix = scipy.io.mmread(path)
    return matrix.toarray() if scipy.sparse.issparse(matrix) else matrix


def read_any(path):
    """(type name, array); for Matrix Market the type that its field is read as."""
    if path.endswith(".h5"):
        return read_h5(path)
    array = read_mtx(path)
    return {np.dtype(dtype): name for name, dtype in DTYPES.items() if name != "bf16"}[array.dtype], array


def write_any(path, array, name, dataset="A"):
    if path.endswith(".h5"):
        write_h5(path, array, name, dataset)
    else:
        write_mtx(path, values_of(name, array).astype(DTYPES[FIELD_TYPE[name]]))


def digest(path):
    """What a file is: its content, or where a link leads, or its kind."""
    if os.path.islink(path):
        return "link to " + os.readlink(path)
    if not os.path.isfile(path):
        return "no regular file"
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def snapshot(folder):
    """Every name in the folder and what it is: two equal ones prove that nothing was touched or left."""
    return {name: digest(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


# ------------------------------------------------------------------------------------- running the tool


class Result:
    def __init__(self, arguments, process, out, err):
        self.arguments, self.code = arguments, process.returncode
        self.out_bytes, self.err_bytes, self.out, self.err = out, err, out.decode(errors="replace"), err.decode(errors="replace")

    def json(self):
        return json.loads(self.out)

    def __str__(self):
        command = shlex.join(map(os.fsdecode, self.arguments))
        return f"{command}\nexit {self.code}\nstdout: {self.out[:2000]}\nstderr: {self.err[:4000]}"


# For runs under strace, where the leak sanitizer does not work, nor what names the places of a report once writes fail.
TRACED = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0:verify_asan_link_order=0:symbolize=0"}

# The tool starts with signals as a shell sets them, whatever started the tests.
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def child_setup(file_bytes=None, ignore=()):
    """What a child does before it becomes the tool; None where that is nothing, because Python code between
    fork and exec can hang in a process that has threads, and SciPy's readers start some."""
    if file_bytes is None and not ignore:
        return None

    def setup():
        for number in ignore:
            signal.signal(number, signal.SIG_IGN)
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return setup


def wait_for(condition, what):
    """Waits for the condition, a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.002)


def can_inject():
    """Whether strace is there, and may trace here."""
    strace = shutil.which("strace")
    return strace is not None and subprocess.run([strace, "-qq", "-f", "-o", "/dev/null", "true"],
                                                 capture_output=True, check=False).returncode == 0


def open_for_writing(number, folder):
    """The descriptors in /proc of what a process has open for writing in the folder, named or not."""
    found = []
    descriptors = f"/proc/{number}/fd"
    try:
        for name in os.listdir(descriptors):
            path = os.path.join(descriptors, name)
            mode = os.lstat(path).st_mode
            if mode & 0o200 and os.readlink(path).startswith(folder + "/"):
                found.append(path)
    except FileNotFoundError:  # it has ended
        pass
    return found


def has_open(number, path):
    """Whether a process has the file open; not where it has ended."""
    descriptors = f"/proc/{number}/fd"
    try:
        return any(os.path.realpath(f"{descriptors}/{name}") == os.path.realpath(path) for name in os.listdir(descriptors))
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(number):
    """The children of a process's first thread; none where it has ended."""
    try:
        with open(f"/proc/{number}/task/{number}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def traced_tool(tracer):
    """The tool that strace has started: before it, strace starts processes to see what it can do."""

    def found():
        return [child for child in children(tracer) if os.path.realpath(f"/proc/{child}/exe") == os.path.realpath(GPUMAT)]

    wait_for(found, "the traced tool")
    return found()[0]


def wait_for_text(path, text):
    """Waits until a file that another process writes has the text."""

    def is_there():
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return text in file.read()
        except FileNotFoundError:
            return False

    wait_for(is_there, f"{text} in {path}")


# A matrix of 300×300 ones in two parts. The tool reads ahead: the first is more than it takes before it opens
# its output, and it waits for the second.
SLOW_ONES = (b"%%MatrixMarket matrix array real general\n300 300\n" + b"1\n" * (300 * 300 - 1), b"1\n")


class Case(unittest.TestCase):
    """A test with a folder of its own and the tool to run in it."""

    maxDiff = None
    tool = GPUMAT

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="gpumat-test-")
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, about the infinities of random bits

    def path(self, name):
        return os.path.join(self.folder, name)

    def keep_parts_apart(self):
        """Temporary files of the tool go into `folder_of_parts`."""
        self.folder_of_parts = self.path("parts")
        os.mkdir(self.folder_of_parts)
        os.environ["TMPDIR"] = self.folder_of_parts
        self.addCleanup(os.environ.pop, "TMPDIR")

    def start(self, *arguments, gpu=False, env=None, file_bytes=None, ignore=(), before=(), **pipes):
        """Starts the tool. `before`: a command that runs it, such as setpriv."""
        environment = {**os.environ, "GPUMAT_CACHE": "", **({} if gpu else {"CUDA_VISIBLE_DEVICES": ""}), **(env or {})}
        defaults = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        return subprocess.Popen([*before, self.tool, *arguments], env=environment,
                                preexec_fn=child_setup(file_bytes, ignore),
                                **{"cwd": self.folder, **defaults, **pipes})

    def run_tool(self, *arguments, stdin=b"", code=0, **options):
        """Runs the tool to its end and asserts its exit code (None: any)."""
        with self.start(*arguments, **options) as process:
            try:
                out, err = process.communicate(stdin, timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        result = Result([self.tool, *arguments], process, out or b"", err or b"")
        if code is not None:
            self.assertEqual(result.code, code, str(result))
        return result

    def peak_bytes(self, *arguments, **options):
        """What the tool and its children took at most, each of them; and the run. A small process starts it: the system
        counts what a child had of its parent."""
        program = ("import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr); sys.exit(code)")
        result = self.run_tool(*arguments, before=[sys.executable, "-c", program], **options)
        return int(result.err.split()[-1]), result

    def assert_peak(self, taken, limit, said=""):
        """A run took no more than its limit, and what libraries and threads take beside matrices. What a sanitizer takes
        depends on more than the matrices, so nothing is said of it."""
        if PLAIN:
            self.assertLess(taken, limit + (40 << 20), said)

    def run_within(self, mib, *arguments, **options):
        """Runs the tool with a memory limit, and asserts that it keeps to it."""
        taken, result = self.peak_bytes(*arguments, "--memory-limit", f"{mib}MiB", **options)
        self.assert_peak(taken, mib << 20, str(result))
        return result

    def record(self, *arguments, **options):
        """Runs an operation with --json and returns its run record; `code` is what it must exit with."""
        return self.run_tool(*arguments, "--json", **options).json()

    def assert_says(self, result, *words):
        for word in words:
            self.assertIn(word, result.err, str(result))

    def assert_same_bits(self, actual, expected, note=""):
        self.assertEqual((actual.dtype, actual.shape), (expected.dtype, expected.shape), note)
        if not same_bits(actual, expected):
            differing = np.argwhere(actual.view(f"V{actual.itemsize}") != expected.view(f"V{actual.itemsize}"))
            self.fail(f"{note}: {len(differing)} elements differ, the first at {differing[0]}")


def levels(operation, device="cpu", gpu=False):
    """The levels that can run, as `gpumat levels --json` lists them."""
    listed = subprocess.run([GPUMAT, "levels", operation, "--device", device, "--json"], stdout=subprocess.PIPE,
                            check=True)
    return [level for level in json.loads(listed.stdout)["levels"] if level["compiled_in"]]


def some(things, every):
    """All of them; one of so many under sanitizers, where a run takes ten times as long and the code is the same."""
    return list(things)[::1 if PLAIN else every]


def cases(table):
    """Class decorator: every row (name, …) of the table becomes a test method `test_NAME` that calls check(…)."""

    def decorate(cls):
        for name, *row in table:
            method = f"test_{name}"
            assert not hasattr(cls, method), f"two cases are named {name}"
            setattr(cls, method, lambda self, row=row: self.check(*row))
        return cls

    return decorate


# ----------------------------------------------------------------------------------------------- bounds

# Unit roundoff of the type that sums are kept in, of the result, and the result's smallest subnormal number.
_SUM = {"f16": 2.0**-24, "bf16": 2.0**-24, "f32": 2.0**-24, "c64": 2.0**-24, "f64": 2.0**-53, "c128": 2.0**-53}
_OUT = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "c64": 2.0**-24, "f64": 2.0**-53, "c128": 2.0**-53}
_TINY = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "c64": 2.0**-149, "f64": 2.0**-1074, "c128": 2.0**-1074}


def multiply_reference(name, a, b, alpha=1, beta=0, d=None):
    """(C, bound on |C − Ĉ|) for values a (m×k), b (k×n), d (m×n).

    C is calculated in extended precision from the same inputs. A sum of n rounded products, in any order and
    with or without fused operations, is off by at most γ_n·Σ|a||b|, γ_n = n·u/(1 − n·u) (Higham, Accuracy
    and Stability, 3.1). Each part of a complex product is a sum of two products, so n doubles there, and the
    modulus of two parts that are each within e is within √2·e. α, β and D add a few operations more.
    """
    wide = np.clongdouble if name[0] == "c" else np.longdouble
    a, b = a.astype(wide), b.astype(wide)
    exact = wide(alpha) * (a @ b)
    terms = abs(alpha) * (np.abs(a) @ np.abs(b))
    if d is not None:
        exact = exact + wide(beta) * d.astype(wide)
        terms = terms + abs(beta) * np.abs(d.astype(wide))
    operations = (2 if name[0] == "c" else 1) * (a.shape[1] + 4)
    gamma = operations * _SUM[name] / (1 - operations * _SUM[name])
    error = gamma * terms * (2**0.5 if name[0] == "c" else 1)
    return exact, error + _OUT[name] * (np.abs(exact) + error) + _TINY[name]


def wrapped_product(name, a, b, alpha=1, beta=0, d=None):
    """An integer multiply modulo 2^bits, in unsigned arithmetic, which NumPy defines to wrap."""
    dtype = np.dtype(DTYPES[name])
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def ring(matrix):
        return np.ascontiguousarray(matrix, dtype).view(unsigned)

    def ring_scalar(number):
        return np.array(number % 2 ** (8 * dtype.itemsize), unsigned)

    product = ring_scalar(alpha) * (ring(a) @ ring(b))
    if d is not None:
        product = product + ring_scalar(beta) * ring(d)
    return np.ascontiguousarray(product).view(dtype)
