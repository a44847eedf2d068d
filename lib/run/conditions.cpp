#include "lib/run/conditions.hpp"

#include <memory>
#include <shared_mutex>

#include "core/forking.hpp"
#include "kernels/device/nvml.hpp"
#include "lib/choose/device.hpp"

namespace gpumat {

void ConditionsWatch::start() {
    thread_ = std::thread([this] { watch(); });
}

void ConditionsWatch::watch() {
    std::shared_ptr<GpuMonitor> monitor;
    {
        // A child that is forked while a library is loaded could load none.
        const std::shared_lock no_fork(forking);
        monitor = GpuMonitor::open(uuid_, why_not_);
    }
    if (!monitor) return;
    before_ = recorded_conditions(*monitor);
    computed_.wait();
    after_ = recorded_conditions(*monitor);
}

void ConditionsWatch::computed() {
    if (std::exchange(counted_, true)) return;
    computed_.count_down();
}

std::string ConditionsWatch::finish() {
    computed();
    if (thread_.joinable()) thread_.join();
    return why_not_;
}

}  // namespace gpumat
