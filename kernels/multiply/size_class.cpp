// The classes of multiplies, by the first rule that fits:
//   none         an extent under 17
//   tiny         m·n·k under 2²⁰
//   deep         k at least 8 times m and n
//   tall, wide   m at least 8 times n, or n at least 8 times m
//   odd          rows of A, B or C are no multiple of 16 bytes
//   small, medium, large   m·n·k under 2²⁶, 2³¹, beyond
#include <algorithm>
#include <array>

#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply {
namespace {

constexpr double kSmallSteps = 0x1p20;
constexpr double kMediumSteps = 0x1p26;
constexpr double kLargeSteps = 0x1p31;

constexpr std::array kTypes = {Type::f32, Type::f64,  Type::c64, Type::c128,
                               Type::f16, Type::bf16, Type::i32, Type::i64};

std::string element_kind(Type type) {
    return std::string(name_of(type));
}

std::vector<SizeClass> classes(Type type) {
    std::vector<SizeClass> all(all_size_classes().begin(), all_size_classes().end());
    // Whatever their number, elements of 16 bytes fill a multiple of 16 bytes.
    if (fills_widest_access(1, type)) std::erase(all, SizeClass::odd);
    return all;
}

bool rows_fill_widest_access(const Problem& p) {
    return fills_widest_access(p.transpose_a ? p.m : p.k, p.type) &&
           fills_widest_access(p.transpose_b ? p.k : p.n, p.type) && fills_widest_access(p.n, p.type);
}

std::optional<SizeClass> class_of(const Problem& p) {
    if (std::min({p.m, p.n, p.k}) < kLeastClassedExtent) return std::nullopt;
    const double steps = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    if (steps < kSmallSteps) return SizeClass::tiny;
    if (is_elongated(p.k, std::max(p.m, p.n))) return SizeClass::deep;
    if (is_elongated(p.m, p.n)) return SizeClass::tall;
    if (is_elongated(p.n, p.m)) return SizeClass::wide;
    if (!rows_fill_widest_access(p)) return SizeClass::odd;
    return class_by_size(steps, kMediumSteps, kLargeSteps);
}

Extents representative(Type, SizeClass size_class, DeviceKind device) {
    switch (size_class) {
        case SizeClass::tiny:
            return {80, 80, 80};
        case SizeClass::small:
            return {240, 240, 240};
        case SizeClass::large:
            // What fills a GPU would keep a CPU busy for minutes.
            return device == DeviceKind::gpu ? Extents{4096, 4096, 4096} : Extents{1536, 1536, 1536};
        case SizeClass::odd:
            return {1019, 1021, 1023};
        case SizeClass::tall:
            return {16384, 64, 512};
        case SizeClass::wide:
            return {64, 16384, 512};
        case SizeClass::deep:
            return {96, 96, 32768};
        case SizeClass::medium:
            break;
    }
    return {1008, 1008, 1008};
}

}  // namespace

constinit const Tunable kTunable = {.types = kTypes,
                                    .element_kind = element_kind,
                                    .classes = classes,
                                    .class_of = class_of,
                                    .representative = representative};

}  // namespace gpumat::multiply
