#include "lib/choose/roofline.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/host.hpp"
#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/stopwatch.hpp"
#include "kernels/common/peak.hpp"

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

/// Bytes read and written a second by the C library's memcpy, on all threads, of more than the caches hold;
/// the best of a few.
double measure_copy_bytes_per_s(int threads, std::int64_t bytes) {
    constexpr int kRuns = 4;  // the first one pays for the pages
    constexpr std::int64_t kCopiedAtOnce = std::int64_t{4} << 20;
    Buffer from(static_cast<std::size_t>(bytes));
    Buffer to(static_cast<std::size_t>(bytes));
    std::memset(from.data(), 1, from.size());  // pages that were never written are one page in the cache
    double best_ms = 0;
    for (int i = 0; i < kRuns; ++i) {
        const Stopwatch watch;
        parallel_for(bytes, kCopiedAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
            std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(end - begin));
        });
        const double ms = watch.elapsed_ms();
        if (i > 0) best_ms = best_ms == 0 ? ms : std::min(best_ms, ms);
    }
    return 2 * static_cast<double>(bytes) / best_ms * 1e3;
}

std::string rate_text(const std::optional<double>& flops_per_s, Type type) {
    if (!flops_per_s) return fmt::format("no known ceiling of {} arithmetic", name_of(type));
    return fmt::format("{:.4g} GFLOP/s of {}", *flops_per_s / 1e9, name_of(type));
}

bool fits_into_caches(const Problem& problem, const Ceilings& ceilings) {
    return problem.bytes() <= ceilings.cache_bytes;
}

/// Measures the memory and says what was found.
std::string measure_memory(int threads, std::optional<std::uint64_t> memory_limit, Ceilings& ceilings) {
    const std::int64_t bytes = copied_bytes(static_cast<std::uint64_t>(ceilings.cache_bytes));
    const std::uint64_t needed = 2 * static_cast<std::uint64_t>(bytes);
    const std::uint64_t most = memory_limit.value_or(available_memory_bytes() / 4);
    if (needed > most) {
        return fmt::format("not the memory, which takes {} where {} may be taken", format_bytes(needed),
                           format_bytes(most));
    }
    ceilings.bytes_per_s = measure_copy_bytes_per_s(threads, bytes);
    return fmt::format("copies at {:.4g} GB/s", *ceilings.bytes_per_s / 1e9);
}

Ceilings cpu_ceilings(const Problem& problem, int threads, std::optional<std::uint64_t> memory_limit) {
    Ceilings ceilings;
    ceilings.cache_bytes = static_cast<double>(cache_bytes());
    std::vector<std::string> found;
    if (!fits_into_caches(problem, ceilings))
        found.push_back(measure_memory(threads, memory_limit, ceilings));
    if (problem.flops() > 0) {
        ceilings.flops_per_s = cpu_flops_per_s(problem.type, threads);
        found.push_back(rate_text(ceilings.flops_per_s, arithmetic_type(problem.type)));
    }
    const std::string caches =
        "caches of " + (ceilings.cache_bytes > 0 ? format_bytes(cache_bytes()) : "unknown size");
    ceilings.basis = found.empty() ? "nothing measured, for all fits into " + caches
                                   : fmt::format("{} thread{} measured just now: {}; {}", threads,
                                                 threads == 1 ? "" : "s", fmt::join(found, ", "), caches);
    return ceilings;
}

}  // namespace

std::optional<double> cpu_flops_per_s(Type type, int threads) {
    return measure_cpu_flops_per_s(arithmetic_type(type), threads);
}

Ceilings gpu_ceilings(Type type, const GpuInfo& gpu) {
    const Type arithmetic = arithmetic_type(type);
    constexpr double kMega = 1e6;
    constexpr double kTransfersAClock = 2;
    Ceilings ceilings;
    ceilings.bytes_per_s = kTransfersAClock * gpu.memory_clock_mhz * kMega * gpu.memory_bus_bits / 8;
    if (const auto a_clock = multiply_adds_per_clock(gpu.compute_capability, arithmetic))
        ceilings.flops_per_s = 2.0 * *a_clock * gpu.multiprocessors * gpu.clock_mhz * kMega;
    ceilings.basis =
        fmt::format("by its clocks: memory {:.4g} GB/s, {} on CUDA cores at {} MHz",
                    *ceilings.bytes_per_s / 1e9, rate_text(ceilings.flops_per_s, arithmetic), gpu.clock_mhz);
    return ceilings;
}

Ceilings ceilings_of(const Problem& problem, const Device& device,
                     std::optional<std::uint64_t> memory_limit) {
    if (device.gpu != nullptr) return gpu_ceilings(problem.type, device.gpu->info());
    return cpu_ceilings(problem, device.threads, memory_limit);
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
    const bool known_peak = level.arithmetic != nullptr && level.arithmetic(problem).units == Units::cores;
    Roofline bound;
    if (ceilings.bytes_per_s) {
        const double uncached = std::max(0.0, problem.bytes() - ceilings.cache_bytes);
        bound.memory_ms = uncached / *ceilings.bytes_per_s * 1e3;
    } else if (fits_into_caches(problem, ceilings)) {
        bound.memory_ms = 0;
    }
    if (ceilings.flops_per_s && known_peak)
        bound.arithmetic_ms = problem.flops() / *ceilings.flops_per_s * 1e3;
    return bound;
}

}  // namespace gpumat
