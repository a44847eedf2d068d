#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <string_view>

#include "kernels/device/cuda_check.cuh"
#include "kernels/device/cuda_stream.cuh"
#include "kernels/level.hpp"

namespace gpumat {

/// How a kernel is started. A grid with a 0 in it stands for no work.
struct Geometry {
    dim3 grid;
    dim3 block;
    std::size_t shared_bytes = 0;  ///< dynamic shared memory a block
    /// Blocks for which a multiprocessor is asked to set shared memory aside, so that the rest serves as L1
    /// and hardly more of them run. 0: the driver decides.
    int blocks = 0;
};

/// The facts of a launch for `Launch::details`: grid, block, registers a thread, shared memory a block
/// (static and dynamic), blocks a multiprocessor, the share of its threads that they fill, and what keeps it
/// from taking more.
std::vector<std::pair<std::string, std::string>> launch_details(const void* kernel, const Geometry& geometry);

/// The compute capability (90 for 9.0) that the code which the current device runs was compiled for. It is
/// below the device's own where the build left that out and the driver translates older code: instructions
/// that the device has are not in it then.
int code_capability();

/// Lets `kernel` have that much dynamic shared memory a block, where it is more than the usual 48 KB.
void allow_shared_memory(const void* kernel, std::size_t bytes);

/// Asks a multiprocessor to set shared memory aside for `geometry.blocks` blocks, or as many as it holds, if
/// that is not 0. The driver gives the least of the amounts that the device knows that holds as much.
void prefer_blocks(const void* kernel, const Geometry& geometry);

/// For __launch_bounds__: so many blocks, as far as a multiprocessor of the architecture that is compiled for
/// holds their threads.
constexpr int resident_blocks(int blocks, int threads) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 || \
    __CUDA_ARCH__ == 1030
    constexpr int kMostThreads = 2048;
#elif __CUDA_ARCH__ == 750
    constexpr int kMostThreads = 1024;
#else
    constexpr int kMostThreads = 1536;
#endif
    return std::min(blocks, kMostThreads / threads);
}

/// The prepared run of one kernel. The arguments are kept by value.
template <class... Parameters, class... Arguments>
Launch make_launch(std::string_view level, const Geometry& geometry, void (*kernel)(Parameters...),
                   Arguments... arguments) {
    if (geometry.grid.x == 0 || geometry.grid.y == 0 || geometry.grid.z == 0)
        return {.level = level, .run = [](Stream) {}};
    allow_shared_memory(reinterpret_cast<const void*>(kernel), geometry.shared_bytes);
    prefer_blocks(reinterpret_cast<const void*>(kernel), geometry);
    return {.level = level,
            .run =
                [=](Stream stream) {
                    kernel<<<geometry.grid, geometry.block, geometry.shared_bytes, cuda_stream(stream)>>>(
                        arguments...);
                    GPUMAT_CUDA(cudaGetLastError());
                },
            .details = launch_details(reinterpret_cast<const void*>(kernel), geometry)};
}

}  // namespace gpumat
