#include "kernels/transpose/check/verify_sparse.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "core/parallel.hpp"
#include "core/sparse/csr.hpp"
#include "kernels/transpose/check/entry_hash.hpp"

namespace gpumat::transpose {
namespace {

/// The sum over all entries, modulo 2⁶⁴, which does not depend on their order.
std::uint64_t sum_of_hashes(const CsrView& matrix, bool exchanged, int threads) {
    std::atomic<std::uint64_t> sum = 0;
    const std::int64_t grain = 1 + matrix.shape.rows / (1 + (matrix.entries + matrix.shape.rows) / (1 << 16));
    const std::size_t size = size_of(matrix.type);
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        const I* const columns = matrix.columns_as<I>();
        parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
            std::uint64_t some = 0;
            for (std::int64_t row = begin; row < end; ++row) {
                for (std::int64_t at = matrix.pointers[row]; at < matrix.pointers[row + 1]; ++at) {
                    const std::int64_t col = columns[at];
                    std::uint64_t words[2] = {};
                    std::memcpy(words, matrix.values + static_cast<std::size_t>(at) * size, size);
                    const std::uint64_t place = place_hash(
                        mixed(static_cast<std::uint64_t>(exchanged ? col : row)), exchanged ? row : col);
                    some += size <= sizeof words[0] ? entry_hash(place, words[0])
                                                    : entry_hash(place, words[0], words[1]);
                }
            }
            sum += some;
        });
    });
    return sum;
}

CsrView view_of(const Operand& operand, Type type) {
    return {.type = type,
            .shape = {operand.rows, operand.cols},
            .entries = operand.entries,
            .pointers = operand.pointers,
            .columns = static_cast<const std::byte*>(operand.columns),
            .values = operand.as<std::byte>()};
}

std::optional<std::string> fault_of(const CsrView& in, const CsrView& out, int threads) {
    if (in.shape.transposed() != out.shape)
        return "the result is " + to_string(out.shape) + ", expected " + to_string(in.shape.transposed());
    if (in.entries != out.entries)
        return "the result has " + std::to_string(out.entries) + " entries, expected " +
               std::to_string(in.entries);
    if (auto fault = structure_fault(in, threads)) return "the structure of the input: " + *fault;
    if (auto fault = structure_fault(out, threads)) return "the structure of the result: " + *fault;
    if (sum_of_hashes(in, true, threads) == sum_of_hashes(out, false, threads)) return {};
    return "the entries of the result are not those of the input with rows and columns exchanged";
}

}  // namespace

Verification verify_sparse(const Problem& problem, const Operands& operands, const VerifyOptions& how) {
    Verification found;
    if (how.mode == VerifyMode::none) return found;
    found.mode = "full";
    const auto fault =
        fault_of(view_of(operands.a, problem.type), view_of(operands.c, problem.type), how.threads);
    found.verdict = fault ? "failed" : "passed";
    if (fault) found.note = *fault;
    return found;
}

}  // namespace gpumat::transpose
