#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"
#include "formats/format.hpp"
#include "formats/registry.hpp"
#include "lib/batch/batch_order.hpp"

namespace gpumat {

/// What lines of a log tell of outputs, by the texts of the jobs.
using LoggedOutputs = std::map<std::string, nlohmann::json>;

/// What the log of a batch tells of the jobs that were done in this working folder: of each
/// job the last line, a record's or an `output_line`, of one that ended well. A line that is no JSON is what
/// a killed process left at the end, or makes the log none. Throws Error{input} naming file and line for a
/// log that is none, or whose records are of a newer schema, and naming the file for one that is no regular
/// file.
LoggedOutputs read_batch_log(const std::string& path);

/// The line of a log that tells what a job is about to give its output's name to. It comes before the name,
/// so that a kill finds nothing in its place that the log does not know. `record` is what is known of the
/// job.
std::string output_line(const nlohmann::json& record);

/// A matrix that a line of the log tells of: how it is read, and the content that it has if nothing changed.
struct LoggedMatrix {
    formats::AheadCheck stored;
    Type type = Type::f32;
    Shape shape;
    bool sparse = false;  ///< is read so, as its job does: dense, it may not fit
    std::string hash;
};

/// The matrices that have to be unchanged, so that a job need not run again: its inputs, as it names them,
/// and the output, where the job has one. None where the line tells of too little: comparisons run again,
/// for their records have no hashes. `files` are those of the job, and `read` is how it reads its inputs.
std::vector<LoggedMatrix> matrices_of_done(const nlohmann::json& logged, const JobFiles& files,
                                           const formats::ReadOptions& read);

/// Whether the matrix is stored there with the content that the log tells.
bool is_unchanged(const LoggedMatrix& matrix);

}  // namespace gpumat
