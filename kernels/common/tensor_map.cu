#include "kernels/common/tensor_map.cuh"

#include <array>
#include <string>

#include "kernels/device/cuda_check.cuh"

namespace gpumat {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, found through the runtime, so that nothing links the driver's library.
Encode encode_function() {
    constexpr unsigned kFirstVersion = 12000;
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    GPUMAT_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kFirstVersion,
                                                 cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || function == nullptr)
        throw Error(ErrorCode::device, "the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(function);
}

struct Extents {
    std::int64_t rows, row_words, pitch_bytes;
    int box_words, box_rows;
    CUtensorMapDataType word = CU_TENSOR_MAP_DATA_TYPE_UINT32;
};

CUtensorMap encode(const void* data, const Extents& extents, CUtensorMapSwizzle swizzle) {
    const std::array<cuuint64_t, 2> sizes = {static_cast<cuuint64_t>(extents.row_words),
                                             static_cast<cuuint64_t>(extents.rows)};
    const std::array<cuuint64_t, 1> strides = {static_cast<cuuint64_t>(extents.pitch_bytes)};
    const std::array<cuuint32_t, 2> box = {static_cast<cuuint32_t>(extents.box_words),
                                           static_cast<cuuint32_t>(extents.box_rows)};
    const std::array<cuuint32_t, 2> steps = {1, 1};
    CUtensorMap map{};
    const CUresult status =
        encode_function()(&map, extents.word, 2, const_cast<void*>(data), sizes.data(), strides.data(),
                          box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        throw Error(ErrorCode::device, "cuTensorMapEncodeTiled: error " + std::to_string(status) + " for " +
                                           std::to_string(extents.rows) + " rows of " +
                                           std::to_string(extents.row_words) + " words");
    }
    return map;
}

}  // namespace

CUtensorMap swizzled_map(const void* data, std::int64_t rows, std::int64_t row_bytes,
                         std::int64_t pitch_bytes, int box_rows) {
    return encode(data, {rows, row_bytes / 4, pitch_bytes, 32, box_rows}, CU_TENSOR_MAP_SWIZZLE_128B);
}

CUtensorMap plain_map(const void* data, std::int64_t rows, std::int64_t row_words, std::int64_t pitch_bytes,
                      int box_words, int box_rows) {
    return encode(data, {rows, row_words, pitch_bytes, box_words, box_rows}, CU_TENSOR_MAP_SWIZZLE_NONE);
}

CUtensorMap tile_map(const void* data, int element_bytes, std::int64_t rows, std::int64_t cols,
                     std::int64_t pitch_bytes, int box_rows) {
    constexpr int kBoxBytes = 128;
    const CUtensorMapDataType word = element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                     : element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                                          : CU_TENSOR_MAP_DATA_TYPE_UINT32;
    return encode(data, {rows, cols, pitch_bytes, kBoxBytes / element_bytes, box_rows, word},
                  CU_TENSOR_MAP_SWIZZLE_128B);
}

}  // namespace gpumat
