#pragma once

#include "formats/format.hpp"

/// Matrix Market files, plain or gzip-compressed, from a file or a stream.
///
/// Read: array and coordinate storage; real, double, integer, unsigned-integer, complex and pattern fields;
/// general, symmetric, skew-symmetric and hermitian. Unless a type is asked for they are delivered as f64,
/// i64, u64, c128 and (a pattern, as ones) i64. A type that is asked for is parsed from the text directly:
/// rounded once, and refused where it cannot hold a value. What is too small rounds to zero.
///
/// Written: array or coordinate, general, with the fewest digits that read back as the same value.
namespace gpumat::formats::matrix_market {

/// Whether the file begins with "%%MatrixMarket", as it is or after decompression, or is named .mtx and no
/// HDF5 file, so that it gets the reason why it is refused.
bool recognises(std::string_view head, const std::string& path);

/// The text at the start of a gzip file whose first bytes are `head`. Empty where it is damaged.
std::string text_of_gzip(std::string_view head);

/// The one matrix of the file.
Listing list(const Reference& reference, const ReadOptions& options);

/// Opens the matrix. Throws Error{input} naming file, line and column, or where a dataset is named.
std::unique_ptr<Reader> open(const Reference& reference, const ReadOptions& options);

/// The memory that a writer takes at least.
std::uint64_t writing_bytes(const Shape& shape, Type type, const WriteOptions& options);

/// Creates the file and writes its header. Attributes become comments. Blocks come as whole columns from
/// left to right. A name that ends in .gz gets gzip-compressed text, except on standard output. Throws
/// Error{output}; Error{usage} for options of HDF5.
std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options);

/// The memory that a writer of entries takes at least.
std::uint64_t sparse_writing_bytes(const Shape& shape, Type type, std::int64_t entries,
                                   const WriteOptions& options);

/// The same for coordinate text, general, of so many entries, which are written by row and then by column.
std::unique_ptr<SparseWriter> create_sparse(const WriteTarget& target, const Shape& shape, Type type,
                                            std::int64_t entries, const WriteOptions& options);

}  // namespace gpumat::formats::matrix_market
