#include "kernels/transpose/gpu/sparse/levels.hpp"

#include <array>

#include "kernels/common/build.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose::gpu::sparse {

std::span<const Level> levels() {
    constexpr const Operation* op = &kTranspose;
    constexpr auto device = DeviceKind::gpu;
    static constexpr std::array kSparse = {Structure{.inputs = {Storage::csr}, .result = Storage::csr}};
    constexpr Requirements sparse{.structures = kSparse};

    static const std::array kLevels = {
        Level{
            .operation = op,
            .device = device,
            .number = 1,
            .name = "atomic",
            .summary = "a thread an entry, whose place the counter of its column gives; rows are sorted then",
            .removes = "nothing: the plain scatter to beat",
            .needs = sparse,
            .unsupported = in_place_unsupported,
            .prepare = GPUMAT_GPU_LEVEL(prepare_atomic)},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "sorted",
              .summary = "a radix sort by column, eight bits at a time, that keeps the order of rows",
              .removes = "shared counters, writes all over the result, and the sort of its rows",
              .needs = sparse,
              .unsupported = GPUMAT_GPU_LEVEL(sorted_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_sorted)},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "blocked",
              .summary = "entries go into blocks of columns, and from there where they belong",
              .removes = "a pass over the entries for every eight bits of a column",
              .needs = sparse,
              .unsupported = GPUMAT_GPU_LEVEL(blocked_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_blocked)},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "onesweep",
              .summary = "a radix sort whose steps read the entries once and look back for counts",
              .removes = "passes that count, writes in short runs, and the wait of a full multiprocessor",
              .needs = sparse,
              .unsupported = in_place_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_onesweep)},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "cuSPARSE's conversion to compressed columns, loaded at run time",
              .removes = "nothing: what one would call instead",
              .needs = sparse,
              .unsupported = GPUMAT_GPU_LEVEL(vendor_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_vendor)},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"onesweep", "its steps read and write every entry once, in whole sectors"},
            {"atomic", "it needs no shared memory"}};
}

Reasons in_place_unsupported(const Problem& problem, const Operands&, const Device&) {
    if (!problem.in_place) return {};
    return {"it cannot work in place, as the rows of the result have other lengths"};
}

}  // namespace gpumat::transpose::gpu::sparse
