#include "core/numbers/convert.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <locale>
#include <sstream>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "core/parallel.hpp"

namespace gpumat {
namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// A value in the widest type of its kind, which holds it exactly.
template <class T>
auto widen(T value) {
    if constexpr (kIsHalf<T>) {
        return static_cast<double>(value);
    } else {
        return value;
    }
}

template <class To, class From>
bool real_to_float(From value, To& out) {
    if constexpr (kIsHalf<To>) {
        // Integers of 64 bits round to double first. That is exact where |value| < 2⁵³; beyond it a tie
        // could only be misjudged within one part in 2⁵³, far from any tie of an 11- or 8-bit significand
        // that an integer can reach without being exact in double, unless low bits are lost: keep a sticky
        // bit.
        double wide = 0;
        if constexpr (std::integral<From> && sizeof(From) == 8) {
            const bool negative = value < From{0};
            std::uint64_t magnitude =
                negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
            if (magnitude >> 53 != 0)
                magnitude = (magnitude & ~0xfffULL) | ((magnitude & 0xfffULL) != 0 ? 0x800U : 0U);
            wide = negative ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
        } else {
            wide = static_cast<double>(value);
        }
        out = To(wide);
        return std::isfinite(static_cast<float>(out)) || !std::isfinite(wide);
    } else {
        out = static_cast<To>(value);
        if constexpr (std::floating_point<From>) return std::isfinite(out) || !std::isfinite(value);
        return true;
    }
}

template <class To, class From>
bool real_to_integer(From value, To& out) {
    if constexpr (std::integral<From>) {
        if (!std::in_range<To>(value)) return false;
    } else {
        // Both bounds are powers of two (or zero) and so exact; NaN fails every comparison.
        constexpr auto kLow = static_cast<From>(std::numeric_limits<To>::min());
        const From high = std::ldexp(From{1}, std::numeric_limits<To>::digits);
        if (!(value >= kLow && value < high && std::trunc(value) == value)) return false;
    }
    out = static_cast<To>(value);
    return true;
}

template <class To, class From>
bool convert_real(From value, To& out) {
    if constexpr (std::integral<To>) {
        return real_to_integer(value, out);
    } else {
        return real_to_float(value, out);
    }
}

/// False where `value` cannot be held; `out` is then unspecified.
template <class To, class From>
bool convert_one(From value, To& out) {
    if constexpr (kIsComplex<From> && kIsComplex<To>) {
        typename To::value_type real{};
        typename To::value_type imaginary{};
        const bool held = convert_real(value.real(), real) && convert_real(value.imag(), imaginary);
        out = To(real, imaginary);
        return held;
    } else if constexpr (kIsComplex<From>) {
        return value.imag() == 0 && convert_real(value.real(), out);
    } else if constexpr (kIsComplex<To>) {
        typename To::value_type real{};
        const bool held = convert_real(widen(value), real);
        out = To(real, 0);
        return held;
    } else {
        return convert_real(widen(value), out);
    }
}

template <class T>
std::string text_of(T value) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text.precision(17);
    if constexpr (kIsHalf<T>) {
        text << static_cast<double>(value);
    } else {
        text << +value;
    }
    return text.str();
}

template <class From, class To>
void convert_rows(const MatrixView& from, const MutableMatrixView& to, const std::string& what, int threads,
                  const Block& place) {
    const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, from.shape.cols));
    parallel_for(from.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const From* source = from.row<From>(i);
            To* target = to.row<To>(i);
            for (std::int64_t j = 0; j < from.shape.cols; ++j) {
                if (convert_one(source[j], target[j])) continue;
                throw Error(ErrorCode::input, what + ": row " + std::to_string(place.row + i + 1) +
                                                  ", column " + std::to_string(place.col + j + 1) + ": " +
                                                  text_of(source[j]) + " (" +
                                                  std::string(name_of(from.type)) + ") cannot be held in " +
                                                  std::string(name_of(to.type)));
            }
        }
    });
}

}  // namespace

void convert(const MatrixView& from, const MutableMatrixView& to, const std::string& what, int threads,
             const Block& place) {
    visit_type(from.type, [&]<class From>(TypeTag<From>) {
        visit_type(to.type,
                   [&]<class To>(TypeTag<To>) { convert_rows<From, To>(from, to, what, threads, place); });
    });
}

}  // namespace gpumat
