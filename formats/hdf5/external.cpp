#include "formats/hdf5/external.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "formats/hdf5/chunk_check.hpp"
#include "formats/hdf5/element.hpp"
#include "formats/hdf5/link_access.hpp"
#include "formats/hdf5/mappings.hpp"
#include "formats/hdf5/other_files.hpp"
#include "formats/hdf5/probe.hpp"
#include "formats/hdf5/storage.hpp"
#include "lib/core/memory.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr int kMostNested = 8;  ///< virtual datasets that are made of virtual datasets
constexpr std::size_t kMostName = 4096;
// That HDF5 1.10.8 keeps of a piece and of a file of pieces while they are open, measured with 4096 pieces
// and 2000 files: 21 KiB, and 525 KiB, most of it the table of the file's cache of metadata.
constexpr std::uint64_t kOpenPieceBytes = std::uint64_t{32} << 10;
constexpr std::uint64_t kOpenFileBytes = std::uint64_t{640} << 10;
constexpr std::uint64_t kCacheEntryBytes = 1024;  ///< that a chunk in HDF5's cache takes beside itself

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

/// Of this piece alone: both names may have colons, and none has a zero byte.
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

/// Takes the chunks of a piece into account.
void add_chunks(hid_t piece, hid_t creation, const std::string& name, PieceNeeds& chunks) {
    chunks.memory_bytes = std::max(chunks.memory_bytes, ChunkCheck(piece, name).memory_bytes());
    std::array<hsize_t, 2> edges{};
    if (H5Pget_layout(creation) != H5D_CHUNKED || H5Pget_chunk(creation, 2, edges.data()) != 2) return;
    const Shape shape{static_cast<std::int64_t>(edges[0]), static_cast<std::int64_t>(edges[1])};
    if (shape.elements() > chunks.largest.elements()) chunks.largest = shape;
}

Handle open_piece(hid_t file, const PieceName& name, const std::string& what) {
    return take(H5Dopen2(file, name.dataset.c_str(), link_access()), ErrorCode::input,
                what + ": its piece " + to_string(name) + " is missing");
}

/// Looks at the pieces of a dataset, and at those of its pieces that are virtual datasets themselves, each
/// once.
class PieceWalk {
  public:
    PieceWalk(const Source& source, const ReadOptions& options)
        : what_(source.name), limit_(options.memory_limit) {}

    /// The data that the dataset takes from elsewhere are there, also those that its pieces take.
    PieceNeeds look_at(const Dense& dense) {
        if (dense.layout == H5D_VIRTUAL) {
            count(mappings_of(dense.dataset.id(), dense.creation.id()));
            require_room();
        }
        require(dense.dataset.id(), dense.creation.id(), 0);
        if (dense.layout == H5D_VIRTUAL) {
            require_room();
            needs_.open_bytes = open_bytes();
            needs_.words = words();
            needs_.seconds = mappings_.granted_seconds();
        }
        return std::move(needs_);
    }

  private:
    /// How many virtual datasets lie one in the other below a dataset, itself included.
    int require(hid_t dataset, hid_t creation, int depth) {
        if (depth > kMostNested) too_deep();
        if (H5Pget_layout(creation) == H5D_VIRTUAL) return require_pieces(dataset, creation, depth);
        if (H5Pget_external_count(creation) > 0) {
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
        return 0;
    }

    int require_pieces(hid_t dataset, hid_t creation, int depth) {
        const std::size_t count = mapping_count(creation);
        std::map<std::string, Handle> extents;  // of the pieces by their keys
        Handle file;                            // of the last one: neighbours are often of one file
        int height = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const PieceName place = name_of_piece(creation, i, what_);
            const std::string name = to_string(place);
            const Handle selection = take(H5Pget_virtual_srcspace(creation, i), ErrorCode::input, what_);
            const Handle target = take(H5Pget_virtual_vspace(creation, i), ErrorCode::input, what_);
            Handle piece;
            Handle& extent = extents[key_of(place)];
            if (!extent.valid()) {
                file = open_piece_file(dataset, place.file, what_);
                piece = open_counted(file.id(), place);
                extent = take(H5Dget_space(piece.id()), ErrorCode::input, what_);
            }
            if (!inside(selection.id(), H5Sget_select_npoints(target.id()), extent.id())) {
                throw Error(ErrorCode::input,
                            what_ + ": its piece " + name + " has not the size that it should give");
            }
            if (piece.valid()) height = std::max(height, 1 + require_piece(dataset, piece.id(), name, depth));
        }
        return height;
    }

