#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "core/spool.hpp"
#include "formats/file_versions.hpp"
#include "formats/npy/header.hpp"
#include "formats/npz/zip.hpp"

namespace gpumat::formats::npz {

/// The end of the names of members that are arrays.
inline constexpr std::string_view kExtension = ".npy";

/// One array of an archive. Nothing but its header has been read.
struct Member {
    std::uint64_t index = 0;
    std::string name;         ///< without ".npy"
    std::uint64_t bytes = 0;  ///< once unpacked, with the header
    npy::ArrayHeader header;
};

/// Throws Error{input} naming the file, or the array in it.
[[noreturn]] void refuse(const std::string& name, const std::string& why);

/// A ZIP archive whose members are files of NumPy.
class Archive {
  public:
    /// Finds the arrays and reads their headers. Throws Error{input} naming the file, and the member that is
    /// damaged, of two equal names or no array, and Error{unsupported} where libzip is missing.
    explicit Archive(const std::string& path);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    [[nodiscard]] const std::vector<Member>& members() const { return members_; }
    /// Null where there is none of that name.
    [[nodiscard]] const Member* find(const std::string& name) const;
    /// "FILE.npz:NAME"
    [[nodiscard]] std::string name_of(const Member& member) const { return path_ + ":" + member.name; }

    /// Unpacks a member, of which no more bytes come than it says that it has: in memory as far as the limit
    /// goes, else into a file. Its checksum holds. Throws Error{input}, Error{output}.
    [[nodiscard]] Spool unpack(const Member& member, std::optional<std::uint64_t> memory_limit) const;

    /// Throws Error{input} where the file is not as it was.
    void require_unchanged() const { versions_.require_unchanged(); }

  private:
    struct Discard {
        void operator()(zip_t* archive) const { zip().discard(archive); }
    };

    std::string path_;
    Descriptor file_;
    std::uint64_t bytes_ = 0;
    FileVersions versions_;
    std::unique_ptr<zip_t, Discard> archive_;
    std::vector<Member> members_;
};

}  // namespace gpumat::formats::npz
