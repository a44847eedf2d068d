#pragma once

#include <algorithm>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/run_options.hpp"
#include "formats/format.hpp"
#include "lib/matrices/compare.hpp"
#include "lib/record/record.hpp"

// What `compare` is asked and finds: its record, and what people read of it.

namespace gpumat::cli {

/// A comparison as it was asked for.
struct CompareRequest {
    std::string x;
    std::string y;
    CompareOptions how;
    std::string nan = "equal";
    std::optional<std::string> type;
    formats::ReadOptions read;
    std::optional<std::string> mismatch;  ///< FILE of --save-mismatch
    bool force = false;
    std::string log;
    EngineOptions ranks;
    std::shared_ptr<engines::Team> team;  ///< null: this process compares
};

/// What is known of two matrices of which one may be missing. `exit_code` is that of comparing them alone.
struct PairRecord {
    std::optional<RecordedMatrix> x;
    std::optional<RecordedMatrix> y;
    std::optional<Comparison> comparison;
    std::string only_in;  ///< "x" or "y", where the other file has no matrix of that name
    std::string error;    ///< why they could not be compared
    int exit_code = 0;
};

/// What is known of a comparison that has ended, well or not: of two matrices, or of two files, where `x` and
/// `y` are the files.
struct ComparisonRecord : PairRecord {
    Origin origin;
    std::string command_line;
    std::optional<std::vector<PairRecord>> pairs;  ///< of two files: the matrices, by name
    std::size_t others_x = 0;                      ///< what the files hold that is no matrix
    std::size_t others_y = 0;
};

/// ‖X − Y‖ over the larger of ‖X‖ and ‖Y‖; 0 where there is no difference.
inline double relative_norm(double difference, double x, double y) {
    return difference == 0 ? 0 : difference / std::max(x, y);
}

/// How many pairs are not equal, nor within the tolerance.
std::size_t unequal_pairs(const ComparisonRecord& record);

/// The object of gpumat.compare/1.
nlohmann::ordered_json json_of(const CompareRequest& request, const ComparisonRecord& record);

/// What was found, in words. Indices count from 1.
void print_comparison(const ComparisonRecord& record);

}  // namespace gpumat::cli
