#include "core/hash/hash.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/hash/crc32.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"

namespace gpumat {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are hashed as they lie in memory");

/// Bytes that one thread hashes before it takes the next piece: a panel of 16 MiB has some for every thread
/// of a large machine, and who is held up by the threads of other stages leaves the rest to others.
constexpr std::int64_t kPieceBytes = std::int64_t{256} << 10;

/// The CRC of pieces that follow each other, each of `grain` units of so many bytes, the last one shorter.
std::uint32_t combined(const std::vector<std::uint32_t>& crcs, std::int64_t units, std::int64_t grain,
                       std::int64_t unit_bytes) {
    if (crcs.empty()) return 0;
    const uLong past_a_piece = crc32_combine_gen(static_cast<z_off_t>(grain * unit_bytes));
    uLong crc = 0;
    for (std::size_t piece = 0; piece + 1 < crcs.size(); ++piece)
        crc = crc32_combine_op(crc, crcs[piece], past_a_piece);
    const std::int64_t last = units - static_cast<std::int64_t>(crcs.size() - 1) * grain;
    return static_cast<std::uint32_t>(
        crc32_combine(crc, crcs.back(), static_cast<z_off_t>(last * unit_bytes)));
}

std::uint32_t content_crc(const MatrixView& matrix, int threads) {
    // A matrix without elements may have any number of rows or columns.
    const bool empty = matrix.shape.rows == 0 || matrix.shape.cols == 0;
    const auto element = empty ? 0 : static_cast<std::int64_t>(size_of(matrix.type));
    std::int64_t rows = matrix.shape.rows;
    std::int64_t row_bytes = matrix.shape.cols * element;
    std::int64_t step_bytes = matrix.ld * element;
    if (step_bytes == row_bytes || rows == 1) {  // one run of bytes: cut it anywhere
        row_bytes *= rows;
        step_bytes = row_bytes;
        rows = row_bytes == 0 ? 0 : 1;
    }
    if (row_bytes == 0) rows = 0;

    // Pieces are runs of whole rows, or parts of the only row.
    const bool single = rows == 1;
    const std::int64_t units = single ? row_bytes : rows;
    const std::int64_t grain =
        single ? kPieceBytes : std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(1, row_bytes));
    std::vector<std::uint32_t> crcs(static_cast<std::size_t>(ceil_div(units, grain)), 0);
    parallel_for(units, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        std::uint32_t& crc = crcs[static_cast<std::size_t>(begin / grain)];
        if (single) {
            crc = crc32_of(matrix.data + begin, static_cast<std::size_t>(end - begin), crc);
        } else {
            for (std::int64_t i = begin; i < end; ++i)
                crc = crc32_of(matrix.data + i * step_bytes, static_cast<std::size_t>(row_bytes), crc);
        }
    });

    return combined(crcs, units, grain, single ? 1 : row_bytes);
}

/// What the CRC of some bytes adds to that of a matrix in which so many follow them.
std::uint32_t moved_past(std::uint32_t crc, std::int64_t bytes) {
    return static_cast<std::uint32_t>(crc32_combine(crc, 0, static_cast<z_off_t>(bytes)));
}

/// Moves CRCs past the same number of bytes, by a table for each of their four bytes: for rows of few
/// elements crc32_combine_op would take longer than their CRCs.
class MovePast {
  public:
    explicit MovePast(std::int64_t bytes) {
        const uLong operation = crc32_combine_gen(static_cast<z_off_t>(bytes));
        for (std::size_t bit = 0; bit < 32; ++bit) {
            const auto moved = static_cast<std::uint32_t>(crc32_combine_op(uLong{1} << bit, 0, operation));
            std::array<std::uint32_t, 256>& table = tables_[bit / 8];
            const std::size_t first = std::size_t{1} << bit % 8;
            for (std::size_t i = 0; i < first; ++i) table[first + i] = table[i] ^ moved;
        }
    }

    std::uint32_t operator()(std::uint32_t crc) const {
        return tables_[0][crc & 0xff] ^ tables_[1][crc >> 8 & 0xff] ^ tables_[2][crc >> 16 & 0xff] ^
               tables_[3][crc >> 24];
    }

  private:
    std::array<std::array<std::uint32_t, 256>, 4> tables_{};
};

