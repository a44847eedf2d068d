#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/common/vector_width.hpp"
#include "kernels/transpose/cpu/pending.hpp"

namespace gpumat::transpose::cpu {

/// Transposes rows × cols elements. Strides are in bytes. The rows of `out` are written in whole vectors:
/// what is past the end of one is garbage, until the next is written where out_stride is less. From the first
/// element to the last of `readable` rows, which may be fewer or more than `rows`, everything may be read.
/// `pending` advances by what is staged in blocks, as it is staged.
using TransposeRectangle = void (*)(const std::byte* in, std::int64_t in_stride, std::int64_t rows,
                                    std::int64_t readable, std::int64_t cols, std::byte* out,
                                    std::int64_t out_stride, Pending& pending);

/// The function for elements of T (unsigned integers of 1, 2, 4, 8 bytes, Bytes16) and these vectors.
template <class T>
TransposeRectangle transpose_rectangle(VectorWidth width);

}  // namespace gpumat::transpose::cpu
