#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/random.hpp"
#include "kernels/check/elements.hpp"
#include "lib/matrices/generated_matrix.hpp"

// The parameters of generated matrices as numbers, and the random numbers that they ask for.

namespace gpumat::generated {

__extension__ using Wide = __int128;  // holds every 64-bit integer, with and without a sign

inline constexpr double kMostDeviations = 8.3;  ///< of a normal number, see normal_quantile

// ---- Parameters -----------------------------------------------------------------------------------------

[[noreturn]] inline void refuse_parameter(const std::string& name, const std::string& text,
                                          const std::string& expected) {
    throw Error(ErrorCode::usage, "--" + name + " is '" + text + "'; expected " + expected);
}

/// The largest finite value of a type's parts, as a double.
inline double largest_real(Type type) {
    switch (type) {
        case Type::f16:
            return 65504;
        case Type::bf16:
            return 0x1.fep127;
        case Type::f32:
        case Type::c64:
            return std::numeric_limits<float>::max();
        default:
            return std::numeric_limits<double>::max();
    }
}

/// The integers that a type holds exactly, without gaps.
inline std::pair<Wide, Wide> integer_range(Type type) {
    return visit_type(type, []<class T>(TypeTag<T>) -> std::pair<Wide, Wide> {
        if constexpr (std::is_integral_v<T>) {
            return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
        } else {
            constexpr std::size_t kBytes = kIsComplex<T> ? sizeof(T) / 2 : sizeof(T);
            constexpr int kDigits = std::is_same_v<T, BFloat16> ? 8
                                    : kBytes == 2               ? 11
                                    : kBytes == 4               ? 24
                                                                : 53;
            return {-(Wide{1} << kDigits), Wide{1} << kDigits};
        }
    });
}

inline std::string text_of(Wide value) {
    return value < 0 ? std::to_string(static_cast<std::int64_t>(value))
                     : std::to_string(static_cast<std::uint64_t>(value));
}

/// The parameters as numbers.
class GivenParameters {
  public:
    explicit GivenParameters(const GeneratedMatrix& wanted) : wanted_(wanted) {}

    [[nodiscard]] double real(const std::string& name, double fallback) const {
        const auto given = wanted_.parameters.find(name);
        return given == wanted_.parameters.end() ? fallback : parse_real(name, given->second);
    }

    [[nodiscard]] Wide integer(const std::string& name, Wide fallback) const {
        const auto given = wanted_.parameters.find(name);
        return given == wanted_.parameters.end() ? fallback : parse_integer(name, given->second);
    }

    /// The items between the commas; nothing where the parameter is not given.
    [[nodiscard]] std::vector<std::string> items(const std::string& name) const {
        const auto given = wanted_.parameters.find(name);
        std::vector<std::string> found;
        if (given == wanted_.parameters.end()) return found;
        for (std::size_t at = 0; at <= given->second.size();) {
            const std::size_t comma = std::min(given->second.find(',', at), given->second.size());
            found.push_back(given->second.substr(at, comma - at));
            at = comma + 1;
        }
        return found;
    }

    [[nodiscard]] double parse_real(const std::string& name, const std::string& text) const {
        double value = 0;
        const char* end = text.data() + text.size();
        const auto [last, failure] = std::from_chars(text.data(), end, value);
        if (failure == std::errc{} && last == end && std::fabs(value) <= largest_real(wanted_.type))
            return value;
        refuse_parameter(name, text, "a finite number that " + std::string(name_of(wanted_.type)) + " holds");
    }

    [[nodiscard]] Wide parse_integer(const std::string& name, const std::string& text) const {
        const char* const begin = text.data();
        const char* const end = begin + text.size();
        std::int64_t with_sign = 0;
        std::uint64_t without = 0;
        const auto [low, high] = integer_range(wanted_.type);
        std::optional<Wide> value;
        if (const auto [last, failure] = std::from_chars(begin, end, with_sign);
            failure == std::errc{} && last == end) {
            value = with_sign;
        } else if (const auto [past, other] = std::from_chars(begin, end, without);
                   other == std::errc{} && past == end) {
            value = without;
        }
        if (value && *value >= low && *value <= high) return *value;
        refuse_parameter(name, text,
                         "an integer that " + std::string(name_of(wanted_.type)) +
                             " holds exactly: " + text_of(low) + " to " + text_of(high));
    }

