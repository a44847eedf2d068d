#include "kernels/reduce/cpu/sparse/levels.hpp"

#include <array>

#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::cpu::sparse {
namespace {

Reasons sparse_unsupported(const Problem& problem, const Operands&, const Device&) {
    return reduction_reasons(problem);
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kReduce;
    constexpr auto device = DeviceKind::cpu;
    static constexpr std::array kSparse = {Structure{.inputs = {Storage::csr}}};
    constexpr Requirements sparse{.structures = kSparse};

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread adds entry after entry; one zero stands for those that are not stored",
              .removes = "nothing: the plain loop to beat",
              .needs = sparse,
              .unsupported = sparse_unsupported,
              .workspace = serial_bytes,
              .prepare = prepare_serial},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "rows",
              .summary = "vectors of independent sums along the values of rows, shared out among all threads",
              .removes = "the wait of each addition for the one before, and one core's limit on reading",
              .needs = sparse,
              .unsupported = sparse_unsupported,
              .workspace = rows_bytes,
              .prepare = prepare_rows},
    };
    return kLevels;
}

std::vector<Preference> preference() {
    return {{"rows", "it is the fastest on the CPU"}};
}

}  // namespace gpumat::reduce::cpu::sparse
