#include "kernels/multiply/gpu/levels.hpp"

#include "kernels/common/build.hpp"

namespace gpumat::multiply::gpu {

std::span<const Level> levels() {
    constexpr auto op = Operation::multiply;
    constexpr auto device = DeviceKind::gpu;
    static constexpr std::array kTypes = {Type::f32, Type::f64,  Type::c64, Type::c128,
                                          Type::f16, Type::bf16, Type::i32, Type::i64};
    static constexpr std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "naive-strided",
              .summary = "one thread an element, 1x128 blocks: a warp walks down a column of C",
              .removes = "nothing: the first attempt to beat",
              .needs = {.types = kTypes},
              .prepare = GPUMAT_GPU_LEVEL(prepare_naive_strided)},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "naive",
              .summary = "one thread an element, 128x1 or 16x16 blocks: a warp walks along a row of C",
              .removes = "uncoalesced reads of A and writes of C",
              .needs = {.types = kTypes},
              .parameters = kNaiveParameters,
              .prepare = GPUMAT_GPU_LEVEL(prepare_naive)},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "tiled",
              .summary = "tiles of A and B in shared memory, coalesced and free of bank conflicts",
              .removes = "memory traffic: an element is loaded once a tile instead of once a thread",
              .needs = {.types = kTypes},
              .parameters = kTiledParameters,
              .prepare = GPUMAT_GPU_LEVEL(prepare_tiled)},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "pipelined",
              .summary = "register and warp tiles, asynchronous copies in stages, k split where C is small",
              .removes = "the latency of memory, and instructions beside multiply-adds",
              .needs = {.types = kTypes},
              .prepare = GPUMAT_GPU_LEVEL(prepare_pipelined)},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"pipelined", "it is the fastest level for every type and shape"}};
}

}  // namespace gpumat::multiply::gpu