    /// The piece, open; its mappings, if any, are counted before, or where only HDF5 finds it (behind an
    /// external link) after that.
    Handle open_counted(hid_t file, const PieceName& name) {
        now_reading(what_ + ": its piece " + to_string(name));
        const auto before = stored_mappings(file, name.dataset, limit_, what_);
        if (before) count_piece(*before);
        Handle piece = open_piece(file, name, what_);
        const Handle creation = take(H5Dget_create_plist(piece.id()), ErrorCode::input, what_);
        if (H5Pget_layout(creation.id()) == H5D_VIRTUAL) {
            const Mappings mappings = mappings_of(piece.id(), creation.id());
            if (!before) count_piece(mappings);
            require_fixed_size(creation.id(), what_ + ": its piece " + to_string(name));
        }
        if (const auto place = place_of(piece.id())) {
            pieces_.insert(*place);
            files_.emplace(place->device, place->file);
        }
        return piece;
    }

    void count_piece(const Mappings& mappings) {
        if (heights_.contains(mappings.place) || above_.contains(mappings.place)) return;
        count(mappings);
        require_room();
        require_time(mappings_, {}, what_);
        grant(mappings);
    }

    /// The mappings of an open virtual dataset. Throws where HDF5 has others than those that were counted.
    [[nodiscard]] Mappings mappings_of(hid_t dataset, hid_t creation) const {
        const std::size_t loaded = mapping_count(creation);
        auto stored = stored_mappings(dataset, ".", limit_, what_);
        if (!stored) {  // in a way that only HDF5 knows
            stored = Mappings{.count = loaded};
            if (const auto place = place_of(dataset)) stored->place = *place;
        }
        if (stored->count == loaded) return *stored;
        throw Error(ErrorCode::input,
                    what_ + ": the file is damaged: it lists " + std::to_string(stored->count) +
                        " mappings of a virtual dataset, and HDF5 finds " + std::to_string(loaded));
    }

    int require_piece(hid_t dataset, hid_t piece, const std::string& name, int depth) {
        require_piece_type(dataset, piece, name, what_);
        const Handle creation = take(H5Dget_create_plist(piece), ErrorCode::input, what_);
        const auto place = place_of(piece);
        if (!place) fail(ErrorCode::input, what_ + ": its piece " + name);
        if (above_.contains(*place)) too_deep();
        const auto known = heights_.find(*place);
        if (known != heights_.end()) {
            if (depth + 1 + known->second > kMostNested) too_deep();
            return known->second;
        }
        above_.insert(*place);
        const int height = require(piece, creation.id(), depth + 1);
        above_.erase(*place);
        heights_.emplace(*place, height);
        add_chunks(piece, creation.id(), what_ + ": its piece " + name, needs_);
        return height;
    }

    [[noreturn]] void too_deep() const {
        throw Error(ErrorCode::input, what_ + ": virtual datasets lead round in circles, or lie too deep");
    }

    [[nodiscard]] std::size_t mapping_count(hid_t creation) const {
        std::size_t count = 0;
        hdf5::require(H5Pget_virtual_count(creation, &count), ErrorCode::input, what_);
        return count;
    }

    void count(const Mappings& mappings) {
        mappings_.count += mappings.count;
        mappings_.blocks += mappings.blocks;
        mappings_.seconds += mappings.seconds;
    }

