#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gpumat::formats {

/// The name of a slice: "/A[0,:,2:5]".
struct SliceName {
    std::string dataset;  ///< "/A"
    std::string indices;  ///< "0,:,2:5"
};

/// What a slice takes of one dimension, counted from 0: one place, which drops the dimension, or a range up
/// to but not including its end. An end that is left out is the dimension's.
struct SliceIndex {
    std::optional<std::uint64_t> begin{};
    std::optional<std::uint64_t> end{};
    bool one = false;
};

/// The same of a dimension that is known.
struct SliceRange {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
    bool one = false;
};

/// Splits a name that ends in brackets.
std::optional<SliceName> split_slice(const std::string& name);

/// The name without the slice that it says, if any.
std::string without_slice(const std::string& name);

/// What stands in the brackets: for each dimension k, a:b, a:, :b or ":". Nothing where it is something else.
std::optional<std::vector<SliceIndex>> slice_indices(const std::string& text);

/// The same. Throws Error{usage} with `what` and what was expected.
std::vector<SliceIndex> require_slice_indices(const std::string& text, const std::string& what);

/// What they take of an array. Throws Error{input} with `what` and the dimension where it has not that.
std::vector<SliceRange> slice_ranges(std::span<const SliceIndex> indices,
                                     std::span<const std::uint64_t> extents, const std::string& what);

/// "2x3x4"
std::string extents_words(std::span<const std::uint64_t> extents);

}  // namespace gpumat::formats
