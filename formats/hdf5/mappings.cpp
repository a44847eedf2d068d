#include "formats/hdf5/mappings.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "formats/hdf5/link_access.hpp"
#include "formats/hdf5/probe.hpp"
#include "lib/core/memory.hpp"

namespace gpumat::formats::hdf5 {
namespace {

// What HDF5 1.10.8 takes, measured with files of 64 … 100000 mappings that h5py wrote: the open dataset
// 19.1 KiB a mapping, each copy of its creation properties 6.3 KiB (one is kept, and one is made for each
// tile), and H5Dread 0.5 KiB, together 32.0 KiB. Selections that are listed block by block take 0.3 KiB a
// block beside that, and each block is merged with all those before it: 12 … 21 ns a pair.
constexpr std::uint64_t kMappingBytes = std::uint64_t{32} << 10;
constexpr std::uint64_t kListedBlockBytes = 320;
// Of each byte of a mapping's names beyond what it has room for anyway, measured with names of 4 KB.
constexpr std::uint64_t kNameCopies = 10;
constexpr std::uint64_t kShortNames = 64;
constexpr double kPairSeconds = 20e-9;
constexpr double kMappingSeconds = 30e-6;  ///< to load one
constexpr double kTimesSlower = 5;
constexpr double kGrantedMappingSeconds = 2e-3;  ///< to find its piece, perhaps in a file of its own

constexpr std::uint64_t kMostHeaderPieces = 4096;  ///< of an object; HDF5's have one, or two

using Bytes = std::vector<unsigned char>;

/// Reads numbers and texts one after the other. Not `good` once something passed the end.
class Cursor {
  public:
    explicit Cursor(std::span<const unsigned char> bytes) : left_(bytes) {}
    explicit Cursor(const Bytes& bytes) : left_(bytes) {}
    explicit Cursor(Bytes&& bytes) = delete;  // they have to live as long

    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::size_t left() const { return left_.size(); }

    std::span<const unsigned char> take(std::uint64_t bytes) {
        if (bytes > left_.size()) {
            good_ = false;
            left_ = {};
            return {};
        }
        const auto taken = left_.first(static_cast<std::size_t>(bytes));
        left_ = left_.subspan(taken.size());
        return taken;
    }

    std::uint64_t number(std::size_t bytes) {  // the least significant byte first
        std::uint64_t value = 0;
        const auto taken = take(bytes);
        for (std::size_t i = taken.size(); i-- > 0;) value = value << 8 | taken[i];
        return value;
    }

    bool is(std::string_view text) {
        const auto taken = take(text.size());
        return good_ && std::memcmp(taken.data(), text.data(), text.size()) == 0;
    }

    std::size_t skip_text() {  // its length
        std::size_t length = 0;
        while (length < left_.size() && left_[length] != 0) ++length;
        take(length + 1);
        return length;
    }

  private:
    std::span<const unsigned char> left_;
    bool good_ = true;
};

/// A file as its bytes. Addresses count from where its HDF5 part starts.
struct RawFile {
    std::ifstream stream;
    std::uint64_t bytes = 0;
    std::uint64_t base = 0;
    std::size_t address_bytes = 8;
    std::size_t length_bytes = 8;

    Bytes read(std::uint64_t address, std::uint64_t count) {
        std::uint64_t place = 0;
        if (__builtin_add_overflow(base, address, &place) || place > bytes || count > bytes - place)
            return {};
        Bytes read(static_cast<std::size_t>(count));
        stream.clear();
        stream.seekg(static_cast<std::streamoff>(place));
        stream.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(count));
        if (!stream) read.clear();
        return read;
    }

