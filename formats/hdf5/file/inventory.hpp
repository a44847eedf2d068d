#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "formats/hdf5/file/descriptor_driver.hpp"
#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// What a file says that it holds, and where that lies. HDF5 believes it: the space of a dataset that is
/// removed goes to the next one, even where a damaged file makes it claim another's.
class Inventory {
  public:
    /// Asks HDF5. Nothing where an object is not found, or cannot be opened.
    static std::optional<Inventory> of(hid_t file, std::size_t most_chunks);

    /// Not where there are more than `most_chunks` chunks, which HDF5 1.10 tells in a time that grows with
    /// the square of their number, or more than four times as many objects, or where groups lie too deep in
    /// one another.
    [[nodiscard]] bool complete() const { return complete_; }
    [[nodiscard]] std::size_t chunks() const { return chunks_; }

    /// Where the elements of the object at this address lie.
    [[nodiscard]] const std::vector<Extent>& elements_of(haddr_t address) const;

    /// Where those of all other objects lie.
    [[nodiscard]] Parts elements_but(haddr_t address) const;

    /// Why the elements of the object at this address do not have their place for themselves, in words.
    /// Nothing where they do: within the file, and apart from each other, from those of others and from what
    /// is known of metadata.
    [[nodiscard]] std::optional<std::string> conflict(haddr_t address) const;

    /// The name of an object other than that at `but` which `later` does not have as it was. Nothing where
    /// there is none. That at `marked_anew` may have other attributes.
    [[nodiscard]] std::optional<std::string> changed_in(const Inventory& later, haddr_t but,
                                                        haddr_t marked_anew = HADDR_UNDEF) const;

  private:
    struct Object {
        std::string name;
        H5O_type_t kind = H5O_TYPE_UNKNOWN;
        Extent header;  ///< its first byte, where it lies in several places
        H5T_class_t type_class = H5T_NO_CLASS;
        std::size_t element_bytes = 0;
        std::vector<hsize_t> shape;
        std::vector<Extent> elements;
        std::size_t values = 0;  ///< a hash of those that HDF5 keeps elsewhere
        /// Headers of groups grow with them.
        bool operator==(const Object& other) const {
            return name == other.name && kind == other.kind && type_class == other.type_class &&
                   element_bytes == other.element_bytes && shape == other.shape &&
                   elements == other.elements && values == other.values;
        }
    };

    static herr_t visit(hid_t file, const char* name, const H5O_info_t* info, void* inventory);
    static bool overlap(const Extent& x, const Extent& y);
    /// 0 to go on, as HDF5 has it; less where it failed, more where there is too much.
    herr_t add(hid_t file, const std::string& name, const H5O_info_t& info);
    herr_t add_dataset(hid_t dataset, Object& object);
    herr_t add_chunks(hid_t dataset, Object& object);

    std::size_t most_chunks_ = 0;
    std::size_t chunks_ = 0;
    bool complete_ = false;
    haddr_t end_ = 0;                    ///< of the file
    hsize_t user_block_ = 0;             ///< that HDF5 passes over when it counts addresses
    std::map<haddr_t, Object> objects_;  ///< by the addresses that HDF5 tells
};

}  // namespace gpumat::formats::hdf5
