#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/problem.hpp"

namespace gpumat {

/// The extents of one problem to measure; k is 0 for a transpose.
struct BenchSize {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    bool operator==(const BenchSize&) const = default;
};

/// The most sizes that one bench takes, so that a mistyped range ends at once.
inline constexpr std::size_t kMostBenchSizes = 100'000;

/// The sizes that `text` names, in its order: items with commas between them, each one of
///   4096           a square matrix (multiply: m = n = k)
///   1000x3000      a transpose of an m×n matrix
///   64x64x65536    a multiply of m×k by k×n, written MxNxK
///   500:4000:4     squares from 500 to at most 4000 in steps of 4
/// Throws Error{usage} naming the item and what was expected; no extent may be 0.
std::vector<BenchSize> parse_bench_sizes(const std::string& text, Operation operation);

/// "4096x4096", "64x64x65536".
std::string to_string(const BenchSize& size);

}  // namespace gpumat
