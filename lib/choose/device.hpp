#pragma once

#include "kernels/device/nvml.hpp"
#include "kernels/level.hpp"
#include "lib/record/record.hpp"

namespace gpumat {

/// The device as run records and bench reports name it.
RecordedDevice recorded_device(const Device& device);

/// Clocks, power, temperature and what holds clocks down, now.
RecordedConditions recorded_conditions(const GpuMonitor& monitor);

}  // namespace gpumat
