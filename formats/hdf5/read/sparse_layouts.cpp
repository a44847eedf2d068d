#include "formats/hdf5/read/sparse_layouts.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "formats/hdf5/read/locate.hpp"

namespace gpumat::formats::hdf5 {
namespace {

[[noreturn]] void malformed(const Source& source, const std::string& kind, const std::string& why) {
    throw Error(ErrorCode::input, source.name + ": is a " + kind + " matrix " + why);
}

/// A part of numbers in one dimension.
Source part_of(const Source& source, hid_t group, const char* name, const std::string& kind,
               const ReadOptions& options) {
    Found found = describe_part(group, name, source, options);
    if (auto* part = std::get_if<Source>(&found)) return std::move(*part);
    malformed(source, kind, std::string("whose '") + name + "' " + std::get<NoMatrix>(found).why);
}

Shape checked_shape(const Source& source, const std::string& kind, std::span<const std::int64_t, 2> extents) {
    const Shape shape{extents[0], extents[1]};
    if (shape.rows < 0 || shape.cols < 0) malformed(source, kind, "of " + to_string(shape));
    return shape;
}

Source unread(const Source& source, const std::string& kind, std::string_view by, const Shape& shape,
              const Source& values, std::int64_t entries) {
    Source matrix;
    matrix.name = source.name;
    matrix.path = source.path;
    matrix.dataset = source.dataset;
    matrix.stored = shape;
    matrix.element = without_memory_type(values.element);
    matrix.entries = entries;
    matrix.storage = kind + " (" + std::string(by) + "), " + std::to_string(entries) + " entries";
    matrix.where = Unread{kind};
    return matrix;
}

/// Three arrays: the values, the index of each in its row or column, and where each row or column starts.
Source compressed(const Source& source, hid_t group, const std::string& kind, std::string_view by,
                  const Shape& shape, const ReadOptions& options) {
    const Source values = part_of(source, group, "data", kind, options);
    const Source indices = part_of(source, group, "indices", kind, options);
    const Source starts = part_of(source, group, "indptr", kind, options);
    const std::int64_t lines = kind == "CSR" ? shape.rows : shape.cols;
    if (length_of(starts) - 1 != lines) {
        malformed(source, kind,
                  "of " + to_string(shape) + " whose 'indptr' has " + std::to_string(length_of(starts)) +
                      " numbers, expected " + std::to_string(lines) + " + 1");
    }
    if (length_of(indices) != length_of(values))
        malformed(source, kind, "whose 'indices' and 'data' do not agree");
    return unread(source, kind, by, shape, values, length_of(values));
}

/// "CSR" of "csr_matrix" and "csr"; empty where it is neither that nor the same of columns.
std::string kind_of(const std::string& word) {
    return word.starts_with("csr") ? "CSR" : word.starts_with("csc") ? "CSC" : "";
}

/// The attributes that name the kind and the shape.
struct Marks {
    const char* kind;
    const char* shape;
};

std::optional<Found> marked(const Source& source, hid_t group, const ReadOptions& options) {
    for (const Marks& marks : {Marks{"encoding-type", "shape"}, Marks{"h5sparse_format", "h5sparse_shape"}}) {
        if (!has_attribute(group, marks.kind, source.name)) continue;
        const std::string kind = kind_of(text_attribute(group, marks.kind, source.name));
        if (kind.empty()) continue;
        if (!has_attribute(group, marks.shape, source.name))
            malformed(source, kind, std::string("without its attribute '") + marks.shape + "'");
        std::array<std::int64_t, 2> extents{};
        number_attributes(group, marks.shape, extents, source.name);
        return compressed(source, group, kind, "AnnData", checked_shape(source, kind, extents), options);
    }
    return {};
}

/// The same three arrays without a mark: of columns, as 10x Genomics and Seurat write them.
std::optional<Found> unmarked(const Source& source, hid_t group, const ReadOptions& options) {
    for (const char* part : {"data", "indices", "indptr"}) {
        if (!has_member(group, part, source.name)) return {};
    }
    std::array<std::int64_t, 2> extents{};
    std::string_view by = "10x Genomics";
    if (has_attribute(group, "dims", source.name)) {
        number_attributes(group, "dims", extents, source.name);
        by = "h5Seurat";
    } else if (has_attribute(group, "shape", source.name)) {
        number_attributes(group, "shape", extents, source.name);
        by = "unmarked";
    } else if (!read_integers(open_member(group, "shape", source.name), source, "shape", options, extents)) {
        malformed(source, "sparse", "in 'data', 'indices' and 'indptr', and says no shape of two extents");
    }
    const Shape shape = checked_shape(source, "sparse", extents);
    const bool of_rows = length_of(part_of(source, group, "indptr", "sparse", options)) - 1 != shape.cols;
    return compressed(source, group, of_rows ? "CSR" : "CSC", by, shape, options);
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
    for (const char* part : {"bin1_id", "bin2_id", "count"}) {
        if (!has_member(group, part, source.name)) return {};
    }
    const Source values = part_of(source, group, "count", "COO", options);
    const std::int64_t bins = bins_beside(source, group);
    if (bins < 0)
        malformed(source, "COO", "(cooler), and the group that it is in says no number of bins 'nbins'");
    return unread(source, "COO", "cooler", {bins, bins}, values, length_of(values));
}

/// Its attribute is JSON: the format, the shape, and how many values there are.
std::optional<Found> binsparse(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_attribute(group, "binsparse", source.name)) return {};
    const std::string text = text_attribute(group, "binsparse", source.name);
    auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_object() && json.contains("binsparse")) json = json["binsparse"];
    const bool whole = json.is_object() && json.contains("format") && json["format"].is_string() &&
                       json.contains("shape") && json["shape"].is_array();
    if (!whole)
        throw Error(ErrorCode::input,
                    source.name + ": its attribute 'binsparse' is no JSON with a format and a shape");
    const auto kind = json["format"].get<std::string>();
    const auto& extents = json["shape"];
    if (extents.size() != 2) return "is a binsparse vector (" + kind + "), expected a matrix";
    if (!extents[0].is_number_integer() || !extents[1].is_number_integer())
        malformed(source, kind, "(binsparse) whose shape is not of integers");
    const std::array shape = {extents[0].get<std::int64_t>(), extents[1].get<std::int64_t>()};
    const Source values = part_of(source, group, "values", kind, options);
    const auto count = json.find("number_of_stored_values");
    const bool counted = count != json.end() && count->is_number_integer();
    return unread(source, kind, "binsparse", checked_shape(source, kind, shape), values,
                  counted ? count->get<std::int64_t>() : length_of(values));
}

}  // namespace

std::optional<Found> describe_sparse_layout(const Source& source, hid_t group, const ReadOptions& options) {
    for (const auto describe : {binsparse, marked, cooler, unmarked}) {
        if (auto found = describe(source, group, options)) return found;
    }
    return {};
}

}  // namespace gpumat::formats::hdf5
