#pragma once

// The choice between the two kernels of the level `pipelined`, and of tile and schedule.
#include <algorithm>
#include <limits>

#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/packed.cuh"
#include "kernels/multiply/gpu/pipelined.cuh"

namespace gpumat::multiply::gpu {

/// On devices of compute capability 9.0, roughly: f64 goes at half the rate, and complex products are four.
/// i32 counts as f32, with which its tiles were chosen.
template <class S>
inline constexpr Cost kCost{.clocks = 1, .bytes = sizeof(S)};
template <>
inline constexpr Cost kCost<double>{.clocks = 2, .bytes = sizeof(double)};
template <>
inline constexpr Cost kCost<std::uint64_t>{.clocks = 4, .bytes = sizeof(std::uint64_t)};
template <>
inline constexpr Cost kCost<Complex<float>>{.clocks = 4, .bytes = sizeof(Complex<float>)};
template <>
inline constexpr Cost kCost<Complex<double>>{.clocks = 8, .bytes = sizeof(Complex<double>)};

/// Whether a packed tile may be taken: one of those that are asked for (any where `columns` is 0) and whose
/// stages fit in the device's shared memory.
template <class T>
bool may_take(const Tile& tile, const Device& device, int columns) {
    return (columns == 0 || tile.bn == columns) &&
           tile.shared_bytes(sizeof(Sum<T>)) <= device.gpu->info().shared_bytes_per_block;
}

/// Why the kernel `packed` cannot run, in any of its tiles or where `columns` is not 0 in one that is so
/// wide.
template <class T, const auto& kPackedTiles>
Reasons packed_unsupported(const Problem& problem, const Device& device, int columns) {
    constexpr int kCapability = 90;
    constexpr std::int64_t kBoxWords = 256;  // at most, which may reach beyond a row's end
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() - kBoxWords;
    constexpr std::int64_t kWords = sizeof(Sum<T>) / 4;
    Reasons reasons;
    if (device.gpu->info().compute_capability < kCapability) {
        reasons.emplace_back("packed operands need the copy engine of compute capability 9.0");
    } else if (code_capability() < kCapability) {
        reasons.emplace_back("this build has no code for compute capability 9.0, which packed operands need");
    }
    if (std::max(problem.m, problem.n) > kMost / kWords || problem.k > kMost / LayoutA<T>::kRows)
        reasons.emplace_back(
            "tensor maps count to 2^31, and a packed operand has more words in a row, or rows");
    const bool found = std::any_of(kPackedTiles.begin(), kPackedTiles.end(),
                                   [&](const Tile& tile) { return may_take<T>(tile, device, columns); });
    if (!found) {
        reasons.push_back("there is no packed tile of " + std::to_string(columns) + " columns for " +
                          std::string(name_of(problem.type)) + " on this device");
    }
    return reasons;
}

/// Whether packing leaves half of the device's memory to others, so that it is not what a product fails for.
/// Free memory is not asked: the bits of a result must not depend on it.
template <class T>
bool packing_fits(const Problem& problem, const Device& device, std::uint64_t packs) {
    constexpr double kMostOfMemory = 0.5;
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
Plan<Share> plan_packed(const Problem& problem, const Device& device, std::uint64_t packs, int columns) {
    Plan<Share> best;
    best.schedule.clocks = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < kPackedTiles.size(); ++i) {
        const Tile& tile = kPackedTiles[i];
        if (!may_take<T>(tile, device, columns)) continue;
        const GpuInfo& gpu = device.gpu->info();
        const Share schedule =
            best_share(held_by(gpu.shared_bytes_per_block, tile, sizeof(Sum<T>)), problem.m, problem.n,
                       problem.k, kCost<Sum<T>>, gpu.multiprocessors);
        if (schedule.clocks < best.schedule.clocks) best = {i, schedule};
    }
    best.schedule.clocks += pack_clocks(static_cast<double>(packs));
    return best;
}

/// Chooses kernel, tile and schedule for the shape, and prepares the launch.
template <class T, const auto& kTiles, const auto& kPackedTiles>
Launch prepare_pipelined_as(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.m == 0 || problem.n == 0) return {.level = "pipelined", .run = [](Stream) {}};
    const std::string_view pack = parameter_choice(kPipelinedParameters, problem, "pack");
    const GpuInfo& gpu = device.gpu->info();
    const Plan<Split> plan = plan_tiles(kTiles, problem.m, problem.n, problem.k, kCost<Sum<T>>,
                                        gpu.multiprocessors, gpu.shared_bytes_per_block);
    const bool asked = pack != kPackAuto && pack != kPackNever;
    const int columns = asked ? parameter_number(kPipelinedParameters, problem, "pack") : 0;
    // Without any k there is nothing to pack, and nothing to add up.
    if (problem.k != 0 && pack != kPackNever &&
        packed_unsupported<T, kPackedTiles>(problem, device, columns).empty()) {
        const std::uint64_t packs = pack_bytes<T>(problem, Arguments<T>(problem, operands));
        const Plan<Share> packed = plan_packed<T, kPackedTiles>(problem, device, packs, columns);
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
