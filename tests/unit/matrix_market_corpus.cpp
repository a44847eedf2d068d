// Every file of tests/data/valid, tests/data/lenient and tests/data/invalid with the ending .mtx is a test.
// NAME.mtx.expect says what comes of it:
//   valid, lenient: ["ask TYPE"] "TYPE SHAPE", then the rows of the matrix (two numbers for a complex value)
//   invalid:        ["type TYPE"] the message behind the file's name; the code is Error{input}
// Of a file that deviates from the format and is read nevertheless, NAME.mtx.strict is the message with which
// it is refused where that is asked for.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "formats/registry.hpp"
#include "tests/catch.hpp"

namespace gpumat::formats {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const std::string& folder) {
    std::vector<fs::path> files;
    for (const auto& entry :
         fs::directory_iterator(fs::path(GPUMAT_SOURCE_DIR) / "tests" / "data" / folder)) {
        if (entry.path().extension() == ".mtx") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    REQUIRE(files.size() >= 20);
    return files;
}

/// The sidecar NAME.mtx.ENDING. Where its first line is `keyword TYPE`, the type goes to the options.
std::istringstream expectation_of(const fs::path& file, const std::string& keyword, ReadOptions& options,
                                  const std::string& ending = ".expect") {
    std::ifstream sidecar(file.string() + ending);
    REQUIRE(sidecar);
    std::ostringstream text;
    text << sidecar.rdbuf();
    std::istringstream expectation(text.str());
    std::string word;
    if (expectation >> word && word == keyword) {
        expectation >> word;
        options.type = type_from_name(word);
        REQUIRE(options.type);
        expectation.ignore(1);
    } else {
        expectation.seekg(0);
    }
    return expectation;
}

bool same(double expected, double found) {
    if (std::isnan(expected)) return std::isnan(found);
    return std::bit_cast<std::uint64_t>(expected) == std::bit_cast<std::uint64_t>(found);
}

/// Whether the next words are the value.
template <class T>
bool matches(std::istringstream& expectation, const T& found) {
    std::string word;
    expectation >> word;
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
        std::string imaginary;
        expectation >> imaginary;
        using Part = typename T::value_type;
        return same(static_cast<Part>(std::stold(word)), found.real()) &&
               same(static_cast<Part>(std::stold(imaginary)), found.imag());
    } else if constexpr (std::is_integral_v<T>) {
        return word == std::to_string(found);
    } else if constexpr (std::is_same_v<T, float>) {
        return same(std::strtof(word.c_str(), nullptr), found);
    } else {
        return same(std::strtod(word.c_str(), nullptr), static_cast<double>(found));
    }
}

/// Each file gives its matrix. The number of things told about it is that of a file that deviates, or of one
/// that does not.
void check_matrices(const std::string& folder, bool strict, bool told) {
    for (const fs::path& file : files_in(folder)) {
        for (const int threads : {1, 2}) {
            INFO(file.filename().string() << ", threads " << threads);
            ReadOptions options;
            options.threads = threads;
            options.strict = strict;
            std::atomic<int> messages = 0;
            options.tell = [&](Severity, const std::string&) { ++messages; };
            std::istringstream expectation = expectation_of(file, "ask", options);
            std::string type;
            std::string shape;
            expectation >> type >> shape;
            const auto reader = open_reader({file.string(), ""}, options);
            CHECK(reader->header().format == "matrix-market");
            const Matrix matrix = read_whole(*reader, options);
            CHECK(name_of(matrix.type()) == type);
            CHECK(to_string(matrix.shape()) == shape);
            visit_type(matrix.type(), [&]<class T>(TypeTag<T>) {
                for (std::int64_t i = 0; i < matrix.shape().elements(); ++i) {
                    INFO("element " << i);
                    CHECK(matches(expectation, matrix.as<T>()[i]));
                }
            });
            std::string rest;
            CHECK_FALSE(expectation >> rest);

            CHECK((messages > 0) == told);

            // Back to the front, column by column.
            const Shape shape_of_columns{matrix.shape().rows, 1};
            for (std::int64_t j = matrix.shape().cols; j-- > 0;) {
                Matrix column(shape_of_columns, matrix.type());
                reader->read({0, j, matrix.shape().rows, 1}, column.view());
                const std::size_t size = size_of(matrix.type());
                for (std::int64_t i = 0; i < matrix.shape().rows; ++i) {
                    const auto at = static_cast<std::size_t>(i * matrix.shape().cols + j);
                    CHECK(std::memcmp(column.data() + static_cast<std::size_t>(i) * size,
                                      matrix.data() + at * size, size) == 0);
                }
            }
        }
    }
}

void check_refusals(const std::string& folder, bool strict, const std::string& ending) {
    for (const fs::path& file : files_in(folder)) {
        for (const int threads : {1, 2}) {
            INFO(file.filename().string() << ", threads " << threads);
            ReadOptions options;
            options.threads = threads;
            options.strict = strict;
            std::istringstream expectation = expectation_of(file, "type", options, ending);
            std::string message;
            std::getline(expectation, message);
            try {
                read_whole(*open_reader({file.string(), ""}, options), options);
                FAIL_CHECK("was read");
            } catch (const Error& error) {
                CHECK(error.what() == file.string() + message);
                CHECK(error.code() == ErrorCode::input);
            }
        }
    }
}

}  // namespace

TEST_CASE("matrix market corpus: every valid file gives its matrix, also where deviations are refused") {
    check_matrices("valid", false, false);
    check_matrices("valid", true, false);
}

TEST_CASE("matrix market corpus: every file with a deviation gives its matrix, and that is told") {
    check_matrices("lenient", false, true);
}

TEST_CASE("matrix market corpus: every file with a deviation is refused where that is asked for") {
    check_refusals("lenient", true, ".strict");
}

TEST_CASE("matrix market corpus: every invalid file is refused for its reason") {
    check_refusals("invalid", false, ".expect");
}

}  // namespace gpumat::formats
