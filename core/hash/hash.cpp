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
#include "core/parallel.hpp"

namespace gpumat {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are hashed as they lie in memory");

/// Bytes that one thread hashes before it takes the next piece.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

std::string hash_text(std::uint32_t crc) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "crc32:%08x", crc);
    return text.data();
}

/// The CRC of pieces that follow each other, each of `grain` units of so many bytes, the last one shorter.
std::uint32_t combined(const std::vector<std::uint32_t>& crcs, std::int64_t units, std::int64_t grain,
                       std::int64_t unit_bytes) {
    uLong crc = 0;
    for (std::size_t piece = 0; piece < crcs.size(); ++piece) {
        const std::int64_t begin = static_cast<std::int64_t>(piece) * grain;
        const std::int64_t bytes = (std::min(begin + grain, units) - begin) * unit_bytes;
        crc = crc32_combine(crc, crcs[piece], static_cast<z_off_t>(bytes));
    }
    return static_cast<std::uint32_t>(crc);
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
    std::vector<std::uint32_t> crcs(static_cast<std::size_t>((units + grain - 1) / grain), 0);
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

}  // namespace

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
    std::vector<std::uint32_t> crcs(static_cast<std::size_t>((cols + kGrain - 1) / kGrain), 0);
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

ContentHash::ContentHash(const Shape& whole, Type type, int threads)
    : whole_(whole), element_(static_cast<std::int64_t>(size_of(type))), threads_(threads) {}

void ContentHash::add(const Block& block, const MatrixView& elements) {
    if (block.rows == 0 || block.cols == 0) return;
    if (block.cols == whole_.cols) {
        runs_[block.row] = {content_crc(elements, threads_), block.rows * block.cols * element_};
        return;
    }
    Strip& strip = strips_[block.col];
    strip.cols = block.cols;
    strip.rows.resize(static_cast<std::size_t>(whole_.rows));
    const auto bytes = static_cast<std::size_t>(block.cols * element_);
    const std::int64_t grain =
        std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(1, block.cols * element_));
    parallel_for(block.rows, grain, threads_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            strip.rows[static_cast<std::size_t>(block.row + i)] =
                crc32_of(elements.data + i * elements.ld * element_, bytes, 0);
    });
}

std::string ContentHash::text() const {
    uLong crc = 0;
    for (const auto& [row, run] : runs_) crc = crc32_combine(crc, run.crc, static_cast<z_off_t>(run.bytes));
    if (strips_.empty()) return hash_text(static_cast<std::uint32_t>(crc));
    std::vector<std::pair<const Strip*, uLong>> strips;  // with what combining one of its rows takes
    for (const auto& [col, strip] : strips_)
        strips.emplace_back(&strip, crc32_combine_gen(static_cast<z_off_t>(strip.cols * element_)));
    for (std::size_t row = 0; row < static_cast<std::size_t>(whole_.rows); ++row) {
        for (const auto& [strip, operation] : strips)
            crc = crc32_combine_op(crc, strip->rows[row], operation);
    }
    return hash_text(static_cast<std::uint32_t>(crc));
}

}  // namespace gpumat
