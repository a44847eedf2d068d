#pragma once

#include "kernels/level.hpp"
#include "lib/record.hpp"

namespace gpumat {

/// The device as run records and bench reports name it.
RecordedDevice recorded_device(const Device& device);

}  // namespace gpumat
