// transpose, CPU level `tiled`: square tiles that fit the first-level cache, shared out among the threads.
//
// Since `per-row`: a tile's lines of input and output stay in the cache until all of their elements have
// moved, so each line is fetched once. Traffic: every element read once and written once, and each line of
// the output read before it is written. What limits it: one load and one store an element; that extra
// read; and where rows lie a large power of two apart, the lines of a tile fall into the same few sets of
// the cache and push each other out.
//
// In place, a tile above the diagonal is swapped with its mirror image; no other pair touches either.
//
// Source of the idea: cache blocking of a transpose, as old as caches.
#include <algorithm>
#include <array>
#include <utility>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu {
namespace {

// A thread takes tiles of at least this many elements together at once.
constexpr std::int64_t kElementsAtOnce = 65536;

/// The rectangle [row, row_end) × [col, col_end) of the input.
struct Tile {
    std::int64_t row;
    std::int64_t row_end;
    std::int64_t col;
    std::int64_t col_end;
};

/// The tile of that index, counted along rows of tiles.
Tile tile_at(std::int64_t index, std::int64_t side, std::int64_t m, std::int64_t n) {
    const std::int64_t across = ceil_div(n, side);
    const std::int64_t row = index / across * side;
    const std::int64_t col = index % across * side;
    return {row, std::min(row + side, m), col, std::min(col + side, n)};
}

template <class T>
void move_tile(const T* in, std::int64_t in_pitch, T* out, std::int64_t out_pitch, const Tile& tile) {
    for (std::int64_t j = tile.col; j < tile.col_end; ++j) {
        for (std::int64_t i = tile.row; i < tile.row_end; ++i) out[j * out_pitch + i] = in[i * in_pitch + j];
    }
}

/// Swaps a tile on or above the diagonal with its mirror image.
template <class T>
void swap_tile(T* matrix, std::int64_t pitch, const Tile& tile) {
    for (std::int64_t i = tile.row; i < tile.row_end; ++i) {
        for (std::int64_t j = std::max(tile.col, i + 1); j < tile.col_end; ++j) {
            std::swap(matrix[i * pitch + j], matrix[j * pitch + i]);
        }
    }
}

}  // namespace

std::span<const Parameter> tiled_parameters() {
    static constexpr auto kTiles = std::to_array<std::string_view>({"8", "16", "32", "64", "128"});
    static constexpr std::array kParameters = {Parameter{.name = "tile",
                                                         .help = "rows and columns of a tile, in elements",
                                                         .choices = kTiles,
                                                         .fallback = "32",
                                                         .tunable = true}};
    return kParameters;
}

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device) {
    const int side = parameter_number(tiled_parameters(), problem, "tile");
    return {.level = "tiled",
            .run =
                [problem, operands, threads = device.threads, side](Stream) {
                    const std::int64_t m = problem.m;
                    const std::int64_t n = problem.n;
                    const std::int64_t tiles =
                        ceil_div<std::int64_t>(m, side) * ceil_div<std::int64_t>(n, side);
                    visit_element(problem.type, [&]<class T>(TypeTag<T>) {
                        const auto* in = operands.a.as<T>();
                        auto* out = operands.c.as<T>();
                        parallel_for(tiles, kElementsAtOnce / (side * side), threads,
                                     [&](std::int64_t begin, std::int64_t end) {
                                         for (std::int64_t index = begin; index < end; ++index) {
                                             const Tile tile = tile_at(index, side, m, n);
                                             if (!problem.in_place) {
                                                 move_tile(in, operands.a.pitch, out, operands.c.pitch, tile);
                                             } else if (tile.col >= tile.row) {
                                                 swap_tile(out, operands.c.pitch, tile);
                                             }
                                         }
                                     });
                    });
                },
            .details = {{"tile", std::to_string(side) + "x" + std::to_string(side)}}};
}

}  // namespace gpumat::transpose::cpu
