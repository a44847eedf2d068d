#pragma once

#include <optional>
#include <string>

#include "kernels/registry.hpp"

namespace gpumat {

/// What a device can do at most with elements of one type: the two ceilings of the roofline model (Williams,
/// Waterman and Patterson, 2009).
struct Ceilings {
    double bytes_per_s = 0;
    std::optional<double> flops_per_s;  ///< absent where it is not known for the type
    std::string basis;                  ///< how they are known: a clause for the log
};

/// A GPU's ceilings follow from its clocks and CUDA cores as the driver states them. A CPU's are measured, on
/// the threads of `device`: that takes a fifth of a second.
Ceilings ceilings_of(Type type, const Device& device, const Registry& registry);

/// The least time that a problem can take under the ceilings, T = max(bytes / bandwidth, flops / rate), where
/// nothing of it is in a cache.
struct Roofline {
    double memory_ms = 0;
    std::optional<double> arithmetic_ms;

    [[nodiscard]] double bound_ms() const;
    /// "memory" or "arithmetic": what takes longer.
    [[nodiscard]] std::string_view limit() const;
};

/// Leaves the arithmetic out where `level` is a GPU vendor's library, which may use tensor cores for the
/// type.
Roofline roofline(const Level& level, const Problem& problem, const Ceilings& ceilings);

}  // namespace gpumat
