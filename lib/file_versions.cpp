#include "lib/file_versions.hpp"

#include "lib/core/error.hpp"

namespace gpumat {
namespace {

bool was_written_to(const struct stat& before, const struct stat& now) {
    return before.st_size != now.st_size || before.st_mtim.tv_sec != now.st_mtim.tv_sec ||
           before.st_mtim.tv_nsec != now.st_mtim.tv_nsec;
}

}  // namespace

void FileVersions::add(const formats::Reader& reader) {
    add(reader.file(), false);
    for (const std::string& piece : reader.other_files()) add(piece, true);
}

void FileVersions::add(const std::string& file, bool is_piece) {
    struct stat status = {};
    if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode))
        versions_.push_back({file, is_piece, status});
}

void FileVersions::require_unchanged() const {
    for (const Version& version : versions_) {
        const struct stat& before = version.status;
        struct stat now = {};
        const bool same_file = stat(version.file.c_str(), &now) == 0 && now.st_dev == before.st_dev &&
                               now.st_ino == before.st_ino;
        if (same_file && was_written_to(before, now))
            throw Error(ErrorCode::input, version.file + ": it was written to while it was read");
        if (!same_file && version.is_piece)
            throw Error(ErrorCode::input, version.file + ": it was replaced while it was read");
    }
}

}  // namespace gpumat
