#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/gpu.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

/// Where a level runs: the CPU with a number of threads, or one GPU.
struct Device {
    DeviceKind kind = DeviceKind::cpu;
    int threads = 1;     ///< CPU threads that a level may use
    Gpu* gpu = nullptr;  ///< set where kind is gpu
};

/// A tunable of a level: "tile", one of `choices`, `fallback` where it is not given.
struct Parameter {
    std::string_view name;
    std::string_view help;
    std::span<const int> choices;
    int fallback = 0;
    /// Every choice gives the same result, so that `gpumat tune` may take the fastest.
    bool tunable = false;
};

/// What a level asks of the device and the problem; what it cannot say here, `Level::unsupported` says.
struct Requirements {
    int compute_capability = 0;        ///< 90 for 9.0; 0 for any
    std::span<const Type> types = {};  ///< empty: every type
};

/// A prepared run of one level on fixed memory: everything that must stay out of timing is done.
struct Launch {
    /// The name of the level, written by the level itself, so that a test can prove what ran.
    std::string_view level;
    /// CPU: computes to the end. GPU: enqueues on the device's stream and returns.
    std::function<void()> run;
    /// Facts for the log and the record, in order: ("block", "32x8"), ("registers", "40") …
    std::vector<std::pair<std::string, std::string>> details = {};
    /// Memory of the device that the launch holds beside the operands.
    std::uint64_t workspace_bytes = 0;
};

/// A level that `auto` considers, and why, in a clause for the log.
struct Preference {
    std::string_view level;
    std::string reason;
    std::map<std::string, int, std::less<>> parameters = {};  ///< set where the problem does not fix them
};

/// Every reason why something cannot be done; empty where it can.
using Reasons = std::vector<std::string>;

/// One rung of a ladder. A level is one row of its operation's table.
struct Level {
    Operation operation;
    DeviceKind device;
    int number;                ///< from 1, without gaps for each operation and device; 0 for a baseline
    std::string_view name;     ///< unique for each operation and device
    std::string_view summary;  ///< what it is, one line
    std::string_view removes;  ///< the bottleneck of the level before it that it removes
    Requirements needs = {};
    std::span<const Parameter> parameters = {};
    /// Reasons beyond `needs`, or null where there can be none.
    Reasons (*unsupported)(const Problem&, const Device&) = nullptr;
    /// Null where this build does not contain the level; call it through `prepare_launch`. Throws
    /// Error{device, memory}.
    Launch (*prepare)(const Problem&, const Operands&, const Device&) = nullptr;
    /// A baseline of the transpose whose result is its input, m×n, unchanged.
    bool copies = false;
};

/// Every reason why `level` cannot serve `problem` on `device`: not compiled in, device kind, compute
/// capability, type, unknown or impossible parameters, and the level's own.
Reasons unsupported_reasons(const Level& level, const Problem& problem, const Device& device);

/// Prepares a level for a problem that it can serve; k is what `as_read` says. The launch does nothing where
/// the result has no elements. Throws Error{unsupported} where what was prepared is not the level asked for,
/// and Error{device, memory}.
Launch prepare_launch(const Level& level, const Problem& problem, const Operands& operands,
                      const Device& device);

/// The parameter's value: what the problem asks for, else the level's fallback. The level must have it.
int parameter_value(const Level& level, const Problem& problem, std::string_view name);
int parameter_value(std::span<const Parameter> parameters, const Problem& problem, std::string_view name);

}  // namespace gpumat
