#include "lib/roofline.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/peak.hpp"
#include "lib/core/matrix.hpp"
#include "lib/stopwatch.hpp"

namespace gpumat {
namespace {

/// The type whose multiply-adds a level does for elements of `type`: halves are summed up as f32, and complex
/// numbers are made of reals.
Type arithmetic_type(Type type) {
    switch (type) {
        case Type::f16:
        case Type::bf16:
        case Type::c64:
            return Type::f32;
        case Type::c128:
            return Type::f64;
        default:
            return type;
    }
}

/// Bytes read and written a second by the CPU's copy of more than its caches hold; the best of a few.
double measure_copy_bytes_per_s(const Device& device, const Registry& registry) {
    constexpr std::int64_t kSide = 4096;  // 64 MiB of f32
    constexpr int kRuns = 4;              // the first one pays for the pages
    const Problem problem = {
        .operation = Operation::transpose, .type = Type::f32, .m = kSide, .n = kSide, .parameters = {}};
    Matrix from({kSide, kSide}, Type::f32, "the measurement of the memory's speed");
    std::memset(from.data(), 1, from.bytes());  // pages that were never written are one page in the cache
    Matrix to({kSide, kSide}, Type::f32, "the measurement of the memory's speed");
    const auto baselines = registry.baselines(Operation::transpose, DeviceKind::cpu);
    const auto copy = std::ranges::find(baselines, "memcpy", &Level::name);
    if (copy == baselines.end()) return 0;
    const Launch launch = prepare_launch(**copy, problem, {.a = from.data(), .c = to.data()}, device);
    double best_ms = 0;
    for (int i = 0; i < kRuns; ++i) {
        const Stopwatch watch;
        launch.run();
        const double ms = watch.elapsed_ms();
        if (i > 0) best_ms = best_ms == 0 ? ms : std::min(best_ms, ms);
    }
    return problem.bytes() / best_ms * 1e3;
}

std::string rate_text(const std::optional<double>& flops_per_s, Type type) {
    if (!flops_per_s) return fmt::format("no known ceiling of {} arithmetic", name_of(type));
    return fmt::format("{:.4g} GFLOP/s of {}", *flops_per_s / 1e9, name_of(type));
}

Ceilings cpu_ceilings(Type type, const Device& device, const Registry& registry) {
    Ceilings ceilings;
    ceilings.bytes_per_s = measure_copy_bytes_per_s(device, registry);
    ceilings.flops_per_s = measure_cpu_flops_per_s(type, device.threads);
    ceilings.basis = fmt::format("{} thread{} measured just now: copies at {:.4g} GB/s, {}", device.threads,
                                 device.threads == 1 ? "" : "s", ceilings.bytes_per_s / 1e9,
                                 rate_text(ceilings.flops_per_s, type));
    return ceilings;
}

Ceilings gpu_ceilings(Type type, const GpuInfo& gpu) {
    constexpr double kMega = 1e6;
    constexpr double kTransfersAClock = 2;
    Ceilings ceilings;
    ceilings.bytes_per_s = kTransfersAClock * gpu.memory_clock_mhz * kMega * gpu.memory_bus_bits / 8;
    if (const auto a_clock = multiply_adds_per_clock(gpu.compute_capability, type))
        ceilings.flops_per_s = 2.0 * *a_clock * gpu.multiprocessors * gpu.clock_mhz * kMega;
    ceilings.basis =
        fmt::format("by its clocks: memory {:.4g} GB/s, {} on CUDA cores at {} MHz",
                    ceilings.bytes_per_s / 1e9, rate_text(ceilings.flops_per_s, type), gpu.clock_mhz);
    return ceilings;
}

}  // namespace

Ceilings ceilings_of(Type type, const Device& device, const Registry& registry) {
    const Type arithmetic = arithmetic_type(type);
    if (device.kind == DeviceKind::cpu) return cpu_ceilings(arithmetic, device, registry);
    return gpu_ceilings(arithmetic, device.gpu->info());
}

double Roofline::bound_ms() const {
    return std::max(memory_ms, arithmetic_ms.value_or(0));
}

std::string_view Roofline::limit() const {
    return arithmetic_ms.value_or(0) > memory_ms ? "arithmetic" : "memory";
}

Roofline roofline(const Level& level, const Problem& problem, const Ceilings& ceilings) {
    // Tensor-core conversion is off for f32, and c64 is made of it.
    const bool cuda_cores = level.device == DeviceKind::cpu || level.name != "vendor" ||
                            problem.type == Type::f32 || problem.type == Type::c64;
    Roofline bound;
    if (ceilings.bytes_per_s > 0) bound.memory_ms = problem.bytes() / ceilings.bytes_per_s * 1e3;
    if (ceilings.flops_per_s && cuda_cores)
        bound.arithmetic_ms = problem.flops() / *ceilings.flops_per_s * 1e3;
    return bound;
}

}  // namespace gpumat
