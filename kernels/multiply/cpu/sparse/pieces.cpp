#include "kernels/multiply/cpu/sparse/pieces.hpp"

#include <algorithm>

namespace gpumat::multiply::cpu::sparse {
namespace {

/// Rows and entries of a piece: so few that threads end together, so many that a piece is worth its start.
std::int64_t piece_size(std::int64_t rows, std::int64_t entries) {
    constexpr std::int64_t kPieces = 512;
    constexpr std::int64_t kLeast = 1024;
    constexpr std::int64_t kMost = 1 << 16;
    return std::clamp((rows + entries) / kPieces, kLeast, kMost);
}

/// The first row before which there are at least so many rows and entries.
std::int64_t row_at(const Operand& matrix, std::int64_t from, std::int64_t place) {
    std::int64_t low = from;
    std::int64_t high = matrix.rows;
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (middle + matrix.pointers[middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void cut_row(const Operand& matrix, std::int64_t row, std::int64_t size, Pieces& all) {
    CutRow cut{row, all.parts, 0};
    for (std::int64_t at = matrix.pointers[row]; at < matrix.pointers[row + 1]; at += size) {
        all.pieces.push_back({row, row + 1, at, std::min(at + size, matrix.pointers[row + 1]), all.parts++});
        ++cut.parts;
    }
    all.cut.push_back(cut);
}

}  // namespace

Pieces pieces_of(const Operand& matrix) {
    const std::int64_t size = piece_size(matrix.rows, matrix.entries);
    const std::int64_t* const pointers = matrix.pointers;
    Pieces all;
    for (std::int64_t row = 0; row < matrix.rows;) {
        if (pointers[row + 1] - pointers[row] > size) {
            cut_row(matrix, row++, size, all);
            continue;
        }
        std::int64_t end = std::max(row + 1, row_at(matrix, row, row + pointers[row] + size));
        // The last of them may be one that is to be cut.
        if (end - row > 1 && pointers[end] - pointers[end - 1] > size) --end;
        all.pieces.push_back({row, end, pointers[row], pointers[end]});
        row = end;
    }
    return all;
}

std::int64_t most_parts(std::int64_t rows, std::int64_t entries) {
    return 2 * (entries / piece_size(rows, entries));
}

}  // namespace gpumat::multiply::cpu::sparse
