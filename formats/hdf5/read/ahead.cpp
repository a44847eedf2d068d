#include "formats/hdf5/read/ahead.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "formats/hdf5/file/library.hpp"
#include "formats/hdf5/sandbox/probe.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// A file as it was at some time.
struct Version {
    dev_t device = 0;
    ino_t number = 0;
    off_t bytes = 0;
    timespec changed{};

    bool operator==(const Version& other) const {
        return std::tie(device, number, bytes, changed.tv_sec, changed.tv_nsec) ==
               std::tie(other.device, other.number, other.bytes, other.changed.tv_sec, other.changed.tv_nsec);
    }
};

std::optional<Version> version_of(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    return Version{status.st_dev, status.st_ino, status.st_size, status.st_ctim};
}

bool same_reading(const ReadOptions& x, const ReadOptions& y) {
    return x.type == y.type && x.layout == y.layout && x.dataset == y.dataset && x.as_column == y.as_column &&
           x.unpack == y.unpack && x.shape == y.shape && x.allow_external == y.allow_external;
}

struct Checked {
    AheadCheck check;
    Version version;
};

/// Guarded by the Session.
std::vector<Checked>& checked() {
    static std::vector<Checked> all;
    return all;
}

}  // namespace

void check_in_one_child(std::span<const AheadCheck> checks,
                        const std::function<void(const AheadCheck&)>& try_one) {
    const Session session;
    checked().clear();
    std::vector<Checked> tried;
    std::uint64_t bytes = 0;
    for (const AheadCheck& check : checks) {
        const auto version = version_of(check.reference.path);
        if (!version || check.options.allow_external) continue;  // other files may change
        bytes += static_cast<std::uint64_t>(version->bytes);
        tried.push_back({check, *version});
    }
    if (tried.empty()) return;
    const auto task = [&] {
        std::string good;
        for (const Checked& one : tried) {
            try {
                try_one(one.check);
                good += '1';
            } catch (const Error&) {
                good += '0';
            }
        }
        return good;
    };
    try {
        const std::string& path = tried.front().check.reference.path;
        const std::string good = ask_child(path, path, ErrorCode::input, task, bytes, 0);
        for (std::size_t i = 0; i < tried.size() && i < good.size(); ++i) {
            if (good[i] == '1') checked().push_back(std::move(tried[i]));
        }
    } catch (const Error&) {  // one of them is fatal: each is tried in a child of its own
    }
}

bool was_checked(const Reference& reference, const ReadOptions& options) {
    const auto found = std::ranges::find_if(checked(), [&](const Checked& one) {
        return one.check.reference.path == reference.path &&
               one.check.reference.dataset == reference.dataset && same_reading(one.check.options, options);
    });
    if (found == checked().end()) return false;
    const bool unchanged = version_of(reference.path) == found->version;
    checked().erase(found);
    return unchanged;
}

}  // namespace gpumat::formats::hdf5
