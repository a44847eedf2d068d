#include "kernels/transpose/cpu/levels.hpp"

#include <array>

namespace gpumat::transpose::cpu {

std::span<const Level> levels() {
    constexpr auto op = Operation::transpose;
    constexpr auto device = DeviceKind::cpu;

    static constexpr std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread walks the matrix row by row",
              .removes = "nothing: the plain loop to beat",
              .prepare = prepare_serial},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"serial", "it is the only level"}};
}

}  // namespace gpumat::transpose::cpu
