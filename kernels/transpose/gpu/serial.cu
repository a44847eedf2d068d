// transpose, GPU level `serial`: one thread walks the whole matrix.
//
// The starting point: the plain loop, moved to the GPU unchanged. Traffic: every element is read and written
// once, but each access of the one thread fetches a 32-byte sector by itself. What limits it: latency. One
// thread keeps a handful of loads in flight, where the device needs tens of thousands.
// Source: the first rung of the course's ladder (963.8 ms on a Tegra).
#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

template <class T>
__global__ void serial_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                              std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) out[j * out_pitch + i] = in[i * in_pitch + j];
    }
}

}  // namespace

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        return make_launch("serial", {.grid = dim3(1), .block = dim3(1)}, serial_kernel<T>,
                           operands.a.as<T>(), operands.c.as<T>(), problem.m, problem.n, operands.a.pitch,
                           operands.c.pitch);
    });
}

}  // namespace gpumat::transpose::gpu
