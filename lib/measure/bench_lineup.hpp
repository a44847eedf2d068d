#pragma once

#include <string>
#include <vector>

#include "lib/measure/bench.hpp"

namespace gpumat {

/// What gives one row for every problem of a bench.
struct Entrant {
    const Level* level = nullptr;  ///< null for auto
    std::string name;
    bool baseline = false;
    bool yardstick = false;  ///< shares of speed are given of it
    Settings settings = {};  ///< of the operation
    Parameters parameters = {};
};

/// The levels and baselines that a bench runs, with which parameters, in which order: baselines first, so
/// that every level's share can be given at once. Throws Error{usage} for names that do not exist and for
/// parameters that none of the levels has.
/// The problem is one of them: all are of the same structure.
std::vector<Entrant> line_up(const BenchOptions& options, const Problem& problem, const Registry& registry,
                             DeviceKind device);

}  // namespace gpumat
