// multiply, CPU level `tiled`: square tiles of C, each the sum of products of tiles of A and B, shared out
// among the threads.
//
// Since `interchanged`: a tile of A and one of B are copied to a small buffer and used tile times each, so
// the traffic from memory falls by the width of a tile, to 2·M·N·K / tile elements; and all cores work.
// The copies are contiguous and in the type that sums have, which makes the inner loop the same whichever
// way A and B are stored, and converts an f16 once a tile rather than once a product. The order of
// additions along k is that of `naive`, so the result is the same to the bit on any number of threads.
// What limits it: the inner loop loads an element of B and loads and stores a sum for every multiply-add.
//
// Source of the idea: M. Lam, E. Rothberg, M. Wolf, "The Cache Performance and Optimizations of Blocked
// Algorithms" (1991).
#include <algorithm>
#include <array>
#include <vector>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/levels.hpp"

namespace gpumat::multiply::cpu {
namespace {

/// The tiles that one thread works on, side × side each.
template <class T>
struct Tiles {
    explicit Tiles(std::int64_t side)
        : a(static_cast<std::size_t>(side * side)), b(a.size()), sums(a.size()) {}

    std::vector<Sum<T>> a;     // row i, column k
    std::vector<Sum<T>> b;     // row k, column j
    std::vector<Sum<T>> sums;  // row i, column j
};

/// Copies rows × cols elements of op(from), starting at (row, col), to `to`, whose rows are `side` apart.
/// Stored rows are `ld` apart.
template <class T>
void copy_tile(const T* from, std::int64_t ld, bool transposed, std::int64_t row, std::int64_t col,
               std::int64_t rows, std::int64_t cols, Sum<T>* to, std::int64_t side) {
    if (transposed) {
        for (std::int64_t j = 0; j < cols; ++j) {
            const T* line = from + (col + j) * ld + row;
            for (std::int64_t i = 0; i < rows; ++i) to[i * side + j] = static_cast<Sum<T>>(line[i]);
        }
    } else {
        for (std::int64_t i = 0; i < rows; ++i) {
            const T* line = from + (row + i) * ld + col;
            for (std::int64_t j = 0; j < cols; ++j) to[i * side + j] = static_cast<Sum<T>>(line[j]);
        }
    }
}

/// sums += a · b, for the parts of the tiles that the matrices fill.
template <class T>
void multiply_tiles(Tiles<T>& tiles, std::int64_t side, std::int64_t rows, std::int64_t cols,
                    std::int64_t depth) {
    for (std::int64_t i = 0; i < rows; ++i) {
        Sum<T>* __restrict row = tiles.sums.data() + i * side;
        for (std::int64_t k = 0; k < depth; ++k) {
            const Sum<T> factor = tiles.a[static_cast<std::size_t>(i * side + k)];
            const Sum<T>* line = tiles.b.data() + k * side;
            for (std::int64_t j = 0; j < cols; ++j) row[j] = multiply_add(factor, line[j], row[j]);
        }
    }
}

template <class T>
void compute_tile(const Problem& p, const Operands& operands, std::int64_t i, std::int64_t j,
                  std::int64_t side, Tiles<T>& tiles) {
    const std::int64_t rows = std::min(side, p.m - i);
    const std::int64_t cols = std::min(side, p.n - j);
    std::fill(tiles.sums.begin(), tiles.sums.end(), Sum<T>{});
    for (std::int64_t k = 0; k < p.k; k += side) {
        const std::int64_t depth = std::min(side, p.k - k);
        copy_tile(operands.a.as<T>(), operands.a.pitch, p.transpose_a, i, k, rows, depth, tiles.a.data(),
                  side);
        copy_tile(operands.b.as<T>(), operands.b.pitch, p.transpose_b, k, j, depth, cols, tiles.b.data(),
                  side);
        multiply_tiles(tiles, side, rows, cols, depth);
    }
    const Epilogue<T> finish(p, operands);
    auto* c = operands.c.as<Result<T>>();
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t col = 0; col < cols; ++col) {
            c[(i + row) * operands.c.pitch + j + col] =
                finish(tiles.sums[static_cast<std::size_t>(row * side + col)], i + row, j + col);
        }
    }
}

template <class T>
void multiply(const Problem& p, const Operands& operands, std::int64_t side, int threads) {
    const std::int64_t across = ceil_div(p.n, side);
    const std::int64_t count = across * ceil_div(p.m, side);
    parallel_for(count, 1, threads, [&](std::int64_t begin, std::int64_t end) {
        Tiles<T> tiles(side);
        for (std::int64_t tile = begin; tile < end; ++tile) {
            compute_tile(p, operands, tile / across * side, tile % across * side, side, tiles);
        }
    });
}

}  // namespace

std::span<const Parameter> tiled_parameters() {
    static constexpr auto kTiles = std::to_array<std::string_view>({"16", "32", "64", "128", "256"});
    static constexpr std::array kParameters = {Parameter{.name = "tile",
                                                         .help = "rows and columns of a tile, in elements",
                                                         .choices = kTiles,
                                                         .fallback = "64",
                                                         .tunable = true}};
    return kParameters;
}

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device) {
    const int side = parameter_number(tiled_parameters(), problem, "tile");
    return {.level = "tiled",
            .run =
                [problem, operands, side, threads = device.threads](Stream) {
                    visit_multiply_type(problem.type, [&]<class T>(TypeTag<T>) {
                        multiply<T>(problem, operands, side, threads);
                    });
                },
            .details = {{"tile", std::to_string(side) + "x" + std::to_string(side)}}};
}

}  // namespace gpumat::multiply::cpu
