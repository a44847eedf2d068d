#include "lib/output/paths.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>
#include <system_error>
#include "core/same_file.hpp"

namespace gpumat {

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_in_folder(const std::string& path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string follow_links(const std::string& path) {
    constexpr int kMostLinks = 40;  // as the kernel
    std::string now = path;
    for (int i = 0; i < kMostLinks; ++i) {
        std::array<char, PATH_MAX> link{};
        const ssize_t length = readlink(now.c_str(), link.data(), link.size());
        if (length < 0) return now;  // not a link
        const std::string to(link.data(), static_cast<std::size_t>(length));
        now = to.starts_with('/') ? to : folder_of(now).append("/").append(to);
    }
    return path;
}

std::string one_name(const std::string& path) {
    std::error_code failed;
    // A relative path of which nothing exists would stay as it is.
    const std::filesystem::path whole = std::filesystem::absolute(follow_links(path), failed);
    if (failed) return path;
    const std::filesystem::path found = std::filesystem::weakly_canonical(whole, failed);
    return failed ? path : found.string();
}

bool same_place(const std::string& x, const std::string& y) {
    const auto name_one_file = [](const std::string& one, const std::string& other) {
        struct stat first = {};
        struct stat second = {};
        return stat(one.c_str(), &first) == 0 && stat(other.c_str(), &second) == 0 &&
               same_file(first, second);
    };
    if (name_one_file(x, y)) return true;
    const std::string first = follow_links(x);
    const std::string second = follow_links(y);
    return name_in_folder(first) == name_in_folder(second) &&
           name_one_file(folder_of(first), folder_of(second));
}

}  // namespace gpumat
