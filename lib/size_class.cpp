#include "lib/size_class.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace gpumat {
namespace {

constexpr std::int64_t kFewest = 17;       // rows or columns that a class needs
constexpr std::int64_t kElongated = 8;     // times as long as wide
constexpr std::size_t kAlignment = 16;     // bytes that the widest accesses ask for
constexpr std::int64_t kThinColumns = 64;  // of the matrix that stands for tall ones

constexpr std::array kClasses = {SizeClass::tiny, SizeClass::small, SizeClass::medium, SizeClass::large,
                                 SizeClass::odd,  SizeClass::tall,  SizeClass::wide,   SizeClass::deep};
constexpr std::array<std::string_view, kClasses.size()> kNames = {"tiny", "small", "medium", "large",
                                                                  "odd",  "tall",  "wide",   "deep"};

/// The first value of each class of size. Multiplies are measured in m·n·k, transposes in bytes.
struct Limits {
    double small;
    double medium;
    double large;
};
constexpr Limits kTransposeBytes = {0x1p16, 0x1p22, 0x1p26};
constexpr Limits kMultiplySteps = {0x1p20, 0x1p26, 0x1p31};

double product(std::int64_t m, std::int64_t n, std::int64_t k) {
    return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

bool long_for(std::int64_t length, std::int64_t width) {
    return length / kElongated >= width;
}

/// Whether so many elements fill a multiple of 16 bytes; the product may wrap, its low bits do not.
bool aligned(std::int64_t elements, Type type) {
    return static_cast<std::uint64_t>(elements) * size_of(type) % kAlignment == 0;
}

bool rows_aligned(const Problem& problem) {
    if (problem.operation == Operation::transpose)
        return aligned(problem.n, problem.type) && aligned(problem.m, problem.type);
    return aligned(problem.transpose_a ? problem.m : problem.k, problem.type) &&
           aligned(problem.transpose_b ? problem.k : problem.n, problem.type) &&
           aligned(problem.n, problem.type);
}

SizeClass by_size(double size, const Limits& limits) {
    return size < limits.medium  ? SizeClass::small
           : size < limits.large ? SizeClass::medium
                                 : SizeClass::large;
}

/// The side of a square of about `elements` elements, a multiple of 16 that is seldom a power of two.
std::int64_t side_of(double elements) {
    return static_cast<std::int64_t>(std::sqrt(elements)) / 16 * 16;
}

BenchSize transpose_representative(Type type, SizeClass size_class) {
    constexpr double kTinyBytes = 32e3;
    constexpr double kSmallBytes = 1e6;
    constexpr double kMediumBytes = 24e6;
    constexpr double kLargeBytes = 200e6;
    const auto element = static_cast<double>(size_of(type));
    const std::int64_t medium = side_of(kMediumBytes / element);
    const auto length = static_cast<std::int64_t>(kMediumBytes / element) / kThinColumns / 16 * 16;
    const auto square = [](std::int64_t side) { return BenchSize{side, side, 0}; };
    switch (size_class) {
        case SizeClass::tiny:
            return square(side_of(kTinyBytes / element));
        case SizeClass::small:
            return square(side_of(kSmallBytes / element));
        case SizeClass::large:
            return square(side_of(kLargeBytes / element));
        case SizeClass::odd:
            return {medium + 1, medium - 1, 0};
        case SizeClass::tall:
            return {length, kThinColumns, 0};
        case SizeClass::wide:
            return {kThinColumns, length, 0};
        case SizeClass::medium:
        case SizeClass::deep:
            break;
    }
    return square(medium);
}

BenchSize multiply_representative(SizeClass size_class, DeviceKind device) {
    switch (size_class) {
        case SizeClass::tiny:
            return {80, 80, 80};
        case SizeClass::small:
            return {240, 240, 240};
        case SizeClass::large:
            // What fills a GPU would keep a CPU busy for minutes.
            return device == DeviceKind::gpu ? BenchSize{4096, 4096, 4096} : BenchSize{1536, 1536, 1536};
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

std::vector<SizeClass> size_classes(Operation operation, Type type) {
    std::vector<SizeClass> classes(kClasses.begin(), kClasses.end());
    if (operation == Operation::transpose) std::erase(classes, SizeClass::deep);
    // Whatever their number, elements of 16 bytes fill a multiple of 16 bytes.
    if (size_of(type) % kAlignment == 0) std::erase(classes, SizeClass::odd);
    return classes;
}

std::string_view name_of(SizeClass size_class) {
    return kNames[static_cast<std::size_t>(size_class)];
}

std::optional<SizeClass> size_class_from_name(std::string_view name) {
    const auto found = std::ranges::find(kNames, name);
    if (found == kNames.end()) return std::nullopt;
    return kClasses[static_cast<std::size_t>(found - kNames.begin())];
}

std::optional<SizeClass> size_class_of(const Problem& problem) {
    const bool multiplies = problem.operation == Operation::multiply;
    const auto [m, n] = std::pair(problem.m, problem.n);
    const std::int64_t k = multiplies ? problem.k : kFewest;
    if (problem.in_place || std::min({m, n, k}) < kFewest) return std::nullopt;
    const Limits& limits = multiplies ? kMultiplySteps : kTransposeBytes;
    const double size =
        multiplies ? product(m, n, k) : product(m, n, static_cast<std::int64_t>(size_of(problem.type)));
    if (size < limits.small) return SizeClass::tiny;
    if (multiplies && long_for(k, std::max(m, n))) return SizeClass::deep;
    if (long_for(m, n)) return SizeClass::tall;
    if (long_for(n, m)) return SizeClass::wide;
    if (!rows_aligned(problem)) return SizeClass::odd;
    return by_size(size, limits);
}

BenchSize representative(Operation operation, Type type, SizeClass size_class, DeviceKind device) {
    return operation == Operation::transpose ? transpose_representative(type, size_class)
                                             : multiply_representative(size_class, device);
}

std::string element_kind(Operation operation, Type type) {
    return operation == Operation::transpose ? std::to_string(size_of(type)) + "-byte"
                                             : std::string(name_of(type));
}

}  // namespace gpumat
