#include "lib/matrices/compare_elements.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "lib/matrices/tile_comparison.hpp"

namespace gpumat {
using namespace comparison;
namespace {

/// Whether doubles do not hold each of these elements exactly, or not the moduli of their differences.
bool needs_wide(Type type, const std::byte* from, std::int64_t count) {
    return visit_type(type, [&]<class T>(TypeTag<T>) {
        const auto* values = reinterpret_cast<const T*>(from);
        bool large = false;
        if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
            constexpr auto kMost = static_cast<T>(std::int64_t{1} << 53);
            for (std::int64_t i = 0; i < count; ++i) {
                large |= values[i] > kMost;
                if constexpr (std::is_signed_v<T>) large |= values[i] < -kMost;
            }
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
            constexpr double kMost = 0x1p1000;
            for (std::int64_t i = 0; i < count; ++i) {
                large |= !(std::abs(values[i].real()) < kMost);
                large |= !(std::abs(values[i].imag()) < kMost);
            }
        }
        return large;
    });
}

/// |value| in double; NaN and infinities stay what they are, or change places.
template <class T>
double plain_modulus(T value) {
    if constexpr (kIsComplex<T>) {
        return modulus(as_complex(value));
    } else if constexpr (std::is_same_v<T, Half>) {
        const auto bits = static_cast<std::uint32_t>(value.bits & 0x7fff);
        const float finite = std::bit_cast<float>(bits << 13) * 0x1p112F;  // subnormal numbers too
        return bits < 0x7c00 ? finite : std::numeric_limits<float>::infinity();
    } else {
        return std::abs(static_cast<double>(value));
    }
}

/// The sums of at most `kTile` elements. The sum of squares is not finite where one of them is not.
template <class T>
Norms norms_of_elements(const T* values, std::size_t count) {
    if constexpr (std::is_integral_v<T> && sizeof(T) <= 2) {  // in whole numbers, several in a register
        std::uint32_t largest = 0;
        std::conditional_t<sizeof(T) == 1, std::uint32_t, std::uint64_t> squares = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const auto size = static_cast<std::uint32_t>(std::abs(std::int32_t{values[i]}));
            largest = std::max(largest, size);
            squares += size * size;
        }
        return {static_cast<double>(largest), static_cast<Wide>(squares)};
    } else {
        std::array<double, kTile> moduli;
        for (std::size_t i = 0; i < count; ++i) moduli[i] = plain_modulus(values[i]);
        return norms_of(moduli, count);
    }
}

/// Adds the norms of elements that are the same in X and Y. False, and nothing added, where some are not
/// finite.
template <class T>
bool add_same(const std::byte* from, std::int64_t count, ElementFindings& findings) {
    const Norms norms = norms_of_elements(reinterpret_cast<const T*>(from), static_cast<std::size_t>(count));
    if (!std::isfinite(norms.squares)) return false;
    findings.x.add(norms);
    findings.y.add(norms);
    return true;
}

// ---- One tile after the other, on any processor and on one with wider registers -------------------------

/// How two matrices are compared, tile after tile.
struct Rules {
    Type x;
    Type y;
    const Tolerance& tolerance;
    std::size_t most_listed;
};

[[gnu::always_inline]] inline void compare_tile(const Rules& rules, const Tile& tile,
                                                ElementFindings& findings) {
    const std::size_t bytes = static_cast<std::size_t>(tile.count) * size_of(rules.x);
    if (rules.x == rules.y && std::memcmp(tile.x, tile.y, bytes) == 0 &&
        visit_type(rules.x, [&]<class T>(TypeTag<T>) { return add_same<T>(tile.x, tile.count, findings); }))
        return;
    if (needs_wide(rules.x, tile.x, tile.count) || needs_wide(rules.y, tile.y, tile.count)) {
        TileComparison<Wide>(rules.x, rules.y, rules.tolerance, rules.most_listed, tile, findings).run();
    } else {
        TileComparison<double>(rules.x, rules.y, rules.tolerance, rules.most_listed, tile, findings).run();
    }
}

using CompareTile = void (*)(const Rules&, const Tile&, ElementFindings&);
void compare_tile_portable(const Rules& rules, const Tile& tile, ElementFindings& findings) {
    compare_tile(rules, tile, findings);
}
#if defined(__x86_64__)
[[gnu::target("avx2"), gnu::flatten]] void compare_tile_avx2(const Rules& rules, const Tile& tile,
                                                             ElementFindings& findings) {
    compare_tile(rules, tile, findings);
}
#endif
CompareTile fastest_compare_tile() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return compare_tile_avx2;
#endif
    return compare_tile_portable;
}

}  // namespace

double Norms::frobenius() const {
    return static_cast<double>(std::sqrt(squares));
}

void Norms::add(const Norms& other) {
    largest = std::max(largest, other.largest);
    squares += other.squares;
}

void ElementFindings::merge(const ElementFindings& other, std::size_t most_listed) {
    unequal += other.unequal;
    differing += other.differing;
    nans_x += other.nans_x;
    nans_y += other.nans_y;
    nans_both += other.nans_both;
    infinities_x += other.infinities_x;
    infinities_y += other.infinities_y;
    x.add(other.x);
    y.add(other.y);
    difference.add(other.difference);
    for (const auto* found : {&other.largest_absolute, &other.largest_relative, &other.largest_ulps}) {
        if (*found) take_larger(*this, **found);
    }
    if (other.first.empty()) return;
    const auto middle = static_cast<std::ptrdiff_t>(first.size());
    first.insert(first.end(), other.first.begin(), other.first.end());
    std::inplace_merge(first.begin(), first.begin() + middle, first.end(), before);
    if (first.size() > most_listed)
        first.erase(first.begin() + static_cast<std::ptrdiff_t>(most_listed), first.end());
}

ElementComparison::ElementComparison(Type x, Type y, const Tolerance& tolerance, std::size_t most_listed)
    : x_(x), y_(y), tolerance_(tolerance), most_listed_(most_listed) {}

ElementFindings ElementComparison::compare(const std::byte* x, const std::byte* y, const Block& block,
                                           std::int64_t begin, std::int64_t end, std::uint8_t* mask) const {
    static const CompareTile compare_tile = fastest_compare_tile();
    ElementFindings findings;
    const Rules rules = {x_, y_, tolerance_, most_listed_};
    const auto x_bytes = static_cast<std::int64_t>(size_of(x_));
    const auto y_bytes = static_cast<std::int64_t>(size_of(y_));
    if (mask != nullptr) std::fill(mask + begin, mask + end, std::uint8_t{0});
    for (std::int64_t first = begin; first < end; first += kTile) {
        const Tile tile = {x + first * x_bytes,
                           y + first * y_bytes,
                           std::min(kTile, end - first),
                           block,
                           first,
                           mask == nullptr ? nullptr : mask + first};
        compare_tile(rules, tile, findings);
    }
    return findings;
}

}  // namespace gpumat
