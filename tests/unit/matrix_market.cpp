#include <unistd.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <tuple>

#include "core/error.hpp"
#include "formats/registry.hpp"
#include "tests/catch.hpp"
#include "tests/open_file.hpp"

namespace gpumat::formats {
namespace {

namespace fs = std::filesystem;

/// A folder that is removed with all that is in it.
class Folder {
  public:
    Folder() : path_(fs::temp_directory_path() / ("gpumat-mtx-" + std::to_string(::getpid()))) {
        fs::create_directories(path_);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }
    [[nodiscard]] std::string file(const std::string& name, const std::string& content) const {
        std::ofstream(file(name), std::ios::binary) << content;
        return file(name);
    }

  private:
    fs::path path_;
};

Matrix read_file(const std::string& path, const ReadOptions& options = {}) {
    return read_whole(*open_reader({path, ""}, options), options);
}

Matrix read_text(const std::string& text, const ReadOptions& options = {}) {
    const Folder folder;
    return read_file(folder.file("a.mtx", text), options);
}

void write_file(const std::string& path, const Matrix& matrix, const WriteOptions& options = {}) {
    const Descriptor file = open_file(path);
    const auto writer = format_for_writing(path, "matrix-market")
                            .create({file.number(), path}, matrix.shape(), matrix.type(), options);
    writer->write(Block::whole(matrix.shape()), matrix.view());
    writer->finish();
}

std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

template <class T>
std::vector<T> values(const Matrix& matrix) {
    const T* first = matrix.as<T>();
    return std::vector<T>(first, first + matrix.shape().elements());
}

/// The code and message of the Error that `action` throws.
template <class Action>
std::pair<ErrorCode, std::string> error_of(const Action& action) {
    try {
        action();
    } catch (const Error& error) {
        return {error.code(), error.what()};
    }
    FAIL("no Error was thrown");
    return {};
}

/// Every bit pattern is equally likely, NaN without a payload.
Matrix random_bits(const Shape& shape, Type type, unsigned seed) {
    Matrix matrix(shape, type);
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < matrix.bytes(); ++i) matrix.data()[i] = static_cast<std::byte>(random());
    const auto canonical = [](auto value) {
        using T = decltype(value);
        return std::isnan(static_cast<double>(value)) ? T(std::numeric_limits<double>::quiet_NaN()) : value;
    };
    visit_type(type, [&]<class T>(TypeTag<T>) {
        for (T* p = matrix.as<T>(); p != matrix.as<T>() + shape.elements(); ++p) {
            if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
                *p = T(canonical(p->real()), canonical(p->imag()));
            } else if constexpr (!std::is_integral_v<T>) {
                *p = canonical(*p);
            }
        }
    });
    return matrix;
}

bool same_bits(const Matrix& a, const Matrix& b) {
    return a.shape() == b.shape() && a.type() == b.type() &&
           (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

}  // namespace

TEST_CASE("matrix market: what is written reads back with the same bits") {
    const Folder folder;
    const Shape shape = GENERATE(Shape{0, 0}, Shape{0, 5}, Shape{4, 0}, Shape{1, 1}, Shape{1, 37},
                                 Shape{37, 1}, Shape{33, 65}, Shape{40000, 3}, Shape{3, 40000});
    const int threads = GENERATE(1, 3);
    for (const Type type : all_types()) {
        INFO("type " << name_of(type) << ", shape " << to_string(shape) << ", threads " << threads);
        const Matrix matrix = random_bits(shape, type, 7);
        const std::string path = folder.file("a.mtx");
        write_file(path, matrix, {.threads = threads});
        CHECK(same_bits(read_file(path, {.type = type, .threads = threads}), matrix));
    }
}

TEST_CASE("matrix market: blocks are the parts of the whole") {
    const Folder folder;
    const std::string symmetry = GENERATE("general", "symmetric", "skew-symmetric", "hermitian");
    const std::string layout = GENERATE("array", "coordinate");
    constexpr std::int64_t n = 61;
    std::ostringstream text;
    std::int64_t count = 0;
    for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = symmetry == "general"          ? 0
                              : symmetry == "skew-symmetric" ? j + 1
                                                             : j;
             i < n; ++i) {
            if (layout == "coordinate") text << i + 1 << ' ' << j + 1 << ' ';
            text << i * 1000 + j << (i == j && symmetry == "hermitian" ? " 0\n" : " -7\n");
            ++count;
        }
    }
    std::string head = "%%MatrixMarket matrix " + layout + " complex " + symmetry + "\n61 61";
    if (layout == "coordinate") head.append(" ").append(std::to_string(count));
    const std::string path = folder.file("a.mtx", head.append("\n") + text.str());

    using C = std::complex<double>;
    const Matrix whole = read_file(path);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            C expected(static_cast<double>(i * 1000 + j), -7);
            if (i == j && symmetry == "hermitian") expected.imag(0);
            if (i == j && symmetry == "skew-symmetric") expected = 0;
            if (i < j && symmetry != "general") {
                expected = C(static_cast<double>(j * 1000 + i), symmetry == "hermitian" ? 7 : -7);
                if (symmetry == "skew-symmetric") expected = -expected;
            }
            REQUIRE(whole.as<C>()[i * n + j] == expected);
        }
    }
    const auto reader = open_reader({path, ""}, {});
    for (const Block& block :
         {Block{0, 0, n, 9}, Block{0, 9, n, 20}, Block{5, 7, 11, 13}, Block{40, 2, 3, 50}, Block{0, 60, n, 1},
          Block{3, 3, 0, 5}, Block{60, 60, 1, 1}}) {
        Matrix part(block.shape(), Type::c128);
        reader->read(block, part.view());
        for (std::int64_t i = 0; i < block.rows; ++i) {
            for (std::int64_t j = 0; j < block.cols; ++j) {
                REQUIRE(part.as<C>()[i * block.cols + j] ==
                        whole.as<C>()[(block.row + i) * n + block.col + j]);
            }
        }
    }
}

