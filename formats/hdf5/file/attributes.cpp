#include "formats/hdf5/file/attributes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gpumat::formats::hdf5 {
namespace {

constexpr std::size_t kMostBytes = 60000;  ///< HDF5 stores less than 64 KiB, with name and type, in a header

/// What describes the layout of the matrix in its file, the dimensions as they are stored, or where the
/// matrix came from.
bool is_bookkeeping(const std::string& name) {
    constexpr std::array<std::string_view, 4> kPrefixes = {"MATLAB_", "OCTAVE_", "_Netcdf4", "gpumat_"};
    constexpr std::array<std::string_view, 5> kNames = {"CLASS", "NAME", "DIMENSION_LIST", "DIMENSION_LABELS",
                                                        "REFERENCE_LIST"};
    return std::ranges::find(kNames, name) != kNames.end() ||
           std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// An attribute and its value, as it is in memory.
class Attribute {
  public:
    Attribute(hid_t object, const std::string& name) {
        const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
        const Handle stored(attribute.valid() ? H5Aget_type(attribute.id()) : H5I_INVALID_HID);
        type_ = Handle(H5Tcopy(stored.id()));  // free of the file, in which it may have a name
        space_ = Handle(H5Aget_space(attribute.id()));
        if (!type_.valid() || !space_.valid()) {
            why_not_ = "cannot be read: " + reason();
            return;
        }
        const auto count = static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space_.id()));
        std::uint64_t bytes = 0;
        if (H5Tdetect_class(type_.id(), H5T_REFERENCE) != 0) {
            why_not_ = "refers to other objects of its file";
        } else if (__builtin_mul_overflow(count, H5Tget_size(type_.id()), &bytes) || bytes > kMostBytes) {
            why_not_ = "is larger than " + std::to_string(kMostBytes) + " bytes";
        } else if (bytes > 0) {
            value_.resize(bytes);
            if (H5Aread(attribute.id(), type_.id(), value_.data()) >= 0) return;
            why_not_ = "cannot be read: " + reason();
            value_.clear();
        }
    }
    Attribute(const Attribute&) = delete;
    Attribute& operator=(const Attribute&) = delete;
    ~Attribute() {  // of what texts and lists of varying length took
        if (!value_.empty()) H5Dvlen_reclaim(type_.id(), space_.id(), H5P_DEFAULT, value_.data());
    }

    /// Why it cannot be copied; empty where it can.
    [[nodiscard]] const std::string& why_not() const { return why_not_; }

    /// `source` names what it comes from.
    void write(hid_t object, const std::string& name, const std::string& source) const {
        std::string what = source;
        what.append(": the attribute '").append(name).append("' cannot be written");
        const Handle made =
            take(H5Acreate2(object, name.c_str(), type_.id(), space_.id(), H5P_DEFAULT, H5P_DEFAULT),
                 ErrorCode::output, what);
        if (!value_.empty()) require(H5Awrite(made.id(), type_.id(), value_.data()), ErrorCode::output, what);
    }

  private:
    Handle type_;
    Handle space_;
    std::vector<std::byte> value_;
    std::string why_not_;
};

herr_t keep_name(hid_t /*object*/, const char* name, const H5A_info_t* /*info*/, void* data) {
    try {
        static_cast<std::vector<std::string>*>(data)->emplace_back(name);
        return 0;
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

/// The names of the attributes that may be copied, in order; nothing where HDF5 cannot tell them, as one is
/// of a type that it does not know.
std::optional<std::vector<std::string>> attribute_names(hid_t object) {
    std::vector<std::string> names;
    if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, keep_name, &names) < 0) return {};
    std::erase_if(names, is_bookkeeping);
    std::ranges::sort(names);
    return names;
}

}  // namespace

void read_attributes(hid_t object) {
    for (const std::string& name : attribute_names(object).value_or(std::vector<std::string>()))
        const Attribute attribute(object, name);
}

std::vector<std::string> copy_attributes(hid_t from, hid_t to,
                                         const std::function<bool(const std::string& name)>& skip,
                                         const std::string& what) {
    std::vector<std::string> left_out;
    const auto names = attribute_names(from);
    if (!names) return {"list, which cannot be read: " + reason()};
    for (const std::string& name : *names) {
        if (skip(name)) continue;
        const Attribute attribute(from, name);
        if (attribute.why_not().empty()) {
            attribute.write(to, name, what);
        } else {
            left_out.push_back("'" + name + "', which " + attribute.why_not());
        }
    }
    return left_out;
}

}  // namespace gpumat::formats::hdf5