    /// The same, of at most so many bytes, as far as the file goes.
    Bytes read_up_to(std::uint64_t address, std::uint64_t count) {
        std::uint64_t place = 0;
        if (__builtin_add_overflow(base, address, &place) || place > bytes) return {};
        return read(address, std::min(count, bytes - place));
    }
};

std::optional<RawFile> open_raw(hid_t object) {
    const Handle file(H5Iget_file_id(object));
    const Handle creation(file.valid() ? H5Fget_create_plist(file.id()) : H5I_INVALID_HID);
    hsize_t before = 0;
    RawFile raw;
    if (!creation.valid() || H5Pget_userblock(creation.id(), &before) < 0 ||
        H5Pget_sizes(creation.id(), &raw.address_bytes, &raw.length_bytes) < 0 || raw.address_bytes > 8 ||
        raw.length_bytes > 8) {
        return {};
    }
    raw.base = before;
    raw.stream.open(path_of_file(object), std::ios::binary | std::ios::ate);
    if (!raw.stream) return {};
    raw.bytes = static_cast<std::uint64_t>(raw.stream.tellg());
    return raw;
}

/// A part of an object's header.
struct HeaderPart {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    bool first = true;
};

constexpr std::uint64_t kLayoutMessage = 8;
constexpr std::uint64_t kContinuationMessage = 16;

/// Where the list of a virtual dataset's mappings lies: an object of the global heap.
struct ListPlace {
    std::uint64_t heap = 0;
    std::uint64_t index = 0;
};

/// The place that a layout message names; none where it is not of a virtual dataset.
std::optional<ListPlace> list_place(Cursor layout, const RawFile& file) {
    constexpr std::uint64_t kVersion = 4;
    constexpr std::uint64_t kVirtual = 3;
    if (layout.number(1) != kVersion || layout.number(1) != kVirtual) return {};
    ListPlace place;
    place.heap = layout.number(file.address_bytes);
    place.index = layout.number(4);
    return layout.good() ? std::optional(place) : std::nullopt;
}

/// The layout message among `messages`. Adds the parts that the header goes on in.
std::optional<Cursor> layout_among(Cursor messages, const RawFile& file, bool newer, bool ordered,
                                   std::deque<HeaderPart>& parts) {
    const std::size_t head = newer ? (ordered ? 6 : 4) : 8;
    while (messages.left() >= head) {
        const std::uint64_t type = messages.number(newer ? 1 : 2);
        const std::uint64_t size = messages.number(2);
        messages.take(head - (newer ? 3 : 4));
        Cursor body(messages.take(size));
        if (!messages.good()) return {};
        if (type == kContinuationMessage) {
            const std::uint64_t address = body.number(file.address_bytes);
            parts.push_back({address, body.number(file.length_bytes), false});
        } else if (type == kLayoutMessage) {
            return body;
        }
    }
    return {};
}

/// Where the mappings of the object whose header is at `address` are listed.
std::optional<ListPlace> find_list(RawFile& file, std::uint64_t address) {
    constexpr std::size_t kOldHead = 16;
    constexpr std::size_t kMostHead = 34;
    constexpr std::size_t kChecksum = 4;
    const Bytes start = file.read(address, kOldHead);
    Cursor head(start);
    const bool newer = Cursor(head).is("OHDR");
    std::deque<HeaderPart> parts;
    bool ordered = false;
    if (newer) {
        const Bytes bytes = file.read_up_to(address, kMostHead);
        Cursor more(bytes);
        more.take(5);
        const std::uint64_t flags = more.number(1);
        more.take(((flags & 0x20U) != 0 ? 16 : 0) + ((flags & 0x10U) != 0 ? 4 : 0));
        const std::uint64_t size = more.number(std::size_t{1} << (flags & 3U));
        if (!more.good()) return {};
        ordered = (flags & 0x04U) != 0;
        parts.push_back({address + (bytes.size() - more.left()), size, true});
    } else {
        if (head.number(1) != 1) return {};
        head.take(7);
        parts.push_back({address + kOldHead, head.number(4), true});
    }
    for (std::uint64_t visited = 0; !parts.empty() && visited < kMostHeaderPieces; ++visited) {
        const HeaderPart part = parts.front();
        parts.pop_front();
        const Bytes bytes = file.read(part.address, part.bytes);
        Cursor messages(bytes);
        if (newer && !part.first) {
            if (bytes.size() < 2 * kChecksum || !messages.is("OCHK")) continue;
            messages = Cursor(messages.take(messages.left() - kChecksum));
        }
        if (const auto layout = layout_among(messages, file, newer, ordered, parts))
            return list_place(*layout, file);
    }
    return {};
}

/// The object `index` of the global heap at `address`: the last one of that index, as HDF5 takes it.
Bytes heap_object(RawFile& file, std::uint64_t address, std::uint64_t index,
                  std::optional<std::uint64_t> limit, const std::string& what) {
    const auto aligned = [](std::uint64_t bytes) { return (bytes + 7) / 8 * 8; };
    const std::uint64_t head = aligned(8 + file.length_bytes);
    const Bytes start = file.read(address, head);
    Cursor collection(start);
    if (!collection.is("GCOL") || collection.number(4) != 1) return {};
    const std::uint64_t size = collection.number(file.length_bytes);
    std::uint64_t found_at = 0;
    std::uint64_t found_bytes = 0;
    for (std::uint64_t at = head; at < size;) {
        const Bytes bytes = file.read(address + at, head);
        Cursor object(bytes);
        const std::uint64_t number = object.number(2);
        object.take(6);
        const std::uint64_t length = object.number(file.length_bytes);
        if (!object.good() || length > file.bytes || number == 0) break;
        if (number == index) {
            found_at = at;
            found_bytes = length;
        }
        at += head + aligned(length);
    }
    if (found_at == 0) return {};
    require_memory(found_bytes, limit, what + ": the list of a virtual dataset's mappings");
    return file.read(address + found_at + head, found_bytes);
}

/// Passes a selection. Returns the blocks in which it is listed, 0 where it is stored as a whole. The length
/// that is stored with it is passed over, as HDF5 does.
std::uint64_t pass_selection(Cursor& list) {
    constexpr std::uint64_t kNone = 0;
    constexpr std::uint64_t kHyperslab = 2;
    constexpr std::uint64_t kAll = 3;
    constexpr std::uint64_t kUnknown = ~std::uint64_t{0};  // more than there is
    const std::uint64_t type = list.number(4);
    const std::uint64_t version = list.number(4);
    list.take(version == 1 ? 8 : 5);
    if (version == 1 && (type == kNone || type == kAll)) return 0;
    const std::uint64_t rank = list.number(4);
    if (type != kHyperslab || rank == 0 || rank > H5S_MAX_RANK || version == 0 || version > 2) {
        list.take(kUnknown);
        return 0;
    }
    if (version == 2) {
        list.take(4 * 8 * rank);  // start, stride, count and block
        return 0;
    }
    const std::uint64_t blocks = list.number(4);
    list.take(blocks > list.left() / (8 * rank) ? kUnknown : 8 * rank * blocks);
    return list.good() ? blocks : 0;
}

/// A stored list of mappings.
std::optional<Mappings> mappings_in(const Bytes& bytes, std::size_t length_bytes) {
    Cursor list(bytes);
    if (list.number(1) != 0) return {};
    Mappings mappings;
    mappings.count = list.number(length_bytes);
    for (std::uint64_t i = 0; i < mappings.count && list.good(); ++i) {
        const std::uint64_t file = list.skip_text();
        const std::uint64_t names = file + list.skip_text();
        mappings.names += names - std::min(names, kShortNames);
        for (int selections = 0; selections < 2; ++selections) {
            const std::uint64_t blocks = pass_selection(list);
            mappings.blocks += blocks;
            mappings.seconds += kPairSeconds * static_cast<double>(blocks) * static_cast<double>(blocks);
        }
    }
    mappings.seconds += kMappingSeconds * static_cast<double>(mappings.count);
    return list.good() ? std::optional(mappings) : std::nullopt;
}

}  // namespace

