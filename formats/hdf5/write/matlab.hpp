#pragma once

#include <memory>
#include <string>

#include "formats/format.hpp"
#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

// How MATLAB 7.3 stores a matrix: dimensions reversed, its class as an attribute, in a file with a header.

inline constexpr std::size_t kMatlabHeaderBytes = 512;

/// What stands before the HDF5 data of a file.
std::string matlab_header();

/// Throws Error{unsupported} for what MATLAB has no class for or stores otherwise: f16, bf16, no elements.
void require_matlab(const Shape& shape, Type type, const std::string& what);

/// The type of the elements in the file: complex numbers are of real and imag.
Handle matlab_type_of(Type type);

/// Gives a dataset the attributes by which MATLAB knows its class. Throws Error{output}.
void mark_for_matlab(hid_t dataset, Type type, bool logical, const std::string& what);

/// A writer of a matrix by the writer of its transpose.
std::unique_ptr<Writer> reversed_writer(std::unique_ptr<Writer> stored, Type type, int threads);

/// What that takes beside the writer of the transpose, whose chunk is this, and the matrix.
std::uint64_t reversing_bytes(const Shape& shape, Type type, const Shape& chunk);

}  // namespace gpumat::formats::hdf5
