#include "kernels/reduce/cpu/levels.hpp"

#include <array>
#include <utility>

#include "kernels/common/vector_width.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::cpu {
namespace {

Reasons serial_unsupported(const Problem& problem, const Operands&, const Device&) {
    return reduction_reasons(problem);
}

Reasons vectorized_unsupported(const Problem& problem, const Operands&, const Device&) {
    return vector_reasons(problem, reduction_reasons(problem));
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kReduce;
    constexpr auto device = DeviceKind::cpu;

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread adds element after element",
              .removes = "nothing: the plain loop to beat",
              .unsupported = serial_unsupported,
              .prepare = prepare_serial},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "vectorized",
              .summary = "vectors of independent sums, shared out among all threads in fixed pieces",
              .removes = "the wait of each addition for the one before, and one core's limit on reading",
              .parameters = vector_parameters(),
              .unsupported = vectorized_unsupported,
              .prepare = prepare_vectorized},
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "read",
              .summary = "reads every byte on all threads, and combines them by exclusive or",
              .removes = "nothing: the speed of reading to come close to",
              .prepare = prepare_read,
              .reads = true,
              .yardstick = true},
    };
    return kLevels;
}

}  // namespace gpumat::reduce::cpu
