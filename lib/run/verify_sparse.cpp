#include "lib/run/verify_sparse.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "core/stopwatch.hpp"
#include "formats/registry.hpp"
#include "kernels/check/check.hpp"
#include "lib/run/sparse/inputs.hpp"
#include "lib/stored/dense_as_sparse.hpp"
#include "lib/stored/plain_nan.hpp"
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

/// Those that are sparse, when they are read, and their transposes.
std::uint64_t bytes_to_verify(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                              const Problem& problem, VerifyMode mode) {
    std::uint64_t bytes = verification_bytes(problem, mode);
    const auto add = [&](const formats::Reader& reader, Storage storage) {
        const formats::Header& header = reader.header();
        bytes = saturating_add(bytes, reader.open_bytes() + reader.working_bytes());
        bytes = saturating_add(
            bytes,
            storage == Storage::csr
                ? saturating_multiply(2, formats::sparse_reading_bytes(header))
                : saturating_multiply(saturating_multiply(static_cast<std::uint64_t>(header.shape.rows),
                                                          static_cast<std::uint64_t>(header.shape.cols)),
                                      size_of(header.type)));
    };
    for (const PlannedInput& input : inputs) add(*input.reader, problem.structure.inputs.at(input.role));
    add(result, problem.structure.result);
    return bytes;
}

/// The elements that are stored in one of a matrix and its transpose, some at a time: each is a row, for
/// which the transposed ones are a column.
class StoredPairs {
  public:
    StoredPairs(const CsrView& x, const CsrView& y) : x_(x), y_(y) {}

    void give(const TakeBlocks& take) {
        std::int64_t first = 0;
        for_each([&](const Element&, std::int64_t at_x, std::int64_t at_y) {
            put(x_, at_x, x_values_);
            put(y_, at_y, y_values_);
            if (++count_ == kTogether) give_those(first, take);
            return true;
        });
        if (count_ > 0) give_those(first, take);
    }

    /// Where the element is that was given as number `number`.
    [[nodiscard]] Element place_of(std::int64_t number) const {
        Element found;
        for_each([&](const Element& place, std::int64_t, std::int64_t) {
            found = place;
            return number-- > 0;
        });
        return found;
    }

  private:
    static constexpr std::int64_t kTogether = 1 << 14;

    void for_each(const std::function<bool(const Element&, std::int64_t, std::int64_t)>& take) const {
        bool goes_on = true;
        visit_index(x_.shape, [&]<class I>(TypeTag<I>) {
            for (std::int64_t row = 0; row < x_.shape.rows && goes_on; ++row)
                merge_row<I>(x_, y_, row, [&](std::int64_t col, std::int64_t at_x, std::int64_t at_y) {
                    goes_on = goes_on && take({row, col}, at_x, at_y);
                });
        });
    }

    void put(const CsrView& matrix, std::int64_t at, std::vector<std::byte>& values) const {
        const std::size_t size = size_of(matrix.type);
        values.resize(kTogether * size);
        std::byte* const to = values.data() + static_cast<std::size_t>(count_) * size;
        if (at < 0)
            std::memset(to, 0, size);
        else
            std::memcpy(to, matrix.values + static_cast<std::size_t>(at) * size, size);
    }

    void give_those(std::int64_t& first, const TakeBlocks& take) {
        take({0, first, 1, count_}, {x_.type, {1, count_}, count_, x_values_.data()},
             {y_.type, {count_, 1}, 1, y_values_.data()});
        first += std::exchange(count_, 0);
    }

    const CsrView& x_;
    const CsrView& y_;
    std::vector<std::byte> x_values_;
    std::vector<std::byte> y_values_;
    std::int64_t count_ = 0;
};

bool keeps_nans(const formats::Reader& reader) {
    return formats::format_named(reader.header().format).keeps_nans;
}

}  // namespace

Structure structure_to_verify(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                              const StoredResult& asked, const Problem& problem) {
    const Operation& operation = *asked.operation;
    if (operation.structure == nullptr) return {};
    Problem sparse = problem;
    std::array<Storage, kMostInputs> stored = {};
    for (const PlannedInput& input : inputs) {
        if (!is_sparse(input.header())) continue;
        stored.at(input.role) = Storage::csr;
    }
    if (std::ranges::find(stored, Storage::csr) == stored.end()) return {};
    sparse.structure = operation.structure(problem, stored);
    if (sparse.structure.result == Storage::csr && !is_sparse(result.header())) return {};
    return sparse.structure;
}

bool fits_sparse(const std::vector<PlannedInput>& inputs, const formats::Reader& result,
                 const StoredResult& asked, const Problem& problem) {
    Problem sparse = problem;
    for (const PlannedInput& input : inputs)
        if (problem.structure.inputs.at(input.role) == Storage::csr)
            sparse.entries.at(input.role) = *input.header().most_entries;
    return bytes_to_verify(inputs, result, sparse, asked.how.mode) <=
           asked.read.memory_limit.value_or(available_memory_bytes());
}

bool loses_nans(const PlannedInput& input, const formats::Reader& result) {
    return !keeps_nans(*input.reader) || !keeps_nans(result);
}

Verification verify_pairs(const CsrView& input, const CsrView& result, const StoredResult& asked,
                          bool any_nan) {
    VerifyOptions how = asked.how;
    how.any_nan = any_nan;
    const Csr transposed_result = transposed(result, how.threads);
    const CsrView across = transposed_result.view();
    StoredPairs pairs(input, across);
    Verification found =
        asked.operation->check->side_by_side([&](const TakeBlocks& take) { pairs.give(take); }, how);
    found.rows_recomputed = result.shape.rows;
    if (found.worst) {
        const Element place = pairs.place_of(found.worst->row);
        found.worst->row = place.col;
        found.worst->col = place.row;
    }
    return found;
}

Verification verify_sparse_stored(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                  const StoredResult& asked, StoredVerification& record) {
    Problem& problem = record.problem;
    const Stopwatch watch;
    SparseCounts counts;
    std::vector<std::string> hashes;
    const sparse::Inputs held = sparse::read_inputs(inputs, problem, asked.how.threads, hashes, counts);
    problem.entries = counts.entries;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (problem.structure.inputs.at(inputs[i].role) == Storage::csr)
            record.inputs[i] = recorded_sparse(inputs[i].header(), counts.entries.at(inputs[i].role));
        record.inputs[i].hash = hashes[i];
    }
    Operands operands = sparse::operands_of(held);
    Matrix dense;
    Csr sparse_result;
    if (problem.structure.result == Storage::csr) {
        std::int64_t duplicates = 0;
        sparse_result = result.read_sparse(duplicates);
        record.result = recorded_sparse(result.header(), sparse_result.entries());
        record.result->hash = content_hash(std::as_const(sparse_result).view(), asked.how.threads);
        operands.c = operand_of(sparse_result.view());
        problem.result_entries = sparse_result.entries();
    } else {
        dense = formats::read_whole(result, {});
        record.result->hash = content_hash(std::as_const(dense).view(), asked.how.threads);
        operands.c = operand_of(dense.view());
    }
    record.stages_ms.read = watch.elapsed_ms();
    const Check& check = *asked.operation->check;
    Verification found =
        check.side_by_side != nullptr
            ? verify_pairs(std::get<Csr>(held.front()).view(), std::as_const(sparse_result).view(), asked,
                           loses_nans(inputs.front(), result))
            : check.verify(problem, operands, asked.how);
    record.stages_ms.verify = watch.elapsed_ms() - *record.stages_ms.read;
    return found;
}

}  // namespace gpumat
