#pragma once

#include <string_view>

#include "kernels/device/gpu.hpp"

namespace gpumat {

/// Whether the tuning tables of the GPU levels were measured on this kind of device. On every other they are
/// the default: right, and not known to be the fastest.
inline bool measured(const Gpu* gpu) {
    return gpu != nullptr && std::string_view(gpu->info().name).find("H200") != std::string_view::npos;
}

}  // namespace gpumat
