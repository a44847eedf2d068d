#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/check/verification.hpp"

namespace gpumat {

/// What was found, as bytes for another process; of a note and of the worst element's texts their beginning.
std::vector<std::byte> packed(const Verification& found);
Verification unpacked(std::span<const std::byte> bytes);

}  // namespace gpumat
