#pragma once

#include <array>
#include <optional>
#include <string>

#include "lib/run/plan.hpp"
#include "lib/stored/sparse_ranges.hpp"

namespace gpumat::sparse {

/// How an input comes to a run in parts.
enum class Way {
    unread,   ///< the problem does not read it
    held,     ///< all parts read it whole: it stays in memory
    rows,     ///< each part reads some of its rows
    columns,  ///< or of its columns
};
using Ways = std::array<Way, kMostInputs>;

/// The part of a run that gives these rows of the result, or of what is reduced; the entries of its inputs
/// are not set.
ProblemPart part_of(const Plan& plan, const LineRange& rows);

/// The rows that are shared out.
std::int64_t lines_of(const Plan& plan);

/// Nothing where the run cannot go in parts: on a GPU, where its operation is not cut by rows, where no input
/// is sparse in some of its rows or columns, where a dense one would be read anew for each part, and where
/// the writer takes no rows from the first one on.
std::optional<Ways> ways_of(const Plan& plan);

/// The lines of an input that comes so, which is neither held nor unread.
inline formats::Lines lines_of(Way way) {
    return way == Way::rows ? formats::Lines::rows : formats::Lines::columns;
}

/// Whether it comes by ranges.
inline bool is_streamed(Way way) {
    return way == Way::rows || way == Way::columns;
}

/// What a part takes at most, whose problem has the entries of its inputs, beside inputs that are held. A
/// result whose entries are counted has none yet.
std::uint64_t bytes_of_part(const RunOptions& options, const Plan& plan, const Ways& ways,
                            const ProblemPart& part);

/// Plans a run in parts, which does not fit as a whole: the room for each, and all that is taken. False where
/// there is no way, or not enough room for a part with a row.
bool plan_sparse_parts(const RunOptions& options, std::uint64_t writing, Plan& plan);

/// The least limit with which a run can go in parts, as far as it is known before entries are counted;
/// nothing where there is no way.
std::optional<std::uint64_t> least_for_parts(const RunOptions& options, const Plan& plan,
                                             std::uint64_t writing);

/// Of a run in parts: whether a temporary file has entries of an input or the result.
bool goes_through_disk(const Plan& plan);

/// "in parts of up to 4 MiB: A by ranges of rows, B as a whole in memory".
std::string describe_parts(const Plan& plan);

}  // namespace gpumat::sparse
