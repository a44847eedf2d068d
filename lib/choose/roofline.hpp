#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/registry.hpp"

namespace gpumat {

/// What a device can do at most with a problem: the two ceilings of the roofline model (Williams,
/// Waterman and Patterson, 2009).
struct Ceilings {
    std::optional<double> bytes_per_s;  ///< of the main memory; absent where it was not measured
    std::optional<double> flops_per_s;  ///< absent where there are none, or it is not known for the type
    double cache_bytes = 0;             ///< that a CPU's run may find in its caches; 0 on a GPU
    std::string basis;                  ///< how they are known: a clause for the log
};

/// A GPU's ceilings follow from its clocks and CUDA cores as the driver states them. A CPU's are measured
/// where the problem can reach them, on the threads of `device`: that takes a few tenths of a second, and for
/// the memory twice what the caches hold, at least 128 MiB. Where the problem fits into the caches, or that
/// is more than the limit, or without one a quarter of what is available, the memory's speed is not measured,
/// and `basis` says so.
Ceilings ceilings_of(const Problem& problem, const Device& device, std::optional<std::uint64_t> memory_limit);

/// Measured: of the arithmetic that a CPU's levels do for elements of `type`.
std::optional<double> cpu_flops_per_s(Type type, int threads);

/// A GPU's alone.
Ceilings gpu_ceilings(Type type, const GpuInfo& gpu);

/// The least time that a problem can take under the ceilings, T = max(bytes / bandwidth, flops / rate). On a
/// CPU the bytes are those that no cache holds, whatever ran before: none, where all may be in the caches. On
/// a GPU it is the time where nothing is in a cache.
struct Roofline {
    std::optional<double> memory_ms;  ///< 0 where a CPU's caches may hold everything
    std::optional<double> arithmetic_ms;

    /// Absent where nothing is known that bounds the time.
    [[nodiscard]] std::optional<double> bound_ms() const;
    /// "memory" or "arithmetic", what takes longer; empty where there is no bound.
    [[nodiscard]] std::string_view limit() const;
};

/// "12 ms by memory (memory 12 ms, arithmetic 3 ms)", or "none" and why.
std::string to_string(const Roofline& bound);

/// Leaves the arithmetic out where `level` is a GPU vendor's library, which may use tensor cores for the
/// type.
Roofline roofline(const Level& level, const Problem& problem, const Ceilings& ceilings);

}  // namespace gpumat
