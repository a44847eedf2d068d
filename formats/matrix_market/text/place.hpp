#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "core/numbers/shape.hpp"
#include "formats/matrix_market/numbers/short_number.hpp"
#include "formats/matrix_market/text/value.hpp"

namespace gpumat::formats::matrix_market {

/// The long way, for an index of eight digits or more and for what is no index.
std::int64_t parse_long_index(const char*& p, std::int64_t most, const char* what);

/// An index from 1 to `most`, delivered from 0.
[[gnu::noinline]] inline std::int64_t parse_index(const char*& p, std::int64_t most, const char* what) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, p, sizeof bytes);
    const std::uint64_t marks = mark_non_digits(bytes);
    if (marks != 0) {
        const auto count = static_cast<unsigned>(std::countr_zero(marks)) / 8;
        const std::uint64_t digits = bytes - 0x3030'3030'3030'3030ULL;
        const auto index = static_cast<std::int64_t>(join_digits((digits << (8 * (7 - count))) << 8));
        if ((p[count] == ' ' || p[count] == '\t') && index >= 1 && index <= most) {
            p += count;
            return index - 1;
        }
    }
    return parse_long_index(p, most, what);
}

/// Row and column, from 0.
struct Place {
    std::int64_t row;
    std::int64_t col;
};

/// Two indices, and the blanks between them. Stops after the second.
[[gnu::always_inline]] inline Place parse_place(const char*& p, const Shape& shape) {
    IndexPair pair;
    if (const char* const end = parse_short_indices(p, pair); end != nullptr) {
        const std::uint64_t row = pair.first - 1;
        const std::uint64_t col = pair.second - 1;
        if (row < static_cast<std::uint64_t>(shape.rows) && col < static_cast<std::uint64_t>(shape.cols)) {
            p = end;
            return {static_cast<std::int64_t>(row), static_cast<std::int64_t>(col)};
        }
    }
    const std::int64_t row = parse_index(p, shape.rows, "a row index");
    p = skip_blanks(p);
    return {row, parse_index(p, shape.cols, "a column index")};
}

/// Where an entry of the file is: of a vector object, a row of the one column.
[[gnu::always_inline]] inline Place parse_place(const char*& p, const FileHeader& header) {
    if (header.vector) [[unlikely]]
        return {parse_index(p, header.shape.rows, "a row index"), 0};
    return parse_place(p, header.shape);
}

}  // namespace gpumat::formats::matrix_market
