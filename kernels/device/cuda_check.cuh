#pragma once

#include <cuda_runtime.h>

#include <string>

#include "core/error.hpp"

namespace gpumat {

/// Throws Error{device} (Error{memory} for a full device) naming `call` where `status` is not success.
inline void check_cuda(cudaError_t status, const char* call) {
    if (status == cudaSuccess) return;
    const auto code = status == cudaErrorMemoryAllocation ? ErrorCode::memory : ErrorCode::device;
    throw Error(
        code, std::string(call) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

}  // namespace gpumat

/// Checks a CUDA call, with the call's own text in the error.
#define GPUMAT_CUDA(call) ::gpumat::check_cuda((call), #call)
