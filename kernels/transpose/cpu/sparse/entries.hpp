#pragma once

#include <algorithm>
#include <cstdint>

#include "core/sparse/csr.hpp"
#include "kernels/problem.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::cpu::sparse {

/// Calls `function(TypeTag<I>{}, TypeTag<T>{})` with the type of the indices, and the plain type that has the
/// size of the values.
template <class Function>
void visit_entries(const Problem& problem, Function&& function) {
    visit_index({problem.m, problem.n}, [&]<class I>(TypeTag<I> index) {
        visit_element(problem.type, [&]<class T>(TypeTag<T> value) { function(index, value); });
    });
}

/// The entry with which share `share` of `shares` begins; all of them have as many, but for one.
inline std::int64_t begin_of_share(std::int64_t entries, std::int64_t share, std::int64_t shares) {
    return entries / shares * share + std::min(share, entries % shares);
}

/// Calls `visit(row, at)` for the entries from `begin` up to `end`, in their order.
template <class Visit>
void for_each_entry(const Operand& matrix, std::int64_t begin, std::int64_t end, const Visit& visit) {
    const std::int64_t* const pointers = matrix.pointers;
    std::int64_t row = std::upper_bound(pointers, pointers + matrix.rows + 1, begin) - pointers - 1;
    for (std::int64_t at = begin; at < end; ++row) {
        const std::int64_t last = std::min(end, pointers[row + 1]);
        for (; at < last; ++at) visit(row, at);
    }
}

/// Makes starts of counts: each becomes the sum of those before it and `first`. Gives the sum of all.
inline std::int64_t add_up(std::int64_t* counts, std::int64_t length, std::int64_t first) {
    for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t count = counts[i];
        counts[i] = first;
        first += count;
    }
    return first;
}

/// Starts of rows that were moved to the ends of theirs become starts again.
inline void move_back(std::int64_t* starts, std::int64_t length, std::int64_t first) {
    std::copy_backward(starts, starts + length - 1, starts + length);
    starts[0] = first;
}

}  // namespace gpumat::transpose::cpu::sparse
