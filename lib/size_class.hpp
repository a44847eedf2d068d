#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/problem.hpp"
#include "lib/bench_sizes.hpp"

namespace gpumat {

/// Problems that one level serves best, so that one measurement can stand for all of them.
enum class SizeClass { tiny, small, medium, large, odd, tall, wide, deep };

/// Every class that problems of the operation and type fall into, in the order of the enumeration.
std::vector<SizeClass> size_classes(Operation operation, Type type);

std::string_view name_of(SizeClass size_class);
std::optional<SizeClass> size_class_from_name(std::string_view name);

/// The class of a problem, by the first rule that fits:
///   none         in place, or an extent under 17: special cases that the levels' own tables know
///   tiny         transpose: under 64 KiB of input; multiply: m·n·k under 2²⁰
///   deep         multiply: k at least 8 times m and n
///   tall, wide   m at least 8 times n, or n at least 8 times m
///   odd          rows of the input or the result (multiply: of A, B or C) are no multiple of 16 bytes
///   small, medium, large   transpose: under 4 MiB, under 64 MiB, beyond; multiply: m·n·k under 2²⁶, 2³¹,
///   beyond
std::optional<SizeClass> size_class_of(const Problem& problem);

/// The size that is measured for a class on a kind of device. Its class is the one asked for.
BenchSize representative(Operation operation, Type type, SizeClass size_class, DeviceKind device);

/// What measurements are kept apart by beside the class: "4-byte" for a transpose, "f32" for a multiply.
std::string element_kind(Operation operation, Type type);

}  // namespace gpumat
