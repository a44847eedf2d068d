#pragma once

#include <functional>

#include "lib/engines/team_files.hpp"
#include "lib/matrices/stored_copy.hpp"

namespace gpumat {

/// Throws Error{unsupported} where a matrix would stay sparse, which ranks do not have.
void require_dense_on_ranks(bool sparse);

/// What ranks are to write.
struct RanksSource {
    Shape shape;
    Type type = Type::f32;
    /// Has them load their rows as C, for which there is room; returns the share of the content hash.
    std::function<std::uint32_t()> load;
    /// Memory that this takes beside what they load, once the team has its plan; null: none.
    std::function<std::uint64_t(const engines::Layout& layout)> beside = nullptr;
};

/// As write_blocks, on ranks, each of which has rows of the whole. The destination is open. `engine` becomes
/// the record of the ranks.
StoredCopy write_on_ranks(engines::Team& team, const RanksSource& source, Destination& destination,
                          const formats::WriteOptions& how, RecordedEngine& engine, const Tell& say,
                          const NamingListener& before_naming);

}  // namespace gpumat
