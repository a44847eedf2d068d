#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/check/verification.hpp"
#include "lib/engines/team.hpp"
#include "lib/run/plan/inputs.hpp"

namespace gpumat {

/// Where ranks have the input of a role.
engines::Held held_as(std::size_t role);

/// Verifies what the ranks hold: by all of them where the operation's check can (`by_all`), else at rank 0,
/// which needs room for the matrices. `planned` is what a rank has of the limit already. Throws
/// Error{memory}.
Verification verify_on_ranks(engines::Team& team, const Problem& problem,
                             const std::vector<PlannedInput>& inputs, const VerifyOptions& how,
                             std::optional<std::uint64_t> memory_limit, std::uint64_t planned, bool& by_all);

}  // namespace gpumat
