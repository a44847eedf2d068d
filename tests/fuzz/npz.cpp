// Feeds any bytes to the reader of NumPy's archives. Whatever they are, the reader delivers or throws Error:
// it does not crash, hang or take more memory than its limit. What it delivers is the same on two threads,
// its structure holds, and it survives being written.
#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/hash/sparse_hash.hpp"
#include "formats/npz/npz.hpp"
#include "tests/fuzz/support.hpp"

using namespace gpumat;
using namespace gpumat::formats;

namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{16} << 20;

std::optional<Matrix> read_dense(const std::string& path, const ReadOptions& options) {
    try {
        return read_whole(*npz::open({path, ""}, options), options);
    } catch (const Error&) {
        return {};
    }
}

/// Nothing where it is refused or dense.
std::optional<Csr> read_sparse(const std::string& path, const ReadOptions& options) {
    try {
        std::int64_t duplicates = 0;
        return npz::open({path, ""}, options)->read_sparse(duplicates);
    } catch (const Error&) {
        return {};
    }
}

void check_written(const Csr& matrix) {
    if (matrix.type() == Type::bf16) return;  // which NumPy has not
    const fuzz::TemporaryFile file;
    const int descriptor = ::open(file.path().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC);
    const auto writer = npz::create_sparse({.descriptor = descriptor, .shown = file.path()}, matrix.shape(),
                                           matrix.type(), matrix.entries(), {});
    writer->write(0, matrix.view());
    writer->finish();
    ::close(descriptor);
    const auto again = read_sparse(file.path(), {});
    fuzz::require(again && content_hash(again->view(), 1) == content_hash(matrix.view(), 1),
                  "what was written reads back differently");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ReadOptions options;
    options.memory_limit = kMemoryLimit;
    const fuzz::TemporaryFile file({data, size});
    try {
        npz::list({file.path(), ""}, options);
    } catch (const Error&) {  // which is an answer
    }
    const auto dense = read_dense(file.path(), options);
    const auto sparse = read_sparse(file.path(), options);
    options.threads = 2;
    const auto other = read_dense(file.path(), options);
    fuzz::require(dense.has_value() == other.has_value() && (!dense || fuzz::same_bytes(*dense, *other)),
                  "two threads read another matrix");
    if (!sparse) return 0;
    const CsrView rows = std::as_const(*sparse).view();
    fuzz::require(!structure_fault(rows, 1), "the structure does not hold");
    check_written(*sparse);
    return 0;
}
