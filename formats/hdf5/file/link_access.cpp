#include "formats/hdf5/file/link_access.hpp"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "formats/hdf5/file/other_files.hpp"

namespace gpumat::formats::hdf5 {
namespace {

namespace fs = std::filesystem;

/// Where HDF5 may look for a file that a link in `parent` names: beside that, beside what that is a symbolic
/// link to, at the current directory, and where the environment says. Names with a root are looked for there
/// without their folders too.
std::vector<fs::path> candidates(const fs::path& parent, const fs::path& name) {
    std::error_code ignored;
    std::vector<fs::path> folders = {parent.parent_path(), fs::canonical(parent, ignored).parent_path(), {}};
    if (const char* const more = std::getenv("HDF5_EXT_PREFIX")) {
        std::istringstream list(more);
        for (std::string folder; std::getline(list, folder, ':');) folders.emplace_back(folder);
    }
    std::vector<fs::path> found;
    for (const fs::path& folder : folders) {
        found.push_back(folder / name);
        found.push_back(folder / name.filename());
    }
    return found;
}

/// HDF5 asks this before it opens the file of an external link. Negative: it does not. Every file that it
/// may take is noted.
herr_t refuse_pipes(const char* parent, const char* /*group*/, const char* file, const char* /*object*/,
                    unsigned* /*flags*/, hid_t /*access*/, void* /*data*/) {
    try {
        for (const fs::path& path : candidates(parent, file)) {
            std::error_code ignored;
            const fs::file_status status = fs::status(path, ignored);
            if (fs::is_regular_file(status)) OtherFiles::note(path);
            if (!fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status)) continue;
            H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_LINK, H5E_TRAVERSE,
                     "%s is no regular file", path.c_str());
            return -1;
        }
        return 0;
    } catch (const std::exception&) {
        return -1;
    }
}

}  // namespace

hid_t link_access() {
    static const hid_t properties = [] {
        const hid_t made = H5Pcreate(H5P_DATASET_ACCESS);
        H5Pset_elink_cb(made, refuse_pipes, nullptr);
        return made;
    }();
    return properties;
}

}  // namespace gpumat::formats::hdf5
