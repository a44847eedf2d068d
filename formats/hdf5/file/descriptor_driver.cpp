#include "formats/hdf5/file/descriptor_driver.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>

#include "core/descriptor.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr haddr_t kMostFileBytes = static_cast<haddr_t>(std::numeric_limits<off_t>::max());

/// What HDF5 knows an open file as: its own part comes first, and HDF5 fills it.
struct OpenFile {
    H5FD_t own{};
    int descriptor = -1;
    Guards guards;
    haddr_t end_of_space = 0;  ///< of what HDF5 has given out
    haddr_t end_of_file = 0;
};

/// What a property list says.
struct Access {
    int descriptor;
    Guards guards;
};

OpenFile& of(H5FD_t* file) {
    return *reinterpret_cast<OpenFile*>(file);
}

const OpenFile& of(const H5FD_t* file) {
    return *reinterpret_cast<const OpenFile*>(file);
}

/// Puts the system's reason on HDF5's error stack.
herr_t failed(hid_t minor) {
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, minor, "%s",
             std::strerror(errno));
    return -1;
}

H5FD_t* open_file(const char* /*name*/, unsigned flags, hid_t access, haddr_t /*most*/) {
    const auto* asked = static_cast<const Access*>(H5Pget_driver_info(access));
    struct stat status {};
    if (asked == nullptr || fstat(asked->descriptor, &status) != 0) {
        failed(H5E_CANTOPENFILE);
        return nullptr;
    }
    if ((flags & H5F_ACC_TRUNC) != 0 && S_ISREG(status.st_mode)) {
        if (ftruncate(asked->descriptor, 0) != 0) {
            failed(H5E_CANTOPENFILE);
            return nullptr;
        }
        status.st_size = 0;
    }
    auto file = std::make_unique<OpenFile>();
    file->descriptor = asked->descriptor;
    file->guards = asked->guards;
    file->end_of_file = static_cast<haddr_t>(status.st_size);
    return &file.release()->own;
}

herr_t close_file(H5FD_t* file) {
    delete &of(file);
    return 0;
}

herr_t query(const H5FD_t* /*file*/, unsigned long* features) {
    // As HDF5's own driver of files has them: the files come out the same.
    *features = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
                H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_SUPPORTS_SWMR_IO;  // H5Fget_eoa wants the last
    return 0;
}

haddr_t end_of_space(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return of(file).end_of_space;
}

herr_t set_end_of_space(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
    of(file).end_of_space = end;
    return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return of(file).end_of_file;
}

herr_t handle(H5FD_t* file, hid_t /*access*/, void** descriptor) {
    *descriptor = &of(file).descriptor;
    return 0;
}

void hide(const std::vector<Extent>& extents, haddr_t offset, std::size_t bytes, char* buffer) {
    for (const Extent& extent : extents) {
        if (extent.begin >= offset + bytes || extent.begin + extent.bytes <= offset) continue;
        const haddr_t begin = std::max(extent.begin, offset);
        const haddr_t end = std::min<haddr_t>(extent.begin + extent.bytes, offset + bytes);
        std::memset(buffer + (begin - offset), 0xff, end - begin);
    }
}

/// Zeros stand for what is beyond the end of the file.
herr_t read_bytes(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t offset, std::size_t bytes,
                  void* buffer) {
    auto* const to = static_cast<char*>(buffer);
    const ReadSoFar got = read_at(of(file).descriptor, to, bytes, offset);
    if (got.error != 0) return failed(H5E_READERROR);
    if (got.bytes < bytes) std::memset(to + got.bytes, 0, bytes - got.bytes);
    const std::vector<Extent>* const hidden = of(file).guards.hidden;
    if (hidden != nullptr && type != H5FD_MEM_DRAW) hide(*hidden, offset, bytes, to);
    return 0;
}

/// Whether a guard lets HDF5 write there. A damaged file may have it keep something where elements lie, which
/// it would write back as it was read, over elements that are newer.
bool may_write(Parts* elements, H5FD_mem_t type, const Extent& where) {
    if (elements == nullptr) return true;
    if (type != H5FD_MEM_DRAW) return !elements->overlap(where);
    elements->add(where);
    return true;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t type, hid_t /*transfer*/, haddr_t offset, std::size_t bytes,
                   const void* buffer) {
    if (!may_write(of(file).guards.elements, type, {offset, bytes})) {
        H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_WRITEERROR,
                 "the file has something else where elements lie, at byte %llu; it is damaged",
                 static_cast<unsigned long long>(offset));
        return -1;
    }
    if (write_at(of(file).descriptor, buffer, bytes, offset) != 0) return failed(H5E_WRITEERROR);
    of(file).end_of_file = std::max(of(file).end_of_file, offset + bytes);
    return 0;
}

/// The file ends where HDF5 says, also where others wrote beyond what it wrote.
herr_t truncate(H5FD_t* file, hid_t /*transfer*/, hbool_t /*closing*/) {
    OpenFile& open = of(file);
    struct stat status {};
    if (fstat(open.descriptor, &status) != 0) return failed(H5E_WRITEERROR);
    if (!S_ISREG(status.st_mode) || static_cast<haddr_t>(status.st_size) == open.end_of_space) return 0;
    if (ftruncate(open.descriptor, static_cast<off_t>(open.end_of_space)) != 0) return failed(H5E_WRITEERROR);
    open.end_of_file = open.end_of_space;
    return 0;
}

hid_t register_driver() {
    H5FD_class_t driver{};
    driver.name = "gpumat_descriptor";
    driver.maxaddr = kMostFileBytes;
    driver.fc_degree = H5F_CLOSE_WEAK;
    driver.fapl_size = sizeof(Access);
    driver.open = open_file;
    driver.close = close_file;
    driver.query = query;
    driver.get_eoa = end_of_space;
    driver.set_eoa = set_end_of_space;
    driver.get_eof = end_of_file;
    driver.get_handle = handle;
    driver.read = read_bytes;
    driver.write = write_bytes;
    driver.truncate = truncate;
    constexpr std::array<H5FD_mem_t, H5FD_MEM_NTYPES> kFreeLists = H5FD_FLMAP_DICHOTOMY;
    std::copy(kFreeLists.begin(), kFreeLists.end(), std::begin(driver.fl_map));
    return H5FDregister(&driver);
}

}  // namespace

void Parts::add(const Extent& extent) {
    if (extent.bytes == 0) return;
    haddr_t begin = extent.begin;
    haddr_t end = begin + std::min<haddr_t>(extent.bytes, std::numeric_limits<haddr_t>::max() - begin);
    auto next = ends_.upper_bound(begin);
    if (next != ends_.begin() && std::prev(next)->second >= begin) --next;
    while (next != ends_.end() && next->first <= end) {
        begin = std::min(begin, next->first);
        end = std::max(end, next->second);
        next = ends_.erase(next);
    }
    ends_.emplace(begin, end);
}

bool Parts::overlap(const Extent& extent) const {
    const auto next = ends_.lower_bound(extent.begin);
    if (next != ends_.end() && next->first - extent.begin < extent.bytes) return true;
    return next != ends_.begin() && std::prev(next)->second > extent.begin && extent.bytes > 0;
}

Handle access_through(int descriptor, const Guards& guards) {
    static const hid_t kDriver = register_driver();
    Handle access = take(H5Pcreate(H5P_FILE_ACCESS), ErrorCode::output, "HDF5 cannot be used");
    const Access asked = {descriptor, guards};
    require(H5Pset_driver(access.id(), kDriver, &asked), ErrorCode::output, "HDF5 cannot be used");
    return access;
}

}  // namespace gpumat::formats::hdf5
