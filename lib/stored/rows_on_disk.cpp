#include "lib/stored/rows_on_disk.hpp"

#include <utility>

#include "lib/stored/spool_io.hpp"

namespace gpumat {
namespace {

/// Calls `act(array, bytes)` for the arrays of rows, in their order in the file.
template <class Rows, class Act>
void for_each_array(const Rows& rows, const Act& act) {
    const auto entries = static_cast<std::size_t>(rows.entries);
    act(rows.pointers, (static_cast<std::size_t>(rows.shape.rows) + 1) * sizeof(std::int64_t));
    act(rows.columns, entries * index_bytes(rows.shape));
    act(rows.values, entries * size_of(rows.type));
}

}  // namespace

RowsOnDisk::RowsOnDisk(std::string what) : what_(std::move(what)), file_(open_spool(1, 0, what_)) {
    file_.bytes = 0;
}

void RowsOnDisk::append(const CsrView& rows) {
    ranges_.push_back({rows.shape, rows.type, rows.entries, file_.bytes});
    for_each_array(rows,
                   [&](const void* array, std::size_t bytes) { append_to(file_, array, bytes, what_); });
    entries_ += rows.entries;
}

void RowsOnDisk::for_each(
    const std::function<void(std::int64_t first_row, const CsrView& rows)>& take) const {
    std::int64_t first = 0;
    for (const Range& range : ranges_) {
        Csr rows(range.shape, range.type, range.entries, what_);
        std::uint64_t offset = range.offset;
        for_each_array(rows.view(), [&](void* array, std::size_t bytes) {
            read_from(file_, offset, array, bytes, what_);
            offset += bytes;
        });
        take(first, std::as_const(rows).view());
        first += range.shape.rows;
    }
}

}  // namespace gpumat
