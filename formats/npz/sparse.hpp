#pragma once

#include <memory>
#include <optional>

#include "formats/format.hpp"
#include "formats/npz/archive.hpp"

namespace gpumat::formats::npz {

/// Whether SciPy's `save_npz` wrote the archive.
bool is_sparse(const Archive& archive);

/// The matrix of such an archive. Throws Error{input} where its arrays do not fit together.
Header describe_sparse(const Archive& archive, const ReadOptions& options);

/// Opens it. Throws as `describe_sparse`, and for the formats that are not read.
std::unique_ptr<Reader> open_sparse(std::shared_ptr<const Archive> archive, const ReadOptions& options);

}  // namespace gpumat::formats::npz
