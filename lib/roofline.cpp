#include "lib/roofline.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

#include "kernels/common/peak.hpp"
#include "lib/core/matrix.hpp"
#include "lib/host.hpp"
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

/// Bytes of each of the two matrices that are copied: more together than the caches hold.
std::int64_t copied_bytes(std::uint64_t caches) {
    constexpr std::uint64_t kLeast = std::uint64_t{64} << 20;
    return static_cast<std::int64_t>(std::max(kLeast, caches));
}

/// Bytes read and written a second by the CPU's copy of more than its caches hold; the best of a few. Absent
/// where the registry has no copy.
std::optional<double> measure_copy_bytes_per_s(const Device& device, const Registry& registry,
                                               std::int64_t bytes) {
    constexpr int kRuns = 4;  // the first one pays for the pages
    constexpr std::int64_t kRow = 16384;
    const Problem problem = {
        .operation = Operation::transpose, .type = Type::u8, .m = bytes / kRow, .n = kRow, .parameters = {}};
    Matrix from({problem.m, problem.n}, problem.type, "the measurement of the memory's speed");
    std::memset(from.data(), 1, from.bytes());  // pages that were never written are one page in the cache
    Matrix to({problem.m, problem.n}, problem.type, "the measurement of the memory's speed");
    const auto baselines = registry.baselines(Operation::transpose, DeviceKind::cpu);
    const auto copy = std::ranges::find(baselines, "memcpy", &Level::name);
    if (copy == baselines.end()) return std::nullopt;
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

Ceilings cpu_ceilings(Type type, const Device& device, const Registry& registry,
                      std::optional<std::uint64_t> memory_limit) {
    const std::uint64_t caches = cache_bytes();
    const std::int64_t bytes = copied_bytes(caches);
    const std::uint64_t needed = 2 * static_cast<std::uint64_t>(bytes);
    const std::uint64_t most = memory_limit.value_or(available_memory_bytes() / 4);
    Ceilings ceilings;
    ceilings.cache_bytes = static_cast<double>(caches);
    if (needed <= most) ceilings.bytes_per_s = measure_copy_bytes_per_s(device, registry, bytes);
    ceilings.flops_per_s = measure_cpu_flops_per_s(type, device.threads);
    const std::string memory = ceilings.bytes_per_s
                                   ? fmt::format("copies at {:.4g} GB/s", *ceilings.bytes_per_s / 1e9)
                                   : fmt::format("not the memory, which takes {} where {} may be taken",
                                                 format_bytes(needed), format_bytes(most));
    ceilings.basis = fmt::format(
        "{} thread{} measured just now: {}, {}; caches of {}", device.threads, device.threads == 1 ? "" : "s",
        memory, rate_text(ceilings.flops_per_s, type), caches > 0 ? format_bytes(caches) : "unknown size");
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
                    *ceilings.bytes_per_s / 1e9, rate_text(ceilings.flops_per_s, type), gpu.clock_mhz);
    return ceilings;
}

}  // namespace

Ceilings ceilings_of(Type type, const Device& device, const Registry& registry,
                     std::optional<std::uint64_t> memory_limit) {
    const Type arithmetic = arithmetic_type(type);
    if (device.kind == DeviceKind::cpu) return cpu_ceilings(arithmetic, device, registry, memory_limit);
    return gpu_ceilings(arithmetic, device.gpu->info());
}

std::optional<double> Roofline::bound_ms() const {
    const double ms = std::max(memory_ms.value_or(0), arithmetic_ms.value_or(0));
    return ms > 0 ? std::optional(ms) : std::nullopt;
}

std::string_view Roofline::limit() const {
    if (!bound_ms()) return "";
    return arithmetic_ms.value_or(0) > memory_ms.value_or(0) ? "arithmetic" : "memory";
}

std::string to_string(const Roofline& bound) {
    if (!bound.bound_ms()) {
        return bound.memory_ms ? "none, for the caches may hold everything"
                               : "none, for the memory's speed is not known";
    }
    std::string parts;
    if (bound.memory_ms) parts = fmt::format("memory {:.4g} ms", *bound.memory_ms);
    if (bound.arithmetic_ms)
        parts += fmt::format("{}arithmetic {:.4g} ms", parts.empty() ? "" : ", ", *bound.arithmetic_ms);
    return fmt::format("{:.4g} ms by {} ({})", *bound.bound_ms(), bound.limit(), parts);
}

Roofline roofline(const Level& level, const Problem& problem, const Ceilings& ceilings) {
    // Tensor-core conversion is off for f32, and c64 is made of it.
    const bool cuda_cores = level.device == DeviceKind::cpu || level.name != "vendor" ||
                            problem.type == Type::f32 || problem.type == Type::c64;
    Roofline bound;
    if (ceilings.bytes_per_s) {
        const double uncached = std::max(0.0, problem.bytes() - ceilings.cache_bytes);
        bound.memory_ms = uncached / *ceilings.bytes_per_s * 1e3;
    }
    if (ceilings.flops_per_s && cuda_cores)
        bound.arithmetic_ms = problem.flops() / *ceilings.flops_per_s * 1e3;
    return bound;
}

}  // namespace gpumat
