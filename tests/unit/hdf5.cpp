#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <sstream>

#include "core/error.hpp"
#include "core/sanitizer.hpp"
#include "formats/registry.hpp"
#include "tests/catch.hpp"
#include "tests/open_file.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

const std::string kMaker = std::string(GPUMAT_SOURCE_DIR) + "/tests/data/make_hdf5.py";

/// HDF5 looks where its plugins are once, here and in the Python processes that the tests start. Those are
/// told which HDF5 the plugin belongs to: h5py may bring another one, which cannot run it.
[[maybe_unused]] const int kPluginsAreKnown = setenv("HDF5_PLUGIN_PATH", GPUMAT_TEST_PLUGINS, 1) +
                                              setenv("GPUMAT_TEST_HDF5_VERSION", GPUMAT_TEST_HDF5_VERSION, 1);

/// The address sanitizer has a heap of its own, which cannot be filled as the C library's can: there, what a
/// plugin leaves unwritten is not found.
constexpr bool kHeapTakesNoPoison = kAddressSanitizer;

/// NumPy and h5py are the oracle of these tests.
int run_python(const std::string& arguments) {
    const int status = std::system((std::string(GPUMAT_TEST_PYTHON) + " " + arguments).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<std::vector<std::string>> table(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::vector<std::string>> lines;
    for (std::string line; std::getline(file, line);) {
        lines.emplace_back();
        std::istringstream words(line);
        for (std::string word; std::getline(words, word, '\t');) lines.back().push_back(word);
    }
    return lines;
}

ReadOptions options_of(const std::string& text) {
    ReadOptions options;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (word == "column") options.as_column = true;
        if (word == "unpack") options.unpack = true;
        if (word == "external") options.allow_external = true;
        if (word == "matlab") options.layout = Layout::matlab;
        if (word == "row") options.layout = Layout::row;
        if (word.starts_with("type=")) options.type = type_from_name(word.substr(5));
        if (word.starts_with("limit=")) options.memory_limit = std::stoull(word.substr(6));
    }
    return options;
}

std::string text_of(const Matrix& matrix) {
    return {reinterpret_cast<const char*>(matrix.data()), matrix.bytes()};
}

/// Reads in blocks of `step`, into a matrix with gaps between rows that must stay as they are.
std::string read_in_blocks(Reader& reader, const Shape& step) {
    const Shape shape = reader.header().shape;
    const Type type = reader.header().type;
    const auto element = static_cast<std::int64_t>(size_of(type));
    const std::int64_t ld = shape.cols + 3;
    std::vector<std::byte> buffer(static_cast<std::size_t>(shape.rows * ld * element), std::byte{0xa5});
    for (std::int64_t row = 0; row < shape.rows; row += step.rows) {
        for (std::int64_t col = 0; col < shape.cols; col += step.cols) {
            const Block block{row, col, std::min(step.rows, shape.rows - row),
                              std::min(step.cols, shape.cols - col)};
            reader.read(block, {type, block.shape(), ld, buffer.data() + (row * ld + col) * element});
        }
    }
    std::string text;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        const auto* begin = reinterpret_cast<const char*>(buffer.data()) + row * ld * element;
        text.append(begin, static_cast<std::size_t>(shape.cols * element));
        const std::string gap(begin + shape.cols * element, begin + ld * element);
        if (gap != std::string(static_cast<std::size_t>(3 * element), '\xa5')) return "a gap was overwritten";
    }
    return text;
}

void check_read(const std::vector<std::string>& words, const TemporaryFolder& folder) {
    const Reference reference{folder / words[2], words[3] == "-" ? "" : words[3]};
    const std::string expected = file_text(folder / words[8]);
    for (const int threads : {1, 3}) {
        ReadOptions options = options_of(words[4]);
        options.threads = threads;
        const auto reader = open_reader(reference, options);
        CHECK(reader->header().format == "hdf5");
        CHECK(name_of(reader->header().type) == words[5]);
        CHECK(to_string(reader->header().shape) == words[6] + "x" + words[7]);
        CHECK((text_of(read_whole(*reader, options)) == expected));
        if (threads == 1)
            CHECK((read_in_blocks(*reader, {1, 1}) == expected));  // many a child for some files
        for (const Shape step : {Shape{3, 1000}, Shape{1000, 5}, Shape{11, 13}})
            CHECK((read_in_blocks(*reader, step) == expected));
    }
}

