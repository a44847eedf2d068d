#include "core/sparse/csr.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/whole.hpp"
#include "core/numbers/zero.hpp"
#include "core/parallel.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

std::size_t addressable(std::uint64_t count, std::uint64_t each, const std::string& what) {
    if (count <= kMostBytes / each) return static_cast<std::size_t>(count * each);
    throw Error(ErrorCode::memory, what + " passes the memory that can be addressed");
}

std::size_t pointer_bytes(const Shape& shape, const std::string& what) {
    return addressable(static_cast<std::uint64_t>(shape.rows) + 1, sizeof(std::int64_t), what);
}

std::string numbered(const char* what, std::int64_t number) {
    return what + std::to_string(number);
}

/// What is wrong with row pointer i + 1 after that of i.
std::optional<std::string> pointer_fault(const CsrView& matrix) {
    if (matrix.pointers[0] != 0) return numbered("row pointer 0 is ", matrix.pointers[0]) + ", expected 0";
    for (std::int64_t i = 0; i < matrix.shape.rows; ++i) {
        const std::int64_t first = matrix.pointers[i];
        const std::int64_t end = matrix.pointers[i + 1];
        if (end < first)
            return numbered("row pointer ", i + 1) + numbered(" is ", end) +
                   numbered(", expected at least ", first) + ", as the one before it";
        if (end > matrix.entries)
            return numbered("row pointer ", i + 1) + numbered(" is ", end) +
                   numbered(", expected at most ", matrix.entries) + ", the entries that there are";
    }
    const std::int64_t last = matrix.pointers[matrix.shape.rows];
    if (last == matrix.entries) return {};
    return numbered("the last row pointer is ", last) + numbered(", expected ", matrix.entries) +
           ", the entries that there are";
}

template <class I>
std::optional<std::string> row_fault(const CsrView& matrix, std::int64_t row) {
    const I* const columns = matrix.columns_as<I>();
    const auto cols = static_cast<std::uint64_t>(matrix.shape.cols);
    std::int64_t before = -1;
    for (std::int64_t at = matrix.pointers[row]; at < matrix.pointers[row + 1]; ++at) {
        const std::int64_t col = columns[at];
        if (static_cast<std::uint64_t>(col) >= cols)
            return numbered("entry ", at) + numbered(" of row ", row) + numbered(" is in column ", col) +
                   numbered(", expected columns from 0 up to ", matrix.shape.cols - 1);
        if (col <= before)
            return numbered("entry ", at) + numbered(" of row ", row) + numbered(" is in column ", col) +
                   numbered(", expected one beyond ", before) + ", that of the entry before it";
        before = col;
    }
    return {};
}

/// Whether `row_fault` has none to tell, without a branch an entry.
template <class I>
bool row_holds(const CsrView& matrix, std::int64_t row) {
    const I* const columns = matrix.columns_as<I>();
    const auto cols = static_cast<std::uint64_t>(matrix.shape.cols);
    std::int64_t before = -1;
    bool holds = true;
    for (std::int64_t at = matrix.pointers[row]; at < matrix.pointers[row + 1]; ++at) {
        const std::int64_t col = columns[at];
        holds &= (static_cast<std::uint64_t>(col) < cols) & (col > before);
        before = col;
    }
    return holds;
}

/// Rows that a thread takes at a time: some of many entries, and many without any.
std::int64_t rows_at_once(const CsrView& matrix) {
    constexpr std::int64_t kEntriesAtOnce = std::int64_t{1} << 16;
    return std::clamp<std::int64_t>(
        matrix.shape.rows / (1 + (matrix.entries + matrix.shape.rows) / kEntriesAtOnce), 1, kEntriesAtOnce);
}

}  // namespace

std::uint64_t entry_bytes(const Shape& shape, Type type, std::int64_t entries) {
    const std::uint64_t each = index_bytes(shape) + size_of(type);
    const auto count = static_cast<std::uint64_t>(entries);
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    return count > kMost / each ? kMost : count * each;
}

std::uint64_t csr_bytes(const Shape& shape, Type type, std::int64_t entries) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t pointers = static_cast<std::uint64_t>(shape.rows) + 1;
    const std::uint64_t bytes =
        pointers > kMost / sizeof(std::int64_t) ? kMost : pointers * sizeof(std::int64_t);
    return saturating_add(bytes, entry_bytes(shape, type, entries));
}

Csr::Csr(const Shape& shape, Type type, std::int64_t entries, const std::string& what)
    : Csr(shape, type, entries,
          Buffer(addressable(static_cast<std::uint64_t>(entries), index_bytes(shape), what)),
          Buffer(addressable(static_cast<std::uint64_t>(entries), size_of(type), what)), what) {}

Csr::Csr(const Shape& shape, Type type, std::int64_t entries, Buffer columns, Buffer values,
         const std::string& what)
    : shape_(shape),
      type_(type),
      entries_(entries),
      pointers_(pointer_bytes(shape, what)),
      columns_(std::move(columns)),
      values_(std::move(values)) {}

void Csr::hold(std::int64_t entries, const std::string& what) {
    if (entries == entries_) return;
    entries_ = 0;
    columns_ = Buffer();
    values_ = Buffer();
    columns_ = Buffer(addressable(static_cast<std::uint64_t>(entries), index_bytes(shape_), what));
    values_ = Buffer(addressable(static_cast<std::uint64_t>(entries), size_of(type_), what));
    entries_ = entries;
}

std::optional<std::string> structure_fault(const CsrView& matrix, int threads) {
    if (auto fault = pointer_fault(matrix)) return fault;
    // The first row that is wrong, whatever the number of threads.
    std::atomic<std::int64_t> first = matrix.shape.rows;
    const auto check = [&]<class I>(TypeTag<I>) {
        parallel_for(matrix.shape.rows, rows_at_once(matrix), threads,
                     [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end && row < first; ++row) {
                             if (row_holds<I>(matrix, row)) continue;
                             std::int64_t least = first;
                             while (row < least && !first.compare_exchange_weak(least, row)) {
                             }
                             return;
                         }
                     });
        return first < matrix.shape.rows ? row_fault<I>(matrix, first) : std::nullopt;
    };
    return visit_index(matrix.shape, check);
}

std::int64_t explicit_zeros(const CsrView& matrix, int threads) {
    std::atomic<std::int64_t> zeros = 0;
    constexpr std::int64_t kGrain = std::int64_t{1} << 16;
    visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        const T* const values = matrix.values_as<T>();
        parallel_for(matrix.entries, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
            zeros +=
                std::count_if(values + begin, values + end, [](const T& value) { return is_zero(value); });
        });
    });
    return zeros;
}

}  // namespace gpumat
