#include "lib/file_versions.hpp"

#include "lib/core/error.hpp"

namespace gpumat {
namespace {

bool was_written_to(const struct stat& before, const struct stat& now) {
    return before.st_size != now.st_size || before.st_mtim.tv_sec != now.st_mtim.tv_sec ||
           before.st_mtim.tv_nsec != now.st_mtim.tv_nsec;
}

}  // namespace

FileVersions::FileVersions(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        struct stat status = {};
        if (stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode)) files_.emplace_back(file, status);
    }
}

void FileVersions::require_unchanged() const {
    for (const auto& [file, before] : files_) {
        struct stat now = {};
        if (stat(file.c_str(), &now) != 0 || now.st_dev != before.st_dev || now.st_ino != before.st_ino)
            continue;
        if (was_written_to(before, now))
            throw Error(ErrorCode::input, file + ": it was written to while it was read");
    }
}

}  // namespace gpumat
