#include "formats/hdf5/write/file_mapping.hpp"

#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace gpumat::formats::hdf5 {
namespace {

constexpr auto kXfsMagic = 0x58465342;  // not in every <linux/magic.h>

/// Whether what was reserved is what will be written. XFS can share extents, but a new file has no such ones.
bool writes_in_place(int descriptor) {
    struct statfs system {};
    if (fstatfs(descriptor, &system) != 0) return false;
    return system.f_type == TMPFS_MAGIC || system.f_type == EXT4_SUPER_MAGIC || system.f_type == kXfsMagic;
}

}  // namespace

FileMapping::~FileMapping() {
    if (pages_ != nullptr) munmap(pages_, mapped_bytes_);
}

void FileMapping::open(int descriptor, std::uint64_t offset, std::size_t bytes) {
    if (!writes_in_place(descriptor)) return;
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t before = offset % page;
    void* const pages = mmap(nullptr, bytes + before, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                             static_cast<off_t>(offset - before));
    if (pages == MAP_FAILED) return;
    pages_ = static_cast<std::byte*>(pages);
    mapped_bytes_ = bytes + before;
    data_ = pages_ + before;
}

}  // namespace gpumat::formats::hdf5
