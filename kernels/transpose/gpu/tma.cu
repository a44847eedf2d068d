// transpose, GPU level `tma`: Hopper's copy engine moves the tiles.
//
// New: one thread of a block has the copy engine fetch the tile, which comes as boxes of 128 bytes by up to
// 256 rows into swizzled shared memory and announces itself at a barrier. The threads read the words of a
// square of elements without bank conflicts, transpose it in registers and write it out. It removes the
// address arithmetic and bounds checks of the loads, and the registers that they hold: bytes in flight are a
// matter of shared memory alone, and several blocks a multiprocessor keep enough of them. Several tiles ahead
// in persistent blocks, and a second swizzled tile that the copy engine writes out, were slower on an H200.
// Traffic: every element crosses device memory once in each direction, in whole sectors. What limits it:
// device memory. Needs compute capability 9.0, and rows of both matrices that are multiples of 16 bytes (a
// tensor map's strides; words of the output). Source: CUDA C++ Programming Guide, "Asynchronous Data Copies
// using the Tensor Memory Accelerator".
#include <limits>

#include "kernels/common/launch.cuh"
#include "kernels/common/tensor_map.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/gpu/tma.cuh"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr std::int64_t kAlignment_bytes = 16;
constexpr int kCapability = 90;

template <class T>
Launch prepare(const Problem& problem, const Operands& operands, const Device& device) {
    using Plan = typename Choices<sizeof(T)>::Tma;
    using Tile = TmaTile<T, Plan>;
    const Tiling tiling = Tile::tiling(problem.m, problem.n);
    const int band = tiling.row_bytes() % kLine_bytes == 0
                         ? Plan::kBand
                         : TileOrder::sharing_band(tiling, device.gpu->info().l2_bytes);
    const TileOrder order = TileOrder::of(tiling, band);
    return make_launch("tma",
                       {.grid = grid_of(order),
                        .block = dim3(Plan::kThreads),
                        .shared_bytes = Tile::kShared_bytes,
                        .blocks = Plan::kBlocks},
                       tma_kernel<T, Plan>,
                       swizzled_map(operands.a.data, problem.m, tiling.row_bytes(),
                                    operands.a.pitch * static_cast<std::int64_t>(sizeof(T)), Tile::kRows),
                       operands.c.as<uint4>(), problem.m, problem.n, operands.c.pitch, order);
}

}  // namespace

Reasons tma_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = not_in_place(problem, operands, device);
    if (device.gpu->info().compute_capability >= kCapability && code_capability() < kCapability)
        reasons.emplace_back("this build has no code for compute capability 9.0");
    const auto size = static_cast<std::int64_t>(size_of(problem.type));
    constexpr std::int64_t kMostWords = std::numeric_limits<std::int32_t>::max();
    for (const std::int64_t length : {problem.n, problem.m}) {
        if (length * size % kAlignment_bytes != 0) {
            reasons.push_back("tensor maps need rows of a multiple of 16 bytes, and " +
                              std::to_string(length) + " elements are " + std::to_string(length * size));
        }
        if (length * size / 4 > kMostWords) {
            reasons.push_back("tensor maps count to 2^31 words, and a row of " + std::to_string(length) +
                              " elements has more");
        }
    }
    for (const Operand& operand : {operands.a, Operand(operands.c)}) {
        if (operand.pitch != operand.cols && operand.pitch * size % kAlignment_bytes != 0) {
            reasons.push_back("tensor maps need rows a multiple of 16 bytes apart, and " +
                              std::to_string(operand.pitch) + " elements are " +
                              std::to_string(operand.pitch * size));
        }
        if (reinterpret_cast<std::uint64_t>(operand.data) % kAlignment_bytes != 0)
            reasons.emplace_back("tensor maps need memory that is aligned to 16 bytes");
    }
    return reasons;
}

Launch prepare_tma(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.m == 0 || problem.n == 0) return {.level = "tma", .run = [](Stream) {}};
    return visit_element(problem.type,
                         [&]<class T>(TypeTag<T>) { return prepare<T>(problem, operands, device); });
}

}  // namespace gpumat::transpose::gpu
