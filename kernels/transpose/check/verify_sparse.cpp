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

/// The hash of one entry, whose value has so many bytes.
template <std::size_t SIZE>
std::uint64_t hash_of(std::int64_t row, std::int64_t col, const std::byte* value) {
    const std::uint64_t place = place_hash(mixed(static_cast<std::uint64_t>(row)), col);
    std::uint64_t words[2] = {};
    std::memcpy(words, value, SIZE);
    return SIZE <= sizeof words[0] ? entry_hash(place, words[0]) : entry_hash(place, words[0], words[1]);
}

/// The sum over the entries of some rows, modulo 2⁶⁴, which does not depend on their order.
template <class I, std::size_t SIZE>
std::uint64_t sum_of_rows(const CsrView& matrix, bool exchanged, std::int64_t begin, std::int64_t end) {
    const I* const columns = matrix.columns_as<I>();
    std::uint64_t sum = 0;
    for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t at = matrix.pointers[row]; at < matrix.pointers[row + 1]; ++at) {
            const std::byte* const value = matrix.values + static_cast<std::size_t>(at) * SIZE;
            const std::int64_t col = columns[at];
            sum += exchanged ? hash_of<SIZE>(col, row, value) : hash_of<SIZE>(row, col, value);
        }
    }
    return sum;
}

template <class I>
std::uint64_t sum_of_rows(const CsrView& matrix, bool exchanged, std::int64_t begin, std::int64_t end) {
    switch (size_of(matrix.type)) {
        case 1:
            return sum_of_rows<I, 1>(matrix, exchanged, begin, end);
        case 2:
            return sum_of_rows<I, 2>(matrix, exchanged, begin, end);
        case 4:
            return sum_of_rows<I, 4>(matrix, exchanged, begin, end);
        case 8:
            return sum_of_rows<I, 8>(matrix, exchanged, begin, end);
        default:
            return sum_of_rows<I, 16>(matrix, exchanged, begin, end);
    }
}

std::uint64_t sum_of_hashes(const CsrView& matrix, bool exchanged, int threads) {
    std::atomic<std::uint64_t> sum = 0;
    const std::int64_t grain = 1 + matrix.shape.rows / (1 + (matrix.entries + matrix.shape.rows) / (1 << 16));
    parallel_for(matrix.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        sum += visit_index(
            matrix.shape, [&]<class I>(TypeTag<I>) { return sum_of_rows<I>(matrix, exchanged, begin, end); });
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
