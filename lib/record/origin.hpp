#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "lib/record/version.hpp"

namespace gpumat {

/// Where a record comes from: the run, the tool, and the machine at its start.
struct Origin {
    std::string run_id;  ///< 128 random bits, so that records of any logs can be told apart
    std::string time;    ///< UTC, "2026-01-01T00:00:00.000000Z"
    std::string working_folder;
    BuildInfo build;  ///< with the version
    std::string host;
    std::string processor;            ///< its model
    std::optional<double> clock_mhz;  ///< of the first processor, where the system says it
    std::optional<double> load;       ///< processes that ran or wanted to, the mean of the last minute
    std::string affinity;             ///< the processors that the process may use, "0-3,8"
};

/// The origin of what is made here and now.
Origin origin_of_this_run();

/// Adds its names to an object of a record.
void add_origin(const Origin& origin, nlohmann::ordered_json& json);

}  // namespace gpumat
