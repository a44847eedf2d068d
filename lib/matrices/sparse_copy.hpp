#pragma once

#include "core/sparse/csr.hpp"
#include "lib/matrices/stored_copy.hpp"

// Matrices that stay sparse on their way from a file to a file.

namespace gpumat {

/// Writes a sparse matrix as `write_blocks` does a dense one: to a destination that is open, and is
/// committed.
StoredCopy write_sparse(Csr matrix, Destination& destination, const formats::WriteOptions& how,
                        const NamingListener& before_naming);

/// Reads a sparse matrix whole and writes it as `write_blocks` does a dense one: to a destination that is
/// open, and is committed. `input` becomes what the record says of it. Throws as reader and writer do, and
/// Error{memory} naming what the dense matrix would take as well.
StoredCopy copy_sparse(formats::Reader& reader, Destination& destination, const formats::WriteOptions& how,
                       RecordedMatrix& input, const Tell& say, const NamingListener& before_naming);

}  // namespace gpumat
