"""Bad input: exit code, the words that help, an output that stays as it was, and nothing left behind.

A row of `CASES` is one test: its name, the exit code, words of the message, and the command line. The command
runs in a folder that holds `FILES` and two outputs that exist, out.h5 and out.mtx. Unless it names an output,
`-o out.h5 --force` is added, so that every refusal has something that it could have destroyed.
"""

import gzip
import os
import resource
import shlex
import unittest

import h5py
import numpy as np

from harness import Case, cases, random_values, snapshot, write_h5, write_mtx

BANNER = "%%MatrixMarket matrix array real general\n"
COORDINATE = "%%MatrixMarket matrix coordinate real general\n"


def text(content):
    def make(path):
        with open(path, "wb") as file:
            file.write(content.encode())

    return make


def h5(**datasets):
    def make(path):
        for name, data in datasets.items():
            write_h5(path, data, dataset=name, mode="a")

    return make


def gzipped(content):
    def make(path):
        with gzip.open(path, "wb") as file:
            file.write(content.encode())

    return make


def truncated(make, keep):
    """The first `keep` part of a good file."""

    def make_truncated(path):
        make(path)
        os.truncate(path, int(os.path.getsize(path) * keep))

    return make_truncated


def promising(rows, cols, **storage):
    """A small HDF5 file with a dataset of that shape, none of which is stored."""

    def make(path):
        with h5py.File(path, "w") as file:
            file.create_dataset("A", (rows, cols), "f8", **storage)

    return make


def group_only(path):
    with h5py.File(path, "w") as file:
        file.create_group("group")


MATRIX = random_values("f64", (6, 4))
FILES = {
    "a.h5": h5(A=MATRIX),
    "a.mtx": lambda path: write_mtx(path, MATRIX),
    "b.h5": h5(A=random_values("f64", (4, 5), 2)),
    "f32.h5": h5(A=random_values("f32", (4, 5), 2)),
    "d.h5": h5(D=random_values("f64", (5, 5), 3)),
    "i32.h5": h5(A=random_values("i32", (4, 4))),
    "c64.h5": h5(A=random_values("c64", (4, 4))),
    "u8.h5": h5(A=random_values("u8", (4, 4))),
    "halves.h5": h5(A=np.full((2, 2), 0.5)),
    "large.h5": h5(A=np.full((2, 2), 1e300)),
    "nan.mtx": text(BANNER + "2 1\n1\nnan\n"),
    "folder": os.mkdir,
    "empty.h5": text(""),
    "empty.mtx": text(""),
    "words.txt": text("this is no matrix\n"),
    "words.h5": text("this is no HDF5 file\n"),
    "image.mtx": text("\x89PNG\r\n"),
    "two.h5": h5(first=MATRIX, second=MATRIX),
    "vector.h5": h5(A=np.arange(5.0)),
    "cube.h5": h5(A=np.zeros((2, 3, 4))),
    "strings.h5": h5(A=np.array([[b"a", b"b"]])),
    "mixed.h5": h5(A=np.zeros((2, 2), [("x", "f8"), ("label", "S4")])),
    "group.h5": group_only,
    "cut.h5": truncated(h5(A=random_values("f64", (200, 200))), 0.5),
    "cut_header.h5": truncated(h5(A=MATRIX), 0.02),
    "cut.mtx": text(BANNER + "3 2\n1\n2\n3\n4\n5\n"),
    "cut_line.mtx": text(COORDINATE + "3 3 2\n1 1 5\n2 2\n"),
    "cut_entries.mtx": text(COORDINATE + "3 3 3\n1 1 5\n2 2 6\n"),
    "cut_header.mtx": text(BANNER + "% no sizes follow\n"),
    "cut.mtx.gz": truncated(gzipped(BANNER + "50 50\n" + "1.25\n" * 2500), 0.5),
    "more.mtx": text(BANNER + "1 2\n1\n2\n3\n"),
    "letters.mtx": text(BANNER + "1 3\n1\ntwo\n3\n"),
    "fortran.mtx": text(BANNER + "1 2\n1\n2D0\n"),
    "fraction.mtx": text(BANNER.replace("real", "integer") + "1 2\n1\n2.5\n"),
    "index.mtx": text(COORDINATE + "3 3 1\n1 4 5\n"),
    "zero_index.mtx": text(COORDINATE + "3 3 1\n0 1 5\n"),
    "negative.mtx": text(BANNER + "-1 2\n"),
    "object.mtx": text("%%MatrixMarket vector array real general\n1 1\n1\n"),
    "field.mtx": text("%%MatrixMarket matrix array quaternion general\n1 1\n1\n"),
    "oblong.mtx": text("%%MatrixMarket matrix array real symmetric\n2 3\n1\n2\n3\n"),
    "huge.mtx": text(COORDINATE + "1000000 1000000 1\n1 1 1\n"),
    "huge_array.mtx": text(BANNER + "1000000 1000000\n1\n"),
    "beyond.mtx": text(COORDINATE + "9223372036854775807 9223372036854775807 1\n1 1 1\n"),
    "too_many.mtx": text(COORDINATE + "3 3 9000000000000000000\n1 1 1\n"),
    "overflow.mtx": text(COORDINATE + "9223372036854775808 3 1\n1 1 1\n"),
    "huge.h5": promising(10**6, 10**6, chunks=(1024, 1024)),
    "huge_contiguous.h5": promising(10**6, 10**6),
    "wide.h5": promising(2**40, 2**40, chunks=(1024, 1024)),
    "no_rows.h5": promising(0, 10**6),
    "tall.h5": promising(10**6, 1, chunks=(1024, 1)),
}


