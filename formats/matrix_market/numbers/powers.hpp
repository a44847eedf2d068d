#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpumat::formats::matrix_market {

/// A 128-bit number whose highest bit is set.
struct Significand {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
};

/// The leading 128 bits of the powers of five that a double can need. Rounded down; the powers from −27 to
/// −1 rounded up, which makes the products of exact divisions exact.
class PowersOfFive {
  public:
    static constexpr std::int64_t kLeast = -342;  // w · 10^-343 rounds to zero for any w < 2⁶⁴
    static constexpr std::int64_t kMost =
        324;  // 10^309 · w is beyond any double; writing the smallest needs 324
    static constexpr std::int64_t kLeastRoundedUp = -27;

    constexpr PowersOfFive();

    [[nodiscard]] const Significand& operator[](std::int64_t power) const {
        return table_[static_cast<std::size_t>(power - kLeast)];
    }

    /// Made by the compiler.
    static const PowersOfFive kTable;

  private:
    std::array<Significand, kMost - kLeast + 1> table_{};
};

}  // namespace gpumat::formats::matrix_market
