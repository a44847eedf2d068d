#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/registry.hpp"
#include "kernels/registry.hpp"
#include "lib/options.hpp"

namespace gpumat {

/// One input: its reader, opened, with the header read and nothing else.
struct PlannedInput {
    std::string role;  ///< "A", "B", "D"
    std::unique_ptr<formats::Reader> reader;

    [[nodiscard]] const formats::Header& header() const { return reader->header(); }
};

/// Everything decided before a byte of a matrix is read.
struct Plan {
    std::vector<PlannedInput> inputs;  ///< A, then B and D where there are any
    Problem problem;
    std::unique_ptr<Gpu> gpu;  ///< set where the device is a GPU
    Device device;
    const Level* level = nullptr;
    std::string chosen_because;  ///< why `auto` took this level or device; empty where both were named
    Shape result;
    std::uint64_t host_bytes = 0;  ///< inputs, result (one with the input in place on the CPU), verification
    std::uint64_t device_bytes = 0;                  ///< 0 on the CPU; one matrix where in place
    bool keeps_input = false;                        ///< in place on the CPU: a copy, for a full verification
    const formats::Format* output_format = nullptr;  ///< null where nothing is written
    formats::Reference output;

    [[nodiscard]] const formats::Header* input(std::string_view role) const;
};

/// Opens the inputs and decides shape, type, device, level and output; allocates nothing.
///
/// Throws Error{usage} for an option that makes no sense, {input} for inputs that cannot be read or do not
/// fit together, {unsupported} with every reason where the level cannot serve the problem on the device,
/// {memory} where host or device cannot hold it.
Plan make_plan(const RunOptions& options, const Registry& registry);

/// The device that `text` ("auto", "cpu", "gpu", "gpu:1") and the level ask for; see DESIGN.md.
struct DeviceChoice {
    std::unique_ptr<Gpu> gpu;
    Device device;
    std::string reason;
};
DeviceChoice choose_device(const std::string& text, Operation operation, const std::string& level,
                           int threads, const Registry& registry);

}  // namespace gpumat
