#include "formats/hdf5/read/locate.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>

#include "core/spool.hpp"
#include "formats/hdf5/file/descriptor_driver.hpp"
#include "formats/hdf5/file/link_access.hpp"
#include "formats/hdf5/read/external.hpp"
#include "formats/hdf5/sandbox/probe.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr int kMostSoftLinks = 64;
constexpr int kMostDepth = 64;
constexpr std::size_t kMostText = 1 << 16;

void push_front(std::deque<std::string>& parts, const std::string& path) {
    std::vector<std::string> split;
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        if (end > begin && path.compare(begin, end - begin, ".") != 0)
            split.push_back(path.substr(begin, end - begin));
        begin = end + 1;
    }
    parts.insert(parts.begin(), split.begin(), split.end());
}

/// The value of a soft or external link; `buffer` holds what H5Lget_val fills in.
std::vector<char> link_value(hid_t group, const std::string& name, std::size_t size,
                             const std::string& what) {
    if (size > kMostText) {
        throw Error(ErrorCode::input, what + ": the link is " + std::to_string(size) + " bytes long");
    }
    std::vector<char> value(size + 1, '\0');
    require(H5Lget_val(group, name.c_str(), value.data(), size, H5P_DEFAULT), ErrorCode::input, what);
    return value;
}

std::string external_target(const std::vector<char>& value, std::size_t size) {
    const char* file = nullptr;
    const char* object = nullptr;
    if (H5Lunpack_elink_val(value.data(), size, nullptr, &file, &object) < 0) return "an unreadable place";
    return std::string(file) + ":" + object;
}

/// The access to a dataset. A virtual one hands it on to its pieces. With HDF5's own cache of 1 MiB a larger
/// chunk would be decoded anew for each mapping that takes something from it.
hid_t cached_chunks() {
    constexpr std::size_t kSlots = 521;  // HDF5's own number
    static const hid_t properties = [] {
        const hid_t made = H5Pcreate(H5P_DATASET_ACCESS);
        H5Pset_chunk_cache(made, kSlots, kChunkCacheBytes, H5D_CHUNK_CACHE_W0_DEFAULT);
        return made;
    }();
    return properties;
}

/// One step of a path: the object behind a hard or external link, or nothing for a soft link, whose own
/// path has then been put before `parts` and `at` moved to where it starts.
Handle follow(Handle& at, const std::string& name, std::deque<std::string>& parts, int& soft_links,
              const ReadOptions& options, const std::string& what) {
    H5L_info_t info{};
    require(H5Lget_info(at.id(), name.c_str(), &info, H5P_DEFAULT), ErrorCode::input, what);
    if (info.type == H5L_TYPE_SOFT) {
        if (++soft_links > kMostSoftLinks) {
            throw Error(ErrorCode::input, what + ": the soft link '" + name + "' leads round in circles (" +
                                              std::to_string(kMostSoftLinks) + " links followed)");
        }
        const std::string target = link_value(at.id(), name, info.u.val_size, what).data();
        if (target.starts_with('/')) at = take(H5Gopen2(at.id(), "/", H5P_DEFAULT), ErrorCode::input, what);
        push_front(parts, target);
        return {};
    }
    if (info.type == H5L_TYPE_EXTERNAL) {
        const auto target =
            external_target(link_value(at.id(), name, info.u.val_size, what), info.u.val_size);
        if (!options.allow_external) {
            throw Error(ErrorCode::input, what + ": '" + name + "' is an external link to " + target +
                                              ", which is refused unless external files are allowed "
                                              "(--allow-external)");
        }
        return take(H5Oopen(at.id(), name.c_str(), link_access()), ErrorCode::input,
                    what + ": the external link '" + name + "' to " + target + " leads nowhere");
    }
    if (info.type != H5L_TYPE_HARD) {
        throw Error(ErrorCode::input, what + ": '" + name + "' is a link of an unknown, user-defined kind");
    }
    return open_object(at.id(), name, what);
}

