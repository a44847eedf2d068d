#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/messages.hpp"
#include "kernels/registry.hpp"
#include "lib/charts/chart.hpp"
#include "lib/record/record.hpp"

namespace gpumat {

/// What a probe may be told.
struct ProbeOptions {
    std::string device = "auto";
    std::optional<std::int64_t> size;  ///< of square matrices, where levels are measured
    Type type = Type::f32;
    double time_limit_s = 0.02;  ///< of the samples of one measured row
    int threads = 1;
    std::uint64_t seed = 0;
    // For `occupancy`: another device, and a kernel by what it takes.
    std::string compute_capability;
    std::optional<int> block_threads;
    std::optional<int> registers;
    std::optional<int> shared_bytes;
};

/// What a probe works with. `device` is what the options ask for.
struct ProbeContext {
    const ProbeOptions& options;
    const Registry& registry;
    const Device& device;
    Tell say;

    /// The GPU. Throws Error{unsupported} with the reason where the device is a CPU.
    [[nodiscard]] Gpu& gpu(const std::string& why) const;
};

/// A number, text, or nothing.
using ProbeCell = std::variant<std::monostate, double, std::string>;

struct ProbeTable {
    std::string title;  ///< may be empty
    std::vector<std::string> columns;
    std::vector<std::vector<ProbeCell>> rows;
};

/// What a probe found.
struct ProbeResult {
    std::vector<ProbeTable> tables;
    std::vector<std::string> shows;  ///< sentences: what it shows, and which rung of which ladder rests on it
    std::optional<Chart> chart;
};

/// A question to the device.
struct Probe {
    std::string_view name;
    std::string_view question;
    bool needs_gpu;
    ProbeResult (*run)(const ProbeContext& context);
};

/// Every probe, in the order in which they are best read.
std::span<const Probe> probes();

/// What ran: `gpumat.probe/1`.
struct ProbeRun {
    std::string name;
    ProbeResult result;
    std::string reason;  ///< why it could not run; empty where it did
    double seconds = 0;
};

/// Runs one probe. Throws Error{unsupported} where the device is not one that it can be asked of, and
/// Error{device, memory, usage}.
ProbeRun run_probe(const Probe& probe, const ProbeContext& context);

/// Runs them all; one that cannot run has its reason.
std::vector<ProbeRun> run_probes(const ProbeContext& context);

nlohmann::ordered_json to_json(const std::vector<ProbeRun>& runs, const RecordedDevice& device,
                               const std::vector<std::string>& command_line);

/// A number of a table as text: four digits that matter.
std::string cell_text(const ProbeCell& cell);

// One function a probe, in the files of their subjects.
ProbeResult probe_coalescing(const ProbeContext& context);
ProbeResult probe_banks(const ProbeContext& context);
ProbeResult probe_divergence(const ProbeContext& context);
ProbeResult probe_ilp(const ProbeContext& context);
ProbeResult probe_instructions(const ProbeContext& context);
ProbeResult probe_camping(const ProbeContext& context);
ProbeResult probe_granularity(const ProbeContext& context);
ProbeResult probe_occupancy(const ProbeContext& context);
ProbeResult probe_roofline(const ProbeContext& context);
ProbeResult probe_energy(const ProbeContext& context);

}  // namespace gpumat
