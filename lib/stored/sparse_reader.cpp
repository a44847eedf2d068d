#include "lib/stored/sparse_reader.hpp"

#include <algorithm>
#include <cstring>

#include "core/numbers/whole.hpp"

namespace gpumat {

SparseReader::SparseReader(formats::Reader& reader) : reader_(reader), header_(reader.header()) {
    std::int64_t duplicates = 0;
    matrix_ = reader.read_sparse(duplicates);
    header_.grain = {1, 1};
    header_.rereads = false;
    header_.in_order = false;
}

void SparseReader::read(const Block& block, const MutableMatrixView& out) {
    const std::size_t size = size_of(header_.type);
    const CsrView matrix = std::as_const(matrix_).view();
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        const I* const columns = matrix.columns_as<I>();
        for (std::int64_t i = 0; i < block.rows; ++i) {
            std::byte* const row = out.data + static_cast<std::size_t>(i * out.ld) * size;
            std::memset(row, 0, static_cast<std::size_t>(block.cols) * size);
            const I* const end = columns + matrix.pointers[block.row + i + 1];
            const I* at = std::lower_bound(columns + matrix.pointers[block.row + i], end, block.col);
            for (; at < end && *at < block.col + block.cols; ++at)
                std::memcpy(row + static_cast<std::size_t>(*at - block.col) * size,
                            matrix.values + static_cast<std::size_t>(at - columns) * size, size);
        }
    });
}

std::uint64_t SparseReader::open_bytes() const {
    return saturating_add(reader_.open_bytes(), csr_bytes(header_.shape, header_.type, matrix_.entries()));
}

std::uint64_t bytes_to_hold(const formats::Reader& reader) {
    return saturating_add(formats::sparse_reading_bytes(reader.header()), reader.working_bytes());
}

}  // namespace gpumat
