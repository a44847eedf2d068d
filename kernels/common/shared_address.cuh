#pragma once

#include <cstdint>

namespace gpumat {

/// The address of shared memory as the instructions for copies and barriers take it.
__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

}  // namespace gpumat
