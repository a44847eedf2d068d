#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/registry.hpp"
#include "lib/matrices/generate.hpp"

namespace gpumat {

/// Which inputs of a bench are sparse, and where their entries are.
struct SparseInputs {
    std::vector<std::string> roles;  ///< by name; empty: the first input, where anything of entries is said
    std::map<std::string, std::string, std::less<>>
        parameters;  ///< of generated ones: "entries", "pattern" …

    [[nodiscard]] bool any() const { return !roles.empty() || !parameters.empty(); }
    /// "sparse A (entries=1000000)"; empty where all inputs are dense.
    [[nodiscard]] std::string described(const Operation& operation) const;
    /// As settings of a row: "sparse" → "A", "entries" → "1000000".
    [[nodiscard]] Parameters as_settings(const Operation& operation) const;
};

/// Makes inputs of the problem sparse. Throws Error{usage} where it has none of that name, no ladder for
/// them, or cannot have such entries.
void make_sparse(const SparseInputs& inputs, Problem& problem);

/// What makes the sparse input of that role. Throws Error{usage}.
Generator sparse_generator(const SparseInputs& inputs, const Problem& problem, std::size_t role,
                           std::uint64_t seed);

/// The kind of device that `auto` measures: a GPU, unless only the CPU has a level for the problem, or the
/// one that is named. A level of neither is the GPU's to refuse.
std::string sparse_device(const Problem& problem, const std::string& level, const Registry& registry);

}  // namespace gpumat
