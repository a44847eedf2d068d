// The classes of transposes, by the first rule that fits:
//   none         in place, or an extent under 17
//   tiny         under 64 KiB of input
//   tall, wide   m at least 8 times n, or n at least 8 times m
//   odd          rows of the input or the result are no multiple of 16 bytes
//   small, medium, large   under 4 MiB, under 64 MiB, beyond
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose {
namespace {

constexpr double kSmallBytes = 0x1p16;
constexpr double kMediumBytes = 0x1p22;
constexpr double kLargeBytes = 0x1p26;

// One type stands for all of its size, because a transpose moves bits.
constexpr std::array kTypes = {Type::u8, Type::u16, Type::f32, Type::f64, Type::c128};

std::string element_kind(Type type) {
    return std::to_string(size_of(type)) + "-byte";
}

std::vector<SizeClass> classes(Type type) {
    std::vector<SizeClass> all(all_size_classes().begin(), all_size_classes().end());
    std::erase(all, SizeClass::deep);
    // Whatever their number, elements of 16 bytes fill a multiple of 16 bytes.
    if (fills_widest_access(1, type)) std::erase(all, SizeClass::odd);
    return all;
}

std::optional<SizeClass> class_of(const Problem& p) {
    if (p.in_place || std::min(p.m, p.n) < kLeastClassedExtent) return std::nullopt;
    const double input_bytes = p.bytes() / 2;
    if (input_bytes < kSmallBytes) return SizeClass::tiny;
    if (is_elongated(p.m, p.n)) return SizeClass::tall;
    if (is_elongated(p.n, p.m)) return SizeClass::wide;
    if (!fills_widest_access(p.n, p.type) || !fills_widest_access(p.m, p.type)) return SizeClass::odd;
    return class_by_size(input_bytes, kMediumBytes, kLargeBytes);
}

/// A square of about so many bytes; its side is a multiple of 16 that is seldom a power of two.
Extents square_of(double bytes, double element) {
    const std::int64_t side = static_cast<std::int64_t>(std::sqrt(bytes / element)) / 16 * 16;
    return {side, side, 0};
}

Extents representative(Type type, SizeClass size_class, DeviceKind) {
    constexpr double kMeasuredMediumBytes = 24e6;
    constexpr std::int64_t kThinColumns = 64;
    const auto element = static_cast<double>(size_of(type));
    const Extents medium = square_of(kMeasuredMediumBytes, element);
    const auto length = static_cast<std::int64_t>(kMeasuredMediumBytes / element) / kThinColumns / 16 * 16;
    switch (size_class) {
        case SizeClass::tiny:
            return square_of(32e3, element);
        case SizeClass::small:
            return square_of(1e6, element);
        case SizeClass::large:
            return square_of(200e6, element);
        case SizeClass::odd:
            return {medium.m + 1, medium.n - 1, 0};
        case SizeClass::tall:
            return {length, kThinColumns, 0};
        case SizeClass::wide:
            return {kThinColumns, length, 0};
        case SizeClass::medium:
        case SizeClass::deep:
            break;
    }
    return medium;
}

}  // namespace

constinit const Tunable kTunable = {.types = kTypes,
                                    .element_kind = element_kind,
                                    .classes = classes,
                                    .class_of = class_of,
                                    .representative = representative};

}  // namespace gpumat::transpose
