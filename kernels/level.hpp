#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device/gpu.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

/// Where a level runs: the CPU with a number of threads, or one GPU.
struct Device {
    DeviceKind kind = DeviceKind::cpu;
    int threads = 1;     ///< CPU threads that a level may use
    Gpu* gpu = nullptr;  ///< set where kind is gpu
};

/// A tunable of a level: "tile", one of `choices`, `fallback` where it is not given. Sizes are choices in
/// digits, ways of working are choices with a name: "32", "never".
struct Parameter {
    std::string_view name;
    std::string_view help;
    std::span<const std::string_view> choices;
    std::string_view fallback;
    /// Every choice gives the same result, so that `gpumat tune` may take the fastest.
    bool tunable = false;
};

/// What a level is to its ladder.
enum class Role {
    rung,      ///< a step of the ladder, one idea further than the one before
    baseline,  ///< a plain copy that the ladder is measured against
    vendor,    ///< a vendor's library, what one would call instead
};

std::string_view name_of(Role role);

/// What does the arithmetic.
enum class Units {
    cores,   ///< CUDA cores or the CPU's vector units, whose peak the roofline knows
    tensor,  ///< perhaps tensor cores, whose peak it does not know
};

/// What factors are rounded to before they are multiplied: nothing less than their own type, unless the
/// setting `compute` of the problem says so.
enum class Factors { own, tf32, bf16, f16 };

std::string_view name_of(Factors factors);
inline constexpr auto kComputeChoices = std::to_array<std::string_view>({"tf32", "bf16", "f16"});

/// What the problem asks for.
Factors factors_of(const Problem& problem);

/// What a level computes in for elements of one type (its parts, where it is complex). The error bound and
/// the roofline follow from it.
struct Arithmetic {
    Type products;  ///< what products are rounded to, unless they are fused with the sum
    Type sums;      ///< what products are added up in
    Units units = Units::cores;
    Factors factors = Factors::own;
};

/// In the element's own type, f16 and bf16 in f32.
Arithmetic plain_arithmetic(Type element);
Arithmetic plain_arithmetic(const Problem& problem);

/// What a level asks of the device and the problem; what it cannot say here, `Level::unsupported` says.
struct Requirements {
    int compute_capability = 0;                  ///< 90 for 9.0; 0 for any
    std::span<const Type> types = {};            ///< empty: every type
    std::span<const Structure> structures = {};  ///< empty: every operand is dense
    /// The settings that it can do, of those that only some levels can (Setting::of_levels).
    std::span<const std::string_view> settings = {};
};

/// A prepared run of one level on fixed memory: everything that must stay out of timing is done.
///
/// A sparse result lies in `operands.c` like any other where Operation::result_entries knows how many entries
/// it has. Where it does not, `operands.c` has pointers and nothing else, and each run has two halves: it
/// counts, asks `operands.room->take(count)` for a result with room for so many entries, and fills that.
struct Launch {
    /// The name of the level, written by the level itself, so that a test can prove what ran.
    std::string_view level;
    /// CPU: computes to the end. GPU: enqueues on the stream and returns. What a launch holds beside the
    /// operands is there once, so its runs must not overlap.
    std::function<void(Stream)> run;
    /// Facts for the log and the record, in order: ("block", "32x8"), ("registers", "40") …
    std::vector<std::pair<std::string, std::string>> details = {};
    /// Memory of the device that the launch holds beside the operands.
    std::uint64_t workspace_bytes = 0;
};

/// A level that `auto` considers, and why, in a clause for the log.
struct Preference {
    std::string_view level;
    std::string reason;
    Parameters parameters = {};  ///< set where the problem does not fix them
};

/// Every reason why something cannot be done; empty where it can.
using Reasons = std::vector<std::string>;

/// A level is one row of its operation's table.
struct Level {
    const Operation* operation = nullptr;
    DeviceKind device;
    Role role = Role::rung;
    int number = 0;            ///< of a rung, from 1 without gaps for each operation and device
    std::string_view name;     ///< unique for each operation and device
    std::string_view summary;  ///< what it is, one line
    std::string_view removes;  ///< the bottleneck of the level before it that it removes
    Requirements needs = {};
    std::span<const Parameter> parameters = {};
    /// For each problem that it takes; null for a level that moves elements and computes nothing.
    Arithmetic (*arithmetic)(const Problem& problem) = nullptr;
    /// Reasons beyond `needs`, or null where there can be none. Of the operands it looks at pitches and
    /// addresses; a null address is as well aligned as any.
    Reasons (*unsupported)(const Problem&, const Operands&, const Device&) = nullptr;
    /// Host memory that a launch holds beside the operands; null: little.
    std::uint64_t (*workspace)(const Problem&, int threads) = nullptr;
    /// Null where this build does not contain the level; call it through `prepare_launch`. Throws
    /// Error{device, memory}.
    Launch (*prepare)(const Problem&, const Operands&, const Device&) = nullptr;
    /// A baseline whose result is its input, m×n, unchanged.
    bool copies = false;
    /// A baseline that reads its input only: the first 8 bytes of its result are the exclusive or of the
    /// input's words of 8 bytes (the last one filled up with zeros), the others are 0. The input has no gaps.
    bool reads = false;
    /// One of those that the operation's shares of speed are given of: see Operation::yardstick.
    bool yardstick = false;
};

/// Whether it is a level for operands that lie as the problem says; those that the problem does not read may
/// lie in any way.
bool takes_structure(const Level& level, const Problem& problem);

/// Every reason why `level` cannot serve `problem` on `device` with these operands: not compiled in, device
/// kind, compute capability, type, unknown or impossible parameters, and the level's own. Without operands
/// they are taken to lie aligned and without gaps.
Reasons unsupported_reasons(const Level& level, const Problem& problem, const Operands& operands,
                            const Device& device);
Reasons unsupported_reasons(const Level& level, const Problem& problem, const Device& device);

/// Prepares a level for a problem that it can serve; k is what `as_read` says. The launch does nothing where
/// the result has no elements. Throws Error{unsupported} where the level cannot take the operands as they lie
/// or what was prepared is not the level asked for, and Error{device, memory}.
Launch prepare_launch(const Level& level, const Problem& problem, const Operands& operands,
                      const Device& device);

/// The parameter's choice: what the problem asks for, else the level's fallback. The level must have it.
std::string_view parameter_choice(std::span<const Parameter> parameters, const Problem& problem,
                                  std::string_view name);
/// The same as a number, where all choices are numbers.
int parameter_number(std::span<const Parameter> parameters, const Problem& problem, std::string_view name);

}  // namespace gpumat
