#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// The decoded chunks that HDF5 keeps for each dataset and each piece of a virtual one while it reads them.
constexpr std::size_t kChunkCacheBytes = std::size_t{64} << 20;

/// Opens `path` for reading, also while a program appends to it in HDF5's mode for that (SWMR). Throws
/// Error{input} with the reason.
Handle open_for_reading(const std::string& path);

/// Whether a program was appending to the file as it was opened: it changes while it is read.
bool is_growing(hid_t file);

/// Opens the object that `name` is in the group `place`, or, where it starts with '/', in the file. Follows
/// hard and soft links, and external links, anywhere in the path, where `options` allow it. Throws
/// Error{input} with `what` naming the link that does not exist, leads round in circles or is refused.
Handle resolve(hid_t place, const std::string& name, const std::string& what, const ReadOptions& options);

/// Why objects could not be opened, by their names.
using Failures = std::map<std::string, Error>;

/// Opens the object `name` at `place`, a file or group, and says so for the case that HDF5 does not survive
/// it
/// (`now_reading`). Throws Error{input} with HDF5's reason.
Handle open_object(hid_t place, const std::string& name, const std::string& what);

/// Calls `visit(object, name)` for every object that hard links reach from the root, once each, in the
/// order of their paths. `visit` returns whether to descend into a group.
///
/// What cannot be opened is added to `failures`, and so is an Error that `visit` throws: damaged objects, and
/// what lies in very many groups one in the other. What is among `failures` before is not opened.
void walk(hid_t file, const std::string& path,
          const std::function<bool(const Handle& object, const std::string& name)>& visit,
          Failures& failures);

/// The text of a scalar string attribute or dataset; empty where there is none. Throws Error{input} with
/// `what` where it cannot be read, is no text, or where the dataset's text is not all in its own file.
std::string text_attribute(hid_t object, const char* name, const std::string& what);
std::string text_dataset(hid_t group, const char* name, const std::string& what, const ReadOptions& options);

/// The value of an integer attribute of one element; `missing` where there is none. Throws Error{input} with
/// `what` where it cannot be read, or is another one.
std::int64_t number_attribute(hid_t object, const char* name, std::int64_t missing, const std::string& what);

/// Those of an attribute of `to.size()` integers. Throws Error{input} with `what` where there is none, or it
/// cannot be read or is another one.
void number_attributes(hid_t object, const char* name, std::span<std::int64_t> to, const std::string& what);

/// Throws Error{input} with `what` where HDF5 cannot tell.
bool has_attribute(hid_t object, const char* name, const std::string& what);

/// Whether `group` has a member `name`, wherever the link leads. Throws Error{input} with `what` where HDF5
/// cannot tell.
bool has_member(hid_t group, const char* name, const std::string& what);

}  // namespace gpumat::formats::hdf5
