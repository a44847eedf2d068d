#pragma once

#include <span>

#include "formats/format.hpp"

namespace gpumat::formats {
struct AheadCheck;
}

namespace gpumat::formats::hdf5 {

/// See formats::check_ahead.
void check_ahead(std::span<const AheadCheck> checks);

/// Whether the HDF5 signature stands at byte 0, 512, 1024, 2048, … of the file.
bool recognises(std::string_view head, const std::string& path);

/// The matrices in the file, or the one that is named, read as `options` say, and why others could not be
/// opened. Throws Error{input} where the file cannot be read, and where what is named is no matrix.
Listing list(const Reference& reference, const ReadOptions& options);

/// Opens the dataset that `reference` names or, where it names none, the only matrix of the file. Throws
/// Error{input} that lists the matrices where there are several, or says what the dataset is instead.
std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options);

/// Throws what `create` would throw for a file that exists as `target` says, of what it holds and of the
/// options. Writes nothing.
void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options);

/// The chunk of a dataset with these options; 1x1 where it has none.
Shape writing_grain(const Shape& shape, Type type, const WriteOptions& options);

/// What a writer takes at least beside the matrix: a chunk, before and behind its filters.
std::uint64_t writing_bytes(const Shape& shape, Type type, const WriteOptions& options);

/// Creates the dataset `target.dataset` ("/A" where empty) in a new file or, with `target.append`, in one
/// that exists. Throws Error{output}; Error{usage} for options that do not fit the matrix.
std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options);

/// The same of a sparse matrix of so many entries: a group, in the layout of the options. Throws
/// Error{unsupported} for a type that the layout has not, Error{output} also where the group exists.
std::unique_ptr<SparseWriter> create_sparse(const WriteTarget& target, const Shape& shape, Type type,
                                            std::int64_t entries, const WriteOptions& options);

/// What that takes at least beside the matrix: a chunk, and MATLAB's columns.
std::uint64_t sparse_writing_bytes(const Shape& shape, Type type, std::int64_t entries,
                                   const WriteOptions& options);

}  // namespace gpumat::formats::hdf5
