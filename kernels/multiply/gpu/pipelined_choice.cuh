#pragma once

// The choice between the two kernels of the level `pipelined`, and of tile and schedule.
#include <algorithm>
#include <limits>

#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/packed.cuh"
#include "kernels/multiply/gpu/pipelined.cuh"

namespace gpumat::multiply::gpu {

/// Why the kernel `packed` cannot run, in any of its tiles or where `columns` is not 0 in one that is so
/// wide.
template <class T, const auto& kPackedTiles>
Reasons packed_unsupported(const Problem& problem, const Device& device, int columns) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    constexpr int kCopyEngineSince = 90;
    constexpr std::int64_t kWords = sizeof(Sum<T>) / 4;
    const GpuInfo& gpu = device.gpu->info();
    Reasons reasons;
    if (gpu.compute_capability < kCopyEngineSince)
        reasons.emplace_back("packed operands need the copy engine of compute capability 9.0");
    if (problem.k == 0) reasons.emplace_back("there is nothing to pack where k is 0");
    if (std::max({problem.m * kWords, problem.n * kWords, problem.k}) > kMost)
        reasons.emplace_back("tensor maps count to 2^31 words, and a packed operand has more in a row");
    const bool found = std::any_of(kPackedTiles.begin(), kPackedTiles.end(), [&](const Tile& t) {
        return (columns == 0 || t.bn == columns) &&
               t.shared_bytes(sizeof(Sum<T>)) <= gpu.shared_bytes_per_block;
    });
    if (!found) {
        reasons.push_back("there is no packed tile of " + std::to_string(columns) + " columns for " +
                          std::string(name_of(problem.type)) + " on this device");
    }
    return reasons;
}

/// Whether packing fits beside the operands in device memory. Depends on device, shape and layout alone.
template <class T>
bool packing_fits(const Problem& problem, const Device& device, std::uint64_t packs) {
    constexpr double kMostOfMemory = 0.9;
    const auto m = static_cast<double>(problem.m);
    const auto n = static_cast<double>(problem.n);
    const auto k = static_cast<double>(problem.k);
    const double elements = m * k + k * n + m * n * (problem.beta.is_zero(problem.type) ? 1 : 2);
    return elements * sizeof(T) + static_cast<double>(packs) <=
           kMostOfMemory * static_cast<double>(device.gpu->info().memory_bytes);
}

/// The best plan for the kernel `packed`, packing included, of those tiles that `columns` allows. The kernel
/// can run.
template <class T, const auto& kPackedTiles>
Plan plan_packed(const Problem& problem, const Device& device, std::uint64_t packs, int columns) {
    const GpuInfo& gpu = device.gpu->info();
    Plan best;
    best.schedule.clocks = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < kPackedTiles.size(); ++i) {
        const Tile& tile = kPackedTiles[i];
        if (columns != 0 && tile.bn != columns) continue;
        if (tile.shared_bytes(sizeof(Sum<T>)) > gpu.shared_bytes_per_block) continue;
        const Schedule schedule = best_schedule(tile, problem.m, problem.n, problem.k, gpu.multiprocessors);
        if (schedule.clocks < best.schedule.clocks) best = {i, schedule};
    }
    best.schedule.clocks += pack_clocks(static_cast<double>(packs));
    return best;
}

/// Chooses kernel, tile and schedule for the shape, and prepares the launch.
template <class T, const auto& kTiles, const auto& kPackedTiles>
Launch prepare_pipelined_as(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.m == 0 || problem.n == 0) return {.level = "pipelined", .run = [] {}};
    const int pack = parameter_value(kPipelinedParameters, problem, "pack");
    const GpuInfo& gpu = device.gpu->info();
    const Plan plan = plan_tiles(kTiles, sizeof(Sum<T>), problem.m, problem.n, problem.k, gpu.multiprocessors,
                                 gpu.shared_bytes_per_block);
    const bool asked = pack != kPackByShape;
    const int columns = asked ? pack : 0;
    if (pack != kPackNever && packed_unsupported<T, kPackedTiles>(problem, device, columns).empty()) {
        const std::uint64_t packs = pack_bytes<T>(problem, Arguments<T>(problem, operands));
        const Plan packed = plan_packed<T, kPackedTiles>(problem, device, packs, columns);
        if (asked ||
            (packed.schedule.clocks < plan.schedule.clocks && packing_fits<T>(problem, device, packs))) {
            return prepare_packed_plan<T, kPackedTiles>(problem, operands, device, packed,
                                                        std::make_index_sequence<kPackedTiles.size()>{});
        }
    }
    return prepare_pipelined_plan<T, kTiles>(problem, operands, device, plan,
                                             std::make_index_sequence<kTiles.size()>{});
}

}  // namespace gpumat::multiply::gpu
