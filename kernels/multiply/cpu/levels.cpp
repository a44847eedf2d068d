#include "kernels/multiply/cpu/levels.hpp"

#include <array>

namespace gpumat::multiply::cpu {

std::span<const Level> levels() {
    constexpr auto op = Operation::multiply;
    constexpr auto device = DeviceKind::cpu;
    static constexpr std::array kTypes = {Type::f32, Type::f64,  Type::c64, Type::c128,
                                          Type::f16, Type::bf16, Type::i32, Type::i64};
    static constexpr std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "naive",
              .summary = "three nested loops in i, j, k order, one thread",
              .removes = "nothing: the textbook loop to beat",
              .needs = {.types = kTypes},
              .prepare = prepare_naive},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"naive", "it is the only level"}};
}

}  // namespace gpumat::multiply::cpu
