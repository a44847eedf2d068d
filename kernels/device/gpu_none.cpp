// The GPU interface of a build without CUDA: no devices, and the reason.
#include "core/error.hpp"
#include "kernels/device/gpu.hpp"

namespace gpumat {

namespace {
constexpr const char* kWhy = "this build of gpumat has no CUDA support";
}

GpuList list_gpus() {
    return {{}, kWhy};
}

bool may_have_gpu() {
    return false;
}

std::unique_ptr<Gpu> Gpu::open(int) {
    throw Error(ErrorCode::unsupported, std::string("no GPU: ") + kWhy);
}

void GpuRelease::device_memory(void*) noexcept {}
void GpuRelease::pinned_memory(void*) noexcept {}
void GpuRelease::stream(void*) noexcept {}
void GpuRelease::event(void*) noexcept {}

}  // namespace gpumat
