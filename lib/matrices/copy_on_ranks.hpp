#pragma once

#include <functional>

#include "lib/engines/team_files.hpp"
#include "lib/matrices/stored_copy.hpp"

namespace gpumat {

/// Throws Error{unsupported} where a matrix would stay sparse, which ranks do not have.
void require_dense_on_ranks(bool sparse);

/// As write_blocks, on ranks, each of which has rows of the whole: `load` has them load those as C, for which
/// there is room, and returns the share of their content hash. The destination is open.
StoredCopy write_on_ranks(engines::Team& team, const Shape& shape, Type type,
                          const std::function<std::uint32_t()>& load, Destination& destination,
                          const formats::WriteOptions& how, RecordedEngine& engine, const Tell& say,
                          const NamingListener& before_naming);

}  // namespace gpumat
