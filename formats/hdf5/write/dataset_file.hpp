#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/format.hpp"
#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// The group of a sparse matrix, of which a dataset of one dimension is a part.
struct SparseGroup {
    bool is_new = false;               ///< it gets what follows, and nothing else that bears its name keeps
    std::vector<std::string> parts{};  ///< the datasets that it will have
    std::vector<std::pair<std::string, std::string>> texts{};
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> numbers{};  ///< one alone has no sign
    std::optional<Type> matlab{};                                              ///< of MATLAB's class
};

/// A dataset to be written.
struct DatasetPlan {
    Shape shape;
    Type type = Type::f64;
    std::optional<Shape> chunk;  ///< nothing: contiguous
    WriteOptions options;        ///< its filters and attributes
    const SparseGroup* part_of = nullptr;
};

/// A dataset that was made in a file, and HDF5's part in filling it. One thread at a time.
class DatasetFile {
  public:
    virtual ~DatasetFile() = default;
    DatasetFile() = default;
    DatasetFile(const DatasetFile&) = delete;
    DatasetFile& operator=(const DatasetFile&) = delete;

    /// Where the elements of a contiguous dataset lie in the file. To be written by the caller.
    [[nodiscard]] virtual haddr_t offset() const = 0;

    /// The attributes that could not be kept, with the reason.
    [[nodiscard]] virtual const std::vector<std::string>& left_out() const = 0;

    /// Puts a chunk, as it is to be stored, behind what is in the file. `at` is its first element; a bit is
    /// set in `skipped` for each filter of the dataset that was not applied.
    virtual void put_chunk(const std::array<hsize_t, 2>& at, std::uint32_t skipped,
                           std::span<const std::byte> stored) = 0;

    /// Gives the dataset a text attribute; one of that name is replaced.
    virtual void put_attribute(const std::string& name, const std::string& value) = 0;

    /// Completes the file.
    virtual void close() = 0;
};

/// The dataset that `target` means, for messages: "FILE:/A".
std::string name_in_messages(const WriteTarget& target);

/// A path of the open file, by which a child's bounds know how large it is.
std::string opened_path(const WriteTarget& target);

/// Throws what creating the dataset in a file that exists would throw, but for the options. Asks HDF5 in a
/// child.
void require_room(const WriteTarget& target);

/// The same of the group of a sparse matrix with these parts: one that bears its name has no others.
void require_room_for_group(const WriteTarget& target, const std::vector<std::string>& parts);

/// Creates the dataset in a new file, or in one that exists: all that HDF5 does to such a file, which may be
/// damaged, it does in a child, and close() throws where the dataset is not found there by its name.
/// Throws Error{output}.
std::unique_ptr<DatasetFile> create_dataset_file(const WriteTarget& target, const DatasetPlan& plan);

/// The same by HDF5 in this process, whatever the file is.
std::unique_ptr<DatasetFile> create_dataset_here(const WriteTarget& target, const DatasetPlan& plan);

}  // namespace gpumat::formats::hdf5