    /// HDF5 opens the pieces of all mappings that it reads, and closes them with the dataset.
    [[nodiscard]] std::uint64_t open_bytes() const {
        return mappings_.memory_bytes() + pieces_.size() * kOpenPieceBytes + files_.size() * kOpenFileBytes;
    }

    [[nodiscard]] std::string words() const {
        const auto counted = [](std::size_t count, const char* one, const char* more, std::uint64_t bytes) {
            return std::to_string(count) + (count == 1 ? one : more) + " (" + format_bytes(count * bytes) +
                   ")";
        };
        if (pieces_.empty()) return "the virtual dataset's " + mappings_.words();
        return "the virtual dataset's " + mappings_.words() + ", " +
               counted(pieces_.size(), " piece", " pieces", kOpenPieceBytes) + " in " +
               counted(files_.size(), " file", " files", kOpenFileBytes);
    }

    void require_room() const { require_memory(open_bytes(), limit_, what_ + ": reading with " + words()); }

    const std::string& what_;
    std::optional<std::uint64_t> limit_;
    Mappings mappings_;  ///< of the dataset, and of its pieces
    std::set<ObjectPlace> pieces_;
    std::set<std::pair<std::uint64_t, std::uint64_t>> files_;
    std::map<ObjectPlace, int> heights_;  ///< of the pieces that have been looked at
    std::set<ObjectPlace> above_;         ///< the pieces that are being looked at
    PieceNeeds needs_;
};

/// A piece from which something is taken.
struct Piece {
    std::string what;
    Handle file;
    std::string dataset;
    std::unique_ptr<ChunkCheck> check;
    std::uint64_t chunks = 0;  ///< that were checked
    std::uint64_t chunk_bytes = 0;
};

/// Pieces by their keys behind those of the pieces that they are part of. Many parts of a matrix can be of
/// one piece.
using Pieces = std::map<std::string, Piece>;

/// The selection of a piece that is no virtual dataset itself.
void check_piece(hid_t dataset, hid_t file, const std::string& name, hid_t selection, const std::string& what,
                 Piece& piece) {
    if (!piece.check) {
        piece.what = what;
        H5Iinc_ref(file);
        piece.file = Handle(file);
        piece.dataset = name;
        piece.check = std::make_unique<ChunkCheck>(dataset, what);
        piece.chunk_bytes = piece.check->chunk_bytes();
    }
    piece.check->check(selection);
    piece.check->release();  // there may be many pieces
    piece.chunks = piece.check->checked_chunks();
}

/// A piece that is open while a tile is checked. H5Dread will open it too.
struct OpenPiece {
    Handle file;
    Handle dataset;
    bool is_virtual = false;
};

OpenPiece open_for_check(hid_t dataset, const PieceName& name, const std::string& what) {
    OpenPiece piece;
    piece.file = open_piece_file(dataset, name.file, what);
    piece.dataset = open_piece(piece.file.id(), name, what);
    const Handle creation = take(H5Dget_create_plist(piece.dataset.id()), ErrorCode::input, what);
    piece.is_virtual = H5Pget_layout(creation.id()) == H5D_VIRTUAL;
    return piece;
}

