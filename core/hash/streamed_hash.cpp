#include "core/hash/streamed_hash.hpp"

#include <zlib.h>

#include <array>
#include <cstdio>

#include "core/hash/crc32.hpp"
#include "core/parallel.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kHashedBytes = std::int64_t{4} << 20;  ///< by one thread at a time

std::uint32_t joined(std::uint32_t first, std::uint32_t second, std::int64_t second_bytes) {
    return static_cast<std::uint32_t>(crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

}  // namespace

void StreamedHash::take(const Block& block, const MatrixView& view, int threads) {
    if (block.rows == 0 || block.cols == 0) return;
    const auto element = static_cast<std::int64_t>(size_of(type_));
    const std::int64_t row_bytes = block.cols * element;
    const std::int64_t grain = std::max<std::int64_t>(1, kHashedBytes / row_bytes);
    const bool whole = block.cols == shape_.cols && rows_.empty();
    if (!whole && rows_.empty()) rows_.resize(static_cast<std::size_t>(shape_.rows));
    std::vector<std::uint32_t> pieces(whole ? static_cast<std::size_t>((block.rows + grain - 1) / grain) : 0);
    parallel_for(block.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            std::uint32_t& crc = whole ? pieces[static_cast<std::size_t>(begin / grain)]
                                       : rows_[static_cast<std::size_t>(block.row + i)];
            crc = crc32_of(view.data + i * view.ld * element, static_cast<std::size_t>(row_bytes), crc);
        }
    });
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
        const std::int64_t first = static_cast<std::int64_t>(piece) * grain;
        whole_ = joined(whole_, pieces[piece], std::min(grain, block.rows - first) * row_bytes);
    }
}

std::string StreamedHash::text() const {
    std::uint32_t crc = whole_;
    if (!rows_.empty()) {
        const auto row_bytes = shape_.cols * static_cast<std::int64_t>(size_of(type_));
        const uLong shift = crc32_combine_gen(static_cast<z_off_t>(row_bytes));
        for (const std::uint32_t row : rows_)
            crc = static_cast<std::uint32_t>(crc32_combine_op(crc, row, shift));
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "crc32:%08x", crc);
    return text.data();
}

}  // namespace gpumat
