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

template <class T>
struct Widened {
    using Type = T;
};
template <class T>
requires kIsHalf<T>
struct Widened<T> {
    using Type = float;
};
template <std::integral T>
requires(sizeof(T) < 4) struct Widened<T> {
    using Type = std::int32_t;
};
template <>
struct Widened<std::uint32_t> {
    using Type = std::int64_t;
};

/// The type that elements are widened to, which holds them exactly: conversions are written from these only.
template <class T>
using WideOf = typename Widened<T>::Type;

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
        const bool held = convert_real(value, real);
        out = To(real, 0);
        return held;
    } else {
        return convert_real(value, out);
    }
}

template <class T>
std::string text_of(const std::byte* value) {
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text.precision(17);
    text << *reinterpret_cast<const T*>(value);
    return text.str();
}

template <class From>
void widen(const std::byte* from, std::int64_t count, std::byte* wide) {
    const auto* source = reinterpret_cast<const From*>(from);
    auto* target = reinterpret_cast<WideOf<From>*>(wide);
    for (std::int64_t j = 0; j < count; ++j) target[j] = static_cast<WideOf<From>>(source[j]);
}

/// Converts all, and returns the first that cannot be held: `count` where all can. To stop at it would cost a
/// branch an element.
template <class From, class To>
std::int64_t narrow(const std::byte* from, std::int64_t count, std::byte* to) {
    const auto* source = reinterpret_cast<const From*>(from);
    auto* target = reinterpret_cast<To*>(to);
    bool held = true;
    for (std::int64_t j = 0; j < count; ++j) held &= convert_one(source[j], target[j]);
    if (held) return count;
    std::int64_t first = 0;
    while (convert_one(source[first], target[first])) ++first;
    return first;
}

/// How elements of one type become elements of another: first wide, then narrow. One that is null has nothing
/// to do.
struct Way {
    void (*widen)(const std::byte* from, std::int64_t count, std::byte* wide);
    std::int64_t wide_bytes;
    std::int64_t (*narrow)(const std::byte* wide, std::int64_t count, std::byte* to);
    std::string (*text_of)(const std::byte* wide);
};

template <class From>
Way way_from(Type to) {
    return visit_type(to, [&]<class To>(TypeTag<To>) {
        return Way{nullptr, sizeof(From), narrow<From, To>, text_of<From>};
    });
}

Way way_between(Type from, Type to) {
    return visit_type(from, [&]<class From>(TypeTag<From>) {
        Way way = way_from<WideOf<From>>(to);
        if constexpr (!std::is_same_v<From, WideOf<From>>) {
            way.widen = widen<From>;
            const bool wide =
                visit_type(to, [&]<class To>(TypeTag<To>) { return std::is_same_v<To, WideOf<From>>; });
            if (wide) way.narrow = nullptr;
        }
        return way;
    });
}

}  // namespace

void convert(const MatrixView& from, const MutableMatrixView& to, const std::string& what, int threads,
             const Block& place) {
    constexpr std::int64_t kWidenedAtOnce = 512;
    constexpr std::int64_t kElementsAtOnce = 65536;
    const Way way = way_between(from.type, to.type);
    const auto from_bytes = static_cast<std::int64_t>(size_of(from.type));
    const auto to_bytes = static_cast<std::int64_t>(size_of(to.type));
    const std::int64_t cols = from.shape.cols;

    // Neighbours in row i, from column j on; beyond its end where rows follow each other without gaps.
    const auto convert_run = [&](std::int64_t i, std::int64_t j, std::int64_t end) {
        alignas(16) std::byte widened[kWidenedAtOnce * sizeof(double)];
        while (j < end) {
            const std::byte* source = from.data + (i * from.ld + j) * from_bytes;
            std::byte* target = to.data + (i * to.ld + j) * to_bytes;
            if (way.narrow == nullptr) return way.widen(source, end - j, target);
            std::int64_t count = end - j;
            if (way.widen != nullptr) {
                count = std::min(count, kWidenedAtOnce);
                way.widen(source, count, widened);
                source = widened;
            }
            const std::int64_t held = way.narrow(source, count, target);
            j += held;
            if (held == count) continue;
            throw Error(ErrorCode::input, what + ": row " + std::to_string(place.row + i + j / cols + 1) +
                                              ", column " + std::to_string(place.col + j % cols + 1) + ": " +
                                              way.text_of(source + held * way.wide_bytes) + " (" +
                                              std::string(name_of(from.type)) + ") cannot be held in " +
                                              std::string(name_of(to.type)));
        }
    };
    if (from.ld == cols && to.ld == cols) {
        parallel_for(from.shape.elements(), kElementsAtOnce, threads,
                     [&](std::int64_t begin, std::int64_t end) { convert_run(0, begin, end); });
        return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kElementsAtOnce / std::max<std::int64_t>(1, cols));
    parallel_for(from.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) convert_run(i, 0, cols);
    });
}

}  // namespace gpumat
