#include "kernels/reduce/gpu/levels.hpp"

#include <array>

#include "kernels/common/build.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::gpu {
namespace {

constexpr std::array kVendorTypes = {Type::i32, Type::i64, Type::u32, Type::u64, Type::f32, Type::f64};

Reasons rung_unsupported(const Problem& problem, const Operands&, const Device&) {
    return reduction_reasons(problem);
}

Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device&) {
    Reasons reasons;
    const Reduction reduction = reduction_of(problem);
    if (reduction != Reduction::sum && reduction != Reduction::min && reduction != Reduction::max)
        reasons.emplace_back("CUB is called for sum, min and max only");
    if (axis_of(problem) != Axis::all)
        reasons.emplace_back("CUB's DeviceReduce gives one number, not one for each row or column");
    if (!is_contiguous(operands.a)) reasons.emplace_back("CUB takes elements without gaps");
    if (problem.unfinished)
        reasons.emplace_back("CUB's results cannot be combined, and the matrix is too large to be whole");
    return reasons;
}

Reasons read_unsupported(const Problem&, const Operands& operands, const Device&) {
    if (is_contiguous(operands.a)) return {};
    return {"it reads memory without gaps"};
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kReduce;
    constexpr auto device = DeviceKind::gpu;

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "interleaved",
              .summary = "one element a thread, a tree in shared memory whose stride doubles",
              .removes = "nothing: the plain tree",
              .unsupported = rung_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_interleaved)},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "sequential",
              .summary = "the same tree with a stride that halves: the first threads work",
              .removes = "divergence in every warp: whole warps work or are done",
              .unsupported = rung_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_sequential)},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "shuffle",
              .summary = "many elements a thread in words of 16 bytes, warp shuffles, the last block ends it",
              .removes = "idle threads, barriers and passes over partial results: the memory is the limit",
              .parameters = shuffle_parameters(),
              .unsupported = rung_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_shuffle)},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "CUB's DeviceReduce, with sums as wide as ours",
              .removes = "nothing of ours: what one would call instead",
              .needs = {.types = kVendorTypes},
              .unsupported = vendor_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_vendor)},
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "read",
              .summary = "reads every byte in words of 16 bytes, and combines them by exclusive or",
              .removes = "nothing: the speed of reading to come close to",
              .unsupported = read_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_read),
              .reads = true,
              .yardstick = true},
    };
    return kLevels;
}

std::span<const Parameter> shuffle_parameters() {
    static constexpr auto kWaves = std::to_array<std::string_view>({"1", "2", "4", "8", "16"});
    static constexpr std::array kParameters = {
        Parameter{.name = "waves",
                  .help = "blocks for each that runs at a time, of one result or a few",
                  .choices = kWaves,
                  .fallback = "4"}};
    return kParameters;
}

}  // namespace gpumat::reduce::gpu
