#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.hpp"

namespace gpumat::formats {

/// One file format: how its content is recognised and how it is read and written.
struct Format {
    std::string_view name;                         ///< "hdf5", "matrix-market"
    std::span<const std::string_view> extensions;  ///< ".h5" …, for choosing on writing
    bool has_datasets;                             ///< whether a file holds several named matrices
    /// Whether a file that starts with `head` (up to 4096 bytes of it) is of this format. `path` serves
    /// formats that may start later in the file.
    bool (*recognises)(std::string_view head, const std::string& path);
    /// The matrices that a file holds for these options, headers only.
    Listing (*list)(const std::string& path, const ReadOptions& options);
    std::unique_ptr<Reader> (*open)(const Reference& reference, const ReadOptions& options);
    std::unique_ptr<Writer> (*create)(const WriteTarget& target, const Shape& shape, Type type,
                                      const WriteOptions& options);
    /// Throws what `create` would throw for what the file at `target` holds and for the options, and writes
    /// nothing; null where neither can stand in its way.
    void (*require_writable)(const WriteTarget& target, const Shape& shape, Type type,
                             const WriteOptions& options);
};

std::span<const Format> all_formats();

/// Whether a reference's file can be read only once: "-", a pipe, a device.
bool is_stream(const std::string& path);

/// The format that the content shows; a stream is Matrix Market text. Throws Error{input} for a missing file,
/// a directory, an empty file or content that no format recognises, and Error{usage} for a dataset of a
/// stream.
const Format& recognise(const Reference& reference);

/// Whether there is a regular file at `path` whose content is of this format.
bool exists_as(const std::string& path, const Format& format);

/// The format that the name asks for, or `to` where it is given ("hdf5", "matrix-market").
/// Throws Error{usage} listing the known extensions.
const Format& format_for_writing(const std::string& path, std::string_view to = {});

std::unique_ptr<Reader> open_reader(const Reference& reference, const ReadOptions& options);

}  // namespace gpumat::formats
