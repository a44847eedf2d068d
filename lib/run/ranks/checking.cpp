#include "lib/run/ranks/checking.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/memory.hpp"
#include "core/numbers/matrix.hpp"
#include "kernels/check/check.hpp"

namespace gpumat {
namespace {

using engines::Held;

/// Small products, and others where that was asked for: all at rank 0.
Verification verify_fetched(engines::Team& team, const Problem& problem,
                            const std::vector<PlannedInput>& inputs, const VerifyOptions& how,
                            std::uint64_t room) {
    const Shape result = problem.operation->result(problem);
    const Type type = result_type(problem);
    std::uint64_t bytes = verification_bytes(problem, how.mode) + block_bytes(result, size_of(type));
    for (const PlannedInput& input : inputs)
        bytes += block_bytes(input.header().shape, size_of(input.header().type));
    require_memory(bytes, room,
                   "verifying this " + std::string(name_of(*problem.operation)) + " in full at rank 0");
    std::vector<Matrix> matrices;
    std::vector<const void*> places(problem.operation->roles.size());
    const auto whole = [&](Held which, const Shape& shape, Type of) -> std::byte* {
        Matrix& own = matrices.emplace_back(shape, of);
        team.fetch(which, {0, 0, shape.rows, shape.cols}, own.data());
        return own.data();
    };
    for (const PlannedInput& input : inputs)
        if (problem.operation->input(problem, input.role))
            places[input.role] = whole(held_as(input.role), input.header().shape, input.header().type);
    const Operands operands = operands_at(problem, places, whole(Held::c, result, type));
    return problem.operation->check->verify(problem, operands, how);
}

}  // namespace

Held held_as(std::size_t role) {
    constexpr std::array kByRole = {Held::a, Held::b, Held::added};
    return kByRole.at(role);
}

Verification verify_on_ranks(engines::Team& team, const Problem& problem,
                             const std::vector<PlannedInput>& inputs, const VerifyOptions& how,
                             std::optional<std::uint64_t> memory_limit, std::uint64_t planned, bool& by_all) {
    const std::uint64_t room =
        memory_limit ? *memory_limit - std::min(*memory_limit, planned)
                     : available_memory_bytes() / (2 * static_cast<std::uint64_t>(team.grid().size()));
    auto found = team.check(problem, how, room);
    by_all = found.has_value();
    return found ? *std::move(found) : verify_fetched(team, problem, inputs, how, room);
}

}  // namespace gpumat
