#pragma once

#include "formats/format.hpp"
#include "formats/npy/header.hpp"

/// NumPy's files of one array, `.npy`, of versions 1 to 3 (NumPy's `numpy.lib.format` describes them).
///
/// Read: arrays of two dimensions in C and in Fortran order, and of one as a column where that is asked for;
/// booleans (as u8), integers, f2, f4, f8, c8 and c16 in either byte order. Objects, structures, text and
/// dates are refused, as is anything behind the elements, which would be another array.
///
/// Written: version 1.0, C order, little-endian. bf16 is refused, because NumPy has no such type.
namespace gpumat::formats::npy {

/// Whether the file begins with the bytes "\x93NUMPY".
bool recognises(std::string_view head, const std::string& path);

/// The one matrix of the file, or what its array is instead.
Listing list(const Reference& reference, const ReadOptions& options);

/// Why the array is no matrix of ours; empty where it is one.
std::string why_no_matrix(const ArrayHeader& array, const ReadOptions& options);

/// The matrix that the array is, at `source`.
Header describe(const ArrayHeader& array, const Reference& source);

/// Refuses an array that does not take `bytes`, those that follow its header. Throws Error{input} naming
/// `file`.
void require_size(const ArrayHeader& array, std::uint64_t bytes, const std::string& file);

/// Opens the matrix. Throws Error{input} naming the file, or where a dataset is named.
std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options);

/// Throws Error{usage} for what the format cannot hold: bf16, and options of HDF5.
void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options);

/// Writes the header. Blocks come as whole rows from the top down. Attributes have no place and are left out.
/// Throws as `require_writable`, and Error{output}.
std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options);

}  // namespace gpumat::formats::npy
