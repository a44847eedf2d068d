#pragma once

#include <string>
#include <vector>

namespace gpumat {

/// How many letters must be added, removed, changed or swapped with their neighbour to make one word of the
/// other.
std::size_t edit_distance(const std::string& x, const std::string& y);

/// The known word that a mistyped one is closest to, where they differ little: "; did you mean 'transpose'?",
/// else "".
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

}  // namespace gpumat
