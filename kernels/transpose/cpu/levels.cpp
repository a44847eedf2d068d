#include "kernels/transpose/cpu/levels.hpp"

#include <array>
#include <utility>

#include "kernels/common/vector_width.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose::cpu {
namespace {

Reasons in_place_reasons(const Problem& problem, const Operands&, const Device&) {
    if (!problem.in_place || problem.m == problem.n) return {};
    return {"in place it needs a square matrix, and this one is " + std::to_string(problem.m) + "x" +
            std::to_string(problem.n)};
}

Reasons vectorized_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    return vector_reasons(problem, in_place_reasons(problem, operands, device));
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kTranspose;
    constexpr auto device = DeviceKind::cpu;

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread walks the matrix row by row",
              .removes = "nothing: the plain loop to beat",
              .unsupported = in_place_reasons,
              .prepare = prepare_serial},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "per-row",
              .summary = "the rows are shared out among all threads",
              .removes = "one core's limit on outstanding cache misses",
              .unsupported = in_place_reasons,
              .prepare = prepare_per_row},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "tiled",
              .summary = "square tiles that fit the cache, shared out among all threads",
              .removes = "a cache line fetched again for each of its elements",
              .parameters = tiled_parameters(),
              .unsupported = in_place_reasons,
              .prepare = prepare_tiled},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "vectorized",
              .summary = "tiles transposed in vector registers, staged, and streamed past the cache",
              .removes = "an instruction an element, and reading the output's lines before writing them",
              .parameters = vector_parameters(),
              .unsupported = vectorized_unsupported,
              .prepare = prepare_vectorized},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"vectorized", "it is the fastest on the CPU"}};
}

}  // namespace gpumat::transpose::cpu
