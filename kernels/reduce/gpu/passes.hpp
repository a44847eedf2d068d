#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::gpu {

/// One pass of a tree of blocks over numbers: `segments` results, each of `length` numbers. Number e of
/// segment s is at s·segment_step + e·step.
///
/// A block has `across` columns of threads, a segment each, and `down` rows of them, a number each. Segments
/// whose numbers are neighbours have across = 1, so that a warp reads neighbours in either case.
struct Pass {
    std::int64_t segments;
    std::int64_t length;
    std::int64_t segment_step;
    std::int64_t step;
    int across;
    int down;

    [[nodiscard]] constexpr std::int64_t parts() const {
        return std::max<std::int64_t>(1, (length + down - 1) / down);
    }
    [[nodiscard]] constexpr std::int64_t groups() const { return (segments + across - 1) / across; }
    [[nodiscard]] constexpr std::int64_t blocks() const { return parts() * groups(); }
};

/// The passes from the matrix to the results: each leaves one number a part of a segment, and the last one
/// part. Between passes the numbers lie as in the matrix: those of a segment are neighbours, or segments are.
inline std::vector<Pass> passes_of(const Problem& problem, std::int64_t pitch, int threads) {
    constexpr int kWarp = 32;
    const Axis axis = axis_of(problem);
    const bool by_column = axis == Axis::columns;
    const int across = by_column ? kWarp : 1;
    Pass pass = {.segments = by_column ? problem.n : problem.m,
                 .length = by_column ? problem.m : problem.n,
                 .segment_step = by_column ? 1 : pitch,
                 .step = by_column ? pitch : 1,
                 .across = across,
                 .down = threads / across};
    const bool one_row = axis == Axis::all && (pitch == problem.n || problem.m <= 1 || problem.n == 0);
    if (one_row) {  // rows without gaps are one row
        pass.length = problem.m * problem.n;
        pass.segments = 1;
    }
    std::vector<Pass> passes = {pass};
    for (bool all = axis == Axis::all; passes.back().parts() > 1 || (all && passes.back().segments > 1);) {
        const Pass& last = passes.back();
        Pass next = last;
        next.length = last.parts();
        next.segment_step = by_column ? 1 : last.parts();
        next.step = by_column ? last.segments : 1;
        if (all) {  // what the rows left is one row
            next.length = last.parts() * last.segments;
            next.segments = 1;
        }
        passes.push_back(next);
    }
    return passes;
}

/// How many numbers the passes but the last leave, at most.
inline std::int64_t most_partials(const std::vector<Pass>& passes) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i + 1 < passes.size(); ++i)
        most = std::max(most, passes[i].parts() * passes[i].segments);
    return most;
}

}  // namespace gpumat::reduce::gpu
