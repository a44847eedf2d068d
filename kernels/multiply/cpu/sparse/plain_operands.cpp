#include "kernels/multiply/cpu/sparse/plain_operands.hpp"

#include <utility>

#include "core/numbers/whole.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

/// The transpose of a matrix as it is stored.
Problem transpose_of(Type type, const Shape& stored, Storage storage, std::int64_t entries) {
    Problem problem{.operation = &kTranspose, .type = type, .m = stored.rows, .n = stored.cols};
    problem.structure = {{storage}, storage};
    problem.entries.front() = problem.result_entries = entries;
    return problem;
}

/// Whether `blocked` takes it: `counting` takes any.
bool is_blocked(const Problem& transpose) {
    constexpr std::int64_t kMostEntries = (std::int64_t{1} << 32) - 1;
    return transpose.entries.front() <= kMostEntries;
}

std::uint64_t transposed_csr_bytes(const Problem& p, std::size_t role, const Shape& stored, int threads) {
    const Problem transpose = transpose_of(p.type, stored, Storage::csr, p.entries.at(role));
    const std::uint64_t work = is_blocked(transpose)
                                   ? transpose::cpu::sparse::blocked_bytes(transpose, threads)
                                   : transpose::cpu::sparse::counting_bytes(transpose, threads);
    return saturating_add(csr_bytes(stored.transposed(), p.type, p.entries.at(role)), work);
}

}  // namespace

PlainOperands::PlainOperands(const Problem& problem, const Operands& operands, const Device& device)
    : problem_(problem), operands_(operands) {
    const auto is_csr = [](const Operand& operand) { return operand.storage == Storage::csr; };
    if (problem.k == 0) return;
    const auto transpose_csr = [&](Operand& operand, Csr& memory) {
        const Problem transpose =
            transpose_of(problem.type, {operand.rows, operand.cols}, Storage::csr, operand.entries);
        memory = Csr({operand.cols, operand.rows}, problem.type, operand.entries, "a transposed operand");
        const Operands both{.a = operand, .c = operand_of(memory.view())};
        launches_.push_back(is_blocked(transpose)
                                ? transpose::cpu::sparse::prepare_blocked(transpose, both, device)
                                : transpose::cpu::sparse::prepare_counting(transpose, both, device));
        operand = operand_of(std::as_const(memory).view());
    };
    if (problem.transpose_a && is_csr(operands.a)) {
        transpose_csr(operands_.a, csr_a_);
        problem_.transpose_a = false;
    }
    if (problem.transpose_b && is_csr(operands.b)) {
        transpose_csr(operands_.b, csr_b_);
    } else if (problem.transpose_b) {
        const Operand& stored = operands.b;
        const Problem transpose = transpose_of(problem.type, {stored.rows, stored.cols}, Storage::dense, 0);
        dense_b_ = Buffer(dense_bytes({stored.cols, stored.rows}, problem.type, "a transposed operand"));
        const MutableOperand to{
            .data = dense_b_.data(), .rows = stored.cols, .cols = stored.rows, .pitch = stored.rows};
        launches_.push_back(transpose::cpu::prepare_tiled(transpose, {.a = stored, .c = to}, device));
        operands_.b = to;
    }
    problem_.transpose_b = false;
}

const Operands& PlainOperands::make() {
    for (const Launch& launch : launches_) launch.run({});
    return operands_;
}

std::uint64_t PlainOperands::bytes(const Problem& p, int threads) {
    const auto storage = [&](std::size_t role) { return p.structure.inputs.at(role); };
    std::uint64_t bytes = 0;
    if (p.transpose_a && storage(0) == Storage::csr) bytes = transposed_csr_bytes(p, 0, {p.k, p.m}, threads);
    if (!p.transpose_b) return bytes;
    return saturating_add(bytes, storage(1) == Storage::csr
                                     ? transposed_csr_bytes(p, 1, {p.n, p.k}, threads)
                                     : dense_bytes({p.k, p.n}, p.type, "a transposed operand"));
}

}  // namespace gpumat::multiply::cpu::sparse
