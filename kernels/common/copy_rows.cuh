#pragma once

#include <cuda_runtime.h>

#include "kernels/device/cuda_check.cuh"

namespace gpumat {

/// Enqueues the copy of rows between places in device memory, whose rows lie so far apart. Without gaps they
/// are copied as one run, for which there is no largest pitch.
inline void copy_rows(void* to, std::size_t to_pitch_bytes, const void* from, std::size_t from_pitch_bytes,
                      std::size_t row_bytes, std::size_t rows, cudaStream_t stream) {
    if (to_pitch_bytes == row_bytes && from_pitch_bytes == row_bytes) {
        GPUMAT_CUDA(cudaMemcpyAsync(to, from, rows * row_bytes, cudaMemcpyDeviceToDevice, stream));
    } else {
        GPUMAT_CUDA(cudaMemcpy2DAsync(to, to_pitch_bytes, from, from_pitch_bytes, row_bytes, rows,
                                      cudaMemcpyDeviceToDevice, stream));
    }
}

}  // namespace gpumat
