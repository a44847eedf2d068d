#include "formats/hdf5/read/sparse_layouts.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/text/printable.hpp"
#include "formats/hdf5/read/dense_reader.hpp"
#include "formats/hdf5/read/locate.hpp"

namespace gpumat::formats::hdf5 {
namespace {

/// How a group stores a sparse matrix.
struct GroupLayout {
    std::string kind;              ///< "CSR", "CSC", "COO"
    std::string_view by;           ///< who stores matrices so, " (AnnData)", where that is known
    const char* lines = "indptr";  ///< the members that are the parts of `Sparse`
    const char* indices = "indices";
    const char* values = "data";
    bool symmetric = false;
    bool one_value = false;
    bool pairs = false;
    SparseLayout kept_as = SparseLayout::anndata;
};

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

/// The same of integers.
std::shared_ptr<const Source> integers_of(const Source& source, hid_t group, const char* name,
                                          const GroupLayout& layout, const ReadOptions& options) {
    Source part = part_of(source, group, name, layout.kind, options);
    if (!is_integer(part.element.type))
        malformed(source, layout.kind,
                  std::string("whose '") + name + "' holds " + part.element.name + ", expected integers");
    return std::make_shared<const Source>(std::move(part));
}

std::int64_t extent_of(const Shape& shape, bool columns) {
    return columns ? shape.cols : shape.rows;
}

/// The matrix without its parts.
Source described(const Source& source, const GroupLayout& layout, const Shape& shape, const Element& element,
                 std::int64_t entries) {
    if (shape.rows < 0 || shape.cols < 0) malformed(source, layout.kind, "of " + to_string(shape));
    Source matrix;
    matrix.name = source.name;
    matrix.path = source.path;
    matrix.dataset = source.dataset;
    matrix.slice = source.slice;
    matrix.stored = shape;
    matrix.element = without_memory_type(element);
    matrix.entries = entries;
    matrix.storage = layout.kind + (layout.symmetric ? ", one triangle of a symmetric matrix" : "") +
                     std::string(layout.by) + ", " + std::to_string(entries) + " entries";
    return matrix;
}

/// One that is not read, because of what `but` says.
Source unread(const Source& source, const GroupLayout& layout, const Shape& shape, const Source& values,
              std::int64_t entries, const std::string& but) {
    Source matrix = described(source, layout, shape, values.element, entries);
    matrix.where = Unread{"a " + layout.kind + " matrix of " + shape_words(shape) + ", " +
                          std::to_string(entries) + " entries" + but};
    return matrix;
}

/// Finds the parts, and checks that their sizes agree. Where the shape says no columns, the parts do. Where
/// `element` is given there may be no entries, and no parts for them.
Source with_parts(const Source& source, hid_t group, const GroupLayout& layout, Shape shape,
                  const ReadOptions& options, const Element* element = nullptr) {
    Sparse sparse{.group = {},
                  .compressed = layout.kind != "COO",
                  .by_columns = layout.kind == "CSC",
                  .symmetric = layout.symmetric,
                  .one_value = layout.one_value,
                  .pairs = layout.pairs,
                  .kept_as = layout.kept_as,
                  .lines = integers_of(source, group, layout.lines, layout, options),
                  .indices = {},
                  .values = {}};
    const std::int64_t lines = length_of(*sparse.lines);
    if (sparse.by_columns && shape.cols < 0) shape.cols = lines - 1;
    if (sparse.compressed && lines - 1 != extent_of(shape, sparse.by_columns))
        malformed(source, layout.kind,
                  "of " + to_string(shape) + " whose '" + layout.lines + "' has " + std::to_string(lines) +
                      " numbers, expected " + std::to_string(extent_of(shape, sparse.by_columns)) + " + 1");
    std::int64_t entries = 0;
    if (element == nullptr || has_member(group, layout.values, source.name)) {
        sparse.indices = integers_of(source, group, layout.indices, layout, options);
        sparse.values =
            std::make_shared<const Source>(part_of(source, group, layout.values, layout.kind, options));
        entries = length_of(*sparse.indices);
        const std::int64_t values = length_of(*sparse.values);
        const std::int64_t expected = sparse.one_value ? 1 : entries;
        if (sparse.pairs ? values % 2 != 0 || values / 2 != expected : values != expected)
            malformed(source, layout.kind,
                      std::string("whose '") + layout.indices + "' and '" + layout.values +
                          "' do not agree: they have " + std::to_string(entries) + " and " +
                          std::to_string(values) + " numbers");
        if (!sparse.compressed && lines != entries)
            malformed(source, layout.kind,
                      std::string("whose '") + layout.lines + "' and '" + layout.indices +
                          "' do not agree: they have " + std::to_string(lines) + " and " +
                          std::to_string(entries) + " numbers");
        element = &sparse.values->element;
    }
    if (sparse.symmetric && shape.rows != shape.cols)
        malformed(source, layout.kind, "of " + to_string(shape) + " that is to be symmetric");
    Source matrix = described(source, layout, shape, *element, entries);
    if (sparse.pairs) {
        if (element->type != Type::f32 && element->type != Type::f64)
            malformed(source, layout.kind,
                      std::string("of complex numbers whose '") + layout.values + "' holds " + element->name);
        matrix.element = element_for(element->type == Type::f32 ? Type::c64 : Type::c128);
    }
    matrix.where = std::move(sparse);
    return matrix;
}

std::optional<Found> matlab(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_attribute(group, "MATLAB_sparse", source.name)) return {};
    const std::int64_t rows = number_attribute(group, "MATLAB_sparse", -1, source.name);
    const Element element =
        element_for(matlab_type(text_attribute(group, "MATLAB_class", source.name)).value_or(Type::f64));
    const GroupLayout layout{
        .kind = "CSC", .by = " (MATLAB)", .lines = "jc", .indices = "ir", .kept_as = SparseLayout::matlab};
    return with_parts(source, group, layout, {rows, -1}, options, &element);
}

/// A shape that is stated, and what else the way in which it is stated tells.
struct Stated {
    Shape shape;
    std::string_view by;
    bool by_columns = false;
};

Stated stated_shape(const Source& source, hid_t group, const std::string& kind, const ReadOptions& options) {
    std::array<std::int64_t, 2> extents{};
    constexpr std::array kAttributes = {"shape", "h5sparse_shape", "dims"};
    const auto* const attribute = std::ranges::find_if(
        kAttributes, [&](const char* name) { return has_attribute(group, name, source.name); });
    if (attribute != kAttributes.end()) {
        number_attributes(group, *attribute, extents, source.name);
        const bool seurat = attribute == kAttributes.end() - 1;
        return {{extents[0], extents[1]}, seurat ? " (Seurat)" : "", seurat};
    }
    if (!has_member(group, "shape", source.name)) {
        if (!options.shape) malformed(source, kind, "that says no shape of two extents (--shape says it)");
        return {*options.shape, "", false};
    }
    if (!read_integers(open_member(group, "shape", source.name, options), source, "shape", options, extents))
        malformed(source, kind, "that says no shape of two extents");
    const bool tenx = has_member(group, "barcodes", source.name);
    return {{extents[0], extents[1]}, tenx ? " (10x)" : "", tenx};
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
/// AnnData says which it is. Else the lengths tell; of a square matrix, whose program is known, that.
std::optional<Found> compressed(const Source& source, hid_t group, const ReadOptions& options) {
    GroupLayout layout{.kind = marked_kind(source, group), .by = {}};
    layout.by = layout.kind.empty() ? "" : " (AnnData)";
    if (layout.kind.empty() && !has_members(source, group, {"data", "indices", "indptr"})) return {};
    const Stated stated = stated_shape(source, group, layout.kind.empty() ? "sparse" : layout.kind, options);
    if (!layout.kind.empty()) return with_parts(source, group, layout, stated.shape, options);
    layout.by = stated.by;
    const std::int64_t lines = length_of(part_of(source, group, "indptr", "sparse", options)) - 1;
    const bool of_rows = lines == stated.shape.rows;
    const bool of_cols = lines == stated.shape.cols;
    if (!of_rows && !of_cols)
        malformed(source, "sparse",
                  "of " + to_string(stated.shape) + " whose 'indptr' has " + std::to_string(lines + 1) +
                      " numbers, expected " + std::to_string(stated.shape.rows) + " + 1 or " +
                      std::to_string(stated.shape.cols) + " + 1");
    layout.kind = of_cols && (!of_rows || stated.by_columns) ? "CSC" : of_cols ? "CSR or CSC" : "CSR";
    if (!of_rows || !of_cols || stated.by_columns)
        return with_parts(source, group, layout, stated.shape, options);
    const Source values = part_of(source, group, "data", layout.kind, options);
    return unread(source, layout, stated.shape, values, length_of(values), "");
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
    const GroupLayout layout{.kind = "COO", .by = "", .lines = "row", .indices = "col"};
    return with_parts(source, group, layout, stated_shape(source, group, "COO", options).shape, options);
}

/// How many bins the genome has, of which the pixels are pairs, and whether all pairs are stored: the group
/// beside the pixels says it.
std::optional<Found> cooler(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_members(source, group, {"bin1_id", "bin2_id", "count"})) return {};
    std::string place = text_of([&](char* to, std::size_t size) { return H5Iget_name(group, to, size); });
    place.erase(std::min(place.rfind('/'), place.size()));
    const Handle parent =
        take(H5Oopen(group, place.empty() ? "/" : place.c_str(), H5P_DEFAULT), ErrorCode::input, source.name);
    const std::int64_t stated = options.shape ? options.shape->rows : -1;
    const std::int64_t bins = number_attribute(parent.id(), "nbins", stated, source.name);
    if (bins < 0)
        malformed(source, "COO",
                  "(cooler), and the group that it is in says no number of bins 'nbins' (--shape says it)");
    GroupLayout layout{
        .kind = "COO", .by = " (cooler)", .lines = "bin1_id", .indices = "bin2_id", .values = "count"};
    layout.symmetric = text_attribute(parent.id(), "storage-mode", source.name) != "square";
    return with_parts(source, group, layout, {bins, bins}, options);
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

std::string text_in(const nlohmann::json& json) {
    return json.is_string() ? json.get<std::string>() : "";
}

/// Whether 'fill_value', which all has that is not stored, is a zero: one number, or the two parts of one.
bool fills_with_zero(const Source& source, hid_t group, const ReadOptions& options) {
    const Found found = describe_part(group, "fill_value", source, options);
    const auto* value = std::get_if<Source>(&found);
    std::array<std::complex<double>, 2> parts{};
    if (value == nullptr || length_of(*value) < 1 || length_of(*value) > std::ssize(parts)) return false;
    try {
        DenseReader reader(*value, options, Type::c128);
        require_memory(reader.open_bytes() + reader.working_bytes(), options.memory_limit, value->name);
        reader.read(Block::whole(value->stored), {Type::c128, value->stored, value->stored.cols,
                                                  reinterpret_cast<std::byte*>(parts.data())});
    } catch (const Error&) {
        return false;
    }
    return parts == std::array<std::complex<double>, 2>{};
}

/// Its attribute is JSON: the format, the shape, and how many values there are.
std::optional<Found> binsparse(const Source& source, hid_t group, const ReadOptions& options) {
    if (!has_attribute(group, "binsparse", source.name)) return {};
    auto json = nlohmann::json::parse(text_attribute(group, "binsparse", source.name), nullptr, false);
    if (json.contains("binsparse")) json = member_of(json, "binsparse");
    GroupLayout layout{.kind = format_in(member_of(json, "format")),
                       .by = " (binsparse)",
                       .lines = "pointers_to_1",
                       .indices = "indices_1",
                       .values = "values",
                       .kept_as = SparseLayout::binsparse};
    std::vector<std::int64_t> extents;
    for (const nlohmann::json& extent : member_of(json, "shape")) extents.push_back(count_in(extent));
    if (layout.kind.empty() || extents.empty() || extents.size() > 2 || std::ranges::min(extents) < 0) {
        throw Error(ErrorCode::input,
                    source.name +
                        ": its attribute 'binsparse' is damaged: expected JSON with a format "
                        "such as CSR, and a shape of one or two extents");
    }
    if (extents.size() == 1) return "is a binsparse vector (" + layout.kind + "), expected a matrix";
    const Shape shape{extents[0], extents[1]};
    const nlohmann::json count = member_of(json, "number_of_stored_values");
    if (!count.is_null() && count_in(count) < 0)
        malformed(source, layout.kind, "(binsparse) whose 'number_of_stored_values' is damaged");
    if (layout.kind == "COO" || layout.kind == "COOR" || layout.kind == "COOC") {
        layout.lines = "indices_0";
        if (layout.kind == "COOC") std::swap(layout.lines, layout.indices);  // by columns
        layout.kind = "COO";
    }
    const std::string structure = text_in(member_of(json, "structure"));
    layout.symmetric = structure.starts_with("symmetric");
    const bool known = layout.kind == "CSR" || layout.kind == "CSC" || layout.kind == "COO";
    std::string but;
    if (!layout.symmetric && !structure.empty() && structure != "general")
        but = ", of the structure '" + printable(structure) + "'";
    if (member_of(json, "fill") == true && !fills_with_zero(source, group, options))
        but = ", whose 'fill_value', which all that is not stored has, is no zero";
    if (!known || !but.empty()) {
        const Source values = part_of(source, group, "values", layout.kind, options);
        return unread(source, layout, shape, values, count.is_null() ? length_of(values) : count_in(count),
                      but);
    }
    std::string type = text_in(member_of(member_of(json, "data_types"), "values"));
    layout.one_value = type.starts_with("iso[");
    if (layout.one_value) type.erase(0, 4);
    layout.pairs = type.starts_with("complex[");
    Source matrix = with_parts(source, group, layout, shape, options);
    if (!count.is_null() && count_in(count) != matrix.entries)
        malformed(source, layout.kind,
                  "(binsparse) whose 'number_of_stored_values' is " + std::to_string(count_in(count)) +
                      ", and there are " + std::to_string(matrix.entries));
    return matrix;
}

}  // namespace

bool is_of_sparse_layout(const std::string& attribute) {
    constexpr std::array kAttributes = {"encoding-type",   "encoding-version", "shape",    "dims",
                                        "h5sparse_format", "h5sparse_shape",   "binsparse"};
    return std::ranges::find(kAttributes, attribute) != kAttributes.end();
}

std::optional<Found> describe_sparse_layout(const Source& source, hid_t group, const ReadOptions& options) {
    for (const auto describe : {matlab, binsparse, cooler, compressed, coordinates}) {
        if (auto found = describe(source, group, options)) return found;
    }
    return {};
}

/// Octave stores the numbers of rows, columns and entries beside the parts.
Found describe_octave_sparse(const Source& source, hid_t group, const ReadOptions& options) {
    const auto number = [&](const char* member) {
        std::int64_t value = 0;
        Handle dataset = open_member(group, member, source.name, options);
        return read_integers(std::move(dataset), source, member, options, {&value, 1}) ? std::optional(value)
                                                                                       : std::nullopt;
    };
    const auto rows = number("nr");
    if (!rows) malformed(source, "sparse (Octave)", "without its number of rows 'nr'");
    const Element element = element_for(Type::f64);
    const GroupLayout layout{.kind = "CSC", .by = " (Octave)", .lines = "cidx", .indices = "ridx"};
    Source matrix = with_parts(source, group, layout, {*rows, -1}, options, &element);
    for (const auto& [member, count] : {std::pair{"nc", matrix.stored.cols}, {"nz", matrix.entries}}) {
        if (number(member) == count) continue;
        malformed(
            source, "sparse (Octave)",
            std::string("whose '") + member + "' is not " + std::to_string(count) + ", which its parts have");
    }
    return matrix;
}

}  // namespace gpumat::formats::hdf5
