#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/messages.hpp"
#include "kernels/registry.hpp"

// What "auto", "cpu", "gpu" and "gpu:1" mean; see lib/README.md.

namespace gpumat {

/// What a run asks for, by which its device is chosen.
struct DeviceRequest {
    const Operation& operation;
    std::string device = "auto";  ///< auto, cpu, gpu, gpu:N
    std::string level = "auto";   ///< name or number
    const Parameters& parameters;
    int threads = 1;
    int runs = 1;  ///< of the level: warm-up and timed
};

struct DeviceChoice {
    std::unique_ptr<Gpu> gpu;
    Device device;
    std::string reason;  ///< why "auto" took it; empty where it was named
};

/// For measuring: "auto" is a GPU where there is one. A level that only one kind of device has decides; it
/// must exist or be "auto".
DeviceChoice choose_device(const std::string& text, const Operation& operation, const std::string& level,
                           int threads, const Registry& registry);

/// For a run: "auto" is the device on which it is expected to end sooner.
DeviceChoice choose_device_for_run(const DeviceRequest& request, const Problem& problem,
                                   const Registry& registry, const Tell& say);

/// The CPU in place of a GPU that `choose_device_for_run` took, and that has no room; nothing where the GPU
/// was named, or only GPUs have the level.
std::optional<DeviceChoice> cpu_instead(const DeviceRequest& request, Type type, const std::string& no_room,
                                        const Registry& registry);

}  // namespace gpumat
