#pragma once

#include <optional>

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/choose/tuning_cache.hpp"

namespace gpumat {

/// The level that `auto` takes: what `gpumat tune` measured for the problem's class on this device, where
/// there is such a measurement and that level can serve the problem; else Registry::choose. A cache file
/// that cannot be used is ignored, and `say` hears why.
/// Throws Error{unsupported} with every level's reasons where none can.
Choice choose_auto(const Problem& problem, const Device& device, const Registry& registry,
                   const Tell& say = {});

/// What `gpumat tune` measured for the problem's class on this device.
std::optional<TunedLevel> tuned_level(const Problem& problem, const Device& device, const Tell& say);

}  // namespace gpumat
