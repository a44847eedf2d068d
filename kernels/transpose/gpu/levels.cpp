#include "kernels/transpose/gpu/levels.hpp"

#include <array>
#include <string>

#include "kernels/common/build.hpp"
#include "kernels/common/measured.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose::gpu {

std::span<const Level> levels() {
    constexpr const Operation* op = &kTranspose;
    constexpr auto device = DeviceKind::gpu;

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread walks the whole matrix",
              .removes = "nothing: the plain loop, moved to the GPU",
              .unsupported = not_in_place,
              .prepare = GPUMAT_GPU_LEVEL(prepare_serial)},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "per-row",
              .summary = "one thread a row, the grid strided over the rows",
              .removes = "the single thread: one dimension is parallel",
              .unsupported = not_in_place,
              .prepare = GPUMAT_GPU_LEVEL(prepare_per_row)},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "per-element",
              .summary = "one thread an element, in blocks of K×K threads",
              .removes = "the shortage of threads: both dimensions are parallel",
              .parameters = per_element_parameters(),
              .unsupported = not_in_place,
              .prepare = GPUMAT_GPU_LEVEL(prepare_per_element)},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "naive",
              .summary = "32×8 threads move a 32×32 tile, without shared memory",
              .removes = "one element a thread: index arithmetic is shared by four",
              .unsupported = not_in_place,
              .prepare = GPUMAT_GPU_LEVEL(prepare_naive)},
        Level{.operation = op,
              .device = device,
              .number = 5,
              .name = "tiled",
              .summary = "the tile is staged in shared memory",
              .removes = "scattered writes: both sides of device memory are coalesced",
              .parameters = tile_parameters(),
              .unsupported = GPUMAT_GPU_LEVEL(tiled_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_tiled)},
        Level{.operation = op,
              .device = device,
              .number = 6,
              .name = "padded",
              .summary = "the rows of the shared tile are one element longer",
              .removes = "shared-memory bank conflicts in the column reads",
              .parameters = tile_parameters(),
              .unsupported = GPUMAT_GPU_LEVEL(padded_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_padded)},
        Level{.operation = op,
              .device = device,
              .number = 7,
              .name = "diagonal",
              .summary = "padded, with the blocks renumbered along diagonals",
              .removes = "partition camping at sizes that are multiples of the memory's partitions",
              .unsupported = not_in_place,
              .prepare = GPUMAT_GPU_LEVEL(prepare_diagonal)},
        Level{.operation = op,
              .device = device,
              .number = 8,
              .name = "vectorized",
              .summary =
                  "words of 4 to 16 bytes, squares transposed in registers, swizzled tile, tiles by column",
              .removes = "instructions for each element, and too few bytes in flight",
              .unsupported = GPUMAT_GPU_LEVEL(vectorized_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_vectorized)},
        Level{.operation = op,
              .device = device,
              .number = 9,
              .name = "tma",
              .summary = "bulk tensor copies into swizzled shared memory, squares transposed in registers",
              .removes = "address arithmetic and registers held by loads: the copy engine does both",
              .needs = {.compute_capability = 90},
              .unsupported = GPUMAT_GPU_LEVEL(tma_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_tma)},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device& device) {
    return {{"vectorized",
             measured(device.gpu)
                 ? "it is the fastest that was measured on this device, or within 4 % of it, at every shape"
                 : "by the default for devices that were not measured"}};
}

std::span<const Parameter> per_element_parameters() {
    static constexpr auto kTiles = std::to_array<std::string_view>({"8", "16", "32"});
    static constexpr std::array kParameters = {Parameter{.name = "tile",
                                                         .help = "side of the block of threads",
                                                         .choices = kTiles,
                                                         .fallback = "16",
                                                         .tunable = true}};
    return kParameters;
}

std::span<const Parameter> tile_parameters() {
    static constexpr auto kTiles = std::to_array<std::string_view>({"16", "32", "48", "64"});
    static constexpr auto kBlocks = std::to_array<std::string_view>({"1", "2", "4", "8", "16", "32"});
    static constexpr std::array kParameters = {Parameter{.name = "tile",
                                                         .help = "side of the tile in elements",
                                                         .choices = kTiles,
                                                         .fallback = "32",
                                                         .tunable = true},
                                               Parameter{.name = "block",
                                                         .help = "rows of threads in a block",
                                                         .choices = kBlocks,
                                                         .fallback = "8",
                                                         .tunable = true}};
    return kParameters;
}

Reasons tile_reasons(const Problem& problem, const Device& device, std::size_t shared_bytes) {
    constexpr int kMaxThreads = 1024;
    const int tile = parameter_number(tile_parameters(), problem, "tile");
    const int block = parameter_number(tile_parameters(), problem, "block");
    Reasons reasons;
    if (block > tile) {
        reasons.push_back("a tile of " + std::to_string(tile) + " rows has no work for " +
                          std::to_string(block) + " rows of threads");
    }
    if (tile * block > kMaxThreads) {
        reasons.push_back(std::to_string(tile) + "×" + std::to_string(block) + " threads are more than the " +
                          std::to_string(kMaxThreads) + " of a block");
    }
    if (device.gpu != nullptr && shared_bytes > device.gpu->info().shared_bytes_per_block) {
        reasons.push_back("a block needs " + std::to_string(shared_bytes) + " bytes of shared memory, and " +
                          device.gpu->info().name + " has " +
                          std::to_string(device.gpu->info().shared_bytes_per_block));
    }
    if (problem.in_place && problem.m != problem.n)
        reasons.emplace_back("only a square matrix can be transposed in place");
    return reasons;
}

Reasons not_in_place(const Problem& problem, const Operands&, const Device&) {
    if (!problem.in_place) return {};
    return {"it cannot transpose in place"};
}

}  // namespace gpumat::transpose::gpu
