#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "formats/format.hpp"
#include "formats/hdf5/file/element.hpp"
#include "formats/hdf5/file/library.hpp"
#include "formats/hdf5/read/packing.hpp"
#include "formats/hdf5/read/window.hpp"
#include "formats/slice.hpp"

namespace gpumat::formats::hdf5 {

/// One filter of a dataset's pipeline.
struct Filter {
    H5Z_filter_t id = 0;
    std::string name;              ///< "deflate 4", "lzf", "filter 32015 (zstd)"
    std::vector<unsigned> values;  ///< its parameters
};

/// A dense matrix in a dataset of two dimensions, of one whose elements are arrays, each a row, of one or
/// none that is taken as a column, or of any number of which a slice is taken.
struct Dense {
    Handle dataset;
    Handle creation;  ///< the dataset's creation properties
    Window window;
    bool of_arrays = false;
    H5D_layout_t layout = H5D_CONTIGUOUS;
    Extents edges;  ///< of a chunk; of a chunked dataset
    Shape chunk;    ///< what of them counts rows and columns, as stored
    std::vector<Filter> filters;
    bool plain_edges = false;  ///< chunks that the dataset does not fill are stored without filters
};

struct Source;

/// A sparse matrix: datasets, each a dense matrix of one row or column. Its lines are its rows, or its
/// columns.
struct Sparse {
    Handle group;            ///< whose parts follow
    bool compressed = true;  ///< the entries lie line by line
    bool by_columns = false;
    bool symmetric = false;  ///< an entry beside the diagonal is also the one across it
    bool one_value = false;  ///< all entries have the same, which is stored once
    bool pairs = false;      ///< values are complex, and stored as numbers of their parts
    SparseLayout kept_as = SparseLayout::anndata;  ///< what is most like it of those that are written
    /// Where each line starts in what follows, and where the last one ends; else the line of each entry.
    std::shared_ptr<const Source> lines;
    std::shared_ptr<const Source> indices;  ///< the place of each entry in its line
    std::shared_ptr<const Source> values;   ///< null, as `indices`, where there are no entries
};

/// A matrix without elements, of which only the shape is stored.
struct Empty {};

/// A matrix that is known and cannot be read yet.
struct Unread {
    std::string what;  ///< "a CSR matrix of 6 × 4, 9 entries"
};

/// A matrix that was found in a file. Nothing of it has been read.
struct Source {
    std::string name;                                ///< "FILE:/A", for messages
    std::string path;                                ///< "FILE"
    std::string dataset;                             ///< "/A"
    Shape stored;                                    ///< rows × columns as they lie in the file
    bool reversed = false;                           ///< the matrix is the transpose of what is stored
    std::optional<std::vector<SliceIndex>> slice{};  ///< that is taken of the dataset
    Element element;
    std::string packed_by;           ///< see packing_words
    std::optional<Packing> packing;  ///< where its numbers are to be unpacked
    std::int64_t entries = 0;  ///< that are stored: of a dense matrix rows × columns, as far as 64 bits count
    std::string storage;       ///< in words
    std::variant<Dense, Sparse, Empty, Unread> where;

    [[nodiscard]] Shape shape() const { return reversed ? stored.transposed() : stored; }
    /// The type in which its elements are delivered where none is asked for.
    [[nodiscard]] Type type() const { return packing ? Type::f64 : element.type; }
};

/// What is no matrix.
struct NoMatrix {
    std::string why;             ///< "is a group, expected …"
    bool may_hold_some = false;  ///< a group of anything

    NoMatrix(std::string words, bool group = false)  // NOLINT: words are one
        : why(std::move(words)), may_hold_some(group) {}
};

using Found = std::variant<Source, NoMatrix>;

/// The matrix that `object` is, or why it is none. `julia`: the file was written by Julia, which stores
/// dimensions reversed. `slice`: what is taken of it, which `dataset` says too. Throws Error{input} where
/// HDF5 cannot tell, for a slice that it has not, or for a matrix that is malformed or larger than any can
/// be.
Found describe(Handle object, const std::string& path, const std::string& dataset, const ReadOptions& options,
               bool julia, std::optional<std::vector<SliceIndex>> slice = {});

// The parts of a matrix that is a group.

/// The member `name` of the group; none where there is none. Throws where it leads nowhere, or where its
/// extents cannot be asked for.
Handle open_member(hid_t group, const char* name, const std::string& what, const ReadOptions& options);

/// That member as a dataset of numbers of which at most one extent is not 1, or why it is none.
Found describe_part(hid_t group, const char* name, const Source& matrix, const ReadOptions& options);

std::int64_t length_of(const Source& part);

/// "6 × 4"
std::string shape_words(const Shape& shape);

/// Reads a dataset of `to.size()` integers that say something about a matrix. False where it is damaged, or
/// is something else.
bool read_integers(Handle dataset, const Source& matrix, const char* name, const ReadOptions& options,
                   std::span<std::int64_t> to);

/// The type that MATLAB calls so; none for what is no number.
std::optional<Type> matlab_type(const std::string& name);
Element element_for(Type type);

/// What a message says of elements that are not read from one dataset.
Element without_memory_type(const Element& element);

/// Of a chunked dataset.
std::int64_t elements_in_chunk(const Dense& dense);

/// The filters of a chunked dataset that has the creation properties `creation`.
std::vector<Filter> filters_of(hid_t creation);

/// Whether Julia's JLD or JLD2 wrote the file: they say so before the HDF5 signature.
bool written_by_julia(const std::string& path);

}  // namespace gpumat::formats::hdf5
