#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/descriptor.hpp"

namespace gpumat {

/// What came through a pipe, or will go through one.
struct Spool {
    Descriptor file;
    std::uint64_t bytes = 0;
    bool in_memory = false;
};

/// Where files without a name are: $TMPDIR, or /tmp.
std::string spool_folder();

/// A file without a name, open for reading and writing, for about so many bytes: in memory where they are
/// within the limit (without one: half of what is available), else in that folder. It is gone with its
/// descriptor. Throws Error{output} naming `what` where neither can be had.
Spool open_spool(std::uint64_t bytes, std::optional<std::uint64_t> memory_limit, const std::string& what);

/// Throws Error{output} naming `what` and the folder, where writing to a spool ended with that errno.
void require_kept(int error_number, const Spool& spool, const std::string& what);

/// Copies everything that can be read from `from`, a pipe, into a spool: in memory as far as the limit goes,
/// and into a file once it is passed. Throws Error{input} naming `what` where it cannot be read, and
/// Error{output} where it cannot be kept.
Spool spool_from(int from, std::optional<std::uint64_t> memory_limit, const std::string& what);

/// Copies a spool from its start to `to`. Returns errno, or 0.
int copy_spool(int spool, int to);

/// Copies `from`, any file, from where it is to its end. Returns errno, or 0.
int copy_to_end(int from, int to);

/// A path by which this process and its children open the same file again.
std::string path_of_descriptor(int descriptor);

/// The descriptor of such a path; nothing where it is another path.
std::optional<int> descriptor_of_path(const std::string& path);

}  // namespace gpumat
