#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// What the attributes of a matrix can be copied from: a reader of HDF5.
class AttributeSource {
  public:
    virtual ~AttributeSource() = default;
    AttributeSource() = default;
    AttributeSource(const AttributeSource&) = delete;
    AttributeSource& operator=(const AttributeSource&) = delete;

    /// The dataset, or the group of a sparse matrix; invalid where the matrix is neither. And "FILE:/A".
    [[nodiscard]] virtual hid_t attributed() const = 0;
    [[nodiscard]] virtual const std::string& name() const = 0;

    /// Whether the attribute is as true of the elements that are read as of those that are stored.
    [[nodiscard]] virtual bool keeps(const std::string& attribute) const = 0;

    /// Whether the elements, read as u8, are h5py's booleans or MATLAB's, and stay so where they only move.
    [[nodiscard]] virtual bool holds_booleans() const = 0;
};

/// Reads every attribute of `object` that would be copied, for a try.
void read_attributes(hid_t object);

/// Copies the attributes of `from` to `to`, but for those that `skip` and those that describe how the matrix
/// lies in its file (MATLAB's, Octave's, dimension scales), which are not true of another matrix. Returns the
/// names of those that cannot be copied, each with the reason. Throws Error{output} naming `what`.
std::vector<std::string> copy_attributes(hid_t from, hid_t to,
                                         const std::function<bool(const std::string& name)>& skip,
                                         const std::string& what);

}  // namespace gpumat::formats::hdf5