std::uint64_t Mappings::memory_bytes() const {
    return count * kMappingBytes + blocks * kListedBlockBytes + names * kNameCopies;
}

double Mappings::granted_seconds() const {
    return kTimesSlower * seconds + kGrantedMappingSeconds * static_cast<double>(count);
}

std::string Mappings::words() const {
    return std::to_string(count) + (count == 1 ? " mapping (" : " mappings (") +
           format_bytes(memory_bytes()) + ")";
}

std::optional<ObjectPlace> place_of(hid_t place, const std::string& name) {
    H5O_info_t info{};
    H5O_info_t root{};
    struct stat status {};
    if (H5Oget_info_by_name2(place, name.c_str(), &info, H5O_INFO_BASIC, link_access()) < 0 ||
        H5Oget_info_by_name2(place, "/", &root, H5O_INFO_BASIC, H5P_DEFAULT) < 0 ||
        info.type != H5O_TYPE_DATASET || info.fileno != root.fileno ||  // behind an external link
        stat(path_of_file(place).c_str(), &status) != 0) {
        return {};
    }
    return ObjectPlace{status.st_dev, status.st_ino, info.addr};
}

std::optional<Mappings> stored_mappings(hid_t place, const std::string& name,
                                        std::optional<std::uint64_t> limit, const std::string& what) {
    const auto where = place_of(place, name);
    if (!where) return {};
    auto file = open_raw(place);
    if (!file) return {};
    const auto list = find_list(*file, where->address);
    if (!list) return {};
    auto mappings = mappings_in(heap_object(*file, list->heap, list->index, limit, what), file->length_bytes);
    if (mappings) mappings->place = *where;
    return mappings;
}

void require_time(const Mappings& mappings, const Allowance& allowance, const std::string& what) {
    if (allowance.taken_seconds + mappings.seconds <= allowance.seconds) return;
    const auto words = [](double seconds) { return std::to_string(std::llround(seconds)) + " s"; };
    const bool alone = mappings.seconds > allowance.seconds;
    throw Error(
        ErrorCode::input,
        what + ": HDF5 would take about " + words(mappings.seconds) + " to open the virtual dataset, whose " +
            std::to_string(mappings.count) + (mappings.count == 1 ? " mapping lists " : " mappings list ") +
            std::to_string(mappings.blocks) + " blocks" +
            (alone ? "" : ", beside about " + words(allowance.taken_seconds) + " for others of the file") +
            "; the bound is " + words(allowance.seconds) +
            (alone ? " (HDF5's newer file format, libver='v110' in h5py, stores regular selections without a "
                     "list)"
                   : " together; named alone it can be opened"));
}

void grant(const Mappings& mappings) {
    extend_bounds(mappings.granted_seconds(), mappings.memory_bytes());
}

Handle open_object(hid_t place, const std::string& name, Allowance& allowance, const std::string& what) {
    now_reading(what);
    if (const auto mappings = stored_mappings(place, name, allowance.memory_bytes, what)) {
        require_memory(mappings->memory_bytes(), allowance.memory_bytes,
                       what + ": opening the virtual dataset with its " + mappings->words());
        require_time(*mappings, allowance, what);
        allowance.taken_seconds += mappings->seconds;
        grant(*mappings);
    }
    return take(H5Oopen(place, name.c_str(), H5P_DEFAULT), ErrorCode::input, what);
}

}  // namespace gpumat::formats::hdf5
