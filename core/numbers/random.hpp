#pragma once

#include <array>
#include <cstdint>
#include <span>

// Random numbers that depend on nothing but a seed and a position, so that any part of a matrix can be made
// anywhere, by any number of threads, with the same bits. Compiled without contraction of a·b + c.

namespace gpumat {

/// Philox4x64-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011): a
/// bijection of a counter of 256 bits under a key. Word i is the i-th output of NumPy's
/// `Philox(key=seed).random_raw()`.
class RandomWords {
  public:
    explicit RandomWords(std::uint64_t seed) : seed_(seed) {}

    /// The words from number `first` on.
    void read(std::uint64_t first, std::span<std::uint64_t> words) const;

  private:
    [[nodiscard]] std::array<std::uint64_t, 4> four(std::uint64_t counter) const;

    std::uint64_t seed_;
};

/// In [0, 1): the upper 53 bits, as NumPy's Generator.random makes them.
inline double unit_real(std::uint64_t word) {
    return static_cast<double>(word >> 11) * 0x1p-53;
}

/// In (0, 1), symmetric about 1/2: the upper 52 bits and a half.
inline double open_unit_real(std::uint64_t word) {
    return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

/// The number below which a standard normal variable lies with probability p, 0 < p < 1: algorithm AS 241 of
/// Wichura (1988), whose relative error is about 1e-16. Made of + - * / and sqrt alone, which IEEE 754 rounds
/// in one way, so that every machine gives the same bits; |result| < 8.3 for what `open_unit_real` gives.
double normal_quantile(double p);

}  // namespace gpumat
