#include "core/numbers/blocks.hpp"

#include <algorithm>
#include <numeric>

namespace gpumat {
namespace {

std::int64_t common_multiple(std::int64_t a, std::int64_t b, std::int64_t whole) {
    const std::int64_t factor = std::max<std::int64_t>(1, b / std::gcd(a, b));
    return a > whole / factor ? std::max<std::int64_t>(1, whole) : a * factor;
}

}  // namespace

Shape clipped_grain(const Shape& grain, const Shape& whole) {
    return {std::clamp<std::int64_t>(grain.rows, 1, std::max<std::int64_t>(1, whole.rows)),
            std::clamp<std::int64_t>(grain.cols, 1, std::max<std::int64_t>(1, whole.cols))};
}

Shape common_grain(const Shape& a, const Shape& b, const Shape& whole) {
    return {common_multiple(a.rows, b.rows, whole.rows), common_multiple(a.cols, b.cols, whole.cols)};
}

std::uint64_t block_bytes(const Shape& block, std::uint64_t element_bytes) {
    std::uint64_t count = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(block.rows), static_cast<std::uint64_t>(block.cols),
                               &count) ||
        __builtin_mul_overflow(count, element_bytes, &count))
        return ~std::uint64_t{0};
    return count;
}

Shape enlarged_grain(const Shape& grain, const Shape& whole, std::uint64_t element_bytes,
                     std::uint64_t target) {
    Shape block = grain;
    const auto multiple = [&](std::int64_t step, std::int64_t extent) {
        const auto fit = static_cast<std::int64_t>(std::max<std::uint64_t>(
            1, target / std::max<std::uint64_t>(1, block_bytes(block, element_bytes))));
        return step > extent / fit ? std::max<std::int64_t>(1, extent) : step * fit;
    };
    block.cols = multiple(block.cols, whole.cols);
    block.rows = multiple(block.rows, whole.rows);
    return block;
}

void for_each_block(const Shape& whole, const Shape& step, const std::function<void(const Block&)>& take) {
    if (whole.rows == 0 || whole.cols == 0) return take(Block::whole(whole));
    for (std::int64_t row = 0; row < whole.rows; row += step.rows) {
        for (std::int64_t col = 0; col < whole.cols; col += step.cols)
            take({row, col, std::min(step.rows, whole.rows - row), std::min(step.cols, whole.cols - col)});
    }
}

}  // namespace gpumat