void check_fail(const std::vector<std::string>& words, const TemporaryFolder& folder) {
    const Reference reference{folder / words[2], words[3] == "-" ? "" : words[3]};
    try {
        const ReadOptions options = options_of(words[4]);
        const auto reader = open_reader(reference, options);
        const Matrix matrix = read_whole(*reader, options);
        FAIL_CHECK("was read");
    } catch (const Error& error) {
        CHECK(std::to_string(static_cast<int>(error.code())) == words[5]);
        CHECK_THAT(error.what(), Catch::Matchers::Contains(words[6]));
        CHECK_THAT(error.what(), Catch::Matchers::Contains(words[2]));
    }
}

/// Any bits at all, the same for the same seed.
Matrix random_matrix(const Shape& shape, Type type, unsigned seed) {
    Matrix matrix(shape, type);
    std::mt19937_64 engine(seed);
    for (std::size_t i = 0; i < matrix.bytes(); ++i)
        matrix.data()[i] = static_cast<std::byte>(engine() & (i % 3 == 0 ? 0xff : 0x03));
    return matrix;
}

MatrixView part_of(const Matrix& matrix, const Block& block) {
    const MatrixView view = matrix.view();
    const auto element = static_cast<std::int64_t>(size_of(view.type));
    return {view.type, block.shape(), view.ld, view.data + (block.row * view.ld + block.col) * element};
}

std::vector<Block> blocks_of(const Shape& shape, const Shape& step, unsigned seed) {
    std::vector<Block> blocks;
    for (std::int64_t row = 0; row < shape.rows; row += step.rows) {
        for (std::int64_t col = 0; col < shape.cols; col += step.cols)
            blocks.push_back(
                {row, col, std::min(step.rows, shape.rows - row), std::min(step.cols, shape.cols - col)});
    }
    std::shuffle(blocks.begin(), blocks.end(), std::mt19937(seed));
    return blocks;
}

/// Where to write in the file at `path`.
struct Place {
    std::string path;
    std::string shown;
    std::string dataset;
    bool append = false;
};

void write_matrix(const Place& place, const Matrix& matrix, const WriteOptions& options, const Shape& step) {
    const Descriptor file = open_file(place.path, place.append);
    const auto writer = format_for_writing("x.h5").create(
        {file.number(), place.shown, place.dataset, place.append}, matrix.shape(), matrix.type(), options);
    for (const Block& block : blocks_of(matrix.shape(), step, 5))
        writer->write(block, part_of(matrix, block));
    writer->finish();
}

Error caught(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error;
    }
    return {ErrorCode::differs, "nothing was thrown"};
}

}  // namespace

TEST_CASE("HDF5 files that h5py wrote are read bit for bit, or refused with the reason") {
    const TemporaryFolder folder;
    REQUIRE(run_python("-W ignore " + kMaker + " generate " + folder.path()) == 0);
    const auto cases = table(folder / "cases.tsv");
    REQUIRE(cases.size() > 200);
    for (const auto& words : cases) {
        INFO("case " << words[1]);
        if (kHeapTakesNoPoison && words[1].starts_with("plugin_unwritten")) continue;
        try {
            if (words[0] == "read") {
                check_read(words, folder);
            } else {
                check_fail(words, folder);
            }
        } catch (const std::exception& error) {
            FAIL_CHECK(error.what());
        }
    }
}

