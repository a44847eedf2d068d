#pragma once

#include <string>

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/run/options.hpp"

namespace gpumat {

struct Plan;

/// The level of that name or number on this kind of device, else on the other, where it will have a reason
/// not to run. The one place that refuses a level that does not exist: Error{usage} with those that do.
const Level* find_level(const Registry& registry, const Operation& operation, DeviceKind device,
                        const std::string& level);

/// The level that was named, or the choice of `auto` for a part; the plan's problem takes the chosen
/// parameters. Throws Error{unsupported} with every reason.
void choose_level(const RunOptions& options, const Registry& registry, const Tell& say, Plan& plan);

}  // namespace gpumat
