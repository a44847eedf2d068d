#include "kernels/size_class.hpp"

#include <algorithm>
#include <array>

namespace gpumat {
namespace {

constexpr std::array kClasses = {SizeClass::tiny, SizeClass::small, SizeClass::medium, SizeClass::large,
                                 SizeClass::odd,  SizeClass::tall,  SizeClass::wide,   SizeClass::deep};
constexpr std::array<std::string_view, kClasses.size()> kNames = {"tiny", "small", "medium", "large",
                                                                  "odd",  "tall",  "wide",   "deep"};

}  // namespace

std::span<const SizeClass> all_size_classes() {
    return kClasses;
}

std::string_view name_of(SizeClass size_class) {
    return kNames[static_cast<std::size_t>(size_class)];
}

std::optional<SizeClass> size_class_from_name(std::string_view name) {
    const auto found = std::ranges::find(kNames, name);
    if (found == kNames.end()) return std::nullopt;
    return kClasses[static_cast<std::size_t>(found - kNames.begin())];
}

bool is_elongated(std::int64_t length, std::int64_t width) {
    constexpr std::int64_t kTimes = 8;
    return length / kTimes >= width;
}

bool fills_widest_access(std::int64_t elements, Type type) {
    constexpr std::size_t kWidestBytes = 16;
    // The product may wrap; its low bits do not.
    return static_cast<std::uint64_t>(elements) * size_of(type) % kWidestBytes == 0;
}

SizeClass class_by_size(double size, double medium, double large) {
    return size < medium ? SizeClass::small : size < large ? SizeClass::medium : SizeClass::large;
}

}  // namespace gpumat