TEST_CASE("h5py reads what the HDF5 writer wrote, bit for bit") {
    const TemporaryFolder folder;
    struct Way {
        Shape shape;
        Shape step;
        WriteOptions options;
    };
    const auto stored = [](std::optional<std::pair<std::int64_t, std::int64_t>> chunk, int deflate,
                           bool shuffle, int threads) {
        WriteOptions options;
        options.chunk = chunk;
        options.deflate = deflate;
        options.shuffle = shuffle;
        options.threads = threads;
        options.attributes = {{"note", "größer ≥ 1"}};
        return options;
    };
    const std::vector<Way> ways = {
        {{23, 17}, {100, 100}, stored({}, 0, false, 1)},
        {{23, 17}, {5, 7}, stored({}, 0, false, 3)},
        {{23, 17}, {5, 17}, stored({{5, 4}}, 0, false, 3)},
        {{23, 17}, {100, 100}, stored({{5, 4}}, 4, true, 3)},
        {{23, 17}, {3, 6}, stored({{5, 4}}, 4, true, 1)},
        {{23, 17}, {7, 17}, stored({{23, 17}}, 9, false, 1)},
        {{23, 17}, {100, 100}, stored({}, 1, true, 2)},
        {{23, 17}, {100, 100}, stored({}, 0, true, 2)},
        {{1, 1}, {1, 1}, stored({}, 0, false, 1)},
        {{0, 5}, {1, 1}, stored({{2, 2}}, 4, true, 1)},
        {{5, 0}, {1, 1}, stored({}, 0, false, 1)},
        {{1, 700}, {1, 100}, stored({}, 6, true, 2)},
        {{600, 530}, {100, 530}, stored({}, 1, true, 2)},
    };
    std::ofstream list(folder / "written.tsv");
    int number = 0;
    for (const Type type : all_types()) {
        for (const Way& way : ways) {
            if (way.shape.elements() > 100000 && type != Type::f32) continue;
            const Matrix matrix = random_matrix(way.shape, type, static_cast<unsigned>(number));
            const std::string name = std::to_string(number++);
            const Place target{folder / (name + ".h5"), name + ".h5", "/group/deeper/" + name};
            INFO("type " << name_of(type) << ", way " << name);
            write_matrix(target, matrix, way.options, way.step);
            const auto reader = open_reader({target.path, ""}, {});
            CHECK(reader->header().type == type);
            CHECK((text_of(read_whole(*reader, {})) == text_of(matrix)));
            std::ofstream(folder / (name + ".raw"), std::ios::binary) << text_of(matrix);
            const bool empty = way.shape.elements() == 0;
            const auto& chunk = way.options.chunk;
            list << name << ".h5\t" << target.dataset << '\t' << name_of(type) << '\t' << way.shape.rows
                 << '\t' << way.shape.cols << '\t' << name << ".raw\t"
                 << (chunk && !empty ? to_string(Shape{chunk->first, chunk->second}) : "-") << '\t'
                 << (empty ? 0 : way.options.deflate) << '\t' << (empty ? false : way.options.shuffle)
                 << "\tgrößer ≥ 1\n";
        }
    }
    list.close();
    CHECK(run_python(kMaker + " check " + folder.path()) == 0);
}

TEST_CASE("datasets are added to an HDF5 file that exists, and never replaced") {
    const TemporaryFolder folder;
    const Matrix first = random_matrix({3, 4}, Type::f64, 1);
    const Matrix second = random_matrix({5, 2}, Type::c64, 2);
    const std::string path = folder / "many.h5";
    write_matrix({path, "many.h5", "/A"}, first, {}, {10, 10});
    write_matrix({path, "many.h5", "/g/B", true}, second, {}, {10, 10});
    CHECK((text_of(read_whole(*open_reader({path, "/A"}, {}), {})) == text_of(first)));
    CHECK((text_of(read_whole(*open_reader({path, "/g/B"}, {}), {})) == text_of(second)));

    const std::string before = file_text(path);
    struct Refused {
        std::string dataset;
        std::string words;
    };
    for (const Refused& refused : {Refused{"/A", "exists already"}, Refused{"/g", "is no dataset"},
                                   Refused{"/A/below", "'/A' is no group"}}) {
        const Error error = caught([&] {
            write_matrix({path, "many.h5", refused.dataset, true}, first, {}, {10, 10});
        });
        CHECK(error.code() == ErrorCode::output);
        CHECK_THAT(error.what(), Catch::Matchers::Contains(refused.words));
    }
    CHECK(format_for_writing("x.h5").list({path, ""}, {}).matrices.size() == 2);
    write_file(folder / "text.h5", "no HDF5");
    const Error none = caught([&] {
        write_matrix({folder / "text.h5", "text.h5", "/A", true}, first, {}, {1, 1});
    });
    CHECK(none.code() == ErrorCode::output);
    CHECK_THAT(none.what(),
               Catch::Matchers::Contains("text.h5:/A: cannot be opened: file signature not found"));
}

