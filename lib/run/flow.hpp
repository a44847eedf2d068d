#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/format.hpp"
#include "lib/record/progress.hpp"
#include "lib/run/conditions.hpp"
#include "lib/run/executor.hpp"
#include "lib/run/options.hpp"
#include "lib/run/plan.hpp"

namespace gpumat {

/// Elements of a result that is shown as an answer.
inline constexpr std::int64_t kMostAnswered = 1000;

/// What a flow gave.
struct FlowResult {
    std::string level;               ///< as the level itself named it
    std::vector<double> samples_ms;  ///< one for each repeat, without warm-ups; of all parts together
    double copy_bandwidth_gbps =
        0;  ///< GPU: a device-to-device copy of the result, read plus written; 0 if unknown
    std::vector<std::pair<std::string, std::string>> details;
    std::uint64_t workspace_bytes = 0;  ///< of the device, which the level took beside the operands
    Verification verification;
    std::vector<std::string> input_hashes;  ///< in the order of the plan's inputs; empty of one not read
    std::string output_hash;                ///< empty where nothing is written
    Matrix few_elements;  ///< the result of an operation that answers, up to kMostAnswered; else empty
    /// What the values of a sparse result are places in; null where they are numbers.
    std::shared_ptr<ValueTexts> texts;
    bool written = false;  ///< all elements, and the file completed

    [[nodiscard]] bool wrong() const { return verification.failed(); }
};

/// Where the result goes.
struct Outlet {
    /// Makes the writer; null where nothing is written. Called at the start, beside reading.
    std::function<std::unique_ptr<formats::Writer>()> open;
    /// The same of a result that is sparse, when all that it has is known.
    std::function<std::unique_ptr<formats::SparseWriter>(const FlowResult&, std::int64_t entries)>
        open_sparse;
    /// The writer has a child, which is made while there is one thread alone, and ends with that thread.
    bool has_child = false;
    /// Completes what the writer was given all elements of; the result says where it comes from.
    std::function<void(formats::Writer&, const FlowResult&)> complete;
    formats::BlockOrder order = formats::BlockOrder::any;
    std::int64_t chunk_rows = 1;  ///< panels of whole multiples are written at the least cost
    /// Nobody sees what was written before the run is done: a panel need not wait until all are verified.
    bool hidden = false;
};

/// Reads, computes, verifies and writes the parts of a plan, in stages that work at the same time:
///
///     read → to the device → kernel → from the device → verify → write
///
/// with a stage beside them that hashes what was read and what was verified.
///
/// The level runs `warmup` + `repeat` times on each part. On a GPU the samples are times between device
/// events; on the CPU, of a steady clock. The result starts out as bytes of 0xff (NaN in every floating
/// type), so that an element that a level leaves unwritten cannot pass for a number.
///
/// In place, the result starts out as the input, and each run transposes the matrix once more: where `warmup`
/// + `repeat` is even, one more run follows that is no sample.
///
/// `watch`, where there is one, is started and hears when the GPU has computed. `progress` hears how far it
/// came, and when its stages worked.
///
/// Where verification fails nothing more is written, unless `keep_failed`. Throws Error.
FlowResult flow(Plan& plan, const RunOptions& options, const Outlet& outlet, ConditionsWatch* watch,
                Progress& progress, const Tell& say);

}  // namespace gpumat
