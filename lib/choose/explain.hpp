#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/level.hpp"

namespace gpumat {

/// How `level` would run: the facts that its launch gives (Launch::details), such as tile, threads, registers
/// and occupancy. The level is prepared, which may take working memory, and not run. It must be able to serve
/// the problem. Nothing of sparse matrices on a GPU. Throws Error{device, memory}.
std::vector<std::pair<std::string, std::string>> launch_facts(const Level& level, const Problem& problem,
                                                              const Device& device);

/// What the operation's README says of a level, without the heading, and of one for sparse matrices in the
/// table of its ladder; empty where it says nothing.
std::string section_of(const Level& level);

}  // namespace gpumat
