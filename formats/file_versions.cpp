#include "formats/file_versions.hpp"

#include "core/error.hpp"
#include "core/same_file.hpp"

namespace gpumat::formats {
namespace {

bool same_time(const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
    throw Error(ErrorCode::input, name + ": it was " + what + " while it was read");
}

}  // namespace

void FileVersions::add(int descriptor, const std::string& name) {
    struct stat status = {};
    if (fstat(descriptor, &status) == 0) add(descriptor, name, status);
}

void FileVersions::add(int descriptor, const std::string& name, const struct stat& before) {
    if (S_ISREG(before.st_mode)) versions_.push_back({descriptor, name, before});
}

void FileVersions::add_piece(const std::string& path) {
    struct stat status = {};
    if (stat(path.c_str(), &status) == 0) add(-1, path, status);
}

void FileVersions::require_unchanged() const {
    for (const auto& [descriptor, name, before] : versions_) {
        struct stat now = {};
        const int failed = descriptor < 0 ? stat(name.c_str(), &now) : fstat(descriptor, &now);
        if (failed != 0 || !same_file(before, now)) refuse(name, "replaced");
        if (before.st_size != now.st_size || !same_time(before.st_mtim, now.st_mtim))
            refuse(name, "written to");
        if (!same_time(before.st_ctim, now.st_ctim))
            refuse(name, "moved, replaced, or written to and its time set back");
    }
}

}  // namespace gpumat::formats
