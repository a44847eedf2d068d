#include "formats/hdf5/read/external.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/memory.hpp"
#include "formats/hdf5/file/element.hpp"
#include "formats/hdf5/file/link_access.hpp"
#include "formats/hdf5/file/other_files.hpp"
#include "formats/hdf5/read/locate.hpp"
#include "formats/hdf5/read/storage.hpp"
#include "formats/hdf5/sandbox/probe.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr int kMostNested = 8;  ///< virtual datasets that are made of virtual datasets
constexpr std::size_t kMostName = 4096;
// What HDF5 1.10.8 takes, measured with files of 64 … 100000 mappings that h5py wrote: the open dataset 19.1
// KiB a mapping, each copy of its creation properties 6.3 KiB, and H5Dread 0.5 KiB. And of a piece and a file
// of pieces while they are open, measured with 4096 pieces and 2000 files: 21 KiB, and 525 KiB, most of it
// the table of the file's cache of metadata.
constexpr std::uint64_t kMappingBytes = std::uint64_t{32} << 10;
constexpr std::uint64_t kOpenPieceBytes = std::uint64_t{32} << 10;
constexpr std::uint64_t kOpenFileBytes = std::uint64_t{640} << 10;
constexpr double kPieceSeconds = 2e-3;  ///< to find the piece of a mapping, perhaps in a file of its own

/// "3 pieces (96.00 KiB)"
std::string counted(std::size_t count, const char* one, const char* more, std::uint64_t bytes) {
    return std::to_string(count) + (count == 1 ? one : more) + " (" + format_bytes(count * bytes) + ")";
}

/// Where external storage is looked for: names without a root start at HDF5's prefix or, without one, at
/// the current directory.
std::string external_path(hid_t dataset, const std::string& name) {
    const Handle access(H5Dget_access_plist(dataset));
    const std::string prefix =
        text_of([&](char* to, std::size_t size) { return H5Pget_efile_prefix(access.id(), to, size); });
    return prefix.empty() ? name : (std::filesystem::path(prefix) / name).string();
}

/// External storage holds `bytes` bytes.
void require_external_storage(hid_t dataset, hid_t creation, std::uint64_t bytes, const std::string& what) {
    const int count = H5Pget_external_count(creation);
    for (int i = 0; i < count && bytes > 0; ++i) {
        std::array<char, kMostName> name{};
        off_t offset = 0;
        hsize_t size = 0;
        require(
            H5Pget_external(creation, static_cast<unsigned>(i), name.size() - 1, name.data(), &offset, &size),
            ErrorCode::input, what);
        if (std::strlen(name.data()) + 2 >= name.size())
            throw Error(ErrorCode::input, what + ": the name of its external file is too long");
        const std::string path = external_path(dataset, name.data());
        OtherFiles::note(path);
        const std::uint64_t needed = std::min<std::uint64_t>(size, bytes);
        struct stat status {};
        if (stat(path.c_str(), &status) != 0) {
            throw Error(ErrorCode::input,
                        what + ": its external file " + path + " cannot be read: " + std::strerror(errno));
        }
        const auto there = static_cast<std::uint64_t>(status.st_size);
        const auto start = static_cast<std::uint64_t>(offset);
        if (!S_ISREG(status.st_mode) || start > there || needed > there - start) {
            throw Error(ErrorCode::input, what + ": its external file " + path +
                                              " is too short: " + std::to_string(needed) +
                                              " bytes are expected from byte " + std::to_string(start) +
                                              ", and it has " + std::to_string(there));
        }
        bytes -= needed;
    }
    if (bytes > 0)
        throw Error(ErrorCode::input, what + ": its external files lack " + std::to_string(bytes) + " bytes");
}

/// The file of a piece, as HDF5 looks for it: beside the file that names it, then where the name says.
Handle open_piece_file(hid_t dataset, const std::string& name, const std::string& what) {
    if (name == ".") return take(H5Iget_file_id(dataset), ErrorCode::input, what);
    const std::string own = path_of_file(dataset);
    if (own.empty()) fail(ErrorCode::input, what + ": the path of its file, beside which its pieces are");
    const std::filesystem::path beside = std::filesystem::path(own).parent_path() / name;
    std::error_code ignored;
    const std::string path = std::filesystem::exists(beside, ignored) ? beside.string() : name;
    OtherFiles::note(path);
    // A pipe would be waited for without an end.
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
        throw Error(ErrorCode::input, what + ": its piece in " + name + " is no regular file");
    return take(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), ErrorCode::input,
                what + ": its piece in " + name + " is missing");
}

