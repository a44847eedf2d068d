#pragma once

#include <cuda_runtime.h>

#include "kernels/device/gpu.hpp"

namespace gpumat {

inline cudaStream_t cuda_stream(Stream stream) {
    return static_cast<cudaStream_t>(stream.handle);
}

}  // namespace gpumat
