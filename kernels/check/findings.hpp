#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <optional>
#include <string>

#include "kernels/check/elements.hpp"
#include "kernels/check/verification.hpp"

namespace gpumat {

std::string element_text(std::complex<double> value, Type type);

template <class T>
std::string element_text(T value, Type type) {
    if constexpr (std::is_integral_v<T>) {
        return std::to_string(value);
    } else {
        return element_text(as_complex(value), type);
    }
}

/// How an element compares. `ratio` is above 1 exactly where it is wrong.
struct Outcome {
    double ratio = 0;  ///< error / tolerance
    double error = 0;
    double tolerance = 0;
    double worst_ratio = 0;  ///< error / worst case
    std::complex<double> expected;
};

/// Counts different mantissas, up to about 1000, from below: how many rounding errors may be independent.
/// Equal columns have equal errors, and so have those that differ by a power of two.
class Distinct {
  public:
    void add(double value);
    void merge(const Distinct& other);
    [[nodiscard]] std::int64_t count() const;

  private:
    std::array<std::uint64_t, 16> seen_{};  // a bit for each value of a hash
};

/// What was found in a part of C, merged from smaller parts in any order with the same outcome (but for the
/// last bits of sums).
struct Findings {
    std::int64_t mismatches = 0;
    std::int64_t wrapped = 0;
    double ratio = -1;          ///< largest error / tolerance
    double worst_ratio = 0;     ///< largest error / worst case
    double tolerance = 0;       ///< the largest
    double error_squares = 0;   ///< Σ error²
    double value_squares = 0;   ///< Σ |reference|²
    double noise_squares = 0;   ///< Σ (error / expected error)²
    std::int64_t compared = 0;  ///< elements (parts of complex ones) in these sums
    Distinct distinct;          ///< of their reference values
    std::optional<WorstElement> worst;

    /// Counts an element, and keeps it where it is the worst so far: the first of the largest ratio.
    /// `texts` gives computed and expected value, which most elements never need.
    template <class Texts>
    void note(const Outcome& outcome, std::int64_t row, std::int64_t col, const Texts& texts) {
        if (!(outcome.ratio <= 1)) ++mismatches;
        worst_ratio = std::max(worst_ratio, outcome.worst_ratio);
        tolerance = std::max(tolerance, outcome.tolerance);
        if (!is_worse(outcome.ratio, row, col)) return;
        auto [computed, expected] = texts();
        ratio = outcome.ratio;
        worst = {row, col, std::move(computed), std::move(expected), outcome.error, outcome.tolerance};
    }

    void merge(const Findings& part);

    /// The root mean square of the reference values; 0 where none was compared.
    [[nodiscard]] double root_mean_square() const {
        return std::sqrt(value_squares / static_cast<double>(std::max<std::int64_t>(1, compared)));
    }

  private:
    [[nodiscard]] bool is_worse(double other, std::int64_t row, std::int64_t col) const {
        if (!worst || other != ratio) return !worst || other > ratio;
        return row != worst->row ? row < worst->row : col < worst->col;
    }
};

/// The report of a check of this name.
Verification verification_of(const char* mode, const Findings& found);

}  // namespace gpumat
