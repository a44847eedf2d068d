#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/operation.hpp"

namespace gpumat {

/// The most sizes that one bench takes, so that a mistyped range ends at once.
inline constexpr std::size_t kMostBenchSizes = 100'000;

/// The sizes that `text` names, in its order: items with commas between them, each one of
///   4096           all extents that the operation has
///   1000x3000      MxN, for an operation that has two extents
///   64x64x65536    MxNxK, for one that has three
///   500:4000:4     equal extents from 500 to at most 4000 in steps of 4
/// Throws Error{usage} naming the item and what was expected; no extent may be 0.
std::vector<Extents> parse_bench_sizes(const std::string& text, const Operation& operation);

}  // namespace gpumat
