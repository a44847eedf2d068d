#include "kernels/check/findings.hpp"

#include <bit>
#include <cstdio>

namespace gpumat {
namespace {

std::string number_text(double value, int digits) {
    std::array<char, 40> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
    return buffer.data();
}

/// Significant digits that tell every value of the type apart.
int digits_of(Type type) {
    if (type == Type::f16 || type == Type::bf16) return 5;
    return type == Type::f64 || type == Type::c128 ? 17 : 9;
}

}  // namespace

std::string element_text(std::complex<double> value, Type type) {
    const int digits = digits_of(type);
    if (!is_complex(type)) return number_text(value.real(), digits);
    return "(" + number_text(value.real(), digits) + ", " + number_text(value.imag(), digits) + ")";
}

void Distinct::add(double value) {
    constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52) - 1;
    const std::uint64_t hash = (std::bit_cast<std::uint64_t>(value) & kMantissa) * 0x9e3779b97f4a7c15U;
    seen_[hash >> 60] |= std::uint64_t{1} << ((hash >> 54) & 63U);
}

void Distinct::merge(const Distinct& other) {
    for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i] |= other.seen_[i];
}

std::int64_t Distinct::count() const {
    std::int64_t bits = 0;
    for (const std::uint64_t word : seen_) bits += std::popcount(word);
    return bits;
}

void Findings::merge(const Findings& part) {
    mismatches += part.mismatches;
    wrapped += part.wrapped;
    worst_ratio = std::max(worst_ratio, part.worst_ratio);
    tolerance = std::max(tolerance, part.tolerance);
    error_squares += part.error_squares;
    value_squares += part.value_squares;
    noise_squares += part.noise_squares;
    compared += part.compared;
    distinct.merge(part.distinct);
    if (part.worst && is_worse(part.ratio, part.worst->row, part.worst->col)) {
        ratio = part.ratio;
        worst = part.worst;
    }
}

Verification verification_of(const char* mode, const Findings& found) {
    Verification result;
    result.mode = mode;
    result.mismatches = found.mismatches;
    result.verdict = found.mismatches == 0 ? "passed" : "failed";
    result.worst_ratio = found.worst_ratio;
    result.expected_ratio = std::max(0.0, found.ratio);
    result.worst = found.worst;
    result.wrapped = found.wrapped;
    return result;
}

}  // namespace gpumat
