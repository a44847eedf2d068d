#pragma once

#include <cstdint>

#include "kernels/common/vector_width.hpp"
#include "kernels/problem.hpp"
#include "kernels/reduce/totals.hpp"

namespace gpumat::reduce::cpu {

/// A total of any reduction: as many bytes as the largest has.
struct AnyTotal {
    alignas(8) unsigned char bytes[48];
};

/// A part of the matrix: `rows` rows of `cols` elements, `pitch` elements apart.
struct Piece {
    const void* data;
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t pitch;
};

/// How one reduction of one type adds pieces up, in the vectors of one width.
struct Vectors {
    std::int64_t most_elements;  ///< of a row that `add_row` may be given
    std::int64_t most_rows;      ///< that `add_columns` may be given
    /// Takes a row's elements into a total.
    void (*add_row)(const void* row, std::int64_t elements, const Mirror& mirror, AnyTotal& total);
    /// Takes each column of a piece of at most kPieceBytes a row into a total of its own.
    void (*add_columns)(const Piece& piece, const Mirror& mirror, AnyTotal* totals);
};

// One function a width, each in a file of its own.
Vectors plain_vectors(const Problem& problem);
Vectors avx2_vectors(const Problem& problem);
Vectors avx512_vectors(const Problem& problem);

/// What is done with the totals of one accumulator.
struct Totals {
    void (*start)(AnyTotal& total);
    void (*merge)(AnyTotal& into, const AnyTotal& other);
    void (*store)(const Results& results, std::int64_t at, const AnyTotal& total);
};

struct Pieces : Vectors, Totals {};

/// Bytes of the columns that are reduced side by side: long enough to be read ahead of, and their sums stay
/// in the nearest cache.
inline constexpr std::int64_t kPieceBytes = 4096;

Pieces pieces_of(const Problem& problem, VectorWidth width);

}  // namespace gpumat::reduce::cpu
