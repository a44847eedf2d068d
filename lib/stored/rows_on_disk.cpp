#include "lib/stored/rows_on_disk.hpp"

#include <array>
#include <utility>

#include "core/memory.hpp"
#include "lib/stored/spool_io.hpp"

namespace gpumat {
namespace {

/// The bytes of the arrays of rows, in their order in the file.
std::array<std::size_t, 3> bytes_of_arrays(const Shape& shape, Type type, std::int64_t count) {
    const auto entries = static_cast<std::size_t>(count);
    return {(static_cast<std::size_t>(shape.rows) + 1) * sizeof(std::int64_t), entries * index_bytes(shape),
            entries * size_of(type)};
}

}  // namespace

RowsOnDisk::RowsOnDisk(std::string what) : what_(std::move(what)), file_(open_spool(1, 0, what_)) {
    file_.bytes = 0;
}

void RowsOnDisk::append(const CsrView& rows) {
    ranges_.push_back({rows.shape, rows.type, rows.entries, file_.bytes});
    const auto bytes = bytes_of_arrays(rows.shape, rows.type, rows.entries);
    append_to(file_, rows.pointers, bytes[0], what_);
    append_to(file_, rows.columns, bytes[1], what_);
    append_to(file_, rows.values, bytes[2], what_);
    entries_ += rows.entries;
}

void RowsOnDisk::for_each(
    formats::CsrArray wanted,
    const std::function<void(std::int64_t first_row, const CsrView& rows)>& take) const {
    using formats::CsrArray;
    std::int64_t first = 0;
    std::array<Buffer, 3> arrays;  // kept for the next range, as fresh memory has to be cleared
    for (const Range& range : ranges_) {
        std::uint64_t offset = range.offset;
        const auto bytes = bytes_of_arrays(range.shape, range.type, range.entries);
        constexpr std::array kArrays = {CsrArray::pointers, CsrArray::columns, CsrArray::values};
        for (std::size_t at = 0; at < arrays.size(); ++at) {
            if (wanted == CsrArray::all || wanted == kArrays.at(at)) {
                if (arrays.at(at).size() < bytes.at(at)) {
                    arrays.at(at) = Buffer();  // before there is more
                    arrays.at(at) = Buffer(bytes.at(at));
                }
                read_from(file_, offset, arrays.at(at).data(), bytes.at(at), what_);
            }
            offset += bytes.at(at);
        }
        take(first,
             {range.type, range.shape, range.entries, reinterpret_cast<const std::int64_t*>(arrays[0].data()),
              arrays[1].data(), arrays[2].data()});
        first += range.shape.rows;
    }
}

}  // namespace gpumat
