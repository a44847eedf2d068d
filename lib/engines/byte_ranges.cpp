#include "lib/engines/byte_ranges.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"
#include "core/host.hpp"
#include "formats/byte_order.hpp"

namespace gpumat::engines {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;

std::int64_t changed_ns(const struct stat& status) {
    return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

FilePlace place_of(const std::string& path, const std::string& name) {
    FilePlace place;
    const std::string whole = std::filesystem::absolute(path);
    if (whole.size() >= place.path.size())
        throw Error(ErrorCode::unsupported, whole + ": the path is too long to be told to other ranks");
    std::copy(whole.begin(), whole.end(), place.path.begin());
    std::copy_n(name.begin(), std::min(name.size(), place.name.size() - 1), place.name.begin());
    return place;
}

}  // namespace

FilePlace place_to_read(const formats::StoredPlace& stored) {
    FilePlace place = place_of(stored.path, stored.path);
    struct stat status = {};
    if (stat(place.path.data(), &status) != 0)
        throw Error(ErrorCode::input, stored.path + ": cannot be read: " + std::strerror(errno));
    place.offset = stored.offset;
    place.row_bytes = stored.row_bytes;
    place.swap_bytes = stored.swap_bytes;
    place.file = status.st_ino;
    place.bytes = status.st_size;
    place.changed_ns = changed_ns(status);
    return place;
}

FilePlace place_to_write(const std::string& path, const std::string& name, std::int64_t offset,
                         std::int64_t row_bytes) {
    FilePlace place = place_of(path, name);
    struct stat status = {};
    if (stat(place.path.data(), &status) != 0)
        throw Error(ErrorCode::output, name + ": cannot be written: " + std::strerror(errno));
    place.offset = offset;
    place.row_bytes = row_bytes;
    place.file = status.st_ino;
    return place;
}

SharedFile::SharedFile(const FilePlace& place, bool write)
    : place_(place),
      writes_(write),
      file_(open(place.path.data(), (write ? O_WRONLY : O_RDONLY) | O_CLOEXEC)) {
    if (!file_.valid()) fail(std::strerror(errno));
    struct stat status = {};
    if (fstat(file_.number(), &status) != 0) fail(std::strerror(errno));
    if (status.st_ino != place.file)
        fail("is another file here than where rank 0 runs; all ranks need the same file system");
}

void SharedFile::fail(const std::string& why) const {
    const std::string name(place_.name.data());
    throw Error(
        writes_ ? ErrorCode::output : ErrorCode::input,
        name + ": cannot be " + (writes_ ? "written" : "read") + " on " + describe_host().name + ": " + why);
}

void SharedFile::read(std::int64_t first_row, const MutableMatrixView& rows) const {
    const std::int64_t bytes = rows.shape.cols * static_cast<std::int64_t>(size_of(rows.type));
    const std::int64_t at_once =
        bytes == place_.row_bytes ? rows.shape.rows : 1;  // rows without gaps between them
    for (std::int64_t i = 0; i < rows.shape.rows; i += at_once) {
        std::byte* to = rows.data + i * bytes;
        std::int64_t left = at_once * bytes;
        std::int64_t at = place_.offset + (first_row + i) * place_.row_bytes;
        while (left > 0) {
            const ssize_t got =
                pread(file_.number(), to, static_cast<std::size_t>(std::min(left, kPieceBytes)), at);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) fail(std::strerror(errno));
            if (got == 0) fail("it ends at byte " + std::to_string(at) + ", before the end of the dataset");
            to += got;
            at += got;
            left -= got;
        }
    }
    formats::swap_bytes(rows.data, static_cast<std::size_t>(rows.shape.rows * bytes),
                        static_cast<std::size_t>(place_.swap_bytes));
}

void SharedFile::write(std::int64_t first_row, const MatrixView& rows) const {
    std::int64_t left = rows.shape.elements() * static_cast<std::int64_t>(size_of(rows.type));
    std::int64_t at = place_.offset + first_row * place_.row_bytes;
    const std::byte* from = rows.data;
    while (left > 0) {
        const ssize_t done =
            pwrite(file_.number(), from, static_cast<std::size_t>(std::min(left, kPieceBytes)), at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) fail(std::strerror(errno));
        from += done;
        at += done;
        left -= done;
    }
}

void SharedFile::flush() const {
    if (fsync(file_.number()) != 0) fail(std::strerror(errno));
}

void SharedFile::require_unchanged() const {
    struct stat status = {};
    if (fstat(file_.number(), &status) != 0) fail(std::strerror(errno));
    if (status.st_size != place_.bytes || changed_ns(status) != place_.changed_ns)
        fail("it changed while this run went on");
}

}  // namespace gpumat::engines
