#include "formats/hdf5/file/inventory.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <new>

#include "formats/hdf5/file/kept_values.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr herr_t kFailed = -1;
constexpr herr_t kTooMuch = 1;
constexpr std::size_t kObjectsForChunk = 4;  ///< that are looked at
constexpr std::ptrdiff_t kDeepest = 64;      ///< of groups in groups, which HDF5 follows by recursion

/// Whether H5Dget_chunk_info counts from the file's first byte, as H5Dget_offset does in every version.
constexpr bool kChunksCountUserBlock = H5_VERSION_GE(1, 14, 4);

}  // namespace

std::optional<Inventory> Inventory::of(hid_t file, std::size_t most_chunks) {
    Inventory inventory;
    inventory.most_chunks_ = most_chunks;
    const Handle creation(H5Fget_create_plist(file));
    if (H5Fget_eoa(file, &inventory.end_) < 0 || H5Pget_userblock(creation.id(), &inventory.user_block_) < 0)
        return std::nullopt;
    const herr_t status =
        H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, visit, &inventory, H5O_INFO_BASIC | H5O_INFO_HDR);
    if (status < 0) return std::nullopt;
    inventory.complete_ = status == 0;
    return inventory;
}

herr_t Inventory::visit(hid_t file, const char* name, const H5O_info_t* info, void* inventory) {
    try {
        return static_cast<Inventory*>(inventory)->add(file, name, *info);
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

herr_t Inventory::add(hid_t file, const std::string& name, const H5O_info_t& info) {
    if (objects_.size() >= kObjectsForChunk * most_chunks_) return kTooMuch;
    if (std::count(name.begin(), name.end(), '/') > kDeepest) return kTooMuch;
    Object object;
    object.name = name;
    object.kind = info.type;
    object.header = {info.addr + user_block_, info.hdr.nchunks == 1 ? info.hdr.space.total : 1};
    const Handle found(H5Oopen(file, name.c_str(), H5P_DEFAULT));
    H5O_info_t opened{};  // a damaged group may have a name twice
    if (H5Oget_info2(found.id(), &opened, H5O_INFO_BASIC) < 0 || opened.addr != info.addr) return kFailed;
    if (info.type == H5O_TYPE_DATASET) {
        if (const herr_t status = add_dataset(found.id(), object); status != 0) return status;
    }
    object.values = std::hash<std::string>()(kept_values(found.id()));
    return objects_.try_emplace(info.addr, std::move(object)).second ? 0 : kFailed;
}

herr_t Inventory::add_dataset(hid_t dataset, Object& object) {
    const Handle creation(H5Dget_create_plist(dataset));
    const Handle type(H5Dget_type(dataset));
    object.type_class = H5Tget_class(type.id());
    object.element_bytes = H5Tget_size(type.id());
    const H5D_layout_t layout = H5Pget_layout(creation.id());
    if (layout == H5D_VIRTUAL) return 0;  // its extents may depend on other files, which HDF5 would open
    const Handle space(H5Dget_space(dataset));
    std::array<hsize_t, H5S_MAX_RANK> extents{};
    const int rank = H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
    if (rank < 0 || object.type_class == H5T_NO_CLASS || layout == H5D_LAYOUT_ERROR) return kFailed;
    object.shape.assign(extents.begin(), extents.begin() + rank);
    if (layout == H5D_CHUNKED) return add_chunks(dataset, object);
    const haddr_t offset = layout == H5D_CONTIGUOUS ? H5Dget_offset(dataset) : HADDR_UNDEF;
    if (offset != HADDR_UNDEF) object.elements.push_back({offset, H5Dget_storage_size(dataset)});
    return 0;
}

herr_t Inventory::add_chunks(hid_t dataset, Object& object) {
    const Handle space(H5Dget_space(dataset));
    hsize_t count = 0;
    if (H5Dget_num_chunks(dataset, space.id(), &count) < 0) return kFailed;
    if (count > most_chunks_ - chunks_) return kTooMuch;
    chunks_ += count;
    for (hsize_t i = 0; i < count; ++i) {
        std::array<hsize_t, H5S_MAX_RANK> place{};
        unsigned skipped = 0;
        haddr_t address = HADDR_UNDEF;
        hsize_t bytes = 0;
        if (H5Dget_chunk_info(dataset, space.id(), i, place.data(), &skipped, &address, &bytes) < 0)
            return kFailed;
        if (address == HADDR_UNDEF) continue;
        object.elements.push_back({address + (kChunksCountUserBlock ? 0 : user_block_), bytes});
    }
    return 0;
}

const std::vector<Extent>& Inventory::elements_of(haddr_t address) const {
    static const std::vector<Extent> kNone;
    const auto found = objects_.find(address);
    return found == objects_.end() ? kNone : found->second.elements;
}

Parts Inventory::elements_but(haddr_t address) const {
    Parts parts;
    for (const auto& [other, object] : objects_) {
        if (other == address) continue;
        for (const Extent& extent : object.elements) parts.add(extent);
    }
    return parts;
}

bool Inventory::overlap(const Extent& x, const Extent& y) {
    if (x.bytes == 0 || y.bytes == 0) return false;
    return x.begin < y.begin ? y.begin - x.begin < x.bytes : x.begin - y.begin < y.bytes;
}

std::optional<std::string> Inventory::conflict(haddr_t address) const {
    const auto found = objects_.find(address);
    if (found == objects_.end()) return "it is not found in the file's groups";
    for (const Extent& own : found->second.elements) {
        const std::string data =
            "its data, " + std::to_string(own.bytes) + " bytes at byte " + std::to_string(own.begin);
        if (own.begin > end_ || own.bytes > end_ - own.begin)
            return data + ", pass the end that the file says it has, byte " + std::to_string(end_);
        if (own.bytes > 0 && own.begin <= user_block_) return data + ", lie where the file begins";
        for (const auto& [other_address, other] : objects_) {
            const bool meets = std::ranges::any_of(other.elements, [&](const Extent& extent) {
                return &extent != &own && overlap(own, extent);
            });
            if (meets || overlap(own, other.header)) return data + ", lie where /" + other.name + " lies";
        }
    }
    return std::nullopt;
}

std::optional<std::string> Inventory::changed_in(const Inventory& later, haddr_t but,
                                                 haddr_t marked_anew) const {
    for (const auto& [address, object] : objects_) {
        const auto found = later.objects_.find(address);
        if (address == but) continue;
        if (found == later.objects_.end()) return "/" + object.name;
        Object now = found->second;
        if (address == marked_anew) now.values = object.values;
        if (now != object) return "/" + object.name;
    }
    return std::nullopt;
}

}  // namespace gpumat::formats::hdf5
