#include "lib/output/file_attributes.hpp"

#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

namespace gpumat {
namespace {

constexpr mode_t kPermissions = 0777;
constexpr mode_t kPermissionsAndSpecialBits = 07777;
constexpr mode_t kGroup = 0070;
constexpr int kGroupOverOthers =
    3;  ///< bits by which a mode's permissions of a group lie over those of others

// Access control lists of POSIX and of NFS 4.
constexpr const char* kAccessList = "system.posix_acl_access";
constexpr const char* kNfsAccessList = "system.nfs4_acl";

/// What `get(buffer, size)` gives; nothing where it fails, with errno.
template <class Get>
std::optional<std::string> text_of(Get get) {
    for (;;) {
        const ssize_t bytes = get(nullptr, 0);
        if (bytes < 0) return std::nullopt;
        std::string text(static_cast<std::size_t>(bytes) + 1, '\0');
        const ssize_t got = get(text.data(), text.size());
        if (got < 0 && errno == ERANGE) continue;  // it grew
        if (got < 0) return std::nullopt;
        text.resize(static_cast<std::size_t>(got));
        return text;
    }
}

/// In a POSIX list as it is stored: a version, and entries of tag, permissions and number, in little endian.
std::string with_group_no_more_than_others(std::string list) {
    constexpr std::size_t kVersionBytes = 4;
    constexpr std::size_t kEntryBytes = 8;
    constexpr std::size_t kPermissionsAt = 2;
    constexpr char kGroupTag = 0x04;
    constexpr char kOthersTag = 0x20;
    const auto permissions = [&](char tag) -> char* {
        for (std::size_t at = kVersionBytes; at + kEntryBytes <= list.size(); at += kEntryBytes)
            if (list[at] == tag) return &list[at + kPermissionsAt];
        return nullptr;
    };
    char* const group = permissions(kGroupTag);
    const char* const others = permissions(kOthersTag);
    if (group != nullptr && others != nullptr) *group = static_cast<char>(*group & *others);
    return list;
}

/// Copies an attribute as `change` makes it. False, with errno, where it is there and cannot be copied.
bool copy_attribute(const std::string& path, const char* name, int to,
                    std::string (*change)(std::string) = nullptr) {
    const auto stored =
        text_of([&](char* buffer, std::size_t size) { return getxattr(path.c_str(), name, buffer, size); });
    if (!stored) return errno == ENODATA || errno == EOPNOTSUPP;
    const std::string value = change == nullptr ? *stored : change(*stored);
    const auto now =
        text_of([&](char* buffer, std::size_t size) { return fgetxattr(to, name, buffer, size); });
    return now == value || fsetxattr(to, name, value.data(), value.size(), 0) == 0;
}

/// The system's own are none of them. Others than the user's may be closed to this process.
bool is_to_be_kept(const std::string& path, const std::string& name) {
    if (name.starts_with("system.")) return false;
    return name.starts_with("user.") || getxattr(path.c_str(), name.c_str(), nullptr, 0) >= 0;
}

std::vector<std::string> names_of_attributes(const std::string& path) {
    std::vector<std::string> names;
    const auto list =
        text_of([&](char* buffer, std::size_t size) { return listxattr(path.c_str(), buffer, size); });
    for (std::size_t at = 0; list && at < list->size(); at += names.back().size() + 1)
        names.emplace_back(list->c_str() + at);
    return names;
}

std::string owner_text(const struct stat& file) {
    return std::to_string(file.st_uid) + ":" + std::to_string(file.st_gid);
}

}  // namespace

std::vector<std::string> copy_file_attributes(const std::string& path, const struct stat& present, int to) {
    std::vector<std::string> lost;
    const auto lose = [&](const std::string& what) {
        lost.push_back(what + " cannot be kept: " + std::strerror(errno));
    };
    struct stat now = {};
    if (fstat(to, &now) != 0) lose("its owner");
    const bool owned = (now.st_uid == present.st_uid && now.st_gid == present.st_gid) ||
                       fchown(to, present.st_uid, present.st_gid) == 0;
    if (!owned) lose("its owner " + owner_text(present));
    const bool grouped =
        owned || now.st_gid == present.st_gid || fchown(to, static_cast<uid_t>(-1), present.st_gid) == 0;

    fremovexattr(to, kAccessList);  // one that the folder gives to its new files
    bool listed = true;
    for (const char* const name : {kAccessList, kNfsAccessList}) {
        auto* const change = name == kAccessList && !grouped ? with_group_no_more_than_others : nullptr;
        if (copy_attribute(path, name, to, change)) continue;
        listed = false;
        lose("its access control list");
    }
    mode_t mode = present.st_mode & (owned ? kPermissionsAndSpecialBits : kPermissions);
    // Where there is a list, those are not the group's permissions, but the most that anybody named there
    // has.
    const bool masks = fgetxattr(to, kAccessList, nullptr, 0) > 0;
    if (!masks && (!grouped || !listed)) mode &= ~kGroup | (mode << kGroupOverOthers);
    if (fchmod(to, mode) != 0) lose("its mode");

    for (const std::string& name : names_of_attributes(path)) {
        if (is_to_be_kept(path, name) && !copy_attribute(path, name.c_str(), to))
            lose("its attribute " + name);
    }
    return lost;
}

}  // namespace gpumat
