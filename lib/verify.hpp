#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/problem.hpp"
#include "lib/core/matrix.hpp"
#include "lib/rounding.hpp"

// Verification of a result against a reference computed here on the CPU. lib/verification.md derives the
// criteria.
//
// Transposes are compared bit for bit. Integer multiplies are compared exactly, modulo 2^bits.
// A part of an element of a floating-point or complex multiply is right where its error keeps within
//  - what rounding is expected to do in the arithmetic of the type, whatever the order of the additions, with
//    a probability of 5e−18 that an honest one does not, and with regard to data on which rounding errors are
//    not independent;
//  - and within the worst case, which is proved.
// The root mean square error of what is compared must be that of the arithmetic: operands rounded to TF32 or
// bf16 do not pass for f32. Comparisons are written so that NaN fails. Special values:
//  - Where the reference is NaN or an infinity (the inputs hold some), C must be NaN or the same infinity.
//    A complex element with a NaN or infinite part counts as "not finite", and must meet one that is.
//  - Where the terms are so large that the accumulation can overflow (S, or |A|·|B| before α, passes the
//    largest finite value of the type that sums have), C may also be infinite or NaN.
//  - Where the reference interval (reference ± worst case) reaches the value from which the output type
//  rounds
//    to infinity, C may also be that infinity (f16: from 65520).
//  - Everywhere else a NaN or an infinity in C is a mismatch.

namespace gpumat {

enum class VerifyMode {
    automatic,  ///< full while 2·M·N·K ≤ kFullCheckFlops, else freivalds
    full,       ///< every element against the reference
    freivalds,  ///< C·X against α·A·(B·X) + β·D·X for random X: cost of reading the matrices
    none
};

/// `automatic` checks in full up to this many operations (about a second on a few cores).
inline constexpr double kFullCheckFlops = 0x1p33;

/// Columns of X in Freivalds' check. Floating point: entries ±1. Rows that stand out from the others by
/// their residuals, and some at random, are computed again; only errors of elements make a result fail.
/// Integers: the first column is odd numbers, the others any, so that a single wrong element in a row is
/// always found, and any other pattern of errors is missed with a probability of at most 2^−15.
inline constexpr int kFreivaldsRounds = 16;

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

/// Whether `out` is the transpose of `in`, bit for bit (every mode but `none` does the same).
/// Throws Error{not_comparable} where shapes or types do not fit.
Verification verify_transpose(const MatrixView& in, const MatrixView& out, const VerifyOptions& options);

/// Whether a multiply is checked by Freivalds' check in this mode, and not element by element.
bool checks_at_random(const Problem& problem, VerifyMode mode);

/// Whether `operands.c` is the result of `problem`. All operands are in host memory.
/// Throws Error{memory} where the work space cannot be had.
Verification verify_multiply(const Problem& problem, const Operands& operands, const VerifyOptions& options);

/// Host memory that a verification takes beside the matrices, where that grows with them: Freivalds' check
/// keeps kFreivaldsRounds vectors. The others take a few MB whatever the shape.
std::uint64_t verification_bytes(const Problem& problem, VerifyMode mode);

}  // namespace gpumat
