#include "lib/explain.hpp"

#include <array>
#include <cstddef>

namespace gpumat {
namespace {

/// An address that is aligned as those of matrices are. Nothing is ever read or written there.
constexpr std::size_t kPlaceBytes = 512;

Operands operands_at(void* place, const Problem& problem) {
    const bool reads_d = !problem.beta.is_zero(problem.type);
    return {.a = place, .b = place, .d = reads_d ? place : nullptr, .c = place};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_facts(const Level& level, const Problem& problem,
                                                              const Device& device) {
    if (device.kind == DeviceKind::gpu) {
        const DeviceMemory place = device.gpu->allocate(kPlaceBytes);
        return prepare_launch(level, problem, operands_at(place.data(), problem), device).details;
    }
    alignas(kPlaceBytes) std::array<std::byte, kPlaceBytes> place{};
    return prepare_launch(level, problem, operands_at(place.data(), problem), device).details;
}

}  // namespace gpumat