TEST_CASE("matrix market: the type that is asked for comes from the text directly") {
    const std::string head = "%%MatrixMarket matrix array real general\n1 1\n";
    // The nearest double of each is a tie in the narrower type; the digits after it decide.
    CHECK(values<float>(read_text(head + "16777217.000000000000000000000000001", {.type = Type::f32})) ==
          std::vector<float>{16777218});
    CHECK(values<float>(read_text(head + "16777216.999999999999999999999999999", {.type = Type::f32})) ==
          std::vector<float>{16777216});
    CHECK(static_cast<float>(
              read_text(head + "2049.00000000000000000000001", {.type = Type::f16}).as<Half>()[0]) == 2050);
    CHECK(static_cast<float>(read_text(head + "2049", {.type = Type::f16}).as<Half>()[0]) == 2048);
    CHECK(static_cast<float>(
              read_text(head + "65519.9999999999999999999", {.type = Type::f16}).as<Half>()[0]) == 65504);
    CHECK(static_cast<float>(
              read_text(head + "257.000000000000000000001", {.type = Type::bf16}).as<BFloat16>()[0]) == 258);
    CHECK(error_of([&] {
              read_text(head + "65520", {.type = Type::f16});
          }).second.ends_with("a.mtx:3:1: found '65520', expected a value that f16 can hold"));
    CHECK(values<std::int64_t>(read_text(head + "9007199254740993", {.type = Type::i64})) ==
          std::vector<std::int64_t>{9007199254740993});
    CHECK(values<std::int64_t>(read_text(head + "-92233.72036854775808e14", {.type = Type::i64})) ==
          std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min()});
    CHECK(values<std::uint64_t>(read_text(head + "18446744073709551615.000", {.type = Type::u64})) ==
          std::vector<std::uint64_t>{std::numeric_limits<std::uint64_t>::max()});
    const std::string complex = "%%MatrixMarket matrix array complex general\n1 1\n";
    CHECK(values<double>(read_text(complex + "2.5 -0.0e7", {.type = Type::f64})) == std::vector<double>{2.5});
    CHECK(error_of([&] { read_text(complex + "2.5 1e-999", {.type = Type::f64}); }).first ==
          ErrorCode::input);
}

TEST_CASE("matrix market: numbers of a million digits") {
    const std::string head = "%%MatrixMarket matrix array real general\n1 1\n";
    const std::string zeros(1'000'000, '0');
    CHECK(values<double>(read_text(head + "1" + zeros + "e-1000000")) == std::vector<double>{1});
    CHECK(values<double>(read_text(head + "0." + zeros + "1e1000001")) == std::vector<double>{1});
    CHECK(values<double>(read_text(head + "9007199254740993" + zeros + "1e-1000001")) ==
          std::vector<double>{9007199254740994});
    CHECK(values<double>(read_text(head + "9007199254740993." + zeros)) ==
          std::vector<double>{9007199254740992});
    CHECK(values<double>(read_text(head + "9007199254740993." + zeros + "1")) ==
          std::vector<double>{9007199254740994});
    CHECK(values<double>(read_text(head + zeros + "." + zeros)) == std::vector<double>{0});
}

TEST_CASE("matrix market: a header that promises too much is refused before memory is taken") {
    const std::string huge = "%%MatrixMarket matrix array real general\n4000000 4000000\n1.0\n";
    CHECK(error_of([&] { read_text(huge); }).first == ErrorCode::memory);
    const std::string sparse =
        "%%MatrixMarket matrix coordinate real general\n4000000000 4000000000 1\n1 1 1\n";
    CHECK(error_of([&] { read_text(sparse); }).first == ErrorCode::memory);
    const std::string small = "%%MatrixMarket matrix array real general\n100 100\n1.0\n";
    CHECK(error_of([&] { read_text(small, {.memory_limit = 79999}); }).first == ErrorCode::memory);
    CHECK(error_of([&] {
              read_text(small);
          }).second.ends_with("a.mtx:2:1: found 4 bytes after the sizes, expected 10000 values"));
    const std::string absurd =
        "%%MatrixMarket matrix coordinate real general\n2 2 9223372036854775807\n1 1 1\n";
    CHECK(error_of([&] { read_text(absurd); })
              .second.ends_with(
                  "a.mtx:2:1: found 6 bytes after the sizes, expected 9223372036854775807 entries"));
}