MEMORY = 6
CASES = [
    # Files that are not there, not files, or not what they say
    ("missing_file", 3, ["nowhere.h5", "No such file"], "transpose nowhere.h5"),
    ("missing_file_of_b", 3, ["nowhere.mtx", "No such file"], "multiply a.h5 nowhere.mtx"),
    ("missing_file_of_d", 3, ["nowhere.h5", "No such file"], "multiply a.h5 b.h5 --beta 1 --add nowhere.h5"),
    ("missing_dataset", 3, ["a.h5", "/B", "/A"], "transpose a.h5:/B"),
    ("dataset_of_a_text_file", 3, ["a.mtx", "/A"], "transpose a.mtx:/A"),
    ("directory", 3, ["folder", "directory"], "transpose folder"),
    ("empty_hdf5", 3, ["empty.h5", "empty"], "transpose empty.h5"),
    ("empty_matrix_market", 3, ["empty.mtx", "empty"], "transpose empty.mtx"),
    ("no_matrix", 3, ["words.txt", "no known format", "hdf5", "matrix-market"], "transpose words.txt"),
    ("no_hdf5", 3, ["words.h5", "no known format"], "transpose words.h5"),
    ("no_matrix_market", 3, ["image.mtx", "%%MatrixMarket"], "transpose image.mtx"),
    ("device_as_input", 3, ["/dev/null"], "transpose /dev/null"),
    ("no_standard_input", 3, ["end of the file"], "transpose -"),
    ("dataset_of_standard_input", 2, ["-:/f4/A: a dataset", "from standard input", "--from"], "transpose -:/f4/A"),
    ("dataset_of_standard_input_after_dashes", 2, ["from standard input"], "transpose -o out.h5 --force -- -:/f4/A"),
    ("dataset_of_standard_input_as_b", 2, ["from standard input"], "multiply a.h5 -:/A"),
    ("dataset_of_standard_input_in_info", 2, ["from standard input"], "info -:/A"),
    ("dataset_of_standard_input_as_d", 2, ["from standard input"], "multiply a.h5 b.h5 --beta 1 --add -:/A"),
    ("dataset_of_a_device", 2, ["/dev/null:/A: a dataset", "from a pipe"], "transpose /dev/null:/A"),
    # Truncated and malformed files
    ("truncated_hdf5", 3, ["cut.h5"], "transpose cut.h5"),
    ("truncated_hdf5_header", 3, ["cut_header.h5"], "transpose cut_header.h5"),
    ("truncated_array", 3, ["cut.mtx", "6"], "transpose cut.mtx"),
    ("truncated_line", 3, ["cut_line.mtx", "2 entries"], "transpose cut_line.mtx"),
    ("truncated_entries", 3, ["cut_entries.mtx", "3"], "transpose cut_entries.mtx"),
    ("truncated_text_header", 3, ["cut_header.mtx", "sizes"], "transpose cut_header.mtx"),
    ("truncated_gzip", 3, ["cut.mtx.gz"], "transpose cut.mtx.gz"),
    ("too_many_values", 3, ["more.mtx:5"], "transpose more.mtx"),
    ("letters", 3, ["letters.mtx:4", "'two'"], "transpose letters.mtx"),
    ("fortran_exponent", 3, ["fortran.mtx:4", "2D0"], "transpose fortran.mtx --strict"),
    ("fraction_among_integers", 3, ["fraction.mtx:4", "2.5"], "transpose fraction.mtx"),
    ("index_beyond", 3, ["index.mtx:3", "4"], "transpose index.mtx"),
    ("index_zero", 3, ["zero_index.mtx:3", "0"], "transpose zero_index.mtx"),
    ("negative_size", 3, ["negative.mtx:2", "'-1'"], "transpose negative.mtx"),
    ("wrong_object", 3, ["object.mtx:1", "'vector'"], "transpose object.mtx --strict"),
    ("wrong_field", 3, ["field.mtx:1", "'quaternion'", "complex"], "transpose field.mtx"),
    ("symmetric_but_not_square", 3, ["oblong.mtx:2", "square"], "transpose oblong.mtx"),
    ("size_beyond_64_bits", 3, ["overflow.mtx:2", "9223372036854775808"], "transpose overflow.mtx"),
    ("more_entries_than_bytes", 3, ["too_many.mtx"], "transpose too_many.mtx"),
    # Datasets that are no matrix
    ("two_datasets_and_none_named", 3, ["two.h5", "/first", "/second"], "transpose two.h5"),
    ("vector", 3, ["vector.h5", "/A", "dimension"], "transpose vector.h5"),
    ("cube", 3, ["cube.h5", "/A", "dimension"], "transpose cube.h5"),
    ("strings", 3, ["strings.h5", "/A"], "transpose strings.h5"),
    ("compound", 3, ["mixed.h5", "/A", "compound"], "transpose mixed.h5"),
    ("group", 3, ["group.h5", "/group"], "transpose group.h5:/group"),
    ("no_dataset", 3, ["group.h5"], "transpose group.h5"),
    # Shapes and types that do not fit
    ("shapes_do_not_multiply", 3, ["6x4", "a.h5:/A", "expected equal"], "multiply a.h5 a.h5"),
    ("shapes_do_not_multiply_transposed", 3, ["6x4", "4x5", "used transposed"], "multiply a.h5 b.h5 --transpose-a"),
    ("shape_of_add", 3, ["5x5", "6x5"], "multiply a.h5 b.h5 --beta 1 --add d.h5"),
    ("mixed_types", 3, ["f64", "f32", "--type"], "multiply a.h5 f32.h5"),
    ("conversion_of_a_fraction", 3, ["halves.h5", "0.5", "i32"], "transpose halves.h5 -t i32"),
    ("conversion_out_of_range", 3, ["large.h5", "f32"], "transpose large.h5 -t f32"),
    ("conversion_of_nan", 3, ["nan.mtx", "i64"], "transpose nan.mtx -t i64"),
    ("conversion_of_an_imaginary_part", 3, ["c64.h5", "f32"], "transpose c64.h5 -t f32"),
    # Levels and devices
    ("unknown_level", 2, ["'warp'", "serial", "padded"], "transpose a.h5 -l warp"),
    ("unknown_number", 2, ["'99'"], "multiply a.h5 b.h5 -l 99"),
    ("level_of_the_other_operation", 2, ["'per-row'", "naive"], "multiply a.h5 b.h5 -l per-row"),
    ("level_of_sparse_matrices", 5, ["'merge'", "sparse A and dense B", "dense ones"], "multiply a.h5 b.h5 -l merge"),
    ("gpu_level_without_gpu", 5, ["'padded'", "gpu"], "transpose a.h5 -l padded"),
    ("gpu_level_of_multiply_without_gpu", 5, ["'naive-strided'", "gpu"], "multiply a.h5 b.h5 -l naive-strided"),
    ("gpu_without_gpu", 5, ["GPU"], "transpose a.h5 -d gpu"),
    ("second_gpu_without_gpu", 5, ["GPU"], "transpose a.h5 -d gpu:1"),
    ("shared_name_on_the_missing_gpu", 5, ["GPU"], "transpose a.h5 -l serial -d gpu"),
    ("level_that_lacks_the_type", 5, ["'naive'", "u8"], "multiply u8.h5 u8.h5 -l naive -d cpu"),
    ("no_level_has_the_type", 5, ["u8"], "multiply u8.h5 u8.h5 -d cpu"),
    ("unknown_parameter", 5, ["'serial'", "'block'"], "transpose a.h5 -l serial -d cpu --block 8"),
    ("bench_of_a_parameter_that_no_level_has", 2, ["--pack", "none of the levels"],
     "bench multiply -d cpu -l naive --pack 1 -s 8"),
    ("unknown_device", 2, ["'tpu'"], "transpose a.h5 -d tpu"),
    ("negative_device", 2, ["gpu:-1"], "transpose a.h5 -d gpu:-1"),
    # Numbers and options
    ("alpha_of_words", 2, ["--alpha", "'two'"], "multiply a.h5 b.h5 --alpha two"),
    ("alpha_with_a_tail", 2, ["--alpha", "'2x'"], "multiply a.h5 b.h5 --alpha 2x"),
    ("alpha_empty", 2, ["--alpha"], "multiply a.h5 b.h5 --alpha ''"),
    ("alpha_fraction_of_integers", 2, ["--alpha", "i32"], "multiply i32.h5 i32.h5 --alpha 0.5"),
    ("alpha_beyond_i32", 2, ["--alpha", "i32"], "multiply i32.h5 i32.h5 --alpha 3000000000"),
    ("alpha_imaginary_of_reals", 2, ["--alpha", "imaginary"], "multiply a.h5 b.h5 --alpha 1,2"),
    ("alpha_nan", 2, ["--alpha", "finite"], "multiply a.h5 b.h5 --alpha nan"),
    ("alpha_infinite", 2, ["--alpha"], "multiply a.h5 b.h5 --alpha 1e999"),
    ("alpha_below_f32", 2, ["--alpha", "zero", "f32"], "multiply a.h5 b.h5 -t f32 --alpha 1e-60"),
    ("beta_without_add", 2, ["--beta", "--add"], "multiply a.h5 b.h5 --beta 2"),
    ("unknown_type", 2, ["'f80'", "bf16"], "transpose a.h5 -t f80"),
    ("mistyped_command", 2, ["there is no command 'trnaspose'; did you mean 'transpose'?", "gpumat --help"], "trnaspose a.h5"),
    ("mistyped_operation", 2, ["'transposee'; did you mean 'transpose'?", "verify --help"], "verify transposee a.h5 b.h5"),
    ("mistyped_option", 2, ["--vreify=full; did you mean '--verify'?"], "transpose a.h5 --vreify=full"),
    ("nothing_alike", 2, ["no command 'zzzzzz' (see"], "zzzzzz a.h5"),
    ("unknown_option", 2, ["--frobnicate", "transpose --help"], "transpose a.h5 --frobnicate"),
    ("unknown_option_and_no_input", 2, ["expected: --unknwon (see: gpumat transpose --help)"], "transpose --unknwon"),
    ("mistyped_option_and_no_input", 2, ["--vrify", "did you mean '--verify'?"], "transpose --vrify=full"),
    ("mistyped_option_and_a_missing_command", 2, ["--colour", "did you mean '--color'?"], "--colour never"),
    ("mistyped_option_and_a_bad_value", 2, ["--vrify", "did you mean '--verify'?"], "transpose a.h5 --repeat x --vrify full"),
    ("unknown_command", 2, ["gpumat --help"], "invert a.h5"),
    ("unknown_verification", 2, ["sometimes"], "transpose a.h5 --verify sometimes"),
    ("missing_operand", 2, ["multiply --help"], "multiply a.h5"),
    ("one_operand_too_many", 2, ["several inputs", "placeholder"], "transpose a.h5 b.h5"),
    ("two_standard_inputs", 2, ["standard input"], "multiply - -"),
    ("no_repeats", 2, ["--repeat"], "transpose a.h5 --repeat 0"),
    ("no_threads", 2, ["--threads"], "transpose a.h5 --threads 0"),
    ("negative_tolerance", 2, ["--tolerance", "'-1'"], "multiply a.h5 b.h5 --tolerance -1"),
    ("seed_with_a_sign", 2, ["--seed", "'-1'", "without a sign"], "multiply a.h5 b.h5 --seed -1"),
    ("seed_beyond_64_bits", 2, ["--seed", "'18446744073709551616'"], "multiply a.h5 b.h5 --seed 18446744073709551616"),
    ("tolerance_nan", 2, ["--tolerance", "'nan'"], "multiply a.h5 b.h5 --tolerance nan"),
    ("empty_type", 2, ["--type"], "transpose a.h5 -t ''"),
    ("empty_log", 2, ["--log"], "transpose a.h5 --log ''"),
    ("quiet_and_verbose", 2, ["--quiet", "--verbose"], "transpose a.h5 -q -v"),
    ("chunk_of_words", 2, ["--chunk", "'big'"], "transpose a.h5 --chunk big"),
    ("chunk_of_zero", 2, ["--chunk"], "transpose a.h5 --chunk 0x4"),
    ("deflate_beyond_nine", 2, ["--deflate"], "transpose a.h5 --deflate 10"),
    ("json_and_output_on_standard_output", 2, ["standard output"], "transpose a.h5 -o - --json"),
    ("log_and_output_on_standard_output", 2, ["standard output"], "transpose a.h5 -o - --log -"),
    ("memory_limit_of_words", 2, ["--memory-limit"], "transpose a.h5 --memory-limit plenty"),
    ("memory_limit_negative", 2, ["gpumat: --memory-limit: is '-5'"], "transpose a.h5 --memory-limit -5"),
    # Outputs that name no format, and datasets where there are none
    ("unknown_extension", 2, ["out.xyz", ".h5", "--to"], "transpose a.h5 -o out.xyz"),
    ("unknown_output_format", 2, ["'csv'", "hdf5"], "transpose a.h5 -o out.h5 --to csv --force"),
    ("dataset_in_matrix_market", 2, ["out.mtx", "dataset"], "transpose a.h5 -o out.mtx:/A --force"),
    # A dry run refuses what the run would refuse
    ("dry_run_over_an_output", 4, ["out.h5", "--force"], "transpose a.h5 -o out.h5 --dry-run"),
    ("dry_run_over_its_input", 4, ["a.h5", "input"], "transpose a.h5 -o a.h5 --force --dry-run"),
    ("dry_run_without_folder", 4, ["nowhere"], "transpose a.h5 -o nowhere/out.h5 --dry-run"),
    ("dry_run_over_a_folder", 4, ["folder", "directory"], "multiply a.h5 a.h5 --transpose-b -o folder --to hdf5 --force --dry-run"),
    # More than memory holds: refused from the header
    ("huge_coordinate", MEMORY, ["huge.mtx", "1000000x1000000", "14.56 TiB"], "transpose huge.mtx"),
    ("huge_array", MEMORY, ["huge_array.mtx", "14.56 TiB"], "transpose huge_array.mtx"),
    ("huge_by_conversion", MEMORY, ["huge.mtx"], "transpose huge.mtx -t u8"),
    ("huge_operand", MEMORY, ["huge.mtx"], "multiply huge.mtx huge.mtx"),
    ("beyond_any_memory", MEMORY, ["beyond.mtx", "9223372036854775807"], "transpose beyond.mtx"),
    ("huge_chunked", MEMORY, ["huge.h5", "TiB"], "transpose huge.h5"),
    ("huge_contiguous", MEMORY, ["huge_contiguous.h5", "TiB"], "transpose huge_contiguous.h5"),
    ("beyond_any_memory_product", MEMORY, ["beyond.mtx"], "multiply beyond.mtx beyond.mtx"),
    ("beyond_any_memory_hdf5", MEMORY, ["wide.h5"], "transpose wide.h5"),
    ("huge_operand_of_an_empty_result", MEMORY, ["limit is 1.00 GiB", "7.28 TiB"],
     "multiply no_rows.h5 huge.h5 --memory-limit 1GiB"),
    ("huge_product", MEMORY, ["tall.h5", "7.28 TiB"], "multiply tall.h5 tall.h5 --transpose-b"),
    ("memory_limit_of_nothing", MEMORY, ["limit is 0 bytes"], "transpose a.h5 --memory-limit 0"),
    ("memory_limit", MEMORY, ["300 bytes", "384 bytes"], "transpose a.h5 --memory-limit 300"),
    ("memory_limit_with_unit", MEMORY, ["1.00 KiB"], "transpose tall.h5 --memory-limit 1KiB"),
]

