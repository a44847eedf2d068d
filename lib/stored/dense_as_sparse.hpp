#pragma once

#include <memory>

#include "formats/format.hpp"

namespace gpumat {

/// Whether a matrix has no elements, and so many rows that pointers to nothing would fill the memory: dense
/// it takes none.
inline bool has_pointers_alone(const Shape& shape) {
    return shape.cols == 0 && shape.rows > kMostShortIndices;
}

/// Whether the matrix of that header is read as entries.
inline bool is_sparse(const formats::Header& header) {
    return header.most_entries && !has_pointers_alone(header.shape);
}

/// A reader of the same matrix that has entries: for one that is dense, all elements but those whose bits are
/// all zero, so that a zero with a sign stays. How many are left out is told. One that has entries is given
/// back as it is.
std::unique_ptr<formats::Reader> read_as_sparse(std::unique_ptr<formats::Reader> reader,
                                                const formats::ReadOptions& read);

}  // namespace gpumat