TEST_CASE("matrix market: entries for the same element are added") {
    const std::string head = "%%MatrixMarket matrix coordinate integer general\n1 2 3\n";
    CHECK(values<std::int64_t>(read_text(head + "1 2 5\n1 1 1\n1 2 -9\n")) ==
          std::vector<std::int64_t>{1, -4});
    const std::string most = "1 1 9223372036854775807\n";
    CHECK(error_of([&] { read_text(head + most + "1 2 1\n1 1 1\n"); })
              .second.ends_with("a.mtx: row 1, column 1: found entries whose sum passes the range, expected "
                                "a sum that i64 can hold"));
    const std::string real = "%%MatrixMarket matrix coordinate real general\n1 1 2\n";
    CHECK(values<double>(read_text(real + "1 1 0.5\n1 1 inf\n")) ==
          std::vector<double>{std::numeric_limits<double>::infinity()});
    CHECK(error_of([&] { read_text(real + "1 1 1e308\n1 1 1e308\n"); }).first == ErrorCode::input);
}

TEST_CASE("matrix market: entries come one by one, in order, across the diagonal too") {
    const Folder folder;
    const std::string path =
        folder.file("a.mtx",
                    "%%MatrixMarket matrix coordinate real skew-symmetric\n3000000000 3000000000 3\n"
                    "3 1 1.5\n3000000000 2 2\n3 1 -0.5\n");
    std::vector<std::tuple<std::int64_t, std::int64_t, double>> found;
    open_reader({path, ""}, {})->read_entries([&](const Entries& some) {
        for (const Entry<double>& entry : some.as<double>())
            found.emplace_back(entry.row, entry.col, entry.value);
    });
    CHECK(found == decltype(found){{2, 0, 1.5},
                                   {0, 2, -1.5},
                                   {2'999'999'999, 1, 2},
                                   {1, 2'999'999'999, -2},
                                   {2, 0, -0.5},
                                   {0, 2, 0.5}});
    const std::string array = folder.file("b.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n");
    CHECK(error_of([&] {
              open_reader({array, ""}, {})->read_entries([](const Entries&) {});
          }) ==
          std::pair{ErrorCode::usage, array + ": found storage 'array, real, general, 1 values', expected "
                                              "entries in coordinate storage"});
}

TEST_CASE("matrix market: the header of the writer") {
    const Folder folder;
    const std::string path = folder.file("a.mtx");
    Matrix matrix({1, 2}, Type::f32);
    matrix.as<float>()[0] = 0.1F;
    matrix.as<float>()[1] = -std::numeric_limits<float>::infinity();
    write_file(path, matrix, {.attributes = {{"source", "one\ntwo"}}});
    CHECK(content_of(path) ==
          "%%MatrixMarket matrix array real general\n% gpumat_type: f32\n% source: one\n% two\n1 "
          "2\n0.1\n-inf\n");
}

TEST_CASE("matrix market: the writer refuses what it cannot do") {
    const Folder folder;
    const std::string name = "a.mtx";
    const Format& format = format_for_writing(name);
    const std::string path = folder.file("a.mtx");
    const Matrix matrix = random_bits({4, 6}, Type::i32, 1);
    const Descriptor file = open_file(path);
    const auto writer = format.create({file.number(), "shown.mtx"}, matrix.shape(), Type::i32, {});
    CHECK(writer->order() == BlockOrder::column_panels);
    writer->write({0, 0, 4, 2}, MatrixView{Type::i32, {4, 2}, 6, matrix.data()});
    CHECK(error_of([&] {
              writer->write({0, 3, 4, 1}, MatrixView{Type::i32, {4, 1}, 6, matrix.data()});
          }).first == ErrorCode::output);
    CHECK(error_of([&] { writer->finish(); }) ==
          std::pair{ErrorCode::output, std::string("shown.mtx: 2 columns came, expected 6")});

    const auto full = [&] {
        const Descriptor opened = open_file("/dev/full", true);
        const auto device = format.create({opened.number(), "full.mtx"}, matrix.shape(), Type::i32, {});
        device->write(Block::whole(matrix.shape()), matrix.view());
        device->finish();
    };
    CHECK(error_of(full) ==
          std::pair{ErrorCode::output, std::string("full.mtx: cannot be written: No space left on device")});
}

}  // namespace gpumat::formats