/// Whether the selection, of `count` elements, lies in `extent`, the dataspace of a dataset.
bool inside(hid_t selection, hssize_t count, hid_t extent) {
    const int rank = H5Sget_simple_extent_ndims(extent);
    if (H5Sget_select_type(selection) == H5S_SEL_ALL) return count == H5Sget_simple_extent_npoints(extent);
    if (rank <= 0 || rank > H5S_MAX_RANK || H5Sget_simple_extent_ndims(selection) != rank) return false;
    std::array<hsize_t, H5S_MAX_RANK> first{};
    std::array<hsize_t, H5S_MAX_RANK> last{};
    std::array<hsize_t, H5S_MAX_RANK> dims{};
    if (H5Sget_select_bounds(selection, first.data(), last.data()) < 0 ||
        H5Sget_simple_extent_dims(extent, dims.data(), nullptr) < 0) {
        return false;
    }
    return std::equal(last.begin(), last.begin() + rank, dims.begin(), std::less{});
}

/// Every element of the dataset, of this file, was written or has a fill value that stands for it.
void require_written(hid_t dataset, hid_t creation, const std::string& what) {
    require_whole(dataset, creation, what);
    if (is_filled(creation, what)) return;
    const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what);
    const bool chunked = H5Pget_layout(creation) == H5D_CHUNKED;
    const bool written =
        H5Sget_simple_extent_npoints(space.id()) == 0 ||
        (chunked ? enough_chunks_are_there(dataset, creation, what) : H5Dget_storage_size(dataset) > 0);
    if (!written)
        throw Error(ErrorCode::input, what + ": parts of it were never written, and have no fill value");
}

/// Whether every value of `from` is one of `to`.
bool widens(Type from, Type to) {
    if (from == to) return true;
    const bool larger = size_of(from) < size_of(to);
    const bool from_unsigned = from >= Type::u8 && from <= Type::u64;
    const bool to_unsigned = to >= Type::u8 && to <= Type::u64;
    if (is_integer(from) && is_integer(to)) return larger && (from_unsigned || !to_unsigned);
    if (is_floating(from) && is_floating(to)) return larger;
    return is_complex(from) && is_complex(to) && larger;
}

/// Whether two types of complex numbers call their parts the same. HDF5 matches these by name, and makes
/// zeros of those of other names.
bool parts_match(hid_t from, hid_t to) {
    const auto is_part_of_from = [&](unsigned index) {
        char* const name = H5Tget_member_name(to, index);
        const bool found = name != nullptr && H5Tget_member_index(from, name) >= 0;
        H5free_memory(name);
        return found;
    };
    return is_part_of_from(0) && is_part_of_from(1);
}

/// HDF5 converts a piece to the type of the virtual dataset without a word, also where values do not fit.
void require_piece_type(hid_t dataset, hid_t piece, const std::string& name, const std::string& what) {
    const Handle to = take(H5Dget_type(dataset), ErrorCode::input, what);
    const Handle from = take(H5Dget_type(piece), ErrorCode::input, what);
    if (H5Tequal(to.id(), from.id()) > 0) return;
    const auto whole = element_of(to.id());
    const auto part = element_of(from.id());
    if (whole && part && !whole->wide && !part->wide && widens(part->type, whole->type)) {
        if (!is_complex(whole->type) || parts_match(from.id(), to.id())) return;
        throw Error(ErrorCode::input, what + ": its piece " + name +
                                          " calls the parts of its complex numbers otherwise than the "
                                          "virtual dataset, expected the same names");
    }
    throw Error(ErrorCode::input, what + ": its piece " + name + " holds " +
                                      (part ? part->name : words_for(from.id())) +
                                      ", which the virtual dataset's type, " +
                                      (whole ? whole->name : words_for(to.id())) + ", cannot hold exactly");
}

/// What a virtual dataset calls a piece of it.
struct PieceName {
    std::string file;
    std::string dataset;
};

std::string to_string(const PieceName& name) {
    return name.file + ":" + name.dataset;
}

/// A key that no other piece has: both names may have colons, and none has a zero byte.
std::string key_of(const PieceName& name) {
    return name.file + '\0' + name.dataset + '\0';
}

PieceName name_of_piece(hid_t creation, std::size_t index, const std::string& what) {
    PieceName name{text_of([&](char* to, std::size_t size) {
                       return H5Pget_virtual_filename(creation, index, to, size);
                   }),
                   text_of([&](char* to, std::size_t size) {
                       return H5Pget_virtual_dsetname(creation, index, to, size);
                   })};
    if (name.file.empty() || name.dataset.empty())
        fail(ErrorCode::input, what + ": a piece of the virtual dataset has no name");
    return name;
}

