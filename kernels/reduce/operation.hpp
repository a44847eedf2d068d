#pragma once

#include "kernels/operation.hpp"

namespace gpumat {

/// The reduction: an m×n matrix becomes one number, one for each row (m×1) or one for each column (1×n).
/// k is 0. `Problem::choices` has "op" and "axis".
extern const Operation kReduce;

namespace reduce {

/// What is made of the elements. A NaN among them makes every result but the count NaN.
enum class Reduction {
    sum,
    min,
    max,
    absmax,  ///< the largest magnitude; 0 where there is no element
    norm,    ///< the square root of the sum of the squared magnitudes
    mean,
    nan_count  ///< elements that are NaN, or have a part that is
};

enum class Axis {
    all,     ///< one number
    rows,    ///< one for each row: m×1
    columns  ///< one for each column: 1×n
};

Reduction reduction_of(const Problem& problem);
Axis axis_of(const Problem& problem);

/// How many elements of the matrix make one result; a sparse one may have more than 64 bits can count.
double elements_of(const Problem& problem);
/// From one result to the next, in elements; unfinished ones follow each other.
inline std::int64_t result_step(const Problem& problem, const Operand& result) {
    return axis_of(problem) == Axis::rows && !problem.unfinished ? result.pitch : 1;
}

/// Why no level can serve the problem: complex numbers have no order.
Reasons reduction_reasons(const Problem& problem);

/// The bytes of an unfinished result: the total of accumulators.hpp. 0 where no level can serve the problem.
std::int64_t total_bytes(const Problem& problem);
extern const Combination kCombination;

}  // namespace reduce
}  // namespace gpumat
