#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/messages.hpp"
#include "formats/registry.hpp"
#include "kernels/registry.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/timeline.hpp"
#include "lib/run/options.hpp"
#include "lib/run/parts.hpp"

namespace gpumat {

/// One input: its reader, opened, with the header read and nothing else.
struct PlannedInput {
    std::size_t role = 0;   ///< its place in Operation::roles
    std::string_view name;  ///< "A", "B", "D"
    std::unique_ptr<formats::Reader> reader;

    [[nodiscard]] const formats::Header& header() const { return reader->header(); }
};

/// Everything decided before a byte of a matrix is read.
struct Plan {
    std::vector<PlannedInput> inputs;  ///< those given, in the order of their roles
    Problem problem;
    std::unique_ptr<Gpu> gpu;  ///< set where the device is a GPU
    Device device;
    const Level* level = nullptr;
    std::string chosen_because;  ///< why `auto` took this level or device; empty where both were named
    Shape result;
    Type result_type = Type::f32;
    std::optional<Parts> parts;    ///< set by make_plan; one where all fits into memory
    std::uint64_t host_bytes = 0;  ///< inputs, result (one with the input in place on the CPU), verification
    std::uint64_t working_bytes = 0;    ///< of these: what reading and writing take beside blocks
    std::uint64_t device_bytes = 0;     ///< 0 on the CPU; one matrix where in place
    bool keeps_input = false;           ///< in place on the CPU: a copy, for a full verification
    std::optional<Destination> output;  ///< absent where nothing is written; not open
};

/// Opens the inputs and decides shape, type, device, level and output; allocates nothing. The timeline hears
/// of both.
///
/// Throws Error{usage} for an option that makes no sense, {input} for inputs that cannot be read or do not
/// fit together, {unsupported} with every reason where the level cannot serve the problem on the device,
/// {memory} where host or device cannot hold it.
Plan make_plan(const RunOptions& options, const Registry& registry, Timeline& timeline, const Tell& say);

/// Error{usage} where more than one of the matrices is standard input.
void require_one_standard_input(const std::vector<std::optional<formats::Reference>>& matrices);

/// Opens the inputs that are given, by role.
std::vector<PlannedInput> open_inputs(const Operation& operation,
                                      const std::vector<std::optional<formats::Reference>>& references,
                                      const formats::ReadOptions& read);

/// All files that are read: those named, and those that they lead to.
std::vector<std::string> files_of(const std::vector<PlannedInput>& inputs);

/// The problem that opened inputs and settings make; `roles` is how many inputs the operation may have.
/// Throws Error{input, usage} where they do not fit together.
Problem problem_of_inputs(const Operation& operation, const std::vector<PlannedInput>& inputs,
                          std::size_t roles, const std::map<std::string, std::string, std::less<>>& settings);

/// The level of that name or number on this kind of device, else on the other, where it will have a reason
/// not to run. The one place that refuses a level that does not exist: Error{usage} with those that do.
const Level* find_level(const Registry& registry, const Operation& operation, DeviceKind device,
                        const std::string& level);

}  // namespace gpumat