herr_t keep_name(hid_t /*group*/, const char* name, const H5L_info_t* info, void* data) {
    if (info->type != H5L_TYPE_HARD) return 0;
    try {
        static_cast<std::vector<std::string>*>(data)->emplace_back(name);
        return 0;
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

/// The names of the hard links in a group, the last one first.
std::vector<std::string> names_in(hid_t group, const std::string& what) {
    std::vector<std::string> names;
    hsize_t position = 0;
    require(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &position, keep_name, &names), ErrorCode::input,
            what);
    std::ranges::sort(names, std::greater{});
    return names;
}

/// Text stored with `type` and `space`, read by `read(memory_type, buffer)`.
template <class Read>
std::string scalar_text(const Handle& type, const Handle& space, const std::string& what, Read read) {
    if (!type.valid() || !space.valid()) fail(ErrorCode::input, what);
    if (H5Tget_class(type.id()) != H5T_STRING || H5Sget_simple_extent_npoints(space.id()) != 1)
        throw Error(ErrorCode::input, what + ": expected one text");
    if (H5Tis_variable_str(type.id()) > 0) {
        char* text = nullptr;
        require(read(type.id(), static_cast<void*>(&text)), ErrorCode::input, what);
        if (text == nullptr) return {};
        std::string copy = text;
        H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, static_cast<void*>(&text));
        return copy;
    }
    const std::size_t size = H5Tget_size(type.id());
    if (size > kMostText)
        throw Error(ErrorCode::input, what + ": the text is " + std::to_string(size) + " bytes long");
    std::vector<char> text(size + 1, '\0');
    require(read(type.id(), static_cast<void*>(text.data())), ErrorCode::input, what);
    std::string copy = text.data();
    copy.erase(copy.find_last_not_of(' ') + 1);
    return copy;
}

/// Whether the text `name` does not stand in the object's header, where attributes lie with their names.
bool header_lacks(hid_t object, std::string_view name) {
    H5O_info_t info{};
    const Handle file(H5Iget_file_id(object));
    const Handle creation(H5Fget_create_plist(file.id()));
    void* descriptor = nullptr;
    hsize_t user_block = 0;
    unsigned shared = 0;
    if (H5Oget_info2(object, &info, H5O_INFO_BASIC | H5O_INFO_HDR) < 0 || info.hdr.nchunks != 1 ||
        info.hdr.space.total > kMostText || H5Pget_userblock(creation.id(), &user_block) < 0 ||
        H5Pget_shared_mesg_nindexes(creation.id(), &shared) < 0 || shared != 0 ||
        H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &descriptor) < 0)
        return false;
    std::string header(info.hdr.space.total, '\0');
    const ssize_t got = pread(*static_cast<const int*>(descriptor), header.data(), header.size(),
                              static_cast<off_t>(user_block + info.addr));
    return got == std::ssize(header) && header.find(name) == std::string::npos;
}

std::string attribute_of(const std::string& what, const char* name) {
    return what + ": its attribute '" + name + "'";
}

}  // namespace

Handle open_for_reading(const std::string& path) {
    // HDF5 looks for the name of a file that has none.
    const auto descriptor = descriptor_of_path(path);
    const Handle access = descriptor ? access_through(*descriptor) : Handle();
    const auto open = [&](unsigned flags) {
        return H5Fopen(path.c_str(), flags, descriptor ? access.id() : H5P_DEFAULT);
    };
    const hid_t file = open(H5F_ACC_RDONLY);
    if (file >= 0) return Handle(file);
    const std::string why = reason();
    const hid_t growing = is_marked_as_open() ? open(H5F_ACC_RDONLY | H5F_ACC_SWMR_READ) : H5I_INVALID_HID;
    if (growing >= 0) return Handle(growing);
    throw Error(ErrorCode::input, path + ": cannot be opened as HDF5: " + why);
}

bool is_growing(hid_t file) {
    unsigned intent = 0;
    return H5Fget_intent(file, &intent) >= 0 && (intent & H5F_ACC_SWMR_READ) != 0;
}

Handle open_object(hid_t place, const std::string& name, const std::string& what) {
    now_reading(what);
    H5O_info_t info{};
    require(H5Oget_info_by_name2(place, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT), ErrorCode::input,
            what);
    const bool is_dataset = info.type == H5O_TYPE_DATASET;
    return take(is_dataset ? H5Dopen2(place, name.c_str(), cached_chunks())
                           : H5Oopen(place, name.c_str(), H5P_DEFAULT),
                ErrorCode::input, what);
}

Handle resolve(hid_t place, const std::string& name, const std::string& what, const ReadOptions& options) {
    std::deque<std::string> parts;
    push_front(parts, name);
    int soft_links = 0;
    Handle at = take(H5Gopen2(place, name.starts_with('/') ? "/" : ".", H5P_DEFAULT), ErrorCode::input, what);
    while (!parts.empty()) {
        const std::string part = parts.front();
        parts.pop_front();
        if (H5Iget_type(at.id()) != H5I_GROUP) {
            throw Error(ErrorCode::input,
                        what + ": there is no '" + part + "', because what should hold it is no group");
        }
        const htri_t exists = H5Lexists(at.id(), part.c_str(), H5P_DEFAULT);
        if (exists < 0) fail(ErrorCode::input, what);
        if (exists == 0) throw Error(ErrorCode::input, what + ": there is no '" + part + "'");
        Handle next = follow(at, part, parts, soft_links, options, what);
        if (next.valid()) at = std::move(next);
    }
    return at;
}

