#include "lib/run/sparse/result.hpp"

#include <cstring>
#include <utility>

#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/parallel.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat::sparse {
namespace {

void fill_unwritten(void* memory, std::size_t bytes, int threads) {
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    constexpr int kUnwritten = 0xff;
    const auto fill = [&](std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<std::byte*>(memory) + begin, kUnwritten,
                    static_cast<std::size_t>(end - begin));
    };
    parallel_for(static_cast<std::int64_t>(bytes), kGrain, threads, fill);
}

void fill_entries(const MutableCsrView& matrix, int threads) {
    const auto entries = static_cast<std::size_t>(matrix.entries);
    fill_unwritten(matrix.columns, entries * index_bytes(matrix.shape), threads);
    fill_unwritten(matrix.values, entries * size_of(matrix.type), threads);
}

}  // namespace

Result::Result(const Problem& problem, int threads, RequireRoom require_room)
    : threads_(threads),
      require_room_(std::move(require_room)),
      is_counted_(problem.structure.result == Storage::csr && problem.operation->result_entries == nullptr) {
    const Shape shape = problem.operation->result(problem);
    const Type type = result_type(problem);
    if (problem.structure.result == Storage::dense) {
        Matrix matrix(shape, type, "the result");
        fill_unwritten(matrix.data(), matrix.bytes(), threads);
        held_ = std::move(matrix);
        return;
    }
    auto* const known = problem.operation->result_entries;
    Csr matrix(shape, type, known == nullptr ? 0 : known(problem), "the result");
    const std::size_t pointers = static_cast<std::size_t>(shape.rows) + 1;
    fill_unwritten(matrix.view().pointers, pointers * sizeof(std::int64_t), threads);
    fill_entries(matrix.view(), threads);
    held_ = std::move(matrix);
}

MutableOperand Result::operand() {
    if (auto* const matrix = std::get_if<Matrix>(&held_)) return operand_of(matrix->view());
    return operand_of(std::get<Csr>(held_).view());
}

void Result::add_to(Operands& operands) {
    operands.c = operand();
    if (is_counted_) operands.room = this;
}

MutableOperand Result::take(std::int64_t entries) {
    require_room_(entries);
    auto& matrix = std::get<Csr>(held_);
    matrix.hold(entries, "the result");
    fill_entries(matrix.view(), threads_);
    return operand();
}

std::int64_t Result::entries() const {
    return sparse() == nullptr ? 0 : sparse()->entries();
}

void Result::make_nans_plain() {
    if (auto* const matrix = std::get_if<Matrix>(&held_))
        gpumat::make_nans_plain(matrix->view(), threads_);
    else
        gpumat::make_nans_plain(values_of(std::get<Csr>(held_).view()), threads_);
}

std::string Result::hash() const {
    if (dense() != nullptr) return content_hash(dense()->view(), threads_);
    return content_hash(sparse()->view(), threads_);
}

}  // namespace gpumat::sparse
