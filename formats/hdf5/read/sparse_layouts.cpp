#include "formats/hdf5/read/sparse_layouts.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hdf5/read/locate.hpp"

namespace gpumat::formats::hdf5 {
namespace {

[[noreturn]] void malformed(const Source& source, const std::string& kind, const std::string& why) {
    throw Error(ErrorCode::input, source.name + ": is a " + kind + " matrix " + why);
}

bool has_members(const Source& source, hid_t group, std::initializer_list<const char*> names) {
    return std::ranges::all_of(names, [&](const char* name) { return has_member(group, name, source.name); });
}

/// A part of numbers in one dimension.
Source part_of(const Source& source, hid_t group, const char* name, const std::string& kind,
               const ReadOptions& options) {
    Found found = describe_part(group, name, source, options);
    if (auto* part = std::get_if<Source>(&found)) return std::move(*part);
    malformed(source, kind, std::string("whose '") + name + "' " + std::get<NoMatrix>(found).why);
}

/// `by`: who stores matrices so, " (AnnData)", where that is known.
Source unread(const Source& source, const std::string& kind, std::string_view by, const Shape& shape,
              const Source& values, std::int64_t entries) {
    if (shape.rows < 0 || shape.cols < 0) malformed(source, kind, "of " + to_string(shape));
    const std::string count = ", " + std::to_string(entries) + " entries";
    Source matrix;
    matrix.name = source.name;
    matrix.path = source.path;
    matrix.dataset = source.dataset;
    matrix.stored = shape;
    matrix.element = without_memory_type(values.element);
    matrix.entries = entries;
    matrix.storage = kind + std::string(by) + count;
    matrix.where = Unread{"a " + kind + " matrix of " + shape_words(shape) + count};
    return matrix;
}

/// The shape that an attribute or a dataset says.
Shape stated_shape(const Source& source, hid_t group, const std::string& kind, const ReadOptions& options) {
    std::array<std::int64_t, 2> extents{};
    constexpr std::array kAttributes = {"shape", "h5sparse_shape", "dims"};
    const auto* const attribute = std::ranges::find_if(
        kAttributes, [&](const char* name) { return has_attribute(group, name, source.name); });
    if (attribute != kAttributes.end()) {
        number_attributes(group, *attribute, extents, source.name);
    } else if (!read_integers(open_member(group, "shape", source.name, options), source, "shape", options,
                              extents)) {
        malformed(source, kind, "that says no shape of two extents");
    }
    return {extents[0], extents[1]};
}

/// "CSR" of "csr_matrix" and "csr"; empty where it is neither that nor the same of columns.
std::string marked_kind(const Source& source, hid_t group) {
    for (const char* mark : {"encoding-type", "h5sparse_format"}) {
        const std::string word = text_attribute(group, mark, source.name);
        if (word.starts_with("csr")) return "CSR";
        if (word.starts_with("csc")) return "CSC";
    }
    return {};
}

/// Three arrays: the values, the index of each in its row or column, and where each row or column starts.
/// AnnData says which it is; of 10x Genomics, h5Seurat and SciPy's arrays the lengths tell.
std::optional<Found> compressed(const Source& source, hid_t group, const ReadOptions& options) {
    std::string kind = marked_kind(source, group);
    const std::string_view by = kind.empty() ? "" : " (AnnData)";
    if (kind.empty() && !has_members(source, group, {"data", "indices", "indptr"})) return {};
    const std::string known = kind.empty() ? "sparse" : kind;
    const Shape shape = stated_shape(source, group, known, options);
    const Source values = part_of(source, group, "data", known, options);
    const Source indices = part_of(source, group, "indices", known, options);
    const std::int64_t lines = length_of(part_of(source, group, "indptr", known, options)) - 1;
    const bool of_rows = lines == shape.rows && kind != "CSC";
    const bool of_cols = lines == shape.cols && kind != "CSR";
    if (!of_rows && !of_cols) {
        const std::string rows = std::to_string(shape.rows) + " + 1";
        const std::string cols = std::to_string(shape.cols) + " + 1";
        malformed(source, known,
                  "of " + to_string(shape) + " whose 'indptr' has " + std::to_string(lines + 1) +
                      " numbers, expected " +
                      (kind == "CSR"   ? rows
                       : kind == "CSC" ? cols
                                       : rows + " or " + cols));
    }
    if (length_of(indices) != length_of(values))
        malformed(source, known, "whose 'indices' and 'data' do not agree");
    if (kind.empty()) kind = !of_cols ? "CSR" : !of_rows ? "CSC" : "CSR or CSC";
    return unread(source, kind, by, shape, values, length_of(values));
}

/// Three arrays of one length: the row, the column and the value of each entry. Other groups have members of
/// these names too.
std::optional<Found> coordinates(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_members(source, group, {"data", "row", "col"})) return {};
    const Found values = describe_part(group, "data", source, options);
    const auto* found = std::get_if<Source>(&values);
    const auto beside = [&](const char* name) {
        const Found part = describe_part(group, name, source, options);
        const auto* numbers = std::get_if<Source>(&part);
        return numbers != nullptr && is_integer(numbers->element.type) &&
               length_of(*numbers) == length_of(*found);
    };
    if (found == nullptr || !beside("row") || !beside("col")) return {};
    return unread(source, "COO", "", stated_shape(source, group, "COO", options), *found, length_of(*found));
}

/// How many bins the genome has, of which the pixels are pairs: the group beside the pixels says it.
std::int64_t bins_beside(const Source& source, hid_t pixels) {
    std::string place = text_of([&](char* to, std::size_t size) { return H5Iget_name(pixels, to, size); });
    place.erase(std::min(place.rfind('/'), place.size()));
    const Handle parent = take(H5Oopen(pixels, place.empty() ? "/" : place.c_str(), H5P_DEFAULT),
                               ErrorCode::input, source.name);
    return number_attribute(parent.id(), "nbins", -1, source.name);
}

std::optional<Found> cooler(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_members(source, group, {"bin1_id", "bin2_id", "count"})) return {};
    const Source values = part_of(source, group, "count", "COO", options);
    const std::int64_t bins = bins_beside(source, group);
    if (bins < 0)
        malformed(source, "COO", "(cooler), and the group that it is in says no number of bins 'nbins'");
    return unread(source, "COO", " (cooler)", {bins, bins}, values, length_of(values));
}

