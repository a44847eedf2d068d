#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/level.hpp"

namespace gpumat {

/// The rows of all the tables, one table after the other.
inline std::vector<Level> all_levels(std::initializer_list<std::span<const Level>> tables) {
    std::vector<Level> all;
    for (const auto table : tables) all.insert(all.end(), table.begin(), table.end());
    return all;
}

}  // namespace gpumat
