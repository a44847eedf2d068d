#include "lib/choose/device_choice.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"
#include "lib/choose/device_cost.hpp"

namespace gpumat {
namespace {

constexpr const char* kOnlyCpu = "on the cpu, because only the cpu has this level";
constexpr const char* kNoGpu = "on the cpu, because there is no gpu: ";

int gpu_index(const std::string& text) {
    if (text == "gpu") return 0;
    int index = -1;
    const char* begin = text.data() + 4;
    const char* end = text.data() + text.size();
    if (text.starts_with("gpu:") && std::from_chars(begin, end, index).ptr == end && begin != end &&
        index >= 0) {
        return index;
    }
    throw Error(ErrorCode::usage, "--device is '" + text + "'; expected auto, cpu, gpu or gpu:N");
}

DeviceChoice the_cpu(int threads, std::string reason = {}) {
    return {nullptr, {DeviceKind::cpu, threads, nullptr}, std::move(reason)};
}

DeviceChoice the_gpu(int index, int threads) {
    DeviceChoice choice = {Gpu::open(index), {DeviceKind::gpu, threads, nullptr}, {}};
    choice.device.gpu = choice.gpu.get();
    return choice;
}

DeviceChoice started(DeviceChoice gpu) {
    gpu.gpu->start();
    return gpu;
}

/// Whether a level of that kind of device, the one asked for or any, takes the type and has the parameters
/// asked for.
bool offers(const DeviceRequest& request, DeviceKind kind, Type type, const Registry& registry) {
    std::vector<const Level*> levels = registry.levels(request.operation, kind);
    if (request.level != "auto") levels = {registry.find(request.operation, kind, request.level)};
    return std::ranges::any_of(levels, [&](const Level* level) {
        return level != nullptr &&
               (level->needs.types.empty() || std::ranges::count(level->needs.types, type) > 0) &&
               std::ranges::all_of(request.parameters, [&](const auto& asked) {
                   return std::ranges::count(level->parameters, asked.first, &Parameter::name) > 0;
               });
    });
}

/// Whether that kind of device has the level that is asked for.
bool has_level(const Registry& registry, const Operation& operation, DeviceKind kind,
               const std::string& level) {
    return level == "auto" || registry.find(operation, kind, level) != nullptr;
}

/// How long the run takes beside reading, verifying and writing.
double expected_on(const Device& device, const DeviceRequest& request, const Problem& problem,
                   const Registry& registry, const Tell& say) {
    const Level* level = registry.find(request.operation, device.kind, request.level);
    return expected_ms(problem, device_cost(problem, device, say),
                       level == nullptr ? 1 : speed_of(*level, registry), request.runs);
}

}  // namespace

DeviceChoice choose_device(const std::string& text, const Operation& operation, const std::string& level,
                           int threads, const Registry& registry) {
    if (text == "cpu") return the_cpu(threads);
    if (text != "auto") return started(the_gpu(gpu_index(text), threads));
    // Only where the CPU does not have the level, a missing GPU is an error.
    if (!has_level(registry, operation, DeviceKind::gpu, level)) return the_cpu(threads, kOnlyCpu);
    const GpuList list = list_gpus();
    if (!list.gpus.empty()) return started(the_gpu(0, threads));
    if (!has_level(registry, operation, DeviceKind::cpu, level)) {
        throw Error(ErrorCode::unsupported,
                    "level '" + level +
                        "' cannot serve this problem: it runs on a gpu, and there is none: " + list.why_none);
    }
    return the_cpu(threads, std::string(kNoGpu) + list.why_none);
}

DeviceChoice choose_device_for_run(const DeviceRequest& request, const Problem& problem,
                                   const Registry& registry, const Tell& say) {
    if (request.device != "auto" || !offers(request, DeviceKind::cpu, problem.type, registry))
        return choose_device(request.device, request.operation, request.level, request.threads, registry);
    if (!offers(request, DeviceKind::gpu, problem.type, registry)) return the_cpu(request.threads, kOnlyCpu);

    DeviceChoice cpu = the_cpu(request.threads);
    const double cpu_ms = expected_on(cpu.device, request, problem, registry, say);
    if (cpu_ms <= kSoonestGpuStartMs) {  // to ask the driver for its devices takes as long
        cpu.reason = fmt::format("on the cpu, expected {:.3g} ms{}", cpu_ms,
                                 may_have_gpu() ? ", before a gpu would have started" : "");
        return cpu;
    }
    const GpuList list = list_gpus();
    if (list.gpus.empty()) return the_cpu(request.threads, std::string(kNoGpu) + list.why_none);
    DeviceChoice gpu = the_gpu(0, request.threads);
    const double gpu_ms = expected_on(gpu.device, request, problem, registry, say);
    if (cpu_ms <= gpu_ms) {
        cpu.reason = fmt::format("on the cpu, expected {:.3g} ms for {:.3g} ms on the gpu", cpu_ms, gpu_ms);
        return cpu;
    }
    gpu.reason = fmt::format("on the gpu, expected {:.3g} ms for {:.3g} ms on the cpu", gpu_ms, cpu_ms);
    return started(std::move(gpu));
}

std::optional<DeviceChoice> cpu_instead(const DeviceRequest& request, Type type, const std::string& no_room,
                                        const Registry& registry) {
    if (request.device != "auto" || !offers(request, DeviceKind::cpu, type, registry)) return std::nullopt;
    return the_cpu(request.threads, "on the cpu, because the gpu has no room: " + no_room);
}

}  // namespace gpumat
