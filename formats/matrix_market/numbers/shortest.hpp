#pragma once

#include <cstddef>

namespace gpumat::formats::matrix_market {

/// What write_shortest may touch from `to` on. The longest number, "-2.2250738585072014e-308", has 24
/// characters.
constexpr std::size_t kNumberRoom = 40;

/// Writes the fewest characters that read back as the same value, and of those the ones nearest to it: what
/// std::to_chars writes, in about half the time. A NaN is "nan", whatever its sign. Returns the end.
char* write_shortest(char* to, double value);
char* write_shortest(char* to, float value);

}  // namespace gpumat::formats::matrix_market
