#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

namespace gpumat::cli {

/// What became of the jobs of a batch.
struct Counts {
    std::size_t done = 0;
    std::size_t done_before = 0;
    std::size_t differs = 0;
    std::size_t failed = 0;
    std::size_t not_run = 0;
    std::set<int> codes;  ///< of those that failed
    int first_code = 0;   ///< of them, in the order of the jobs

    /// Adds a job that ended; they come in their order.
    void add_ended(int exit_code);
    /// That of the batch: 1 where a result differs, else that of the first job that failed.
    [[nodiscard]] int exit_code() const;
    [[nodiscard]] std::size_t jobs() const { return done + done_before + differs + failed + not_run; }
};

/// "3 jobs: 2 done, 1 failed (3)".
std::string in_words(const Counts& counts);

nlohmann::ordered_json to_json(const Counts& counts);

}  // namespace gpumat::cli
