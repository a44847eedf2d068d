#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/check/rounding.hpp"
#include "kernels/problem.hpp"

// What a check of a result is asked and finds. How each operation checks is in kernels/OP/check;
// kernels/check/verification.md derives the criteria.

namespace gpumat {

enum class VerifyMode {
    automatic,  ///< full while 2·M·N·K ≤ kFullCheckFlops, else freivalds
    full,       ///< every element against the reference
    freivalds,  ///< C·X against α·A·(B·X) + β·D·X for random X: cost of reading the matrices
    none
};

/// `automatic` checks in full up to this many operations (about a second on a few cores).
inline constexpr double kFullCheckFlops = 0x1p33;

struct VerifyOptions {
    VerifyMode mode = VerifyMode::automatic;
    /// Replaces the derived bounds of a floating-point multiply by tolerance · S, S = |α|·(|A|·|B|) + |β|·|D|
    /// with the moduli of real parts. Integers and transposes stay exact.
    std::optional<double> tolerance = std::nullopt;
    int threads = 1;
    std::uint64_t seed = 0;  ///< of Freivalds' random vectors
    std::int64_t parts = 1;  ///< of the result; each has a check of its own
    bool any_order = false;  ///< a reduction may be a plain sum in any order, not as precise as our levels'
    bool any_nan = false;    ///< of transposes: NaN equals NaN, where a format does not keep its bits
    /// How the level rounds; where that is not known, as `Rounding::of` the type says.
    std::optional<Rounding> rounding = std::nullopt;
};

/// The element that exceeds its tolerance the most, or comes closest to it.
struct WorstElement {
    std::int64_t row = 0;  ///< from 0
    std::int64_t col = 0;  ///< from 0
    std::string computed;
    std::string expected;
    double error = 0;  ///< |computed − expected| of a part; infinite where one of them is not finite
    double bound = 0;  ///< the tolerance
};

/// The smallest error of a single element, wherever it is, that a check would have noticed.
struct Detects {
    double absolute = 0;
    double relative = 0;  ///< to the root mean square of C; infinite where that is 0
};

/// What a verification found.
struct Verification {
    std::string mode = "none";        ///< what ran: "full", "freivalds", "none"
    std::string verdict = "skipped";  ///< "passed", "failed", "skipped"
    double worst_ratio = 0;           ///< largest error / worst case of the elements compared
    double expected_ratio = 0;    ///< largest error / tolerance of the elements compared; above 1 is wrong
    std::int64_t mismatches = 0;  ///< elements that differ (full), or rows that do (freivalds)
    std::int64_t rows_recomputed = 0;  ///< rows of C that were compared element by element
    /// Root mean square error of the elements compared over that of their values, in units of the type's
    /// roundoff. Absent for integers and transposes.
    std::optional<double> rms_error;
    std::optional<Detects> detects;  ///< absent where any difference is found: integers and transposes
    /// Absent where nothing was compared.
    std::optional<WorstElement> worst;
    /// Integer results whose exact value does not fit in the type, counted in the full check: C holds them
    /// modulo 2^bits, which is right but seldom wanted.
    std::int64_t wrapped = 0;
    std::string note;  ///< why another mode ran than the one asked for, and the like; may be empty

    [[nodiscard]] bool failed() const { return verdict == "failed"; }
};

/// "auto", "full", "freivalds", "none".
std::optional<VerifyMode> verify_mode_from_name(std::string_view name);

}  // namespace gpumat
