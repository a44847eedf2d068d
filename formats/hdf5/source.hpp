#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "formats/format.hpp"
#include "formats/hdf5/element.hpp"
#include "formats/hdf5/library.hpp"

namespace gpumat::formats::hdf5 {

constexpr H5Z_filter_t kLzfFilter = 32000;  ///< h5py's, registered with The HDF Group

/// One filter of a dataset's pipeline.
struct Filter {
    H5Z_filter_t id = 0;
    std::string name;              ///< "deflate 4", "lzf", "filter 32015 (zstd)"
    std::vector<unsigned> values;  ///< its parameters
};

/// A dense matrix in a dataset of two dimensions, or of one or none that is taken as a column.
struct Dense {
    Handle dataset;
    Handle creation;  ///< the dataset's creation properties
    int rank = 2;
    H5D_layout_t layout = H5D_CONTIGUOUS;
    Shape chunk;  ///< as stored; of a chunked dataset
    std::vector<Filter> filters;
    bool plain_edges = false;  ///< chunks that the dataset does not fill are stored without filters
};

struct Source;

/// A sparse matrix in compressed columns: three datasets, each a dense matrix of one row or column.
struct Sparse {
    std::shared_ptr<const Source> starts;  ///< cols + 1 offsets into rows and values
    std::shared_ptr<const Source> rows;    ///< the row of each entry, from 0, ascending in a column
    std::shared_ptr<const Source> values;  ///< null, as `rows`, where there are no entries
};

/// A matrix without elements, of which only the shape is stored.
struct Empty {};

/// A matrix that was found in a file. Nothing of it has been read.
struct Source {
    std::string name;       ///< "FILE:/A", for messages
    std::string path;       ///< "FILE"
    std::string dataset;    ///< "/A"
    Shape stored;           ///< rows × columns as they lie in the file
    bool reversed = false;  ///< the matrix is the transpose of what is stored
    Element element;
    std::int64_t entries = 0;
    std::string storage;  ///< in words
    std::variant<Dense, Sparse, Empty> where;

    [[nodiscard]] Shape shape() const { return reversed ? stored.transposed() : stored; }
};

/// The matrix that `object` is, or in words why it is none ("is a group, expected …"). `julia`: the file
/// was written by Julia, which stores dimensions reversed. Throws Error{input} where HDF5 cannot tell.
std::variant<Source, std::string> describe(Handle object, const std::string& path, const std::string& dataset,
                                           const ReadOptions& options, bool julia);

/// The filters of a chunked dataset that has the creation properties `creation`.
std::vector<Filter> filters_of(hid_t creation);

/// Whether Julia's JLD or JLD2 wrote the file: they say so before the HDF5 signature.
bool written_by_julia(const std::string& path);

}  // namespace gpumat::formats::hdf5