void check_pieces_of(hid_t dataset, hid_t selection, const std::string& what, const std::string& key,
                     int depth, Pieces& pieces) {
    const Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    if (depth > kMostNested) return;
    std::map<std::string, OpenPiece> open;
    std::size_t count = 0;
    require(H5Pget_virtual_count(creation.id(), &count), ErrorCode::input, what);
    for (std::size_t i = 0; i < count; ++i) {
        const Handle target = take(H5Pget_virtual_vspace(creation.id(), i), ErrorCode::input, what);
        const auto taken_from = [&](const Handle& space) {
            return take(H5Sselect_project_intersection(target.id(), space.id(), selection), ErrorCode::input,
                        what);
        };
        if (H5Sget_select_npoints(taken_from(target).id()) == 0) continue;
        const PieceName name = name_of_piece(creation.id(), i, what);
        const std::string shown = what + ": its piece " + to_string(name);
        const std::string own = key + key_of(name);
        OpenPiece& piece = open[own];
        if (!piece.dataset.valid()) piece = open_for_check(dataset, name, what);
        Handle from = take(H5Pget_virtual_srcspace(creation.id(), i), ErrorCode::input, what);
        if (H5Sget_select_type(from.id()) == H5S_SEL_ALL)  // of extents that only the piece knows
            from = take(H5Dget_space(piece.dataset.id()), ErrorCode::input, shown);
        const Handle taken = taken_from(from);
        if (piece.is_virtual) {
            check_pieces_of(piece.dataset.id(), taken.id(), shown, own, depth + 1, pieces);
        } else {
            check_piece(piece.dataset.id(), piece.file.id(), name.dataset, taken.id(), shown, pieces[own]);
        }
    }
}

/// The piece, open with a cache of `share` of the chunks that are taken from it. It must not be open: HDF5
/// gives an open dataset the cache that it has.
Handle open_cached(const Piece& piece, double share) {
    const std::string& what = piece.what;
    constexpr std::size_t kSlotsAChunk = 2;  // an odd number: chunks of a row or column never share a slot
    const auto chunks = static_cast<std::size_t>(share * static_cast<double>(piece.chunks));
    const Handle access = take(H5Pcreate(H5P_DATASET_ACCESS), ErrorCode::input, what);
    require(H5Pset_chunk_cache(access.id(), kSlotsAChunk * chunks + 1, chunks * piece.chunk_bytes,
                               H5D_CHUNK_CACHE_W0_DEFAULT),
            ErrorCode::input, what);
    return take(H5Dopen2(piece.file.id(), piece.dataset.c_str(), access.id()), ErrorCode::input, what);
}

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

void require_stored(hid_t dataset, const std::string& what) {
    const Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    if (H5Pget_layout(creation.id()) == H5D_VIRTUAL || H5Pget_external_count(creation.id()) > 0)
        throw Error(ErrorCode::input,
                    what + ": a part of it lies in other files, expected all of it in its own");
    require_written(dataset, creation.id(), what);
}

std::vector<Handle> check_pieces(hid_t dataset, hid_t selection, std::uint64_t cache_bytes,
                                 const std::string& what) {
    Pieces pieces;
    check_pieces_of(dataset, selection, what, {}, 0, pieces);
    std::erase_if(pieces, [](const auto& entry) { return entry.second.chunks == 0; });
    double wanted = 0;
    for (auto& [name, piece] : pieces) {
        piece.check.reset();  // and with it the dataset
        wanted +=
            static_cast<double>(piece.chunks) * static_cast<double>(piece.chunk_bytes + kCacheEntryBytes);
    }
    const double share = wanted == 0 ? 1 : std::min(1.0, static_cast<double>(cache_bytes) / wanted);
    std::vector<Handle> open;
    open.reserve(pieces.size());
    for (const auto& [key, piece] : pieces) open.push_back(open_cached(piece, share));
    return open;
}

PieceNeeds require_external_pieces(const Source& source, const Dense& dense, const ReadOptions& options) {
    const bool is_virtual = dense.layout == H5D_VIRTUAL;
    if (!is_virtual && H5Pget_external_count(dense.creation.id()) <= 0) return {};
    if (!options.allow_external) {
        throw Error(ErrorCode::input,
                    source.name + ": its data are " +
                        (is_virtual ? "a virtual dataset" : "in external files") +
                        ", which is refused unless external files are allowed (--allow-external)");
    }
    if (is_virtual && std::getenv("HDF5_VDS_PREFIX") != nullptr) {
        throw Error(
            ErrorCode::input,
            source.name + ": the pieces of a virtual dataset cannot be found with HDF5_VDS_PREFIX set");
    }
    return PieceWalk(source, options).look_at(dense);
}

}  // namespace gpumat::formats::hdf5
