#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace gpumat {

/// What the driver's management library (NVML, libnvidia-ml.so.1) says about one GPU. It is loaded at run
/// time and needs no CUDA; it comes with the driver.
class GpuMonitor {
  public:
    /// The monitor of the GPU with that UUID ("GPU-…"). Null where there is no NVML or it does not know the
    /// GPU; `why_not` then says so. Opened once for all of the process, because that takes some 50 ms.
    static std::shared_ptr<GpuMonitor> open(const std::string& uuid, std::string& why_not);

    virtual ~GpuMonitor() = default;
    GpuMonitor(const GpuMonitor&) = delete;
    GpuMonitor& operator=(const GpuMonitor&) = delete;

    /// Why clocks are held below what the work would run at, through heat or a hardware limit: "heat",
    /// "power brake" …; empty where they are not. The power limit of the board is not among the reasons:
    /// to run at it is the steady state of a heavy kernel, and `at_power_limit` tells it.
    [[nodiscard]] virtual std::string throttling() const = 0;
    [[nodiscard]] virtual bool at_power_limit() const = 0;

    [[nodiscard]] virtual std::optional<double> power_w() const = 0;
    [[nodiscard]] virtual std::optional<int> clock_mhz() const = 0;  ///< multiprocessors, now
    [[nodiscard]] virtual std::optional<int> memory_clock_mhz() const = 0;
    [[nodiscard]] virtual std::optional<double> energy_j() const = 0;  ///< since the driver was loaded
    [[nodiscard]] virtual std::optional<int> temperature_c() const = 0;
    /// How much of the device's memory is free; other processes may use it too.
    [[nodiscard]] virtual std::optional<std::uint64_t> free_memory() const = 0;
    [[nodiscard]] virtual std::string driver_release() const = 0;  ///< "580.95.05"; empty if unknown

  protected:
    GpuMonitor() = default;
};

}  // namespace gpumat
