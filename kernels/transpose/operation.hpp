#pragma once

#include "kernels/operation.hpp"

namespace gpumat {

/// The transpose: an m×n matrix becomes n×m; k is 0. The elements move bit for bit, whatever their type.
extern const Operation kTranspose;

namespace transpose {
extern const Tunable kTunable;
}

}  // namespace gpumat
