#include "lib/stored/blocks_of_ranges.hpp"

#include <algorithm>
#include <utility>

#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "formats/sparse_block.hpp"

namespace gpumat {

BlocksOfRanges::BlocksOfRanges(formats::Reader& reader, std::uint64_t room, int threads)
    : reader_(reader),
      room_(room),
      threads_(threads),
      header_(reader.header()),
      rows_(reader, formats::Lines::rows, room) {
    header_.grain = {1, 1};
    header_.rereads = false;
    header_.in_order = false;
    const auto bytes = [&](const LineRange& range) {
        return to_csr_bytes(rows_.block(range).shape(), header_.type, rows_.entries_in(range));
    };
    const auto words = [&](const LineRange& range) {
        return words_of_range(to_string(header_.source), rows_.block(range).shape(), rows_.entries_in(range),
                              bytes(range), room);
    };
    ranges_ = cut_lines(rows_.lines(), rows_.step(), room, bytes, words);
}

void BlocksOfRanges::read(const Block& block, const MutableMatrixView& out) {
    for (const LineRange& range : ranges_) {
        const std::int64_t first = std::max(range.first, block.row);
        const std::int64_t end = std::min(range.first + range.count, block.row + block.rows);
        if (first >= end) continue;
        hold(range);
        const Block part{first - range.first, block.col, end - first, block.cols};
        formats::put_block(
            std::as_const(range_).view(), part,
            {out.type, part.shape(), out.ld,
             out.data + static_cast<std::size_t>((first - block.row) * out.ld) * size_of(out.type)});
    }
}

void BlocksOfRanges::hold(const LineRange& range) {
    if (held_ == range.first) return;
    held_ = -1;
    range_ = Csr();  // before there is another
    std::int64_t duplicates = 0;
    range_ = rows_.read(range, threads_, duplicates);
    held_ = range.first;
}

std::uint64_t BlocksOfRanges::open_bytes() const {
    return saturating_add(reader_.entries_bytes(), room_);
}

}  // namespace gpumat