/// Looks at the pieces of a dataset, and at those of its pieces that are virtual datasets themselves, each
/// once.
class PieceWalk {
  public:
    PieceWalk(const Source& source, const ReadOptions& options) : what_(source.name), options_(options) {}

    /// The data that the dataset takes from elsewhere are there, also those that its pieces take.
    PieceNeeds look_at(const Dense& dense) {
        require(dense.dataset.id(), dense.creation.id(), 0);
        if (dense.layout == H5D_VIRTUAL) {
            needs_.open_bytes = open_bytes();
            needs_.words = words();
            needs_.seconds = kPieceSeconds * static_cast<double>(mappings_);
        }
        return std::move(needs_);
    }

  private:
    void require(hid_t dataset, hid_t creation, int depth) {
        if (depth > kMostNested)
            throw Error(ErrorCode::input,
                        what_ + ": virtual datasets lead round in circles, or lie too deep");
        if (H5Pget_layout(creation) == H5D_VIRTUAL) return require_pieces(dataset, creation, depth);
        if (H5Pget_external_count(creation) > 0) {
            require_allowed("in external files");
            const Handle space = take(H5Dget_space(dataset), ErrorCode::input, what_);
            const Handle type = take(H5Dget_type(dataset), ErrorCode::input, what_);
            const auto elements = static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space.id()));
            std::uint64_t bytes = 0;
            if (__builtin_mul_overflow(elements, H5Tget_size(type.id()), &bytes))
                throw Error(ErrorCode::input, what_ + ": its external data are larger than any file");
            require_external_storage(dataset, creation, bytes, what_);
        } else if (depth > 0) {  // of the dataset itself the storage knows
            require_written(dataset, creation, what_);
        }
    }

    void require_pieces(hid_t dataset, hid_t creation, int depth) {
        std::size_t count = 0;
        hdf5::require(H5Pget_virtual_count(creation, &count), ErrorCode::input, what_);
        mappings_ += count;
        extend_bounds(kPieceSeconds * static_cast<double>(count), count * kMappingBytes);
        require_room();
        std::map<std::string, Handle> extents;  // of the pieces by their keys
        Handle file;                            // of the last one: neighbours are often of one file
        for (std::size_t i = 0; i < count; ++i) {
            const PieceName place = name_of_piece(creation, i, what_);
            const std::string name = to_string(place);
            if (place.file != ".") require_allowed("a virtual dataset of other files");
            const Handle selection = take(H5Pget_virtual_srcspace(creation, i), ErrorCode::input, what_);
            const Handle target = take(H5Pget_virtual_vspace(creation, i), ErrorCode::input, what_);
            Handle& extent = extents[key_of(place)];
            Handle piece;
            if (!extent.valid()) {
                file = open_piece_file(dataset, place.file, what_);
                piece = open_piece(file.id(), place);
                // First, for HDF5 opens the pieces of one that grows, whatever they are, to tell its extents.
                const Handle piece_creation = take(H5Dget_create_plist(piece.id()), ErrorCode::input, what_);
                require_fixed_size(piece_creation.id(), what_ + ": its piece " + name);
                extent = take(H5Dget_space(piece.id()), ErrorCode::input, what_);
            }
            if (!inside(selection.id(), H5Sget_select_npoints(target.id()), extent.id())) {
                throw Error(ErrorCode::input,
                            what_ + ": its piece " + name + " has not the size that it should give");
            }
            if (piece.valid()) require_piece(dataset, piece.id(), name, depth);
        }
    }

    /// `where`: what its data are, if other files than its own are read for them.
    void require_allowed(const char* where) const {
        if (options_.allow_external) return;
        throw Error(ErrorCode::input,
                    what_ + ": its data are " + where +
                        ", which is refused unless external files are allowed (--allow-external)");
    }

    [[nodiscard]] Handle open_piece(hid_t file, const PieceName& name) const {
        now_reading(what_ + ": its piece " + to_string(name));
        if (!options_.allow_external)  // refuses external links
            resolve(file, name.dataset, what_ + ": its piece " + to_string(name), options_);
        return take(H5Dopen2(file, name.dataset.c_str(), link_access()), ErrorCode::input,
                    what_ + ": its piece " + to_string(name) + " is missing");
    }

    void require_piece(hid_t dataset, hid_t piece, const std::string& name, int depth) {
        require_piece_type(dataset, piece, name, what_);
        const Handle creation = take(H5Dget_create_plist(piece), ErrorCode::input, what_);
        H5O_info_t info{};
        hdf5::require(H5Oget_info2(piece, &info, H5O_INFO_BASIC), ErrorCode::input, what_);
        if (pieces_.contains({info.fileno, info.addr})) return;
        require(piece, creation.id(), depth + 1);
        pieces_.emplace(info.fileno, info.addr);
        add_chunks(piece, creation.id());
    }

    /// Takes the chunks of a piece into account.
    void add_chunks(hid_t piece, hid_t creation) {
        std::array<hsize_t, H5S_MAX_RANK> edges{};
        const int rank =
            H5Pget_layout(creation) == H5D_CHUNKED ? H5Pget_chunk(creation, H5S_MAX_RANK, edges.data()) : 0;
        if (rank <= 0) return;
        const Handle type = take(H5Dget_type(piece), ErrorCode::input, what_);
        std::uint64_t bytes = H5Tget_size(type.id());
        for (int i = 0; i < rank; ++i) {
            if (__builtin_mul_overflow(bytes, edges[static_cast<std::size_t>(i)], &bytes))
                throw Error(ErrorCode::input, what_ + ": a piece has chunks that are larger than any file");
        }
        needs_.chunk_bytes = std::max(needs_.chunk_bytes, bytes);
        const Shape shape{static_cast<std::int64_t>(edges[0]), static_cast<std::int64_t>(edges[1])};
        if (rank == 2 && shape.elements() > needs_.largest.elements()) needs_.largest = shape;
    }

    /// HDF5 opens the pieces of all mappings that it reads, and closes them with the dataset.
    [[nodiscard]] std::uint64_t open_bytes() const {
        return mappings_ * kMappingBytes + pieces_.size() * kOpenPieceBytes + files() * kOpenFileBytes;
    }

    [[nodiscard]] std::size_t files() const {
        std::set<unsigned long> numbers;
        for (const auto& [file, address] : pieces_) numbers.insert(file);
        return numbers.size();
    }

    [[nodiscard]] std::string words() const {
        return "the virtual dataset's " + counted(mappings_, " mapping", " mappings", kMappingBytes) + ", " +
               counted(pieces_.size(), " piece", " pieces", kOpenPieceBytes) + " in " +
               counted(files(), " file", " files", kOpenFileBytes);
    }

    void require_room() const {
        require_memory(open_bytes(), options_.memory_limit, what_ + ": reading with " + words());
    }

    const std::string& what_;
    const ReadOptions& options_;
    std::uint64_t mappings_ = 0;                          ///< of the dataset, and of its pieces
    std::set<std::pair<unsigned long, haddr_t>> pieces_;  ///< that have been looked at: file and address
    PieceNeeds needs_;
};

}  // namespace

