#include "kernels/common/occupancy.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/numbers/whole.hpp"

namespace gpumat {
namespace {

constexpr int kKilo = 1024;
constexpr int kWarp = 32;
constexpr int kPartitions = 4;  // of a multiprocessor; a warp's registers are in one of them

constexpr std::array kKnown = {
    // The devices of the published figures: 8800 GT, GTX 280, M2050, K20c.
    Multiprocessor{10, 768, 8, 8 * kKilo, 16 * kKilo, 0, 256, 512, true, 512},
    Multiprocessor{13, 1024, 8, 16 * kKilo, 16 * kKilo, 0, 512, 512, true, 512},
    Multiprocessor{20, 1536, 8, 32 * kKilo, 48 * kKilo, 0, 64, 128},
    Multiprocessor{35, 2048, 16, 64 * kKilo, 48 * kKilo, 0, 256, 256},
    Multiprocessor{70, 2048, 32, 64 * kKilo, 96 * kKilo, 0, 256, 256},
    Multiprocessor{75, 1024, 16, 64 * kKilo, 64 * kKilo, 0, 256, 256},
    Multiprocessor{80, 2048, 32, 64 * kKilo, 164 * kKilo, kKilo, 256, 128},
    Multiprocessor{86, 1536, 16, 64 * kKilo, 100 * kKilo, kKilo, 256, 128},
    Multiprocessor{87, 1536, 16, 64 * kKilo, 164 * kKilo, kKilo, 256, 128},
    Multiprocessor{89, 1536, 24, 64 * kKilo, 100 * kKilo, kKilo, 256, 128},
    Multiprocessor{90, 2048, 32, 64 * kKilo, 228 * kKilo, kKilo, 256, 128},
    Multiprocessor{100, 2048, 32, 64 * kKilo, 228 * kKilo, kKilo, 256, 128},
    Multiprocessor{120, 1536, 24, 64 * kKilo, 100 * kKilo, kKilo, 256, 128},
};

constexpr int kUnlimited = std::numeric_limits<int>::max();

int blocks_by_registers(const Multiprocessor& chip, const BlockNeeds& needs, int warps) {
    if (needs.registers == 0) return kUnlimited;
    if (chip.by_block) {  // warps are given out in pairs there
        const int block = round_up(round_up(warps, 2) * kWarp * needs.registers, chip.register_unit);
        return chip.registers / block;
    }
    const int warp = round_up(needs.registers * kWarp, chip.register_unit);
    if (warp * round_up(warps, kPartitions) > chip.registers) return 0;
    return chip.registers / kPartitions / warp * kPartitions / warps;
}

}  // namespace

std::span<const Multiprocessor> multiprocessors() {
    return kKnown;
}

const Multiprocessor* find_multiprocessor(std::string_view compute_capability) {
    std::string digits(compute_capability);
    std::erase(digits, '.');
    for (const Multiprocessor& known : kKnown) {
        if (std::to_string(known.compute_capability) == digits) return &known;
    }
    return nullptr;
}

Occupancy occupancy_of(const Multiprocessor& chip, const BlockNeeds& needs) {
    const int warps = round_up(std::max(needs.threads, 1), kWarp) / kWarp;
    const int shared = round_up(needs.shared_bytes + chip.reserved_bytes, chip.shared_unit);
    using Limit = std::pair<int, std::string_view>;
    const std::array<Limit, 4> limits = {{
        {needs.threads > chip.block_threads ? 0 : chip.threads / kWarp / warps, "threads"},
        {blocks_by_registers(chip, needs, warps), "registers"},
        {shared > 0 ? chip.shared_bytes / shared : kUnlimited, "shared memory"},
        {chip.blocks, "blocks"},
    }};
    const auto& [blocks, limit] = *std::ranges::min_element(limits, {}, &Limit::first);
    return {.blocks = blocks,
            .warps = blocks * warps,
            .share = static_cast<double>(blocks * warps * kWarp) / chip.threads,
            .limit = limit};
}

}  // namespace gpumat
