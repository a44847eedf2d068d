#pragma once

#include <map>
#include <vector>

#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// A part of a file, counted from its first byte.
struct Extent {
    haddr_t begin = 0;
    hsize_t bytes = 0;
    bool operator==(const Extent&) const = default;
};

/// Parts of a file, joined where they meet.
class Parts {
  public:
    void add(const Extent& extent);
    [[nodiscard]] bool overlap(const Extent& extent) const;

  private:
    std::map<haddr_t, haddr_t> ends_;  ///< of each, by its first byte
};

/// What HDF5 is kept from. Both must stay as long as the file is open.
struct Guards {
    /// Where HDF5 looks for anything but elements here, it finds nonsense.
    const std::vector<Extent>* hidden = nullptr;
    /// Where HDF5 would write anything but elements here, it fails. What it writes of elements is added.
    Parts* elements = nullptr;
};

/// A file access property list with which HDF5 opens the file that `descriptor` is of, whatever name it is
/// told. The descriptor must stay open as long as the file is, and HDF5 does not close it. Nothing is locked
/// but by whoever opened the descriptor. The caller holds a Session.
Handle access_through(int descriptor, const Guards& guards = {});

}  // namespace gpumat::formats::hdf5