void walk(hid_t file, const std::string& path,
          const std::function<bool(const Handle& object, const std::string& name)>& visit,
          Failures& failures) {
    struct Place {
        std::string name;
        int depth = 0;
    };
    std::map<std::pair<unsigned long, haddr_t>, std::string> seen;  // and by which name
    /// The names in the group `place` that are to be visited.
    const auto members = [&](const Place& place) -> std::vector<std::string> {
        const std::string what = path + ":" + place.name;
        now_reading(what);
        H5O_info_t info{};
        require(H5Oget_info_by_name2(file, place.name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT),
                ErrorCode::input, what);
        if (const auto known = seen.find({info.fileno, info.addr}); known != seen.end()) {
            const auto failure = failures.find(known->second);
            if (failure == failures.end()) return {};
            throw Error(failure->second.code(), what + ": is the same object as " + known->second);
        }
        if (place.depth > kMostDepth) {
            throw Error(ErrorCode::input, what + ": lies in more than " + std::to_string(kMostDepth) +
                                              " groups one in the other, and was not looked at");
        }
        seen.emplace(std::pair{info.fileno, info.addr}, place.name);
        const Handle object = open_object(file, place.name, what);
        if (!visit(object, place.name) || info.type != H5O_TYPE_GROUP) return {};
        return names_in(object.id(), what);
    };
    std::vector<Place> stack = {{"/", 0}};
    while (!stack.empty()) {
        const Place place = std::move(stack.back());
        stack.pop_back();
        if (failures.contains(place.name)) continue;
        try {
            for (const std::string& name : members(place))
                stack.push_back({(place.name == "/" ? "" : place.name) + "/" + name, place.depth + 1});
        } catch (const Error& error) {
            failures.emplace(place.name, error);
        }
    }
}

bool has_attribute(hid_t object, const char* name, const std::string& what) {
    const htri_t exists = H5Aexists(object, name);
    if (exists >= 0) return exists > 0;
    const std::string why = reason();
    // Where one attribute is of a type that this HDF5 does not know, it tells of none.
    if (header_lacks(object, name)) return false;
    throw Error(ErrorCode::input, attribute_of(what, name) + ": " + why);
}

bool has_member(hid_t group, const char* name, const std::string& what) {
    const htri_t exists = H5Lexists(group, name, H5P_DEFAULT);
    require(exists, ErrorCode::input, what + ": its member '" + name + "'");
    return exists > 0;
}

std::string text_attribute(hid_t object, const char* name, const std::string& what) {
    if (!has_attribute(object, name, what)) return {};
    const Handle attribute =
        take(H5Aopen(object, name, H5P_DEFAULT), ErrorCode::input, attribute_of(what, name));
    const Handle type(H5Aget_type(attribute.id()));
    const Handle space(H5Aget_space(attribute.id()));
    return scalar_text(type, space, attribute_of(what, name),
                       [&](hid_t memory, void* to) { return H5Aread(attribute.id(), memory, to); });
}

std::string text_dataset(hid_t group, const char* name, const std::string& what, const ReadOptions& options) {
    if (!has_member(group, name, what)) return {};
    const Handle dataset = resolve(group, name, what, options);
    if (H5Iget_type(dataset.id()) != H5I_DATASET)
        throw Error(ErrorCode::input, what + ": expected a dataset");
    require_stored(dataset.id(), what);
    const Handle type(H5Dget_type(dataset.id()));
    const Handle space(H5Dget_space(dataset.id()));
    return scalar_text(type, space, what, [&](hid_t memory, void* to) {
        return H5Dread(dataset.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
    });
}

std::int64_t number_attribute(hid_t object, const char* name, std::int64_t missing, const std::string& what) {
    std::int64_t value = missing;
    if (has_attribute(object, name, what)) number_attributes(object, name, {&value, 1}, what);
    return value;
}

void number_attributes(hid_t object, const char* name, std::span<std::int64_t> to, const std::string& what) {
    const std::string shown = attribute_of(what, name);
    const Handle attribute = take(H5Aopen(object, name, H5P_DEFAULT), ErrorCode::input, shown);
    const Handle type = take(H5Aget_type(attribute.id()), ErrorCode::input, shown);
    const Handle space = take(H5Aget_space(attribute.id()), ErrorCode::input, shown);
    if (H5Tget_class(type.id()) != H5T_INTEGER || H5Sget_simple_extent_npoints(space.id()) != std::ssize(to))
        throw Error(ErrorCode::input,
                    shown + ": expected " +
                        (to.size() == 1 ? "one integer" : std::to_string(to.size()) + " integers"));
    if (!read_whole_numbers(type.id(), to,
                            [&](hid_t memory, void* at) { return H5Aread(attribute.id(), memory, at); })) {
        throw Error(ErrorCode::input, shown + ": cannot be read, or passes 64 bits with a sign");
    }
}

}  // namespace gpumat::formats::hdf5
