#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/problem.hpp"
#include "lib/core/matrix.hpp"

// Verification of a result against a reference computed here on the CPU.
//
// Transposes are compared bit for bit. Integer multiplies are compared exactly, modulo 2^bits.
// Floating-point and complex multiplies pass where every element of C keeps within a bound that is proved,
// not tuned, so a correct level never fails, whatever the order of its additions:
//
//     |C − Ĉ| ≤ γ·S + rounding of the output type + underflow,   S = |α|·(|A|·|B|) + |β|·|D|
//
// lib/reference.hpp derives γ. Comparisons are written so that NaN fails. Special values:
//  - Where the reference is NaN or an infinity (the inputs hold some), C must be NaN or the same infinity.
//    A complex element with a NaN or infinite part counts as "not finite", and must meet one that is.
//  - Where the terms are so large that the accumulation can overflow (S, or |A|·|B| before α, passes the
//    largest finite value of the type that sums have), C may also be infinite or NaN.
//  - Where the reference interval (reference ± bound) reaches the value from which the output type rounds
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

/// Columns of X in Freivalds' check. Floating point: entries ±1. An element whose error exceeds twice the
/// sum of the bounds of its row is always found if it is the only wrong one in its row, and missed with a
/// probability of at most 2^−16 otherwise; smaller errors may pass, which only the full check finds.
/// Integers: the first column is odd numbers, the others any, so that a single wrong element in a row is
/// always found, and any other pattern of errors is missed with a probability of at most 2^−15.
inline constexpr int kFreivaldsRounds = 16;

struct VerifyOptions {
    VerifyMode mode = VerifyMode::automatic;
    /// Replaces the derived bound of a floating-point multiply by tolerance · S (S as above). Integers and
    /// transposes stay exact.
    std::optional<double> tolerance = std::nullopt;
    int threads = 1;
    std::uint64_t seed = 0;  ///< of Freivalds' random vectors
};

/// The element that exceeds its bound the most, or comes closest to it.
struct WorstElement {
    std::int64_t row = 0;  ///< from 0
    std::int64_t col = 0;  ///< from 0
    std::string computed;
    std::string expected;
    double error = 0;  ///< |computed − expected|; infinite where one of them is not finite
    double bound = 0;
};

/// What a verification found.
struct Verification {
    std::string mode = "none";        ///< what ran: "full", "freivalds", "none"
    std::string verdict = "skipped";  ///< "passed", "failed", "skipped"
    /// Largest error / bound: of an element (full) or of a row of C·X (freivalds). Above 1 where it failed.
    double worst_ratio = 0;
    std::int64_t mismatches = 0;  ///< elements that differ (full), or rows that do (freivalds)
    /// Absent where nothing was compared, and where Freivalds' check passed.
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

/// Whether `operands.c` is the result of `problem`. All operands are in host memory.
/// Throws Error{memory} where the work space cannot be had.
Verification verify_multiply(const Problem& problem, const Operands& operands, const VerifyOptions& options);

/// Host memory that a verification takes beside the matrices, where that grows with them: Freivalds' check
/// keeps kFreivaldsRounds vectors. The others take a few MB whatever the shape.
std::uint64_t verification_bytes(const Problem& problem, VerifyMode mode);

}  // namespace gpumat
