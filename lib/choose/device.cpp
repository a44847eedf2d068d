#include "lib/choose/device.hpp"

#include "core/host.hpp"

namespace gpumat {

RecordedDevice recorded_device(const Device& device) {
    if (device.kind == DeviceKind::cpu) {
        return {.kind = "cpu", .name = describe_host().processor, .threads = device.threads};
    }
    const GpuInfo& gpu = device.gpu->info();
    return {.kind = "gpu",
            .name = gpu.name,
            .threads = 0,
            .compute_capability = std::to_string(gpu.compute_capability / 10) + "." +
                                  std::to_string(gpu.compute_capability % 10),
            .driver = gpu.driver_version,
            .runtime = gpu.runtime_version,
            .clock_mhz = gpu.clock_mhz,
            .memory_clock_mhz = gpu.memory_clock_mhz};
}

RecordedConditions recorded_conditions(const GpuMonitor& monitor) {
    return {.clock_mhz = monitor.clock_mhz(),
            .memory_clock_mhz = monitor.memory_clock_mhz(),
            .power_w = monitor.power_w(),
            .temperature_c = monitor.temperature_c(),
            .throttling = monitor.throttling(),
            .at_power_limit = monitor.at_power_limit()};
}

}  // namespace gpumat