  private:
    const GeneratedMatrix& wanted_;
};

inline void require_real_type(const GeneratedMatrix& wanted) {
    if (!is_integer(wanted.type)) return;
    throw Error(ErrorCode::usage, "a matrix of kind '" + wanted.kind + "' has fractions, which " +
                                      std::string(name_of(wanted.type)) +
                                      " cannot hold; expected f16, bf16, f32, f64, c64 or c128");
}

// ---- Random numbers -------------------------------------------------------------------------------------

/// Makes a real number of type R of one random word.
struct UniformPart {
    double low;
    double width;

    template <class R>
    [[nodiscard]] R of(std::uint64_t word) const {
        return static_cast<R>(low + width * unit_real(word));
    }
};

struct NormalPart {
    double mean;
    double deviation;

    template <class R>
    [[nodiscard]] R of(std::uint64_t word) const {
        return static_cast<R>(mean + deviation * normal_quantile(open_unit_real(word)));
    }
};

/// low … low + last, each as often as any other but for one in 2^64 / (last + 1) words.
struct IntegerPart {
    Wide low;
    std::uint64_t last;
    bool over_zero = false;  ///< those from zero on are one greater

    template <class R>
    [[nodiscard]] R of(std::uint64_t word) const {
        const auto count = static_cast<unsigned __int128>(last) + 1;
        Wide value = low + static_cast<Wide>((count * word) >> 64);
        if (over_zero && value >= 0) ++value;
        if constexpr (std::is_integral_v<R>) {
            return static_cast<R>(value);
        } else {
            return static_cast<R>(static_cast<double>(static_cast<std::int64_t>(value)));
        }
    }
};

template <class T>
inline constexpr std::int64_t kParts = kIsComplex<T> ? 2 : 1;

template <class T, class Part>
T element_of(const std::uint64_t* words, const Part& part) {
    if constexpr (kIsComplex<T>) {
        using R = typename T::value_type;
        const R re = part.template of<R>(words[0]);
        return {re, part.template of<R>(words[1])};
    } else {
        return part.template of<T>(words[0]);
    }
}

inline UniformPart uniform_part(const GeneratedMatrix& wanted, double low, double high) {
    require_real_type(wanted);
    const GivenParameters parameters(wanted);
    low = parameters.real("low", low);
    high = parameters.real("high", high);
    if (low > high || !std::isfinite(high - low))
        throw Error(ErrorCode::usage, "--low is greater than --high, or too far below it");
    return {low, high - low};
}

inline IntegerPart integer_part(const GeneratedMatrix& wanted) {
    constexpr Wide kUsual = 9;
    const GivenParameters parameters(wanted);
    const bool has_sign = integer_range(wanted.type).first < 0;
    const Wide high = parameters.integer("high", kUsual);
    const Wide low = parameters.integer("low", has_sign ? -kUsual : 0);
    if (low > high) throw Error(ErrorCode::usage, "--low is greater than --high");
    return {low, static_cast<std::uint64_t>(high - low)};
}

/// The same numbers but zero, so that as many elements are not zero as the density says.
inline IntegerPart without_zero(const IntegerPart& part) {
    if (part.low > 0 || part.low + static_cast<Wide>(part.last) < 0) return part;
    if (part.last == 0)
        throw Error(ErrorCode::usage,
                    "--low and --high are 0; a sparse matrix needs a number that is not zero");
    return {part.low, part.last - 1, true};
}

inline NormalPart normal_part(const GeneratedMatrix& wanted) {
    require_real_type(wanted);
    const GivenParameters parameters(wanted);
    const NormalPart part = {parameters.real("mean", 0), parameters.real("deviation", 1)};
    if (part.deviation < 0 ||
        std::fabs(part.mean) + kMostDeviations * part.deviation > largest_real(wanted.type)) {
        throw Error(ErrorCode::usage, "--mean and --deviation give numbers beyond the range of " +
                                          std::string(name_of(wanted.type)) + ", or --deviation is negative");
    }
    return part;
}

}  // namespace gpumat::generated
