#pragma once

#include <cstdint>

#include "lib/choose/device_cost.hpp"

namespace gpumat {

/// Measures what a device takes beside computing, with at most so much of the host's memory. A GPU's start is
/// only in it where nothing waited for the device before. Throws Error{device, memory}.
DeviceOverhead measure_overhead(const Device& device, int threads, std::uint64_t most_bytes);

}  // namespace gpumat
