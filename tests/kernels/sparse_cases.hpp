#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/sparse/csr.hpp"
#include "kernels/transpose/operation.hpp"

// Sparse matrices of all kinds, and their transposes as plain code makes them.

namespace gpumat::sparse_cases {

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Case {
    const char* name;
    Shape shape;
    Places places;  ///< in the order of rows and columns
};

inline Places random_places(const Shape& shape, std::size_t count, bool power_law) {
    std::mt19937_64 random(count);
    std::set<std::pair<std::int64_t, std::int64_t>> places;
    const auto index = [&](std::int64_t extent) {
        const double at = std::uniform_real_distribution<>(0, 1)(random);
        const double share = power_law ? at * at * at * at : at;
        return std::min(extent - 1, static_cast<std::int64_t>(share * static_cast<double>(extent)));
    };
    for (std::size_t n = 0; n < count; ++n) {
        const std::int64_t row = index(shape.rows);
        places.emplace(row, index(shape.cols));
    }
    return {places.begin(), places.end()};
}

inline Places one_line(std::int64_t length, bool row, std::int64_t at) {
    Places places;
    for (std::int64_t i = 0; i < length; ++i) places.emplace_back(row ? at : i, row ? i : at);
    return places;
}

inline Places band(const Shape& shape, std::int64_t width) {
    Places places;
    for (std::int64_t i = 0; i < shape.rows; ++i) {
        for (std::int64_t j = std::max<std::int64_t>(i - width, 0); j < std::min(i + width, shape.cols); ++j)
            places.emplace_back(i, j);
    }
    return places;
}

inline std::vector<Case> cases() {
    std::vector<Case> all = {
        {"nothing", {0, 0}, {}},
        {"no rows", {0, 7}, {}},
        {"no columns", {7, 0}, {}},
        {"no entries", {5, 6}, {}},
        {"one", {1, 1}, {{0, 0}}},
        {"one row", {1, 9}, {{0, 0}, {0, 3}, {0, 8}}},
        {"one column", {9, 1}, {{0, 0}, {3, 0}, {8, 0}}},
        {"one dense row", {40, 100'000}, one_line(100'000, true, 17)},
        {"one dense column", {100'000, 40}, one_line(100'000, false, 17)},
        {"scattered", {700, 500}, random_places({700, 500}, 20'000, false)},
        {"many columns", {300, 200'000}, random_places({300, 200'000}, 60'000, false)},
        {"many rows", {200'000, 300}, random_places({200'000, 300}, 60'000, false)},
        {"power law", {3000, 3000}, random_places({3000, 3000}, 200'000, true)},
        {"two to the 20 columns", {70, 1 << 20}, random_places({70, 1 << 20}, 9'000, false)},
        {"banded", {5000, 4990}, band({5000, 4990}, 4)},
    };
    Places dense_column_among_others = random_places({90'000, 700}, 30'000, false);
    for (const auto& place : one_line(90'000, false, 300)) dense_column_among_others.push_back(place);
    std::sort(dense_column_among_others.begin(), dense_column_among_others.end());
    dense_column_among_others.erase(
        std::unique(dense_column_among_others.begin(), dense_column_among_others.end()),
        dense_column_among_others.end());
    all.push_back({"a dense column among others", {90'000, 700}, dense_column_among_others});
    return all;
}

/// The matrix of these places, whose values are bytes without a meaning.
inline Csr matrix_of(const Shape& shape, const Places& places, Type type) {
    Csr matrix(shape, type, static_cast<std::int64_t>(places.size()));
    const MutableCsrView to = matrix.view();
    std::fill_n(to.pointers, shape.rows + 1, 0);
    visit_index(shape, [&]<class I>(TypeTag<I>) {
        for (std::size_t n = 0; n < places.size(); ++n) {
            ++to.pointers[places[n].first + 1];
            to.columns_as<I>()[n] = static_cast<I>(places[n].second);
        }
    });
    for (std::int64_t i = 0; i < shape.rows; ++i) to.pointers[i + 1] += to.pointers[i];
    std::mt19937_64 random(places.size());
    for (std::size_t at = 0; at < places.size() * size_of(type); ++at)
        to.values[at] = static_cast<std::byte>(random() & 0xff);
    return matrix;
}

inline Csr plain_transpose(const Csr& matrix, const Places& places) {
    std::vector<std::size_t> order(places.size());
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::pair(places[a].second, places[a].first) < std::pair(places[b].second, places[b].first);
    });
    Places across;
    for (const std::size_t n : order) across.emplace_back(places[n].second, places[n].first);
    Csr transposed = matrix_of(matrix.shape().transposed(), across, matrix.type());
    const std::size_t size = size_of(matrix.type());
    for (std::size_t n = 0; n < order.size(); ++n)
        std::memcpy(transposed.view().values + n * size, matrix.view().values + order[n] * size, size);
    return transposed;
}

inline bool same(const CsrView& a, const CsrView& b) {
    const auto count = static_cast<std::size_t>(a.entries);
    const std::size_t columns = count * index_bytes(a.shape);
    const std::size_t values = count * size_of(a.type);
    return a.entries == b.entries && std::equal(a.pointers, a.pointers + a.shape.rows + 1, b.pointers) &&
           std::equal(a.columns, a.columns + columns, b.columns) &&
           std::equal(a.values, a.values + values, b.values);
}

/// The result starts out as bytes of 0xff.
inline Csr poisoned(const Shape& shape, Type type, std::int64_t entries) {
    Csr matrix(shape, type, entries);
    const MutableCsrView view = matrix.view();
    std::fill_n(view.pointers, shape.rows + 1, -1);
    const auto count = static_cast<std::size_t>(entries);
    std::fill_n(view.columns, count * index_bytes(shape), std::byte{0xff});
    std::fill_n(view.values, count * size_of(type), std::byte{0xff});
    return matrix;
}

inline constexpr Structure kSparse = {.inputs = {Storage::csr}, .result = Storage::csr};

inline Problem problem_of(const Csr& matrix) {
    return {.operation = &kTranspose,
            .type = matrix.type(),
            .m = matrix.shape().rows,
            .n = matrix.shape().cols,
            .structure = kSparse,
            .entries = {matrix.entries()}};
}

}  // namespace gpumat::sparse_cases
