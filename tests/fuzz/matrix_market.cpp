// Feeds any bytes to the Matrix Market reader as a file. Whatever they are, the reader delivers or throws
// Error: it does not crash, hang or take more memory than its limit. What it delivers is the same with chunks
// of 32 bytes, on several threads and in blocks, is what the C library reads, and survives being written.
//
// Where the last byte is no line feed it is no part of the file: it chooses the type that is asked for.
#include <optional>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "core/error.hpp"
#include "formats/matrix_market/matrix_market.hpp"
#include "tests/fuzz/matrix_market_values.hpp"
#include "tests/fuzz/support.hpp"

/// The same sources, compiled with chunks of 32 bytes.
namespace gpumat::formats::matrix_market_small {
std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options);
}

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{16} << 20;
constexpr std::int64_t kMostBlocks = 64;  ///< each of which may read the whole file

/// The matrix, or the message with which it was refused.
struct Outcome {
    std::optional<Matrix> matrix;
    std::string message;
    bool needs_memory = false;  ///< more than the limit: how much, depends on the chunks
};

template <class Read>
Outcome outcome_of(const Read& read) {
    Outcome outcome;
    try {
        outcome.matrix = read();
    } catch (const Error& error) {
        outcome.message = error.what();
        outcome.needs_memory = error.code() == ErrorCode::memory;
    }
    return outcome;
}

bool contradicts_symmetry(const std::string& message) {
    return message.find("diagonal") != std::string::npos ||
           message.find("whose negative") != std::string::npos;
}

void require_same(const Outcome& expected, const Outcome& found, const std::string& how) {
    if (expected.needs_memory || found.needs_memory) return;
    // Behind a value that contradicts the symmetry, which values do once they are placed, a malformed one is
    // told first where it is read with it.
    const bool one_of_two = !expected.message.empty() && !found.message.empty() &&
                            (contradicts_symmetry(expected.message) || contradicts_symmetry(found.message));
    fuzz::require(one_of_two || expected.message == found.message,
                  how + ": " + expected.message + " | " + found.message);
    if (expected.matrix) fuzz::require(fuzz::same_bytes(*expected.matrix, *found.matrix), how);
}

/// A fault in one block may not be reached by others, but what is delivered must be the same.
void check_blocks(const std::string& path, const ReadOptions& options, const Matrix& whole) {
    const Shape shape = whole.shape();
    for (const Shape& edge : {Shape{std::max<std::int64_t>(1, shape.rows), 3}, Shape{2, 5}}) {
        if (shape.rows > kMostBlocks || shape.cols > kMostBlocks ||
            (shape.rows / edge.rows + 1) * (shape.cols / edge.cols + 1) > kMostBlocks)
            continue;
        const auto reader = matrix_market_small::open({path, ""}, options);
        fuzz::require(fuzz::same_bytes(whole, fuzz::read_in_blocks(*reader, edge)), "blocks differ");
    }
}

/// The entries of a coordinate file make the matrix, where they can be added here as the reader adds them.
/// Zeros are of either sign.
void check_entries(const std::string& path, const ReadOptions& options, const Matrix& whole) {
    const auto reader = matrix_market::open({path, ""}, options);
    if (!reader->header().storage.starts_with("coordinate")) return;
    visit_type(whole.type(), [&]<class T>(TypeTag<T>) {
        std::vector<T> sums(static_cast<std::size_t>(whole.shape().elements()));
        std::vector<int> counts(sums.size());
        reader->read_entries([&](const Entries& some) {
            for (const Entry<T>& entry : some.as<T>()) {
                fuzz::require(Block{entry.row, entry.col, 1, 1}.inside(whole.shape()),
                              "an entry lies outside");
                const auto i = static_cast<std::size_t>(entry.row * whole.shape().cols + entry.col);
                fuzz::add(sums[i], ++counts[i], entry.value);
            }
        });
        for (std::size_t i = 0; i < sums.size(); ++i)
            fuzz::require(!fuzz::is_sum<T>(counts[i]) || fuzz::equal(sums[i], whole.as<T>()[i]),
                          "the entries make another matrix");
    });
}

void check_written(const Matrix& whole, ReadOptions options) {
    const fuzz::TemporaryFile file;
    const int descriptor = ::open(file.path().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC);
    const auto writer = matrix_market::create({.descriptor = descriptor, .shown = file.path()}, whole.shape(),
                                              whole.type(), {});
    writer->write(Block::whole(whole.shape()), whole.view());
    writer->finish();
    ::close(descriptor);
    options.type = whole.type();
    const auto reader = matrix_market::open({file.path(), ""}, options);
    fuzz::require(fuzz::same_elements(whole, read_whole(*reader, options)),
                  "what was written reads back differently");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    if (size > 0 && data[size - 1] != '\n') {
        const std::size_t choice = data[--size] % 16;
        if (choice < all_types().size()) options.type = all_types()[choice];
    }
    const fuzz::TemporaryFile file({data, size});
    const std::string& path = file.path();
    const auto read = [&](auto open, int threads) {
        options.threads = threads;
        return outcome_of([&] { return read_whole(*open(Reference{path, ""}, options), options); });
    };
    const Outcome whole = read(matrix_market::open, 1);
    require_same(whole, read(matrix_market_small::open, 1), "chunks of 32 bytes");
    require_same(whole, read(matrix_market_small::open, 2), "two threads");
    if (!whole.matrix) return 0;
    options.threads = 1;
    check_blocks(path, options, *whole.matrix);
    check_entries(path, options, *whole.matrix);
    check_written(*whole.matrix, options);
    options.strict = true;  // what deviates from the format, the slow reader does not know
    if (!read(matrix_market::open, 1).matrix) return 0;
    fuzz::check_values({reinterpret_cast<const char*>(data), size}, path, *whole.matrix);
    return 0;
}
