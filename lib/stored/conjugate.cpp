#include "lib/stored/conjugate.hpp"

#include <algorithm>
#include <complex>

#include "core/numbers/type.hpp"
#include "core/parallel.hpp"

namespace gpumat {

void conjugate(const MutableMatrixView& matrix, int threads) {
    if (matrix.shape.rows == 0 || matrix.shape.cols == 0) return;  // there may be any number of the other
    visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        if constexpr (kIsComplex<T>) {
            const std::int64_t cols = matrix.shape.cols;
            const std::int64_t grain = (std::int64_t{1} << 16) / cols + 1;
            parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                    T* row = matrix.row<T>(i);
                    std::transform(row, row + cols, row, [](const T& value) { return std::conj(value); });
                }
            });
        }
    });
}

}  // namespace gpumat