nlohmann::json member_of(const nlohmann::json& object, const char* name) {
    return object.contains(name) ? object.at(name) : nlohmann::json();
}

/// A number from 0 on; -1 where it is none.
std::int64_t count_in(const nlohmann::json& json) {
    if (!json.is_number_unsigned()) return -1;
    const auto count = json.get<std::uint64_t>();
    return count >> 63 == 0 ? static_cast<std::int64_t>(count) : -1;
}

/// "CSR", "DMATR": capital letters, and few. Empty where it is none.
std::string format_in(const nlohmann::json& json) {
    constexpr std::size_t kLongest = 8;
    const std::string word = json.is_string() ? json.get<std::string>() : "";
    const auto capital = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
    return word.size() <= kLongest && std::ranges::all_of(word, capital) ? word : "";
}

/// Its attribute is JSON: the format, the shape, and how many values there are.
std::optional<Found> binsparse(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_attribute(group, "binsparse", source.name)) return {};
    auto json = nlohmann::json::parse(text_attribute(group, "binsparse", source.name), nullptr, false);
    if (json.contains("binsparse")) json = member_of(json, "binsparse");
    const std::string kind = format_in(member_of(json, "format"));
    std::vector<std::int64_t> extents;
    for (const nlohmann::json& extent : member_of(json, "shape")) extents.push_back(count_in(extent));
    if (kind.empty() || extents.empty() || extents.size() > 2 || std::ranges::min(extents) < 0) {
        throw Error(ErrorCode::input,
                    source.name +
                        ": its attribute 'binsparse' is damaged: expected JSON with a format "
                        "such as CSR, and a shape of one or two extents");
    }
    if (extents.size() == 1) return "is a binsparse vector (" + kind + "), expected a matrix";
    const Source values = part_of(source, group, "values", kind, options);
    const nlohmann::json stored = member_of(json, "number_of_stored_values");
    const std::int64_t entries = stored.is_null() ? length_of(values) : count_in(stored);
    if (entries < 0) malformed(source, kind, "(binsparse) whose 'number_of_stored_values' is damaged");
    return unread(source, kind, " (binsparse)", {extents[0], extents[1]}, values, entries);
}

}  // namespace

std::optional<Found> describe_sparse_layout(const Source& source, hid_t group, const ReadOptions& options) {
    for (const auto describe : {binsparse, cooler, compressed, coordinates}) {
        if (auto found = describe(source, group, options)) return found;
    }
    return {};
}

}  // namespace gpumat::formats::hdf5
