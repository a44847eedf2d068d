#include "lib/engines/layout.hpp"

#include "core/numbers/whole.hpp"

namespace gpumat::engines {

Grid grid_for(int ranks, const Shape& result) {
    int shorter = 1;
    for (int side = 1; side * side <= ranks; ++side)
        if (ranks % side == 0) shorter = side;
    const int longer = ranks / shorter;
    return result.rows >= result.cols ? Grid{longer, shorter} : Grid{shorter, longer};
}

Layout in_panels(const Shape& shape, Type type, int ranks) {
    return {shape, type, std::max<std::int64_t>(1, ceil_div<std::int64_t>(shape.rows, ranks)), {ranks, 1}};
}

std::int64_t block_for(const Grid& grid, const Shape& result, std::int64_t inner) {
    constexpr std::int64_t kLargest = 256;
    constexpr std::int64_t kSmallest = 16;
    constexpr std::int64_t kTurns = 4;
    const std::int64_t even =
        std::min({result.rows / grid.rows, result.cols / grid.cols, inner / std::max(grid.rows, grid.cols)});
    std::int64_t block = kLargest;
    while (block > kSmallest && block * kTurns > even) block /= 2;
    return block;
}

}  // namespace gpumat::engines
