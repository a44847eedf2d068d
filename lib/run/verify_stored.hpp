#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/registry.hpp"
#include "lib/record/progress.hpp"
#include "lib/record/record.hpp"
#include "lib/run/options.hpp"

namespace gpumat {

/// A stored result that is to be checked against the stored inputs that it was computed from.
struct StoredResult {
    const Operation* operation = nullptr;
    std::vector<std::optional<formats::Reference>> inputs;  ///< by role, as RunOptions::inputs
    std::map<std::string, std::string, std::less<>> settings;
    formats::Reference result;
    VerifyOptions how;
    formats::ReadOptions read;      ///< with the type, threads and memory limit
    engines::Team* team = nullptr;  ///< the ranks that verify; null: this process does
    Tell say{};
};

/// What a verification of stored matrices read and found, filled while it goes on.
struct StoredVerification {
    Origin origin;
    std::string command_line;  ///< quoted so that a shell takes it back
    std::string op;
    std::string type;
    std::vector<RecordedMatrix> inputs;
    std::optional<RecordedMatrix> result;
    Problem problem;  ///< shape and settings
    StageTimes stages_ms;
    Verification verification;
    std::optional<RecordedEngine> engine;  ///< absent: this process verified alone
    std::string error;
    int exit_code = 0;
};

/// Reads the matrices and verifies the result, without computing it again: block by block where the
/// operation's check can, else with all matrices in memory, or in parts where they do not fit. Returns 0,
/// or 1 where the result is not what it should be. Throws Error{input} where the inputs cannot be read or do
/// not fit together, {not_comparable} where the result has another shape or type than they give,
/// {unsupported} where there is no such operation for the type, {memory} where the limit is too small.
int verify_stored(const StoredResult& asked, const Registry& registry, StoredVerification& record,
                  Progress& progress);

/// The object `gpumat.verify/1`.
nlohmann::ordered_json to_json(const StoredVerification& record);

}  // namespace gpumat
