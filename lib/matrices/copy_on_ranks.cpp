#include "lib/matrices/copy_on_ranks.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"

namespace gpumat {

void require_dense_on_ranks(bool sparse) {
    if (sparse)
        throw Error(ErrorCode::unsupported,
                    "ranks have no sparse matrices, and this one would stay sparse: --dense makes it dense "
                    "where there is that option, --engine local keeps it as it is");
}

StoredCopy write_on_ranks(engines::Team& team, const RanksSource& source, Destination& destination,
                          const formats::WriteOptions& how, RecordedEngine& engine, const Tell& say,
                          const NamingListener& before_naming) {
    const auto& [shape, type, load, beside] = source;
    team.plan(shape, 0);
    const engines::Layout layout = team.layout(shape, type);
    require_memory(saturating_add(block_bytes(layout.local(0), size_of(type)), beside ? beside(layout) : 0),
                   how.memory_limit, "the share of a rank");
    auto writer = destination.create(shape, type, how);  // before MPI starts, for it forks
    tell_left_out(*writer, say);
    team.start();
    engine = engines::record_of(team);
    team.allocate(engines::Held::c, layout);
    const Stopwatch watch;
    const std::string given = hash_text(load());
    engines::note_stage(team, "read", engine);
    const double read_ms = watch.elapsed_ms();
    const bool keeps_nans = destination.format().keeps_nans;
    const std::string written = hash_text(engines::store_result(
        team, *writer, layout, {destination.shared_path(), to_string(destination.reference()), keeps_nans},
        say));
    engines::note_stage(team, "write", engine);
    engines::note_effort(team, engine);
    StoredCopy copy =
        finish_copy(std::move(writer), destination, shape, type, {given, written}, before_naming);
    copy.fill_ms = read_ms;
    copy.write_ms = watch.elapsed_ms() - read_ms;
    return copy;
}

}  // namespace gpumat
