#include "formats/hdf5/library_filters.hpp"

#include <H5PLextern.h>
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace gpumat::formats::hdf5 {
namespace {

// Of the numbers that HDF5 leaves to tests. A dataset that has one of them itself is refused: ours would take
// the place of its filter.
constexpr H5Z_filter_t kCheck = 410;
constexpr H5Z_filter_t kGuard = 411;
constexpr std::size_t kMostFilters = 15;  ///< HDF5's 32, with one of ours before each and one more
constexpr std::array<std::uint8_t, 2> kPoison = {0x55, 0xaa};  ///< no bit is the same
constexpr std::size_t kLeastTail = 4096;
constexpr std::size_t kFileStep = std::size_t{1} << 20;  ///< by which the file in memory grows

/// What the filters of ours know and find out; HDF5 gives them nothing but numbers.
struct Watch {
    std::size_t chunk_bytes = 0;
    std::uint8_t poison = 0;
    std::size_t found_bytes = 0;  ///< what the filters made of the chunk
};
thread_local Watch watch;

/// The last filter to be undone: nothing but the whole chunk passes it.
std::size_t check_size(unsigned flags, std::size_t /*count*/, const unsigned* /*values*/, std::size_t bytes,
                       std::size_t* /*buffer_bytes*/, void** /*buffer*/) {
    if ((flags & H5Z_FLAG_REVERSE) == 0) return bytes;
    watch.found_bytes = bytes;
    return bytes == watch.chunk_bytes ? bytes : 0;
}

/// Before a filter is undone: puts poison behind its input, as much as it can take for a whole chunk.
std::size_t guard_input(unsigned flags, std::size_t /*count*/, const unsigned* /*values*/, std::size_t bytes,
                        std::size_t* buffer_bytes, void** buffer) {
    if ((flags & H5Z_FLAG_REVERSE) == 0) return bytes;
    const std::size_t tail = watch.chunk_bytes + kLeastTail;
    auto* const guarded = static_cast<std::byte*>(H5allocate_memory(bytes + tail, false));
    if (guarded == nullptr) return 0;
    std::memcpy(guarded, *buffer, bytes);
    std::memset(guarded + bytes, watch.poison, tail);
    H5free_memory(*buffer);
    *buffer = guarded;
    *buffer_bytes = bytes + tail;
    return bytes;
}

/// What is allocated from now on holds `poison`, as far as that can be had.
void poison_heap(std::uint8_t poison, std::size_t bytes) {
#ifdef M_PERTURB
    mallopt(M_PERTURB, poison == 0 ? 0 : static_cast<std::uint8_t>(~poison));  // it fills with the complement
#endif
    std::vector<void*> blocks(LibraryUnfilter::poisoned_blocks(bytes));
    for (void*& block : blocks) {
        block = H5allocate_memory(bytes, false);
        if (block != nullptr) std::memset(block, poison, bytes);
    }
    for (void* const block : blocks) H5free_memory(block);
}

/// The plugin for a filter among the shared objects that this process has loaded, or null.
const H5Z_class2_t* loaded_plugin(H5Z_filter_t id) {
    struct Search {
        H5Z_filter_t id;
        const H5Z_class2_t* found;
    } search{id, nullptr};
    const auto visit = [](dl_phdr_info* info, std::size_t /*bytes*/, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        void* const object = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
        if (object == nullptr) return 0;
        void* const symbol = dlsym(object, "H5PLget_plugin_info");
        dlclose(object);  // HDF5 keeps it loaded
        if (symbol == nullptr) return 0;
        const auto* const plugin =
            static_cast<const H5Z_class2_t*>(reinterpret_cast<decltype(&H5PLget_plugin_info)>(symbol)());
        if (plugin != nullptr && plugin->id == wanted.id) wanted.found = plugin;
        return wanted.found == nullptr ? 0 : 1;
    };
    dl_iterate_phdr(visit, &search);
    return search.found;
}

void register_filter(const H5Z_class2_t& filter, const std::string& what) {
    require(H5Zregister(&filter), ErrorCode::input, what + ": a filter cannot be registered");
}

/// Plugins without the functions that choose parameters when a dataset is made: those of the file are meant,
/// and not every plugin leaves its own as they are.
void keep_parameters(const std::vector<Filter>& filters, const std::string& what) {
    for (const Filter& filter : filters) {
        const H5Z_class2_t* const plugin = loaded_plugin(filter.id);
        if (plugin == nullptr) continue;
        H5Z_class2_t bare = *plugin;
        bare.can_apply = nullptr;
        bare.set_local = nullptr;
        register_filter(bare, what);
    }
}

void append(hid_t creation, H5Z_filter_t id, const std::vector<unsigned>& values, const std::string& what) {
    require(H5Pset_filter(creation, id, H5Z_FLAG_OPTIONAL, values.size(), values.data()), ErrorCode::input,
            what);
}

}  // namespace

LibraryUnfilter::LibraryUnfilter(const Source& source, const Dense& dense)
    : dense_(dense),
      name_(source.name),
      memory_type_(source.element.memory.id()),
      elements_(static_cast<std::size_t>(dense.chunk.rows * dense.chunk.cols)) {
    if (dense.filters.size() > kMostFilters) {
        throw Error(ErrorCode::input, name_ + ": it is stored with " + std::to_string(dense.filters.size()) +
                                          " filters, expected " + std::to_string(kMostFilters) + " at most");
    }
    const Handle stored = take(H5Dget_type(dense.dataset.id()), ErrorCode::input, name_);
    type_ = take(H5Tcopy(stored.id()), ErrorCode::input, name_);  // bound to no file
    for (const Filter& filter : dense.filters) {
        if (filter.id != kCheck && filter.id != kGuard) continue;
        throw Error(ErrorCode::input, name_ + ": it is stored with the filter " + std::to_string(filter.id) +
                                          ", a number for tests that gpumat uses itself");
    }
    for (auto& result : results_) result.resize(elements_ * source.element.memory_bytes);
    register_filter({H5Z_CLASS_T_VERS, kCheck, 1, 1, "check", nullptr, nullptr, check_size}, name_);
    register_filter({H5Z_CLASS_T_VERS, kGuard, 1, 1, "guard", nullptr, nullptr, guard_input}, name_);
    keep_parameters(dense.filters, name_);
    const Handle access = take(H5Pcreate(H5P_FILE_ACCESS), ErrorCode::input, name_);
    require(H5Pset_fapl_core(access.id(), kFileStep, false), ErrorCode::input, name_);
    const std::string file = "chunk " + std::to_string(reinterpret_cast<std::uintptr_t>(this));
    file_ = take(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), ErrorCode::input, name_);
}

