#include "lib/stored/plain_nan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/numbers/type.hpp"
#include "core/parallel.hpp"

namespace gpumat {
namespace {

template <class T>
T without_nan_bits(T value) {
    if constexpr (kIsComplex<T>) {
        return {without_nan_bits(value.real()), without_nan_bits(value.imag())};
    } else {
        return std::isnan(static_cast<double>(value)) ? T(std::numeric_limits<double>::quiet_NaN()) : value;
    }
}

}  // namespace

void make_nans_plain(const MutableMatrixView& matrix, int threads) {
    if (matrix.shape.rows == 0 || matrix.shape.cols == 0) return;  // there may be any number of the other
    visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>) {
            const std::int64_t cols = matrix.shape.cols;
            const std::int64_t grain = (std::int64_t{1} << 16) / std::max<std::int64_t>(1, cols) + 1;
            parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                    T* row = matrix.row<T>(i);
                    std::transform(row, row + cols, row, without_nan_bits<T>);
                }
            });
        }
    });
}

}  // namespace gpumat
