#pragma once

#include "core/messages.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/registry.hpp"

// What `--device auto` goes by: how long a run takes on a device, but for reading, verifying and writing,
// which are the same on all.

namespace gpumat {

/// What a device takes beside computing.
struct DeviceOverhead {
    double start_ms = 0;          ///< until it takes work
    double input_ms_per_gb = 0;   ///< to bring inputs to where levels read them; 10⁹ bytes
    double result_ms_per_gb = 0;  ///< to have the result where it is verified and written
};

struct DeviceCost {
    DeviceOverhead overhead;
    double bytes_per_s = 0;  ///< that the fastest level of a problem reads and writes
    double flops_per_s = 0;  ///< and computes with
};

/// No GPU takes work sooner.
inline constexpr double kSoonestGpuStartMs = 100;

/// What may be expected of devices that were never measured.
DeviceCost stated_cpu_cost(int threads, VectorWidth vectors, Type type);
DeviceCost stated_gpu_cost(const GpuInfo& gpu, Type type);

/// What is stated of the device, with what `gpumat tune` measured in its place: the overhead, and the speed
/// of the problem's class. A cache file that cannot be used is ignored, and `say` hears why.
DeviceCost device_cost(const Problem& problem, const Device& device, const Tell& say);

/// The speed of a level, as a share of the fastest one's of its ladder, by its place alone.
double speed_of(const Level& level, const Registry& registry);

/// Milliseconds of a run that computes the problem `times` times by a level of that speed.
double expected_ms(const Problem& problem, const DeviceCost& cost, double speed, int times);

}  // namespace gpumat
