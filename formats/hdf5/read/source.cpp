#include "formats/hdf5/read/source.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string_view>

#include "core/memory.hpp"
#include "formats/hdf5/file/lzf.hpp"
#include "formats/hdf5/read/dense_reader.hpp"
#include "formats/hdf5/read/external.hpp"
#include "formats/hdf5/read/locate.hpp"
#include "formats/hdf5/read/sparse_layouts.hpp"

namespace gpumat::formats::hdf5 {
namespace {

// Who wrote a matrix, for messages.
constexpr std::string_view kMatlab = " (MATLAB)";
constexpr std::string_view kOctave = " (Octave)";
constexpr std::string_view kJulia = " (Julia)";

std::string filter_name(H5Z_filter_t id, const std::string& stored, const std::vector<unsigned>& values) {
    struct Row {
        H5Z_filter_t id;
        const char* name;
    };
    constexpr std::array kKnown = {Row{H5Z_FILTER_SHUFFLE, "shuffle"},
                                   Row{H5Z_FILTER_FLETCHER32, "fletcher32"},
                                   Row{H5Z_FILTER_SZIP, "szip"},
                                   Row{H5Z_FILTER_NBIT, "nbit"},
                                   Row{H5Z_FILTER_SCALEOFFSET, "scaleoffset"},
                                   Row{kLzfFilter, "lzf"}};
    if (id == H5Z_FILTER_DEFLATE) return values.empty() ? "deflate" : "deflate " + std::to_string(values[0]);
    const auto* const known = std::ranges::find(kKnown, id, &Row::id);
    if (known != kKnown.end()) return known->name;
    return "filter " + std::to_string(id) + (stored.empty() ? "" : " (" + stored + ")");
}

std::string layout_words(const Dense& dense) {
    std::string text;
    switch (dense.layout) {
        case H5D_COMPACT:
            return "compact";
        case H5D_CONTIGUOUS:
            return H5Pget_external_count(dense.creation.id()) > 0 ? "in external files" : "contiguous";
        case H5D_VIRTUAL:
            return "virtual";
        default:
            text =
                "chunked " + (dense.edges.size() > 2 ? extents_words(dense.edges) : to_string(dense.chunk));
    }
    for (const Filter& filter : dense.filters) text += ", " + filter.name;
    return text;
}

/// The extents of a dataset; nothing where it has no dataspace or one of no elements by definition.
std::optional<Extents> extents_of(hid_t dataset) {
    const Handle space(H5Dget_space(dataset));
    if (!space.valid() || H5Sget_simple_extent_type(space.id()) == H5S_NULL) return {};
    const int rank = H5Sget_simple_extent_ndims(space.id());
    if (rank < 0) return {};
    std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
    if (H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr) < 0) return {};
    return Extents(dims.begin(), dims.end());
}

/// Of a dataset of one dimension whose elements are arrays of one: how many elements these have. Else 0.
std::int64_t width_of_arrays(hid_t dataset, hid_t type) {
    if (H5Tget_class(type) != H5T_ARRAY || H5Tget_array_ndims(type) != 1) return 0;
    const Handle creation(H5Dget_create_plist(dataset));
    if (H5Pget_layout(creation.id()) == H5D_VIRTUAL)
        return 0;  // HDF5 may open its pieces to tell its extents
    const Handle space(H5Dget_space(dataset));
    hsize_t width = 0;
    if (H5Sget_simple_extent_ndims(space.id()) != 1 || H5Tget_array_dims2(type, &width) < 0) return 0;
    return static_cast<std::int64_t>(width);
}

/// Fills in how the dataset is laid out. False where that cannot be found out.
bool describe_layout(Dense& dense) {
    dense.layout = H5Pget_layout(dense.creation.id());
    dense.filters = filters_of(dense.creation.id());
    if (dense.layout != H5D_CHUNKED) return dense.layout >= 0;
    unsigned filtering = 0;
    if (H5Pget_chunk_opts(dense.creation.id(), &filtering) < 0) return false;
    dense.plain_edges = (filtering & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
    std::array<hsize_t, H5S_MAX_RANK> edges{};
    const int rank = H5Pget_chunk(dense.creation.id(), H5S_MAX_RANK, edges.data());
    if (rank != static_cast<int>(dense.window.extents.size())) return false;
    dense.edges.assign(edges.begin(), edges.begin() + rank);
    const auto edge = [&](int dimension) {
        return dimension < 0 ? 1 : static_cast<std::int64_t>(edges[static_cast<std::size_t>(dimension)]);
    };
    dense.chunk = {edge(dense.window.row), edge(dense.window.col)};
    return std::ranges::find(dense.edges, 0U) == dense.edges.end();
}

/// Whether chunks with these edges are smaller than the 4 GiB that HDF5 allows. It checks that itself, but on
/// what is left of the product in 64 bits.
bool chunks_fit(const Extents& edges, std::size_t element_bytes) {
    std::uint64_t bytes = element_bytes;
    for (const std::uint64_t edge : edges)
        if (__builtin_mul_overflow(bytes, edge, &bytes)) return false;
    return bytes >> 32 == 0;
}

[[noreturn]] void malformed(const Source& source, const std::string& why) {
    throw Error(ErrorCode::input, source.name + ": " + why);
}

/// rows × columns, or the largest number where that is more.
std::int64_t elements_of(const Shape& shape) {
    std::int64_t count = 0;
    const bool passes = __builtin_mul_overflow(shape.rows, shape.cols, &count);
    return passes ? std::numeric_limits<std::int64_t>::max() : count;
}

/// In single quotes, for a shell: "'FILE:/A[0,:,:]'", or "'FILE:/A[:,:,0]'" of a dataset whose dimensions are
/// shown reversed.
std::string slice_hint(const Source& source, std::size_t rank, bool reversed) {
    std::string rest;
    for (std::size_t i = 2; i < rank; ++i) rest += "0,";
    std::string indices = rest + ":,:";
    if (reversed) std::ranges::reverse(indices);
    return "'" + source.name + "[" + indices + "]'";
}

/// Why what is taken of a dataset of these extents is no matrix: `taken`, in as many dimensions.
NoMatrix no_matrix(const Source& source, const Extents& extents, const Extents& taken, bool reversed) {
    if (source.slice) {
        return "gives " + std::to_string(taken.size()) + " dimensions" +
               (taken.empty() ? "" : " (" + extents_words(taken) + ")") + " of " + extents_words(extents) +
               ", expected 2 (" +
               (taken.size() > 2 ? "an index such as 0 drops one" : "a range such as 0:1 keeps one") + ")";
    }
    return "is a dataset of " + std::to_string(extents.size()) + " dimensions" +
           (extents.empty() ? "" : " (" + extents_words(extents) + ")") + ", expected 2" +
           (extents.size() == 1 ? " (--as-column takes it as a matrix of one column)"
            : extents.size() > 2
                ? " (a slice of it is named as " + slice_hint(source, extents.size(), reversed) + ")"
                : "");
}

/// Finds which rectangle of a dataset of these extents the matrix is: the slice, or all of it. What indices
/// are not, and of more than two dimensions those of one place, are its rows and columns. Says why it is
/// none.
std::optional<NoMatrix> place_matrix(Source& source, Dense& dense, const Extents& extents,
                                     const ReadOptions& options, bool reverses, bool scalar_is_matrix) {
    const bool reversed = extents.size() > 1 && reverses;
    Extents shown = extents;
    if (reversed) std::ranges::reverse(shown);
    auto ranges = source.slice ? slice_ranges(*source.slice, shown, source.name)
                               : slice_ranges(std::vector<SliceIndex>(shown.size()), shown, source.name);
    std::vector<int> kept;
    Extents taken;
    const auto keep = [&](const auto& wanted) {
        kept.clear();
        taken.clear();
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            if (!wanted(ranges[i])) continue;
            kept.push_back(static_cast<int>(reversed ? ranges.size() - 1 - i : i));
            taken.push_back(ranges[i].count);
        }
    };
    keep([](const SliceRange& range) { return !range.one; });
    if (kept.size() > 2 && taken.size() - static_cast<std::size_t>(std::ranges::count(taken, 1U)) == 2)
        keep([](const SliceRange& range) { return !range.one && range.count != 1; });
    const bool column = kept.size() == 1 && options.as_column;
    if (kept.size() != 2 && !column && !(extents.empty() && scalar_is_matrix))
        return no_matrix(source, shown, taken, reversed);
    if (reversed) {
        std::ranges::reverse(kept);
        std::ranges::reverse(taken);
        std::ranges::reverse(ranges);
    }
    const auto count = [&](std::size_t i) {
        if (i >= taken.size()) return std::int64_t{1};
        if (taken[i] > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            malformed(source,
                      "has an extent of " + std::to_string(taken[i]) + ", which is beyond any matrix");
        return static_cast<std::int64_t>(taken[i]);
    };
    dense.window.extents = extents;
    for (const SliceRange& range : ranges) dense.window.origin.push_back(range.begin);
    if (!kept.empty()) dense.window.row = kept[0];
    if (kept.size() > 1) dense.window.col = kept[1];
    source.stored = {count(0), count(1)};
    source.reversed = reversed && kept.size() == 2;
    return {};
}

/// The matrix in a dataset of numbers; `source` already says what its surroundings tell.
Found describe_numbers(Source source, Handle dataset, const ReadOptions& options, bool convention_reverses,
                       std::string_view convention) {
    Dense dense;
    dense.dataset = std::move(dataset);
    Handle type(H5Dget_type(dense.dataset.id()));
    if (!type.valid()) fail(ErrorCode::input, source.name + ": is of a type that cannot be read");
    const std::int64_t width = width_of_arrays(dense.dataset.id(), type.id());
    dense.of_arrays = width > 0;
    if (dense.of_arrays) type = Handle(H5Tget_super(type.id()));
    auto element = element_of(type.id());
    const bool readable = element.has_value();
    if (!readable && dense.of_arrays) return std::string("holds arrays, expected numbers");
    if (!readable) element = unread_element_of(type.id());
    if (!element) return "holds " + words_for(type.id()) + ", expected numbers";
    source.element = std::move(*element);
    dense.creation = take(H5Dget_create_plist(dense.dataset.id()), ErrorCode::input,
                          source.name + ": has a layout that cannot be read");
    require_fixed_size(dense.creation.id(), source.name);
    require_room_for_mappings(dense.creation.id(), options, source.name);
    const auto dims = extents_of(dense.dataset.id());
    if (!readable && (!dims || dims->size() != 2))
        return "holds " + source.element.name + ", expected numbers";
    if (!dims) return std::string("holds nothing (a null dataspace), expected a matrix");
    const bool reverses =
        options.layout == Layout::matlab || (options.layout == Layout::by_content && convention_reverses);
    if (dense.of_arrays && source.slice)
        malformed(source, "the elements are arrays, each a row, and no slice of it can be read");
    ReadOptions placing = options;
    placing.as_column |= dense.of_arrays;  // each element is a row
    if (auto none = place_matrix(source, dense, *dims, placing, reverses, convention == kOctave))
        return *std::move(none);
    if (dense.of_arrays) source.stored.cols = width;
    if (!describe_layout(dense)) fail(ErrorCode::input, source.name + ": has a layout that cannot be read");
    if (dense.of_arrays) dense.chunk.cols = width;
    Extents whole_edges = dense.edges;
    if (dense.of_arrays) whole_edges.push_back(static_cast<std::uint64_t>(width));
    if (dense.layout == H5D_CHUNKED && !chunks_fit(whole_edges, H5Tget_size(type.id())))
        malformed(source,
                  "has chunks of " + extents_words(whole_edges) + " elements, expected less than 4 GiB each");
    if (readable) source.packed_by = packing_words(dense.dataset.id(), source.element, source.name);
    if (options.unpack && !source.packed_by.empty())
        source.packing = packing_of(dense.dataset.id(), source.element, source.name);
    source.storage =
        layout_words(dense) +
        (source.element.name == name_of(source.element.type) ? "" : ", " + source.element.name) +
        (dense.of_arrays ? ", arrays as rows" : "") +
        (source.packed_by.empty() ? ""
                                  : (source.packing ? ", unpacked by " : ", packed by ") + source.packed_by) +
        (source.slice ? ", a slice of " + extents_words(*dims) : "") +
        (source.reversed ? ", dimensions reversed" + std::string(convention) : "");
    source.entries = elements_of(source.stored);
    if (readable) {
        source.where = std::move(dense);
    } else {
        source.where = Unread{"a matrix of " + shape_words(source.shape()) + ", each " + source.element.name};
    }
    return source;
}

/// Throws Error{input} where HDF5 would open other files to tell the extents of the dataset.
void require_known_extents(hid_t dataset, const std::string& what) {
    const Handle creation = take(H5Dget_create_plist(dataset), ErrorCode::input, what);
    require_fixed_size(creation.id(), what);
}

}  // namespace

Handle open_member(hid_t group, const char* name, const std::string& what, const ReadOptions& options) {
    if (!has_member(group, name, what)) return {};
    Handle member = resolve(group, name, what + ": its member '" + name + "'", options);
    if (H5Iget_type(member.id()) == H5I_DATASET) require_known_extents(member.id(), what);
    return member;
}

namespace {

/// See describe_part.
Found describe_vector(Handle dataset, const Source& matrix, const char* name, const ReadOptions& options) {
    if (!dataset.valid() || H5Iget_type(dataset.id()) != H5I_DATASET) return std::string("is no dataset");
    Source part;
    part.name = matrix.name + "/" + name;
    part.path = matrix.path;
    ReadOptions as_column = options;
    as_column.as_column = true;
    as_column.layout = Layout::row;
    as_column.unpack = false;
    Found found = describe_numbers(std::move(part), std::move(dataset), as_column, false, kOctave);
    const auto* vector = std::get_if<Source>(&found);
    if (vector == nullptr) return found;
    if (std::holds_alternative<Unread>(vector->where))
        return "holds " + vector->element.name + ", expected numbers";
    if (vector->stored.rows != 1 && vector->stored.cols != 1)
        return std::string("has two extents other than 1");
    return found;
}

}  // namespace

Found describe_part(hid_t group, const char* name, const Source& matrix, const ReadOptions& options) {
    return describe_vector(open_member(group, name, matrix.name, options), matrix, name, options);
}

std::string shape_words(const Shape& shape) {
    return std::to_string(shape.rows) + " × " + std::to_string(shape.cols);
}

std::int64_t length_of(const Source& vector) {
    return vector.stored.rows == 1 ? vector.stored.cols : vector.stored.rows;
}

bool read_integers(Handle dataset, const Source& matrix, const char* name, const ReadOptions& options,
                   std::span<std::int64_t> to) {
    Found found = describe_vector(std::move(dataset), matrix, name, options);
    const auto* vector = std::get_if<Source>(&found);
    if (vector == nullptr || length_of(*vector) != std::ssize(to) || !is_integer(vector->element.type))
        return false;
    try {
        DenseReader reader(*vector, options, Type::i64);
        require_memory(reader.open_bytes() + reader.working_bytes(), options.memory_limit, vector->name);
        reader.read(Block::whole(vector->stored), {Type::i64, vector->stored, vector->stored.cols,
                                                   reinterpret_cast<std::byte*>(to.data())});
    } catch (const Error&) {
        return false;
    }
    return true;
}

Element without_memory_type(const Element& element) {
    Element shown;
    shown.type = element.type;
    shown.exact = element.exact;
    shown.name = element.name;
    return shown;
}

std::optional<Type> matlab_type(const std::string& name) {
    struct Row {
        const char* name;
        Type type;
    };
    constexpr std::array kRows = {
        Row{"double", Type::f64}, Row{"single", Type::f32}, Row{"int8", Type::i8},   Row{"int16", Type::i16},
        Row{"int32", Type::i32},  Row{"int64", Type::i64},  Row{"uint8", Type::u8},  Row{"uint16", Type::u16},
        Row{"uint32", Type::u32}, Row{"uint64", Type::u64}, Row{"logical", Type::u8}};
    for (const Row& row : kRows) {
        if (name == row.name) return row.type;
    }
    return {};
}

Element element_for(Type type) {
    const Handle stored = hdf5_type_of(type);
    return std::move(*element_of(stored.id()));
}

namespace {

/// The shape that MATLAB and Octave store as the only content of an empty matrix.
std::optional<Shape> stored_shape(Handle dataset, const Source& matrix, const ReadOptions& options) {
    const auto dims = extents_of(dataset.id());
    if (!dims || dims->size() != 1) return {};
    std::array<std::int64_t, 2> extents{};
    if (!read_integers(std::move(dataset), matrix, "shape", options, extents)) return {};
    const Shape shape{extents[0], extents[1]};
    return shape.rows >= 0 && shape.cols >= 0 && (shape.rows == 0 || shape.cols == 0) ? std::optional(shape)
                                                                                      : std::nullopt;
}

Found empty_matrix(Source source, Handle dataset, Type type, std::string_view convention,
                   const ReadOptions& options) {
    const auto shape = stored_shape(std::move(dataset), source, options);
    if (!shape)
        malformed(source, "is marked as an empty" + std::string(convention) +
                              " matrix, and holds no shape of two extents");
    source.stored = *shape;
    source.element = element_for(type);
    source.storage = "empty" + std::string(convention);
    source.where = Empty{};
    return source;
}

Found describe_octave(Source source, hid_t group, const ReadOptions& options) {
    const std::string type = text_dataset(group, "type", source.name + ": its type", options);
    const auto is = [&](const char* word) { return type.find(word) != std::string::npos; };
    Handle value = open_member(group, "value", source.name, options);
    if (!value.valid()) return "is an Octave value (" + type + ") without its content";
    const bool sparse = is("sparse");
    const bool empty = has_attribute(group, "OCTAVE_EMPTY_MATRIX", source.name);
    if (sparse && !empty && H5Iget_type(value.id()) == H5I_GROUP) {
        return describe_octave_sparse(source, value.id(), options);
    }
    const bool matrix = (type.ends_with("matrix") || type.ends_with("scalar") || type == "bool") &&
                        !is("diagonal") && !is("permutation");
    if (!matrix || (sparse && !empty) || H5Iget_type(value.id()) != H5I_DATASET) {
        const bool of_values = type.ends_with("struct") || type == "cell";
        return NoMatrix("is an Octave value (" + type + "), expected a matrix", of_values);
    }
    if (empty) {
        const Type empty_type = is("float") ? Type::f32 : is("bool") ? Type::u8 : Type::f64;
        const auto word = type.substr(0, type.find(' '));
        return empty_matrix(
            std::move(source), std::move(value),
            is("complex") ? (is("float") ? Type::c64 : Type::c128) : matlab_type(word).value_or(empty_type),
            kOctave, options);
    }
    return describe_numbers(std::move(source), std::move(value), options, true, kOctave);
}

Found describe_group(Source source, hid_t group, const ReadOptions& options) {
    if (has_attribute(group, "OCTAVE_NEW_FORMAT", source.name))
        return describe_octave(std::move(source), group, options);
    if (auto found = describe_sparse_layout(source, group, options)) return std::move(*found);
    const std::string matlab = text_attribute(group, "MATLAB_class", source.name);
    if (!matlab.empty()) return NoMatrix("is a MATLAB " + matlab + ", expected a matrix of numbers", true);
    return NoMatrix("is a group, expected a dataset of two dimensions", true);
}

}  // namespace

std::int64_t elements_in_chunk(const Dense& dense) {
    return elements_in(dense.edges) * (dense.of_arrays ? dense.chunk.cols : 1);
}

std::vector<Filter> filters_of(hid_t creation) {
    std::vector<Filter> filters;
    const int count = H5Pget_nfilters(creation);
    for (int i = 0; i < count; ++i) {
        std::vector<unsigned> values(32);
        std::size_t value_count = values.size();
        std::array<char, 64> name{};
        unsigned flags = 0;
        unsigned config = 0;
        const auto get = [&] {
            return H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &value_count, values.data(),
                                  name.size() - 1, name.data(), &config);
        };
        H5Z_filter_t id = get();
        if (value_count > values.size()) {
            values.resize(value_count);
            id = get();
        }
        values.resize(std::min(value_count, values.size()));
        filters.push_back({id, filter_name(id, name.data(), values), values});
    }
    return filters;
}

