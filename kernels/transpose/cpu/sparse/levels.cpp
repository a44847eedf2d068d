#include "kernels/transpose/cpu/sparse/levels.hpp"

#include <array>
#include <utility>

#include "core/sparse/csr.hpp"
#include "kernels/common/graphblas.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose::cpu::sparse {
namespace {

Reasons in_place_reasons(const Problem& problem, const Operands&, const Device&) {
    if (!problem.in_place) return {};
    return {"it cannot work in place, as the rows of the result have other lengths"};
}

Reasons vendor_reasons(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = in_place_reasons(problem, operands, device);
    if (std::string why = graphblas::why_missing(); !why.empty()) reasons.push_back(std::move(why));
    return reasons;
}

std::uint64_t vendor_bytes(const Problem& problem, int) {
    return 2 * graphblas::copy_bytes({problem.m, problem.n}, problem.type, problem.entries.front());
}

/// Within a block, places are of the size of an index.
Reasons blocked_reasons(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = in_place_reasons(problem, operands, device);
    constexpr std::int64_t kMostEntries = (std::int64_t{1} << 32) - 1;
    if (has_short_indices({problem.m, problem.n}) && problem.entries.front() > kMostEntries)
        reasons.push_back("it takes up to " + std::to_string(kMostEntries) +
                          " entries where indices are of 32 bits, and there are " +
                          std::to_string(problem.entries.front()));
    return reasons;
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kTranspose;
    constexpr auto device = DeviceKind::cpu;
    static constexpr std::array kSparse = {Structure{.inputs = {Storage::csr}, .result = Storage::csr}};
    constexpr Requirements sparse{.structures = kSparse};

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread counts the columns, and puts each entry in its place",
              .removes = "nothing: the plain loop to beat",
              .needs = sparse,
              .unsupported = in_place_reasons,
              .prepare = prepare_serial},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "counting",
              .summary = "each thread counts and places its share of the entries",
              .removes = "one core's limit on outstanding cache misses",
              .needs = sparse,
              .unsupported = in_place_reasons,
              .workspace = counting_bytes,
              .prepare = prepare_counting},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "blocked",
              .summary = "entries go into blocks of columns first, each of which is sorted in the cache",
              .removes = "a cache line fetched and written back for each entry",
              .needs = sparse,
              .unsupported = blocked_reasons,
              .workspace = blocked_bytes,
              .prepare = prepare_blocked},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "SuiteSparse:GraphBLAS, loaded at run time",
              .removes = "nothing: what one would call instead",
              .needs = sparse,
              .unsupported = vendor_reasons,
              .workspace = vendor_bytes,
              .prepare = prepare_vendor},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"blocked", "it is the fastest on the CPU"}, {"counting", "it takes any number of entries"}};
}

}  // namespace gpumat::transpose::cpu::sparse
