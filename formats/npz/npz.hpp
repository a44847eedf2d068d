#pragma once

#include "formats/format.hpp"

/// NumPy's archives `.npz`: ZIP files whose members are `.npy` files, stored or deflated.
///
/// Read: each array of `numpy.savez` that `.npy` files could hold, named as FILE.npz:NAME; and what
/// `scipy.sparse.save_npz` writes of the formats csr, csc and coo, as one sparse matrix without a name. bsr
/// and dia are named and refused. A member is unpacked as a whole, and its checksum compared, before it is
/// read.
///
/// Written, without compression: a sparse matrix as `save_npz` writes csr, which `load_npz` reads; a dense
/// one as the array "arr_0" of `numpy.savez`.
namespace gpumat::formats::npz {

/// Whether the file begins as a ZIP archive whose first member is called so: others are no archives of NumPy.
bool recognises(std::string_view head, const std::string& path);

/// The matrices of the archive, or the one that is named.
Listing list(const Reference& reference, const ReadOptions& options);

/// Opens a matrix: the only one, or the one that is named. Throws Error{input} naming file and member.
std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options);

/// Throws Error{usage} for what the format cannot hold: bf16, and options of HDF5.
void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options);

/// Blocks come as whole rows from the top down. Throws as `require_writable`, and Error{output}.
std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options);

std::unique_ptr<SparseWriter> create_sparse(const WriteTarget& target, const Shape& shape, Type type,
                                            std::int64_t entries, const WriteOptions& options);
std::uint64_t sparse_writing_bytes(const Shape& shape, Type type, std::int64_t entries,
                                   const WriteOptions& options);

}  // namespace gpumat::formats::npz