TEST_CASE("the HDF5 writer refuses what it cannot do") {
    const TemporaryFolder folder;
    const Descriptor file = open_file(folder / "x.h5");
    const WriteTarget target{file.number(), "shown.h5", "/A"};
    const Matrix matrix = random_matrix({4, 4}, Type::f32, 1);
    const auto create = [&](const WriteOptions& options) {
        return format_for_writing("x.h5").create(target, matrix.shape(), matrix.type(), options);
    };
    WriteOptions options;
    options.chunk = {0, 4};
    CHECK(caught([&] { create(options); }).code() == ErrorCode::usage);
    options.chunk.reset();
    options.deflate = 10;
    CHECK(caught([&] { create(options); }).code() == ErrorCode::usage);

    CHECK(caught([&] {
              write_matrix({folder / "x.h5", "x.h5", "/"}, matrix, {}, {4, 4});
          }).code() == ErrorCode::usage);

    const auto writer = create({});
    writer->write({0, 0, 2, 4}, part_of(matrix, {0, 0, 2, 4}));
    const Error unfinished = caught([&] { writer->finish(); });
    CHECK(unfinished.code() == ErrorCode::output);
    CHECK_THAT(unfinished.what(),
               Catch::Matchers::Contains("shown.h5:/A: 8 elements were written, expected 16"));
    CHECK(caught([&] {
              writer->write({3, 3, 2, 1}, part_of(matrix, {0, 0, 2, 1}));
          }).code() == ErrorCode::output);
}

TEST_CASE("a full disk is an error of the HDF5 writer, whenever it fills up") {
    const TemporaryFolder folder;
    const Matrix matrix = random_matrix({300, 300}, Type::f64, 1);
    rlimit old{};
    getrlimit(RLIMIT_FSIZE, &old);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    WriteOptions compressed;
    compressed.chunk = {64, 64};
    compressed.deflate = 1;
    for (const rlim_t most : {rlim_t{0}, rlim_t{500}, rlim_t{3000}, rlim_t{100000}}) {
        for (const WriteOptions& options : {WriteOptions{}, compressed}) {
            const rlimit limit{most, old.rlim_max};
            setrlimit(RLIMIT_FSIZE, &limit);
            const Error error = caught([&] {
                write_matrix({folder / "full.h5", "full.h5", "/A"}, matrix, options, {300, 300});
            });
            setrlimit(RLIMIT_FSIZE, &old);
            INFO("limit " << most);
            CHECK(error.code() == ErrorCode::output);
            CHECK_THAT(error.what(), Catch::Matchers::Contains("full.h5:/A") &&
                                         Catch::Matchers::Contains("File too large"));
        }
    }
    std::signal(SIGXFSZ, old_handler);
}

TEST_CASE("an HDF5 file is recognised by its signature wherever it may start") {
    const TemporaryFolder folder;
    const std::string signature = "\x89HDF\r\n\x1a\n";
    const auto recognised = [&](std::size_t offset) {
        std::string bytes(offset, ' ');
        bytes += signature + std::string(100, '\0');
        std::ofstream(folder / "x", std::ios::binary) << bytes;
        return caught([&] { recognise({folder / "x", ""}); }).code() == ErrorCode::differs;
    };
    for (const std::size_t offset : {0, 512, 1024, 2048, 4096, 8192, 65536}) CHECK(recognised(offset));
    for (const std::size_t offset : {1, 256, 1536, 3072, 5000}) CHECK(!recognised(offset));
}
