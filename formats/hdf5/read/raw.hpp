#pragma once

#include <cstdint>

#include "formats/hdf5/read/storage.hpp"

namespace gpumat::formats::hdf5 {

// Storages that read the file's bytes themselves, in parallel. HDF5 runs one thread at a time.

/// The descriptor of the file that holds the dataset, or -1 where HDF5 does not read it as a plain file.
int descriptor_of(const Dense& dense, const std::string& what);

/// The bytes of the element that stands for what was never written, as in memory; empty where the file
/// defines none.
std::vector<std::byte> fill_value(const Source& source, const Dense& dense);

/// The storage of a contiguous dataset whose elements need at most a change of byte order; nothing where it
/// was never written. Throws Error{input} where the file is too short for it.
std::unique_ptr<Storage> open_contiguous_storage(const Source& source, const Dense& dense,
                                                 const ReadOptions& options);

/// The storage of a chunked dataset whose elements need at most a change of byte order; nothing where a
/// filter is none of deflate, shuffle, fletcher32 and lzf.
std::unique_ptr<Storage> open_chunked_storage(const Source& source, const Dense& dense,
                                              const ReadOptions& options);

}  // namespace gpumat::formats::hdf5
