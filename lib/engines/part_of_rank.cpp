#include "lib/engines/part_of_rank.hpp"

#include <array>
#include <cstring>
#include <exception>

#include "core/memory.hpp"
#include "lib/engines/gathering.hpp"

namespace gpumat::engines {

std::optional<ProblemPart> part_of(const Problem& problem, const Layout& input, int rank) {
    const Block panel = input.panel(rank);
    if (panel.rows == 0 && rank > 0) return {};
    return problem.operation->part(problem, panel);
}

std::size_t unfinished_bytes(const ProblemPart& part) {
    if (!part.shares_result()) return 0;
    return block_bytes(part.problem.operation->result(part.problem), size_of(result_type(part.problem)));
}

void compute_parts(Ranks& ranks, const Level& level, const Problem& problem, const Layout& input,
                   const std::byte* rows, const Layout& result, std::byte* out, int threads) {
    const auto part = part_of(problem, input, ranks.rank());
    Buffer unfinished;
    std::exception_ptr failure;
    try {
        if (part) {
            unfinished = Buffer(unfinished_bytes(*part));
            const std::array<const void*, 1> inputs = {rows};
            const Operands operands =
                operands_at(part->problem, inputs, part->shares_result() ? unfinished.data() : out);
            prepare_launch(level, part->problem, operands, {.kind = DeviceKind::cpu, .threads = threads})
                .run({});
        }
    } catch (...) {
        failure = std::current_exception();
    }
    const bool none = ranks.any(failure != nullptr);
    if (failure) std::rethrow_exception(failure);
    if (none || !part_of(problem, input, 0)->shares_result()) return;
    const Combination& combination = *problem.operation->combination;
    Buffer all;
    gather_in_turn(ranks, {unfinished.data(), unfinished.size()}, [&](std::span<const std::byte> some) {
        if (all.size() > 0) return combination.take(part->problem, all.data(), some.data());
        all = Buffer(some.size());
        std::memcpy(all.data(), some.data(), some.size());
    });
    if (ranks.rank() == 0 && all.size() > 0)
        combination.finish(problem, all.data(), result.shape.elements(), out);
}

}  // namespace gpumat::engines
