#include "formats/npz/archive.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text/printable.hpp"

namespace gpumat::formats::npz {
namespace {

/// Gives at most `most` bytes of a member to `take`, some at a time. Its checksum has held once all came.
void read_member(zip_t* archive, std::uint64_t index, std::uint64_t most, const std::string& name,
                 const std::function<void(std::string_view)>& take) {
    struct Close {
        void operator()(zip_file_t* file) const { zip().fclose(file); }
    };
    const std::unique_ptr<zip_file_t, Close> file(zip().fopen_index(archive, index, 0));
    if (!file) refuse(name, std::string("cannot be unpacked: ") + zip().strerror(archive));
    std::string piece(std::size_t{1} << 20, '\0');
    while (most > 0) {
        const std::int64_t got =
            zip().fread(file.get(), piece.data(), std::min<std::uint64_t>(piece.size(), most));
        if (got < 0) refuse(name, std::string("cannot be unpacked: ") + zip().file_strerror(file.get()));
        if (got == 0) return;
        take(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
        most -= static_cast<std::uint64_t>(got);
    }
}

}  // namespace

void refuse(const std::string& name, const std::string& why) {
    throw Error(ErrorCode::input, name + ": " + why);
}

Archive::Archive(const std::string& path) : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status = {};
    if (!file_.valid() || fstat(file_.number(), &status) != 0)
        refuse(path, std::string("cannot be opened: ") + std::strerror(errno));
    versions_.add(file_.number(), path, status);
    bytes_ = static_cast<std::uint64_t>(status.st_size);
    const Zip& library = zip();
    if (!library.why_missing.empty()) throw Error(ErrorCode::unsupported, path + ": " + library.why_missing);
    int failure = 0;
    const int again = fcntl(file_.number(), F_DUPFD_CLOEXEC, 0);
    archive_.reset(library.fdopen(again, ZIP_CHECKCONS, &failure));  // headers that agree, members apart
    if (!archive_) {
        ::close(again);
        zip_error_t error;
        library.error_init_with_code(&error, failure);
        const std::string why = library.error_strerror(&error);
        library.error_fini(&error);
        refuse(path, "is a damaged ZIP archive: " + why);
    }
    std::set<std::string> names;
    const auto count =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, library.get_num_entries(archive_.get(), 0)));
    for (std::uint64_t index = 0; index < count; ++index) {
        zip_stat_t found;
        if (library.stat_index(archive_.get(), index, 0, &found) != 0 || (found.valid & ZIP_STAT_NAME) == 0 ||
            (found.valid & ZIP_STAT_SIZE) == 0)
            refuse(path, "is a damaged ZIP archive: " + std::string(library.strerror(archive_.get())));
        std::string name = found.name;
        if (!name.ends_with(kExtension)) continue;  // no array
        name.resize(name.size() - kExtension.size());
        Member member{.index = index, .name = std::move(name), .bytes = found.size, .header = {}};
        const std::string shown = path + ":" + printable(member.name);
        if (!names.insert(member.name).second) refuse(shown, "the archive holds two members of that name");
        std::string start;
        read_member(archive_.get(), index, std::min<std::uint64_t>(found.size, npy::kMostHeaderBytes), shown,
                    [&](std::string_view some) { start += some; });
        if (!start.starts_with(npy::kMagic)) refuse(shown, "is no file of NumPy, as its name says");
        member.header = npy::parse_header(start, shown);
        members_.push_back(std::move(member));
    }
}

const Member* Archive::find(const std::string& name) const {
    const auto found = std::ranges::find(members_, name, &Member::name);
    return found == members_.end() ? nullptr : &*found;
}

Spool Archive::unpack(const Member& member, std::optional<std::uint64_t> memory_limit) const {
    const std::string name = name_of(member);
    Spool spool = open_spool(member.bytes, memory_limit, name);
    std::uint64_t bytes = 0;
    // One byte more than there may be, so that the end is seen, at which the checksum is compared.
    read_member(archive_.get(), member.index, member.bytes + 1, name, [&](std::string_view some) {
        bytes += some.size();
        if (bytes > member.bytes)
            refuse(name, "unpacks to more than the " + std::to_string(member.bytes) +
                             " bytes that it has by the archive");
        require_kept(write_all(spool.file.number(), some), spool, name);
    });
    if (bytes < member.bytes)
        refuse(name, "unpacks to " + std::to_string(bytes) + " bytes, and has " +
                         std::to_string(member.bytes) + " by the archive");
    return spool;
}

}  // namespace gpumat::formats::npz
