#include "core/numbers/transpose.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace gpumat {

void transpose_into(const MatrixView& from, const MutableMatrixView& to, int threads) {
    constexpr std::int64_t kTile = 32;  // 32 × 32 elements of 16 bytes are half of a first-level cache
    visit_type(from.type, [&]<class T>(TypeTag<T>) {
        parallel_for(to.shape.rows, kTile, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t left = 0; left < to.shape.cols; left += kTile) {
                const std::int64_t right = std::min(to.shape.cols, left + kTile);
                for (std::int64_t i = begin; i < end; ++i) {
                    for (std::int64_t j = left; j < right; ++j) to.row<T>(i)[j] = from.row<T>(j)[i];
                }
            }
        });
    });
}

}  // namespace gpumat
