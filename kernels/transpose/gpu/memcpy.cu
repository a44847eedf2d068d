// transpose baseline `memcpy`: the driver's device-to-device copy of the matrix.
#include "kernels/common/copy_rows.cuh"
#include "kernels/device/cuda_stream.cuh"
#include "kernels/transpose/gpu/baselines.hpp"

namespace gpumat::transpose::gpu {

Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device&) {
    const std::size_t size = size_of(problem.type);
    const auto rows = static_cast<std::size_t>(problem.m);
    const std::size_t row_bytes = static_cast<std::size_t>(problem.n) * size;
    const std::size_t from_bytes = static_cast<std::size_t>(operands.a.pitch) * size;
    const std::size_t to_bytes = static_cast<std::size_t>(operands.c.pitch) * size;
    return {.level = "memcpy", .run = [=](Stream stream) {
                if (rows == 0 || row_bytes == 0) return;
                copy_rows(operands.c.data, to_bytes, operands.a.data, from_bytes, row_bytes, rows,
                          cuda_stream(stream));
            }};
}

}  // namespace gpumat::transpose::gpu
