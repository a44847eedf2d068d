#pragma once

#include <optional>

#include "core/numbers/type.hpp"

namespace gpumat {

/// Multiply-adds of f32, f64 or i32 that the CUDA cores of one multiprocessor complete in a clock, without
/// tensor cores. Absent for other types and for compute capabilities (90 for 9.0) that are not known here.
/// Source: NVIDIA, CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
std::optional<int> multiply_adds_per_clock(int compute_capability, Type type);

/// Operations a second (a multiply-add is 2) that `threads` threads of this CPU reach with multiply-adds that
/// wait for no memory, in the widest vectors there are; measured for some 10 ms. Absent for types but f32
/// and f64.
std::optional<double> measure_cpu_flops_per_s(Type type, int threads);

}  // namespace gpumat
