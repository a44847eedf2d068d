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
    std::string_view name;                         ///< "hdf5", "matrix-market", "npy"
    std::span<const std::string_view> extensions;  ///< ".h5" …, for choosing on writing
    bool has_datasets;                             ///< whether a file holds several named matrices
    bool needs_file;  ///< readers go here and there in it, so that a stream is kept as a file first
    /// Whether a file that starts with `head` (up to 4096 bytes of it) is of this format. `path` serves
    /// formats that may start later in the file.
    bool (*recognises)(std::string_view head, const std::string& path);
    /// The matrices that a file holds for these options, or the one that is named, headers only.
    Listing (*list)(const Reference& reference, const ReadOptions& options);
    std::unique_ptr<Reader> (*open)(const Reference& reference, const ReadOptions& options);
    std::unique_ptr<Writer> (*create)(const WriteTarget& target, const Shape& shape, Type type,
                                      const WriteOptions& options);
    /// A writer of sparse matrices of so many entries, and the memory that it takes at least; null where the
    /// format has none.
    std::unique_ptr<SparseWriter> (*create_sparse)(const WriteTarget& target, const Shape& shape, Type type,
                                                   std::int64_t entries, const WriteOptions& options);
    std::uint64_t (*sparse_writing_bytes)(const Shape& shape, Type type, std::int64_t entries,
                                          const WriteOptions& options);
    /// Throws what `create` would throw for what the file at `target` holds and for the options, and writes
    /// nothing; null where neither can stand in its way.
    void (*require_writable)(const WriteTarget& target, const Shape& shape, Type type,
                             const WriteOptions& options);
    /// The order in which its writers take blocks.
    BlockOrder order;
    /// Blocks that are whole multiples of this are written at once; of others the writer keeps what does not
    /// fill a chunk. Null: any block is.
    Shape (*writing_grain)(const Shape& shape, Type type, const WriteOptions& options);
    /// The memory that a writer takes at least beside the matrix; null where that is little.
    std::uint64_t (*writing_bytes)(const Shape& shape, Type type, const WriteOptions& options);
    /// Whether the bits of a NaN are kept. Else it has neither sign nor payload when it is read again.
    bool keeps_nans;
};

std::span<const Format> all_formats();

/// The format of that name. Throws Error{usage} where there is none.
const Format& format_named(std::string_view name);

/// Whether a reference's file can be read only once: "-", a pipe, a device.
bool is_stream(const std::string& path);

/// The format that the content shows; a stream is Matrix Market text. Throws Error{input} for a missing file,
/// a directory, an empty file or content that no format recognises, and Error{usage} for a dataset of a
/// stream.
const Format& recognise(const Reference& reference);

/// Whether there is a regular file at `path` whose content is of this format. Throws Error{output} where it
/// cannot be read.
bool exists_as(const std::string& path, const Format& format);

/// The format that the name asks for, or `to` where it is given ("hdf5", "matrix-market", "npy").
/// Throws Error{usage} listing the known extensions.
const Format& format_for_writing(const std::string& path, std::string_view to = {});

/// Whether a reference is a stream of a format that is read here and there, such as HDF5: all of it is kept,
/// in memory or in a temporary file, before anything is read. Throws Error{usage} for a format that there is
/// not.
bool is_kept_stream(const Reference& reference, const ReadOptions& options);

struct KeptStream;

/// What is behind a reference: a file, or a stream that is kept as one as long as this object or a reader
/// that it opened lives.
class Container {
  public:
    /// Throws as recognise does, and Error{input, output} where a stream cannot be read or kept.
    Container(const Reference& reference, const ReadOptions& options);
    Container(const Container&) = delete;
    Container& operator=(const Container&) = delete;
    ~Container();

    /// The matrices that it holds, or the one that the reference names.
    [[nodiscard]] Listing list() const;
    /// The matrix at `dataset`; "" is the only one that there is.
    [[nodiscard]] std::unique_ptr<Reader> open(const std::string& dataset) const;

  private:
    Reference reference_;
    ReadOptions options_;
    const Format* format_;
    std::shared_ptr<const KeptStream> stream_;  ///< null for a file
};

std::unique_ptr<Reader> open_reader(const Reference& reference, const ReadOptions& options);

/// Tries many matrices of formats whose files are tried before they are opened, in one go, which costs less
/// than each by itself. What opening them gives or throws stays the same.
void check_ahead(std::span<const AheadCheck> checks);

}  // namespace gpumat::formats