/// A dataset of one chunk with the filters that `mask` does not skip. HDF5 1.10 forgets a mask that is given
/// with a chunk until the dataset is opened again.
void LibraryUnfilter::prepare(std::uint32_t mask) {
    if (dataset_.valid() && mask == mask_) return;
    mask_ = mask;
    std::vector<Filter> kept;
    for (std::size_t i = 0; i < dense_.filters.size(); ++i) {
        if ((mask >> i & 1U) == 0) kept.push_back(dense_.filters[i]);
    }
    const Handle creation = take(H5Pcopy(dense_.creation.id()), ErrorCode::input, name_);
    require(H5Premove_filter(creation.id(), H5Z_FILTER_ALL), ErrorCode::input, name_);
    require(H5Pset_chunk_opts(creation.id(), 0), ErrorCode::input, name_);
    require(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_INCR), ErrorCode::input, name_);
    require(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), ErrorCode::input, name_);
    const std::array<hsize_t, 2> extents = {static_cast<hsize_t>(dense_.chunk.rows),
                                            static_cast<hsize_t>(dense_.chunk.cols)};
    require(H5Pset_chunk(creation.id(), dense_.rank, extents.data()), ErrorCode::input, name_);
    append(creation.id(), kCheck, {}, name_);
    for (const Filter& filter : kept) {
        append(creation.id(), filter.id, filter.values, name_);
        append(creation.id(), kGuard, {}, name_);
    }
    const Handle space =
        take(H5Screate_simple(dense_.rank, extents.data(), nullptr), ErrorCode::input, name_);
    const Handle uncached = take(H5Pcreate(H5P_DATASET_ACCESS), ErrorCode::input, name_);
    require(H5Pset_chunk_cache(uncached.id(), 1, 0, 1), ErrorCode::input, name_);
    dataset_ = take(H5Dcreate_anon(file_.id(), type_.id(), space.id(), creation.id(), uncached.id()),
                    ErrorCode::input, name_ + ": its filters cannot be set up");
    require_same_parameters(kept);
}

/// HDF5 lets its own filters choose their parameters anew for a new dataset. They choose the same unless
/// the file is damaged.
void LibraryUnfilter::require_same_parameters(const std::vector<Filter>& filters) const {
    const Handle creation = take(H5Dget_create_plist(dataset_.id()), ErrorCode::input, name_);
    const std::vector<Filter> made = filters_of(creation.id());
    for (std::size_t i = 0; i < filters.size(); ++i) {
        if (made.size() == 2 * filters.size() + 1 && made[2 * i + 1].values == filters[i].values) continue;
        throw Error(ErrorCode::input, name_ + ": the parameters of its filter " + filters[i].name +
                                          " are not those that fit its elements and chunks");
    }
}

std::span<const std::byte> LibraryUnfilter::apply(std::span<const std::byte> data, std::uint32_t mask,
                                                  bool& shuffled, const std::string& what) {
    shuffled = false;
    prepare(mask);
    const std::array<hsize_t, 2> origin{};
    require(H5Dwrite_chunk(dataset_.id(), H5P_DEFAULT, 0, origin.data(), data.size(), data.data()),
            ErrorCode::input, what + " cannot be decoded");
    watch.chunk_bytes = elements_ * H5Tget_size(type_.id());
    for (std::size_t turn = 0; turn < results_.size(); ++turn) decode(turn, what);
    if (results_[0] == results_[1]) return results_[0];
    throw Error(ErrorCode::input, what + " is damaged: its filters read beyond its end");
}

void LibraryUnfilter::decode(std::size_t turn, const std::string& what) {
    watch.poison = kPoison[turn];
    watch.found_bytes = watch.chunk_bytes;
    poison_heap(watch.poison, watch.chunk_bytes);
    const herr_t status =
        H5Dread(dataset_.id(), memory_type_, H5S_ALL, H5S_ALL, H5P_DEFAULT, results_[turn].data());
    if (watch.found_bytes != watch.chunk_bytes) {
        throw Error(ErrorCode::input, what + " holds " + std::to_string(watch.found_bytes) +
                                          " bytes, expected " + std::to_string(watch.chunk_bytes));
    }
    require(status, ErrorCode::input, what + " cannot be decoded");
}

}  // namespace gpumat::formats::hdf5
