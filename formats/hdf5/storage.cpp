#include "formats/hdf5/storage.hpp"

#include <array>

namespace gpumat::formats::hdf5 {
namespace {

/// Selects `rect` of a dataset of `rank` dimensions.
void select(hid_t space, int rank, const Block& rect, const std::string& what) {
    if (rank == 0) return;  // the one element is all there is
    const std::array<hsize_t, 2> start = {static_cast<hsize_t>(rect.row), static_cast<hsize_t>(rect.col)};
    const std::array<hsize_t, 2> count = {static_cast<hsize_t>(rect.rows), static_cast<hsize_t>(rect.cols)};
    require(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
            ErrorCode::input, what);
}

class LibraryStorage : public Storage {
  public:
    LibraryStorage(const Source& source, const Dense& dense) : source_(source), dense_(dense) {}

    void read(const Block& rect, std::byte* to, std::int64_t row_bytes) override {
        if (rect.rows == 0 || rect.cols == 0) return;
        const Session session;
        const auto element_bytes = static_cast<std::int64_t>(source_.element.memory_bytes);
        const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(rect.rows),
                                                static_cast<hsize_t>(row_bytes / element_bytes)};
        const Handle memory =
            take(H5Screate_simple(2, extents.data(), nullptr), ErrorCode::input, source_.name);
        select(memory.id(), 2, {0, 0, rect.rows, rect.cols}, source_.name);
        const Handle file = take(H5Dget_space(dense_.dataset.id()), ErrorCode::input, source_.name);
        select(file.id(), dense_.rank, rect, source_.name);
        require(H5Dread(dense_.dataset.id(), source_.element.memory.id(), memory.id(), file.id(), H5P_DEFAULT,
                        to),
                ErrorCode::input, source_.name + ": cannot be read");
    }

  private:
    const Source& source_;
    const Dense& dense_;
};

}  // namespace

std::unique_ptr<Storage> open_library_storage(const Source& source, const Dense& dense) {
    return std::make_unique<LibraryStorage>(source, dense);
}

std::unique_ptr<Storage> open_storage(const Source& source, const Dense& dense,
                                      const ReadOptions& /*options*/) {
    return open_library_storage(source, dense);
}

}  // namespace gpumat::formats::hdf5
