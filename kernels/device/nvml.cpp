#include "kernels/device/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

namespace gpumat {
namespace {

// The part of NVML's binary interface that is used here (nvml.h): plain C, stable since version 2.
using Status = int;
using DeviceHandle = void*;
constexpr Status kSuccess = 0;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr unsigned long long kPowerLimit = 0x4;  // nvmlClocksThrottleReasonSwPowerCap

struct ThrottleReason {
    unsigned long long bit;
    const char* name;
};
constexpr std::array kThrottleReasons = {
    ThrottleReason{0x08, "hardware slowdown"},
    ThrottleReason{0x20, "heat (software)"},
    ThrottleReason{0x40, "heat (hardware)"},
    ThrottleReason{0x80, "power brake"},
};

/// nvmlMemory_t, in bytes.
struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

struct Functions {
    Status (*init)() = nullptr;
    Status (*shutdown)() = nullptr;
    Status (*by_uuid)(const char*, DeviceHandle*) = nullptr;
    Status (*throttle_reasons)(DeviceHandle, unsigned long long*) = nullptr;
    Status (*power_usage)(DeviceHandle, unsigned*) = nullptr;
    Status (*clock_info)(DeviceHandle, int, unsigned*) = nullptr;
    Status (*driver_version)(char*, unsigned) = nullptr;
    Status (*temperature)(DeviceHandle, int, unsigned*) = nullptr;
    Status (*memory_info)(DeviceHandle, Memory*) = nullptr;
    Status (*energy)(DeviceHandle, unsigned long long*) = nullptr;  ///< null in old libraries
};

template <class Function>
bool load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

bool load_all(void* library, Functions& nvml) {
    load(library, "nvmlDeviceGetTotalEnergyConsumption", nvml.energy);
    return load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
           load(library, "nvmlDeviceGetHandleByUUID", nvml.by_uuid) &&
           load(library, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.throttle_reasons) &&
           load(library, "nvmlDeviceGetPowerUsage", nvml.power_usage) &&
           load(library, "nvmlDeviceGetClockInfo", nvml.clock_info) &&
           load(library, "nvmlDeviceGetTemperature", nvml.temperature) &&
           load(library, "nvmlDeviceGetMemoryInfo", nvml.memory_info) &&
           load(library, "nvmlSystemGetDriverVersion", nvml.driver_version);
}

class NvmlMonitor final : public GpuMonitor {
  public:
    NvmlMonitor(const Functions& nvml, DeviceHandle device) : nvml_(nvml), device_(device) {}
    ~NvmlMonitor() override { nvml_.shutdown(); }

    std::string throttling() const override {
        std::string text;
        const unsigned long long reasons = throttle_reasons();
        for (const auto& [bit, name] : kThrottleReasons) {
            if ((reasons & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
        }
        return text;
    }

    bool at_power_limit() const override { return (throttle_reasons() & kPowerLimit) != 0; }

    std::optional<double> power_w() const override {
        unsigned milliwatts = 0;
        if (nvml_.power_usage(device_, &milliwatts) != kSuccess) return std::nullopt;
        return milliwatts / 1e3;
    }

    std::optional<int> clock_mhz() const override { return clock(kClockSm); }
    std::optional<int> memory_clock_mhz() const override { return clock(kClockMemory); }

    std::optional<double> energy_j() const override {
        unsigned long long millijoules = 0;
        if (nvml_.energy == nullptr || nvml_.energy(device_, &millijoules) != kSuccess) return std::nullopt;
        return static_cast<double>(millijoules) / 1e3;
    }

    std::optional<int> temperature_c() const override {
        constexpr int kChip = 0;  // nvmlTemperatureSensors_t
        unsigned degrees = 0;
        if (nvml_.temperature(device_, kChip, &degrees) != kSuccess) return std::nullopt;
        return static_cast<int>(degrees);
    }

    std::optional<std::uint64_t> free_memory() const override {
        Memory memory{};
        if (nvml_.memory_info(device_, &memory) != kSuccess) return std::nullopt;
        return memory.free;
    }

    std::string driver_release() const override {
        std::array<char, 96> text{};
        if (nvml_.driver_version(text.data(), text.size()) != kSuccess) return {};
        return text.data();
    }

  private:
    unsigned long long throttle_reasons() const {
        unsigned long long reasons = 0;
        return nvml_.throttle_reasons(device_, &reasons) == kSuccess ? reasons : 0;
    }

    std::optional<int> clock(int which) const {
        unsigned mhz = 0;
        if (nvml_.clock_info(device_, which, &mhz) != kSuccess) return std::nullopt;
        return static_cast<int>(mhz);
    }

    Functions nvml_;
    DeviceHandle device_;
};

std::shared_ptr<GpuMonitor> open_monitor(const std::string& uuid, std::string& why_not) {
    // Stays loaded to the end of the process, like every library of the driver.
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    Functions nvml;
    if (library == nullptr) {
        why_not = "libnvidia-ml.so.1 cannot be loaded";
    } else if (!load_all(library, nvml)) {
        why_not = "libnvidia-ml.so.1 lacks a function";
    } else if (const Status status = nvml.init(); status != kSuccess) {
        why_not = "nvmlInit failed with status " + std::to_string(status);
    } else {
        DeviceHandle device = nullptr;
        if (const Status found = nvml.by_uuid(uuid.c_str(), &device); found == kSuccess)
            return std::make_shared<NvmlMonitor>(nvml, device);
        nvml.shutdown();
        why_not = "NVML does not know the device " + uuid;
    }
    return nullptr;
}

}  // namespace

std::shared_ptr<GpuMonitor> GpuMonitor::open(const std::string& uuid, std::string& why_not) {
    static std::mutex mutex;
    // Not ended at exit, beside the driver's own end.
    static auto& opened = *new std::map<std::string, std::shared_ptr<GpuMonitor>>;
    const std::lock_guard lock(mutex);
    std::shared_ptr<GpuMonitor>& monitor = opened[uuid];
    if (!monitor) monitor = open_monitor(uuid, why_not);
    return monitor;
}

}  // namespace gpumat
