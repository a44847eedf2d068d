#pragma once

#include <cstdint>

#include "kernels/level.hpp"
#include "kernels/multiply/cpu/sparse/pieces.hpp"

namespace gpumat::multiply::cpu::sparse {

/// What the pieces of a sparse times a dense matrix share.
struct TiledWork {
    Problem problem;
    Operands operands;       ///< plain
    bool streams = false;    ///< rows of C are written past the caches: whole lines only
    std::int64_t ahead = 0;  ///< entries from one that is multiplied to the one whose row of B is prefetched
};

/// Computes the rows of a piece; of a part of a row its sums, into memory for n of them.
using MultiplyPiece = void (*)(const TiledWork& work, const Piece& piece, void* part_sums);

// One function an instruction set, which gives that of a type.
MultiplyPiece plain_piece(Type type);
MultiplyPiece avx2_piece(Type type);
MultiplyPiece avx512_piece(Type type);

/// `tiled` of a dense times a sparse matrix: panels.cpp.
Launch prepare_panels(const Problem& problem, const Operands& operands, const Device& device);
std::uint64_t panels_bytes(const Problem& problem, int threads);

}  // namespace gpumat::multiply::cpu::sparse