/// What rows add to the CRC of a matrix whose rows are longer, `row_bytes`, up to the end of the last one.
std::uint32_t crc_of_rows_apart(const MatrixView& rows, std::int64_t row_bytes, int threads) {
    const auto element = static_cast<std::int64_t>(size_of(rows.type));
    const auto bytes = static_cast<std::size_t>(rows.shape.cols * element);
    const std::int64_t grain = std::max<std::int64_t>(1, kPieceBytes / static_cast<std::int64_t>(bytes));
    const MovePast a_row_further(row_bytes);
    std::vector<std::uint32_t> crcs(static_cast<std::size_t>(ceil_div(rows.shape.rows, grain)), 0);
    parallel_for(rows.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        std::uint32_t& crc = crcs[static_cast<std::size_t>(begin / grain)];
        for (std::int64_t i = begin; i < end; ++i)
            crc = a_row_further(crc) ^ crc32_of(rows.data + i * rows.ld * element, bytes, 0);
    });
    return combined(crcs, rows.shape.rows, grain, row_bytes);
}

}  // namespace

std::string hash_text(std::uint32_t crc) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "crc32:%08x", crc);
    return text.data();
}

std::string content_hash(const MatrixView& matrix, int threads) {
    return hash_text(content_crc(matrix, threads));
}

std::string transposed_content_hash(const MatrixView& matrix, int threads) {
    const std::int64_t rows = matrix.shape.rows;
    const std::int64_t cols = matrix.shape.cols;
    if (rows == 0 || cols == 0) return content_hash({matrix.type, {0, 0}, 0, nullptr}, threads);
    const std::size_t element = size_of(matrix.type);
    const std::size_t column_bytes = static_cast<std::size_t>(rows) * element;
    constexpr std::int64_t kGrain = 64;  // columns that are gathered together, as they share cache lines
    std::vector<std::uint32_t> crcs(static_cast<std::size_t>(ceil_div(cols, kGrain)), 0);
    parallel_for(cols, kGrain, threads, [&](std::int64_t begin, std::int64_t end) {
        const auto width = static_cast<std::size_t>(end - begin);
        Buffer columns(width * column_bytes);
        for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
            const std::byte* from =
                matrix.data +
                (i * static_cast<std::size_t>(matrix.ld) + static_cast<std::size_t>(begin)) * element;
            for (std::size_t j = 0; j < width; ++j)
                std::memcpy(columns.data() + j * column_bytes + i * element, from + j * element, element);
        }
        std::uint32_t& crc = crcs[static_cast<std::size_t>(begin / kGrain)];
        crc = crc32_of(columns.data(), columns.size(), crc);
    });
    return hash_text(combined(crcs, cols, kGrain, static_cast<std::int64_t>(column_bytes)));
}

// A CRC is linear: that of bytes which follow each other is the sum (exclusive or) of what each gives, moved
// past the bytes behind it. So each block adds its own share, whatever came before.

std::uint32_t ContentHash::share_of(const Block& block, const MatrixView& elements, int threads) const {
    if (block.rows == 0 || block.cols == 0) return 0;
    const std::int64_t row_bytes = whole_.cols * element_;
    const std::uint32_t crc = block.cols == whole_.cols ? content_crc(elements, threads)
                                                        : crc_of_rows_apart(elements, row_bytes, threads);
    const std::int64_t behind = (whole_.rows - block.row - block.rows) * row_bytes +
                                (whole_.cols - block.col - block.cols) * element_;
    return moved_past(crc, behind);
}

void ContentHash::add(const Block& block, const MatrixView& elements) {
    crc_ ^= share_of(block, elements, threads_);
}

void ContentHash::add_together(std::span<const Part> parts, int threads) {
    constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;
    std::vector<Part> pieces;
    for (const Part& part : parts) {
        const std::int64_t element = part.hash->element_;
        const Shape grain = {
            std::max<std::int64_t>(1, kPartBytes / std::max<std::int64_t>(1, part.block.cols * element)),
            kPartBytes / element};
        for_each_block(part.block.shape(), grain, [&](const Block& within) {
            const Block block{part.block.row + within.row, part.block.col + within.col, within.rows,
                              within.cols};
            const MatrixView& all = part.elements;
            pieces.push_back({part.hash,
                              block,
                              {all.type, within.shape(), all.ld,
                               all.data + (within.row * all.ld + within.col) * element}});
        });
    }
    std::vector<std::uint32_t> shares(pieces.size());
    parallel_for(static_cast<std::int64_t>(pieces.size()), 1, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
                         shares[i] = pieces[i].hash->share_of(pieces[i].block, pieces[i].elements, 1);
                 });
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].hash->crc_ ^= shares[i];
}

std::string ContentHash::text() const {
    return hash_text(crc_);
}

}  // namespace gpumat
