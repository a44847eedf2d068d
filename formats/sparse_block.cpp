#include "formats/sparse_block.hpp"

#include <algorithm>
#include <cstring>

namespace gpumat::formats {

void put_block(const CsrView& matrix, const Block& rect, const MutableMatrixView& out) {
    const std::size_t bytes = size_of(out.type);
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        const I* const columns = matrix.columns_as<I>();
        for (std::int64_t i = 0; i < rect.rows; ++i) {
            std::byte* const row = out.data + static_cast<std::size_t>(i * out.ld) * bytes;
            std::memset(row, 0, static_cast<std::size_t>(rect.cols) * bytes);
            const I* const end = columns + matrix.pointers[rect.row + i + 1];
            const I* entry = std::lower_bound(columns + matrix.pointers[rect.row + i], end, rect.col);
            for (; entry != end && *entry < rect.col + rect.cols; ++entry)
                std::memcpy(row + static_cast<std::size_t>(*entry - rect.col) * bytes,
                            matrix.values + static_cast<std::size_t>(entry - columns) * bytes, bytes);
        }
    });
}

}  // namespace gpumat::formats