namespace {

Found describe_all(Source source, Handle object, const ReadOptions& options, bool julia) {
    const H5I_type_t kind = H5Iget_type(object.id());
    if (kind == H5I_GROUP) {
        Found found = describe_group(std::move(source), object.id(), options);
        auto* const matrix = std::get_if<Source>(&found);
        auto* const sparse = matrix == nullptr ? nullptr : std::get_if<Sparse>(&matrix->where);
        if (sparse != nullptr) sparse->group = std::move(object);
        return found;
    }
    if (kind != H5I_DATASET) return std::string("is a stored type, expected a dataset of two dimensions");
    if (!has_attribute(object.id(), "MATLAB_class", source.name)) {
        return describe_numbers(std::move(source), std::move(object), options, julia,
                                julia ? kJulia : std::string_view{});
    }
    const std::string matlab = text_attribute(object.id(), "MATLAB_class", source.name);
    const auto type = matlab_type(matlab);
    if (!type) return "is a MATLAB " + matlab + ", expected a matrix of numbers";
    if (number_attribute(object.id(), "MATLAB_empty", 0, source.name) != 0) {
        require_known_extents(object.id(), source.name);
        return empty_matrix(std::move(source), std::move(object), *type, kMatlab, options);
    }
    return describe_numbers(std::move(source), std::move(object), options, true, kMatlab);
}

}  // namespace

Found describe(Handle object, const std::string& path, const std::string& dataset, const ReadOptions& options,
               bool julia, std::optional<std::vector<SliceIndex>> slice) {
    Source source;
    source.dataset = dataset;
    source.name = path + ":" + dataset;
    source.path = path;
    source.slice = std::move(slice);
    Found found = describe_all(std::move(source), std::move(object), options, julia);
    const auto* const matrix = std::get_if<Source>(&found);
    if (matrix != nullptr && matrix->slice && !std::holds_alternative<Dense>(matrix->where) &&
        !std::holds_alternative<Unread>(matrix->where))
        malformed(*matrix, "is " + matrix->storage + ", of which no slice can be read");
    return found;
}

bool written_by_julia(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string head(64, '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    return head.starts_with("HDF5-based Julia Data Format") || head.starts_with("Julia data file");
}

}  // namespace gpumat::formats::hdf5
