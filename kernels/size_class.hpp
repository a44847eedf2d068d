#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/problem.hpp"

namespace gpumat {

/// Problems that one level serves best, so that one measurement can stand for all of them. What a class means
/// is the operation's own: see its `Tunable`.
enum class SizeClass { tiny, small, medium, large, odd, tall, wide, deep };

/// Every class, in the order of the enumeration.
std::span<const SizeClass> all_size_classes();

std::string_view name_of(SizeClass size_class);
std::optional<SizeClass> size_class_from_name(std::string_view name);

/// How `gpumat tune` measures an operation.
struct Tunable {
    /// The types to measure: one for each element kind.
    std::span<const Type> types;
    /// What measurements are kept apart by beside the class: "4-byte" for a transpose, "f32" for a multiply.
    std::string (*element_kind)(Type type);
    /// Every class that problems of the type fall into, in the order of the enumeration.
    std::vector<SizeClass> (*classes)(Type type);
    /// The class of a problem; none for special cases that the levels' own tables know.
    std::optional<SizeClass> (*class_of)(const Problem& problem);
    /// The extents that are measured for a class on a kind of device. Their class is the one asked for.
    Extents (*representative)(Type type, SizeClass size_class, DeviceKind device);
};

// What the operations' classes have in common.

/// Rows or columns that a class needs at least: narrower matrices are special cases.
inline constexpr std::int64_t kLeastClassedExtent = 17;

/// Whether `length` is at least 8 times `width`.
bool is_elongated(std::int64_t length, std::int64_t width);

/// Whether a row of so many elements fills a multiple of 16 bytes, the widest access.
bool fills_widest_access(std::int64_t elements, Type type);

/// small under `medium`, medium under `large`, large from there on.
SizeClass class_by_size(double size, double medium, double large);

}  // namespace gpumat
