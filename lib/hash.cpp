#include "lib/hash.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "lib/core/parallel.hpp"
#include "lib/crc32.hpp"

namespace gpumat {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are hashed as they lie in memory");

/// Bytes that one thread hashes before it takes the next piece.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

/// The hash of pieces that follow each other, each of `grain` units of so many bytes, the last one shorter.
std::string combined(const std::vector<std::uint32_t>& crcs, std::int64_t units, std::int64_t grain,
                     std::int64_t unit_bytes) {
    uLong crc = 0;
    for (std::size_t piece = 0; piece < crcs.size(); ++piece) {
        const std::int64_t begin = static_cast<std::int64_t>(piece) * grain;
        const std::int64_t bytes = (std::min(begin + grain, units) - begin) * unit_bytes;
        crc = crc32_combine(crc, crcs[piece], static_cast<z_off_t>(bytes));
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "crc32:%08lx", crc);
    return text.data();
}

}  // namespace

std::string content_hash(const MatrixView& matrix, int threads) {
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
    return combined(crcs, cols, kGrain, static_cast<std::int64_t>(column_bytes));
}

}  // namespace gpumat
