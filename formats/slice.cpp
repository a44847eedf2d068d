#include "formats/slice.hpp"

#include <algorithm>
#include <charconv>

#include "core/error.hpp"

namespace gpumat::formats {
namespace {

std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string> parts_of(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(trimmed(text.substr(begin, end - begin)));
        begin = end + 1;
    }
    return parts;
}

/// A number without a sign; false where it is none, or passes 64 bits.
bool parse_place(const std::string& text, std::optional<std::uint64_t>& place) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [last, failure] = std::from_chars(text.data(), end, value);
    place = value;
    return failure == std::errc{} && last == end;
}

std::optional<SliceIndex> index_of(const std::string& part) {
    SliceIndex index;
    const auto colon = part.find(':');
    if (colon == std::string::npos) {
        index.one = true;
        return parse_place(part, index.begin) ? std::optional(index) : std::nullopt;
    }
    const std::string begin = trimmed(part.substr(0, colon));
    const std::string end = trimmed(part.substr(colon + 1));
    const bool read =
        (begin.empty() || parse_place(begin, index.begin)) && (end.empty() || parse_place(end, index.end));
    const bool turns = index.begin && index.end && *index.end < *index.begin;
    return read && !turns ? std::optional(index) : std::nullopt;
}

std::string index_words(const SliceIndex& index) {
    const auto words = [](const std::optional<std::uint64_t>& place) {
        return place ? std::to_string(*place) : std::string();
    };
    return words(index.begin) + (index.one ? "" : ":" + words(index.end));
}

}  // namespace

std::optional<SliceName> split_slice(const std::string& name) {
    const auto open = name.rfind('[');
    if (!name.ends_with(']') || open == std::string::npos || open == 0 || name[open - 1] == '/') return {};
    const std::string indices = name.substr(open + 1, name.size() - open - 2);
    if (indices.find('/') != std::string::npos) return {};
    return SliceName{name.substr(0, open), indices};
}

std::string without_slice(const std::string& name) {
    const auto slice = split_slice(name);
    return slice && slice_indices(slice->indices) ? slice->dataset : name;
}

std::optional<std::vector<SliceIndex>> slice_indices(const std::string& text) {
    std::vector<SliceIndex> indices;
    for (const std::string& part : parts_of(text)) {
        const auto index = index_of(part);
        if (!index) return {};
        indices.push_back(*index);
    }
    return indices;
}

std::vector<SliceIndex> require_slice_indices(const std::string& text, const std::string& what) {
    if (auto indices = slice_indices(text)) return *std::move(indices);
    for (const std::string& part : parts_of(text)) {
        if (index_of(part)) continue;
        throw Error(ErrorCode::usage,
                    what + ": '" + part +
                        "' is no part of a slice; expected k, a:b, a:, :b or : for each dimension, counted "
                        "from 0, a up to b, without negative numbers and steps, such as [0,:,2:5]");
    }
    throw Error(ErrorCode::usage, what + ": is no slice");
}

std::vector<SliceRange> slice_ranges(std::span<const SliceIndex> indices,
                                     std::span<const std::uint64_t> extents, const std::string& what) {
    if (indices.size() != extents.size()) {
        throw Error(ErrorCode::input, what + ": the slice is of " + std::to_string(indices.size()) +
                                          " dimensions, expected " + std::to_string(extents.size()) +
                                          ", which the dataset has" +
                                          (extents.empty() ? "" : " (" + extents_words(extents) + ")"));
    }
    std::vector<SliceRange> ranges;
    for (std::size_t i = 0; i < indices.size(); ++i) {
        const SliceIndex& index = indices[i];
        const std::uint64_t begin = index.begin.value_or(0);
        const std::uint64_t end = index.one ? begin : index.end.value_or(extents[i]);
        if (index.one ? begin >= extents[i] : begin > extents[i] || end > extents[i]) {
            throw Error(ErrorCode::input,
                        what + ": dimension " + std::to_string(i + 1) + " of " + extents_words(extents) +
                            " has " + std::to_string(extents[i]) + " places, found " + index_words(index) +
                            ", expected " +
                            (index.one ? "a number below " : "a range that ends at most at ") +
                            std::to_string(extents[i]));
        }
        ranges.push_back({begin, index.one ? 1 : end - begin, index.one});
    }
    return ranges;
}

std::string extents_words(std::span<const std::uint64_t> extents) {
    std::string text;
    for (const std::uint64_t extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
    return text;
}

}  // namespace gpumat::formats
