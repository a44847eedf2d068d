#include "lib/run/ranks/verify.hpp"

#include <algorithm>

#include "core/hash/hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "formats/registry.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/run/ranks/checking.hpp"

namespace gpumat {
namespace {

/// A stored matrix and its place on the ranks.
struct Verified {
    engines::Held held;
    formats::Reader& reader;
    bool conjugate;
    RecordedMatrix& recorded;
};

std::vector<Verified> verified(std::vector<PlannedInput>& inputs, formats::Reader& result,
                               StoredVerification& record) {
    std::vector<Verified> all;
    for (std::size_t i = 0; i < inputs.size(); ++i)
        all.push_back({held_as(inputs[i].role), *inputs[i].reader,
                       is_conjugated(record.problem, inputs[i].role), record.inputs[i]});
    all.push_back({engines::Held::c, result, false, *record.result});
    return all;
}

}  // namespace

Verification verify_stored_on_ranks(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                    const StoredResult& asked, StoredVerification& record) {
    engines::Team& team = *asked.team;
    team.plan(inputs.front().header().shape, record.problem.k);
    const std::vector<Verified> matrices = verified(inputs, result, record);
    const auto layout_of = [&](const Verified& matrix) {
        return team.layout(matrix.reader.header().shape, matrix.reader.header().type);
    };
    std::uint64_t share = 0;
    std::uint64_t moving = 0;
    bool keeps_nans = true;
    for (const Verified& matrix : matrices) {
        const engines::Layout layout = layout_of(matrix);
        share = saturating_add(share, block_bytes(layout.local(0), size_of(layout.type)));
        moving = std::max(moving, engines::loading_bytes(team, matrix.reader, layout));
        keeps_nans &= formats::format_named(matrix.reader.header().format).keeps_nans;
    }
    share = saturating_add(share, moving);
    if (asked.read.memory_limit) require_memory(share, asked.read.memory_limit, "the share of a rank");
    team.start();
    record.engine = engines::record_of(team);
    const Stopwatch watch;
    for (const Verified& matrix : matrices) {
        team.allocate(matrix.held, layout_of(matrix));
        const engines::Loading how{.conjugate = matrix.conjugate,
                                   .plain_nans = !keeps_nans,
                                   .memory_limit = asked.read.memory_limit};
        matrix.recorded.hash =
            hash_text(engines::load_stored(team, matrix.held, matrix.reader, how, asked.say));
        engines::note_stage(team, "read", *record.engine);
    }
    record.stages_ms.read = watch.elapsed_ms();
    bool by_all = false;
    Verification found =
        verify_on_ranks(team, record.problem, inputs, asked.how, asked.read.memory_limit, share, by_all);
    if (by_all) engines::note_stage(team, "verify", *record.engine);
    record.stages_ms.verify = watch.elapsed_ms() - *record.stages_ms.read;
    engines::note_effort(team, *record.engine);
    return found;
}

}  // namespace gpumat
