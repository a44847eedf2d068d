#include "formats/hdf5/file/kept_values.hpp"

#include <cstring>
#include <new>
#include <vector>

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;  ///< of an attribute, or of a dataset
constexpr hssize_t kMostSequences = 4096;  ///< of a dataset: HDF5 looks at each to tell their size
constexpr const char* kUnreadable = "unreadable";

/// Whether elements of the type have parts of variable length, which HDF5 gives as pointers.
bool holds_pointers(hid_t type) {
    switch (H5Tget_class(type)) {
        case H5T_VLEN:
            return true;
        case H5T_STRING:
            return H5Tis_variable_str(type) > 0;
        case H5T_ARRAY:
            return holds_pointers(Handle(H5Tget_super(type)).id());
        case H5T_COMPOUND:
            for (int i = 0; i < H5Tget_nmembers(type); ++i) {
                if (holds_pointers(Handle(H5Tget_member_type(type, static_cast<unsigned>(i))).id()))
                    return true;
            }
            return false;
        default:
            return false;
    }
}

/// Where HDF5 would open them to read the dataset.
bool lies_in_other_files(hid_t dataset) {
    const Handle creation(H5Dget_create_plist(dataset));
    return H5Pget_layout(creation.id()) == H5D_VIRTUAL || H5Pget_external_count(creation.id()) != 0;
}

/// Pointers within compounds, arrays and sequences are read, and not compared.
void append_elements(hid_t type, const std::vector<std::byte>& elements, std::size_t count, std::string& to) {
    const auto* const bytes = reinterpret_cast<const char*>(elements.data());
    if (!holds_pointers(type)) {
        to.append(bytes, elements.size());
    } else if (H5Tget_class(type) == H5T_STRING) {
        for (std::size_t i = 0; i < count; ++i) {
            const char* text = nullptr;
            std::memcpy(&text, bytes + i * sizeof text, sizeof text);
            to.append(text == nullptr ? "" : text).push_back('\0');
        }
    } else if (H5Tget_class(type) == H5T_VLEN) {
        const Handle base(H5Tget_super(type));
        if (holds_pointers(base.id())) return;
        for (std::size_t i = 0; i < count; ++i) {
            hvl_t sequence{};
            std::memcpy(&sequence, bytes + i * sizeof sequence, sizeof sequence);
            to.append(std::to_string(sequence.len)).push_back('\0');
            if (sequence.len > 0)
                to.append(static_cast<const char*>(sequence.p), sequence.len * H5Tget_size(base.id()));
        }
    }
}

/// `read(buffer)` reads them all.
template <class Read>
void append_values(hid_t type, hid_t space, std::string& to, Read read) {
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    const std::size_t size = H5Tget_size(type);
    if (count < 0 || size == 0 || static_cast<std::size_t>(count) > kMostKeptBytes / size) {
        to += kUnreadable;
        return;
    }
    std::vector<std::byte> elements(static_cast<std::size_t>(count) * size);
    if (elements.empty()) return;
    if (read(elements.data()) < 0) {
        to += kUnreadable;
        return;
    }
    append_elements(type, elements, static_cast<std::size_t>(count), to);
    if (holds_pointers(type)) H5Dvlen_reclaim(type, space, H5P_DEFAULT, elements.data());
}

herr_t append_attribute(hid_t object, const char* name, const H5A_info_t* /*info*/, void* to) {
    try {
        auto& text = *static_cast<std::string*>(to);
        text.append(name).push_back('\0');
        const Handle attribute(H5Aopen(object, name, H5P_DEFAULT));
        const Handle type(H5Aget_type(attribute.id()));
        const Handle space(H5Aget_space(attribute.id()));
        append_values(type.id(), space.id(), text,
                      [&](void* buffer) { return H5Aread(attribute.id(), type.id(), buffer); });
        return 0;
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

}  // namespace

std::string kept_values(hid_t object) {
    std::string values;
    if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, append_attribute, &values) < 0)
        values += kUnreadable;
    if (H5Iget_type(object) != H5I_DATASET) return values;
    const Handle type(H5Dget_type(object));
    const Handle space(H5Dget_space(object));
    if (!holds_pointers(type.id()) || lies_in_other_files(object)) return values;
    hsize_t bytes = 0;
    if (H5Sget_simple_extent_npoints(space.id()) > kMostSequences ||
        H5Dvlen_get_buf_size(object, type.id(), space.id(), &bytes) < 0 || bytes > kMostKeptBytes) {
        return values += kUnreadable;
    }
    append_values(type.id(), space.id(), values, [&](void* buffer) {
        return H5Dread(object, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, buffer);
    });
    return values;
}

}  // namespace gpumat::formats::hdf5
