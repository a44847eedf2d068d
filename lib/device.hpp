#pragma once

#include "kernels/level.hpp"
#include "kernels/nvml.hpp"
#include "lib/record.hpp"

namespace gpumat {

/// The device as run records and bench reports name it.
RecordedDevice recorded_device(const Device& device);

/// Clocks, power, temperature and what holds clocks down, now.
RecordedConditions recorded_conditions(const GpuMonitor& monitor);

}  // namespace gpumat
