// Feeds any bytes to the reader of NumPy's files. Whatever they are, the reader delivers or throws Error: it
// does not crash, hang or take more memory than its limit. What it delivers is the same in blocks and on two
// threads, and survives being written.
//
// The last byte is no part of the file: it chooses the type that is asked for.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "formats/npy/npy.hpp"
#include "tests/fuzz/support.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{16} << 20;

/// Nothing where it is refused.
std::optional<Matrix> read(const std::string& path, const ReadOptions& options) {
    try {
        return read_whole(*npy::open({path, ""}, options), options);
    } catch (const Error&) {
        return {};
    }
}

void check_written(const Matrix& whole) {
    if (whole.type() == Type::bf16) return;  // which NumPy has not
    const fuzz::TemporaryFile file;
    const int descriptor = ::open(file.path().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC);
    const auto writer =
        npy::create({.descriptor = descriptor, .shown = file.path()}, whole.shape(), whole.type(), {});
    writer->write(Block::whole(whole.shape()), whole.view());
    writer->finish();
    ::close(descriptor);
    const auto again = read(file.path(), {});
    fuzz::require(again && fuzz::same_bytes(whole, *again), "what was written reads back differently");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    options.as_column = true;
    if (size > 0) {
        const std::size_t choice = data[--size] % 32;
        if (choice < all_types().size()) options.type = all_types()[choice];
    }
    const fuzz::TemporaryFile file({data, size});
    const auto whole = read(file.path(), options);
    options.threads = 2;
    const auto other = read(file.path(), options);
    fuzz::require(whole.has_value() == other.has_value() && (!whole || fuzz::same_bytes(*whole, *other)),
                  "two threads read another matrix");
    if (!whole) return 0;
    const auto reader = npy::open({file.path(), ""}, options);
    if (whole->shape().elements() > 0)
        fuzz::require(fuzz::same_bytes(*whole, fuzz::read_in_blocks(*reader, {7, 5})), "blocks differ");
    check_written(*whole);
    return 0;
}