void require_fixed_size(hid_t creation, const std::string& what) {
    if (H5Pget_layout(creation) != H5D_VIRTUAL) return;
    std::size_t count = 0;
    require(H5Pget_virtual_count(creation, &count), ErrorCode::input, what);
    for (std::size_t i = 0; i < count; ++i) {
        const std::string name = to_string(name_of_piece(creation, i, what));
        const Handle target = take(H5Pget_virtual_vspace(creation, i), ErrorCode::input, what);
        const hssize_t elements = H5Sget_select_npoints(target.id());
        if (name.find('%') == std::string::npos && elements >= 0 &&
            elements != static_cast<hssize_t>(H5S_UNLIMITED))
            continue;
        throw Error(ErrorCode::input, what + ": the virtual dataset grows with its pieces (" + name +
                                          "), so that none of them can be known to be missing");
    }
}

void require_room_for_mappings(hid_t creation, const ReadOptions& options, const std::string& what) {
    if (H5Pget_layout(creation) != H5D_VIRTUAL) return;
    std::size_t count = 0;
    require(H5Pget_virtual_count(creation, &count), ErrorCode::input, what);
    require_memory(count * kMappingBytes, options.memory_limit,
                   what + ": opening the virtual dataset with its " +
                       counted(count, " mapping", " mappings", kMappingBytes));
}

void require_stored(hid_t dataset, const std::string& what) {
    const Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    if (H5Pget_layout(creation.id()) == H5D_VIRTUAL || H5Pget_external_count(creation.id()) > 0)
        throw Error(ErrorCode::input,
                    what + ": a part of it lies in other files, expected all of it in its own");
    require_written(dataset, creation.id(), what);
}

PieceNeeds require_external_pieces(const Source& source, const Dense& dense, const ReadOptions& options) {
    const bool is_virtual = dense.layout == H5D_VIRTUAL;
    if (!is_virtual && H5Pget_external_count(dense.creation.id()) <= 0) return {};
    if (is_virtual && std::getenv("HDF5_VDS_PREFIX") != nullptr) {
        throw Error(
            ErrorCode::input,
            source.name + ": the pieces of a virtual dataset cannot be found with HDF5_VDS_PREFIX set");
    }
    return PieceWalk(source, options).look_at(dense);
}

}  // namespace gpumat::formats::hdf5
