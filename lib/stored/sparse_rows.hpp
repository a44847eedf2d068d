#pragma once

#include <cstdint>

#include "core/sparse/csr.hpp"

namespace gpumat {

/// The transpose, as the operation's own levels make it. Throws Error{memory}.
Csr transposed(const CsrView& matrix, int threads);

/// Calls `take(column, at x, at y)` for each column in which row `row` of one of them has an entry, in their
/// order: `at x` and `at y` are the numbers of the entries, or -1 where there is none. Both have one shape.
template <class I, class Take>
void merge_row(const CsrView& x, const CsrView& y, std::int64_t row, const Take& take) {
    const I* const x_columns = x.columns_as<I>();
    const I* const y_columns = y.columns_as<I>();
    std::int64_t at_x = x.pointers[row];
    std::int64_t at_y = y.pointers[row];
    const std::int64_t end_x = x.pointers[row + 1];
    const std::int64_t end_y = y.pointers[row + 1];
    while (at_x < end_x || at_y < end_y) {
        const bool has_x = at_x < end_x && (at_y == end_y || x_columns[at_x] <= y_columns[at_y]);
        const bool has_y = at_y < end_y && (at_x == end_x || y_columns[at_y] <= x_columns[at_x]);
        take(static_cast<std::int64_t>(has_x ? x_columns[at_x] : y_columns[at_y]), has_x ? at_x : -1,
             has_y ? at_y : -1);
        at_x += has_x ? 1 : 0;
        at_y += has_y ? 1 : 0;
    }
}

/// Rows that are worth a thread's while.
std::int64_t rows_together(const CsrView& matrix);

}  // namespace gpumat
