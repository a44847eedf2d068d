// Feeds any bytes to the Matrix Market reader as a file. Whatever they are, the reader delivers or throws
// Error: it does not crash, hang or take more memory than its limit. What it delivers is the same in blocks
// and on several threads, and its entries lie inside the matrix. The first byte chooses the type that is
// asked for. The sources are compiled with small chunks, so that short files have many.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "formats/matrix_market/matrix_market.hpp"
#include "lib/core/error.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{16} << 20;

/// The matrix, or the message with which it was refused.
struct Outcome {
    std::optional<Matrix> matrix;
    std::string message;
};

Outcome read_with(const std::string& path, ReadOptions options, int threads, std::int64_t panel) {
    Outcome outcome;
    options.threads = threads;
    try {
        const auto reader = matrix_market::open({path, ""}, options);
        const Shape shape = reader->header().shape;
        const Type type = reader->header().type;
        require_memory(dense_bytes(shape, type, path), options.memory_limit, path);
        Matrix matrix(shape, type, path);
        if (panel == 0 || shape.cols == 0) panel = std::max<std::int64_t>(1, shape.cols);
        for (std::int64_t col = 0; col < std::max<std::int64_t>(1, shape.cols); col += panel) {
            const Block block{0, col, shape.rows, std::min(panel, shape.cols - col)};
            const auto offset = static_cast<std::size_t>(col) * size_of(type);
            reader->read(block, MutableMatrixView{type, block.shape(), shape.cols, matrix.data() + offset});
        }
        outcome.matrix = std::move(matrix);
    } catch (const Error& error) {
        outcome.message = error.what();
    }
    return outcome;
}

void require(bool condition) {
    if (!condition) std::abort();
}

void read_entries(const std::string& path, const ReadOptions& options) {
    try {
        const auto reader = matrix_market::open({path, ""}, options);
        reader->read_entries([&](const Entries& some) {
            visit_type(some.type, [&]<class T>(TypeTag<T>) {
                for (const Entry<T>& entry : some.as<T>()) {
                    require(Block{entry.row, entry.col, 1, 1}.inside(reader->header().shape));
                }
            });
        });
    } catch (const Error&) {  // NOLINT: an outcome like any other
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    if (data[0] % 16 < all_types().size()) options.type = all_types()[data[0] % 16];
    const int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    require(write(descriptor, data + 1, size - 1) == static_cast<ssize_t>(size - 1));
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);

    const Outcome whole = read_with(path, options, 1, 0);
    const Outcome threaded = read_with(path, options, 2, 0);
    require(whole.message == threaded.message && whole.matrix.has_value() == threaded.matrix.has_value());
    if (whole.matrix && whole.matrix->shape().cols < 64) {
        const Outcome panels = read_with(path, options, 1, 3);
        require(panels.matrix.has_value());
        const std::size_t bytes = whole.matrix->bytes();
        for (const Outcome* other : {&threaded, &panels}) {
            require(bytes == 0 || std::memcmp(whole.matrix->data(), other->matrix->data(), bytes) == 0);
        }
    }
    read_entries(path, options);
    close(descriptor);
    return 0;
}