# What every refusal may take; a promise believed would take terabytes.
MOST_RESIDENT_BYTES = 512 << 20


@cases(CASES)
class Refusals(Case):
    def setUp(self):
        super().setUp()
        for name, make in FILES.items():
            make(self.path(name))
        text("an output that exists\n")(self.path("out.h5"))
        text("another output that exists\n")(self.path("out.mtx"))

    def check(self, code, words, command):
        arguments = shlex.split(command)
        if "-o" not in arguments and arguments[0] in ("transpose", "multiply"):
            arguments += ["-o", "out.h5", "--force"]
        before = snapshot(self.folder)
        result = self.run_tool(*arguments, code=code)
        self.assert_says(result, *words)
        self.assertEqual(result.out, "", str(result))
        self.assertEqual(result.err.count("gpumat: "), 1, f"one message, not more: {result}")
        self.assertEqual(snapshot(self.folder), before)

    @classmethod
    def tearDownClass(cls):
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        assert peak < MOST_RESIDENT_BYTES, f"a refusal took {peak} bytes"


@cases([(words[0].strip("-").replace("-", "_"), words)
        for words in [["--force"], ["--keep-failed"], ["--to", "hdf5"], ["--chunk", "2x2"], ["--deflate", "4"],
                      ["--shuffle"]]])
class WithoutOutput(Case):
    def check(self, words):
        """An option that says how the output is written says nothing where none is."""
        write_h5(self.path("a.h5"), MATRIX)
        result = self.run_tool("transpose", "a.h5", *words, code=2)
        self.assert_says(result, words[0], "--output")


class Help(Case):
    def test_no_arguments(self):
        self.assert_says(self.run_tool(code=2), "gpumat --help")

    def test_no_arguments_of_a_command(self):
        self.assert_says(self.run_tool("transpose", code=2), "gpumat transpose --help")


if __name__ == "__main__":
    unittest.main()
