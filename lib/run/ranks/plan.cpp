#include "lib/run/ranks/plan.hpp"

#include <limits>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "kernels/check/check.hpp"
#include "lib/engines/part_of_rank.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/engines/tiles.hpp"
#include "lib/run/plan.hpp"

namespace gpumat {
namespace {

std::vector<engines::Layout> layouts_of(const engines::Team& team, const Plan& plan) {
    std::vector<engines::Layout> layouts = {team.layout(plan.result, plan.result_type)};
    for (const PlannedInput& input : plan.inputs)
        layouts.push_back(team.layout(input.header().shape, input.header().type));
    return layouts;
}

/// What computing and the check take beside the matrices, where they take more than little.
std::uint64_t computing_bytes(const engines::Team& team, const Plan& plan, const RunOptions& options,
                              const std::vector<engines::Layout>& layouts) {
    if (team.served().way == engines::Way::exchange) return engines::tile_bytes(layouts.at(1), layouts.at(0));
    if (team.served().way == engines::Way::library) return 0;
    const auto part = engines::part_of(plan.problem, layouts.at(1), 0);
    return saturating_add(2 * engines::unfinished_bytes(*part),
                          verification_bytes(part->problem, options.verify));
}

/// Rank 0 has the most of each matrix.
std::uint64_t bytes_of_rank(const engines::Team& team, const Plan& plan, const RunOptions& options) {
    const std::vector<engines::Layout> layouts = layouts_of(team, plan);
    std::uint64_t bytes = 0;
    std::uint64_t moving = computing_bytes(team, plan, options, layouts);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        const engines::Layout& layout = layouts[i];
        bytes = saturating_add(bytes, block_bytes(layout.local(0), size_of(layout.type)));
        if (i == 0 && layout.has_panels() && !plan.output) continue;
        moving = std::max(
            moving, i == 0 ? engines::moving_bytes(layout, engines::panels_for(layout, team.grid().size()))
                           : engines::loading_bytes(team, *plan.inputs[i - 1].reader, layout));
    }
    return saturating_add(bytes, moving);
}

/// What moves between ranks, of matrices that are spread evenly: on the way from files and to them, and to be
/// transposed. What a library and a check send is not planned.
std::uint64_t bytes_to_send(const engines::Team& team, const Plan& plan) {
    const std::vector<engines::Layout> layouts = layouts_of(team, plan);
    std::uint64_t moved = 0;
    for (std::size_t i = 0; i < layouts.size(); ++i) {
        const engines::Layout& layout = layouts[i];
        const bool moves = i == 0 ? plan.output && !layout.has_panels()
                                  : team.served().way == engines::Way::exchange ||
                                        engines::loading_bytes(team, *plan.inputs[i - 1].reader, layout) > 0;
        if (moves) moved = saturating_add(moved, block_bytes(layout.shape, size_of(layout.type)));
    }
    const auto ranks = static_cast<std::uint64_t>(team.grid().size());
    return moved - moved / ranks;
}

void require_countable_shares(const engines::Team& team, const Plan& plan) {
    for (const engines::Layout& layout : layouts_of(team, plan)) {
        if (layout.local(0).elements() <= std::numeric_limits<int>::max()) continue;
        throw Error(ErrorCode::unsupported,
                    "a rank's share of " + to_string(layout.shape) + " has " +
                        std::to_string(layout.local(0).elements()) +
                        " elements, and the library counts up to 2147483647; more ranks have less each");
    }
}

}  // namespace

void plan_on_ranks(const RunOptions& options, Plan& plan) {
    engines::Team& team = *options.team;
    std::vector<std::string> reasons = engines::unsupported_reasons(team.engine(), plan.problem);
    if (options.device != "auto" && options.device != "cpu")
        reasons.push_back("it computes on the CPUs of the ranks, not on " + options.device);
    if (options.sparse || options.write.sparse_layout)
        reasons.emplace_back("it has no sparse matrices (--sparse, --sparse-layout)");
    engines::require_served(team.engine(), *options.operation, reasons);
    const std::string of_levels = options.level != "auto"       ? "--level " + options.level
                                  : !options.parameters.empty() ? "--" + options.parameters.begin()->first
                                                                : "";
    if (!of_levels.empty())
        throw Error(ErrorCode::usage, of_levels + " is of the engine local; '" +
                                          std::string(team.engine().name) + "' has no levels");
    const bool in_parts = team.served().way == engines::Way::parts;
    team.plan(in_parts ? plan.inputs.front().header().shape : plan.result, plan.problem.k);
    plan.lanes.push_back({.device = {DeviceKind::cpu, team.threads(), nullptr}, .gpu = nullptr});
    plan.parts.emplace(plan.problem, stored_by_role(plan.inputs, options.inputs.size()));
    if (team.served().way == engines::Way::library)
        require_countable_shares(team, plan);
    else
        engines::level_of_ranks(plan.problem);
    plan.host_bytes = bytes_of_rank(team, plan, options);
    if (options.memory_limit) require_memory(plan.host_bytes, options.memory_limit, "the share of a rank");
}

std::vector<std::pair<std::string, std::string>> facts_of_ranks(const RunOptions& options, const Plan& plan) {
    const engines::Team& team = *options.team;
    const engines::Grid& grid = team.grid();
    const bool in_blocks = team.served().way == engines::Way::library;
    std::vector<std::pair<std::string, std::string>> facts = {
        {"engine", std::string(team.engine().name) + ", " + std::string(team.served().routine)},
        {"grid", std::to_string(grid.rows) + "x" + std::to_string(grid.cols)},
        {in_blocks ? "block_size" : "rows_a_rank", std::to_string(team.block())},
        {"threads_a_rank", std::to_string(team.threads())},
        {"memory_a_rank", format_bytes(plan.host_bytes)},
        {"to_send", format_bytes(bytes_to_send(team, plan))}};
    if (!in_blocks) facts.emplace_back("level", engines::level_of_ranks(plan.problem).name);
    return facts;
}

}  // namespace gpumat
