#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/output/destination.hpp"
#include "lib/record/timeline.hpp"
#include "lib/run/options.hpp"
#include "lib/run/parts.hpp"
#include "lib/run/plan/inputs.hpp"

namespace gpumat {

/// What computes parts: the CPU, or a GPU.
struct PlannedLane {
    Device device;
    std::unique_ptr<Gpu> gpu;        ///< set where the device is a GPU
    std::uint64_t device_bytes = 0;  ///< 0 on the CPU; one matrix where in place
};

/// Everything decided before a byte of a matrix is read.
struct Plan {
    std::vector<PlannedInput> inputs;  ///< those given, in the order of their roles
    Problem problem;
    std::vector<PlannedLane> lanes;  ///< today one
    const Level* level = nullptr;
    std::string chosen_because;  ///< why `auto` took this level or device; empty where both were named
    Shape result;
    Type result_type = Type::f32;
    std::optional<Parts> parts;    ///< set by make_plan unless sparse; one where all fits into memory
    std::uint64_t host_bytes = 0;  ///< inputs, result (one with the input in place on the CPU), verification
    std::uint64_t working_bytes = 0;  ///< of these: what reading and writing take beside blocks
    /// Of one that is sparse and goes in parts: what a part may take of `host_bytes`.
    std::optional<std::uint64_t> sparse_room;
    bool as_text = false;               ///< a sparse result has its values as the input's text has them
    bool result_is_kept = false;        ///< then: in memory until the end, as it is dense and small
    bool keeps_input = false;           ///< in place on the CPU: a copy, for a full verification
    std::optional<Destination> output;  ///< absent where nothing is written; not open
    formats::WriteOptions write;        ///< as asked for, and the layout of a sparse result

    [[nodiscard]] bool is_sparse() const { return problem.is_sparse(); }
    [[nodiscard]] bool result_is_sparse() const { return problem.structure.result == Storage::csr; }
    [[nodiscard]] PlannedLane& lane() { return lanes.front(); }
    [[nodiscard]] const PlannedLane& lane() const { return lanes.front(); }
};

/// Opens the inputs and decides shape, type, device, level and output; allocates nothing. The timeline hears
/// of both.
///
/// Throws Error{usage} for an option that makes no sense, {input} for inputs that cannot be read or do not
/// fit together, {unsupported} with every reason where the level cannot serve the problem on the device,
/// {memory} where host or device cannot hold it.
Plan make_plan(const RunOptions& options, const Registry& registry, Timeline& timeline, const Tell& say);

}  // namespace gpumat
