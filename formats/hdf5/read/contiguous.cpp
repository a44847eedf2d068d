#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/descriptor.hpp"
#include "core/parallel.hpp"
#include "formats/byte_order.hpp"
#include "formats/hdf5/read/raw.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;  ///< of one read from the file

/// The elements lie row after row at one place of the file.
class ContiguousStorage final : public Storage {
  public:
    /// `offset`: of the first element of the matrix. `row_step`: from one of its rows to the next.
    ContiguousStorage(const Source& source, int descriptor, std::int64_t offset, std::int64_t row_step,
                      int threads)
        : source_(source), descriptor_(descriptor), offset_(offset), row_step_(row_step), threads_(threads) {}

    void read(const Block& rect, std::byte* to, std::int64_t row_bytes) override {
        if (rect.rows == 0 || rect.cols == 0) return;
        const auto element = static_cast<std::int64_t>(source_.element.memory_bytes);
        const std::int64_t bytes = rect.cols * element;
        const bool gapless = rect.cols == row_step_ && row_bytes == bytes;
        parallel_for(rect.rows, std::max<std::int64_t>(1, kPieceBytes / bytes), threads_,
                     [&](std::int64_t begin, std::int64_t end) {
                         const std::int64_t run = gapless ? end - begin : 1;
                         for (std::int64_t i = begin; i < end; i += run) {
                             const std::int64_t place =
                                 offset_ + ((rect.row + i) * row_step_ + rect.col) * element;
                             read_bytes(to + i * row_bytes, run * bytes, place);
                             swap_bytes(to + i * row_bytes, static_cast<std::size_t>(run * bytes),
                                        source_.element.swap_bytes);
                         }
                     });
    }

    [[nodiscard]] std::optional<StoredPlace> place() const override {
        return StoredPlace{.path = {},
                           .offset = offset_,
                           .row_bytes = row_step_ * static_cast<std::int64_t>(source_.element.memory_bytes),
                           .swap_bytes = static_cast<std::int64_t>(source_.element.swap_bytes)};
    }

  private:
    void read_bytes(std::byte* to, std::int64_t bytes, std::int64_t place) const {
        const auto wanted = static_cast<std::size_t>(bytes);
        const auto first = static_cast<std::uint64_t>(place);
        const ReadSoFar got = read_at(descriptor_, to, wanted, first, kPieceBytes);
        if (got.error != 0)
            throw Error(ErrorCode::input, source_.name + ": cannot be read: " + std::strerror(got.error));
        if (got.bytes < wanted)
            throw Error(ErrorCode::input, source_.name + ": the file ends at byte " +
                                              std::to_string(first + got.bytes) +
                                              ", before the end of the dataset");
    }

    const Source& source_;
    int descriptor_;
    std::int64_t offset_;
    std::int64_t row_step_;
    int threads_;
};

}  // namespace

int descriptor_of(const Dense& dense, const std::string& what) {
    const Handle file = take(H5Iget_file_id(dense.dataset.id()), ErrorCode::input, what);
    const Handle access = take(H5Fget_access_plist(file.id()), ErrorCode::input, what);
    void* handle = nullptr;
    if (H5Pget_driver(access.id()) != H5FD_SEC2 || H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &handle) < 0)
        return -1;
    return *static_cast<int*>(handle);
}

std::unique_ptr<Storage> open_contiguous_storage(const Source& source, const Dense& dense,
                                                 const ReadOptions& options) {
    const haddr_t offset = H5Dget_offset(dense.dataset.id());
    dense_bytes(source.stored, source.element.type, source.name);  // throws where no memory could hold it
    const auto bytes = static_cast<std::uint64_t>(H5Dget_storage_size(dense.dataset.id()));
    const int descriptor = descriptor_of(dense, source.name);
    const Window& window = dense.window;
    if (offset == HADDR_UNDEF || bytes == 0 || descriptor < 0) return nullptr;
    if (step_along(window.extents, window.col) != 1 && source.stored.cols > 1) return nullptr;
    require_whole(dense.dataset.id(), dense.creation.id(), source.name);
    struct stat status {};
    if (fstat(descriptor, &status) != 0)
        throw Error(ErrorCode::input, source.name + ": " + std::strerror(errno));
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    if (offset > file_bytes || bytes > file_bytes - offset) {
        throw Error(ErrorCode::input,
                    source.name + ": the dataset takes " + std::to_string(bytes) +
                        " bytes, and the file has only " +
                        std::to_string(file_bytes - std::min<std::uint64_t>(offset, file_bytes)) + " for it");
    }
    const std::int64_t row_step =
        dense.of_arrays ? source.stored.cols : step_along(window.extents, window.row);
    const auto first =
        static_cast<std::int64_t>(offset) +
        place_in(window.extents, window.origin) * static_cast<std::int64_t>(source.element.memory_bytes);
    return std::make_unique<ContiguousStorage>(source, descriptor, first, row_step, options.threads);
}

}  // namespace gpumat::formats::hdf5
