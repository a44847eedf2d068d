#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumat::formats::hdf5 {

using Extents = std::vector<std::uint64_t>;  ///< of a dataset or chunk, by dimension

/// Which rectangle of a dataset's elements a matrix is, as stored: it starts at an element, its rows follow
/// each other along one dimension, and its columns along another that comes behind.
struct Window {
    Extents extents;  ///< of the dataset
    Extents origin;   ///< the first element
    int row = -1;     ///< the dimension that counts rows; none where there is one
    int col = -1;     ///< the same of columns

    [[nodiscard]] std::int64_t first(int dimension) const {
        return dimension < 0 ? 0 : static_cast<std::int64_t>(origin[static_cast<std::size_t>(dimension)]);
    }
};

/// How far, in an array with these extents, two elements are apart that are neighbours along `dimension`.
/// 1 along none.
inline std::int64_t step_along(const Extents& extents, int dimension) {
    std::uint64_t step = 1;
    for (std::size_t i = extents.size(); dimension >= 0 && i > static_cast<std::size_t>(dimension) + 1; --i)
        step *= extents[i - 1];
    return static_cast<std::int64_t>(step);
}

inline std::int64_t elements_in(const Extents& extents) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : extents) count *= extent;
    return static_cast<std::int64_t>(count);
}

/// The number of the element `at` in an array with these extents.
inline std::int64_t place_in(const Extents& extents, const Extents& at) {
    std::uint64_t place = 0;
    for (std::size_t i = 0; i < extents.size(); ++i) place = place * extents[i] + at[i];
    return static_cast<std::int64_t>(place);
}

}  // namespace gpumat::formats::hdf5
