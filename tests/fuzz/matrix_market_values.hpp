#pragma once

#include <complex>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "formats/matrix_market/text/header.hpp"
#include "formats/matrix_market/text/text.hpp"
#include "tests/fuzz/support.hpp"

namespace gpumat::fuzz {

/// Adds one to a sum. Integers wrap.
template <class T>
void accumulate(T& sum, const T& value) {
    if constexpr (std::is_integral_v<T>)
        (void)__builtin_add_overflow(sum, value, &sum);
    else
        sum += value;
}

/// Adds the entry that is the n-th of its element to `sum`, where the type has sums.
template <class T>
void add(T& sum, int n, const T& value) {
    if (n == 1)
        sum = value;
    else if constexpr (requires { sum += value; })
        accumulate(sum, value);
}

/// Whether `add` makes the sum of so many entries as the reader does, which adds what the file says exactly
/// and rounds once. Here entries of the smaller types are rounded before, and a third one is added to what
/// was rounded.
template <class T>
constexpr bool is_sum(int entries) {
    return entries < 2 || std::is_integral_v<T> ||
           (entries == 2 && (std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>>));
}

/// The values of a file that was accepted, one after the other, as the C library reads them.
template <class T>
class SlowReader {
  public:
    SlowReader(const formats::matrix_market::FileHeader& header, std::string body)
        : header_(header), body_(std::move(body)), at_(body_.data()) {}

    void check(const Matrix& matrix) {
        using namespace formats::matrix_market;
        const auto elements = static_cast<std::size_t>(matrix.shape().elements());
        values_.assign(elements, T{});
        counts_.assign(elements, 0);
        if (header_.storage == Storage::coordinate) {
            for (std::int64_t entry = 0; entry < header_.entries; ++entry) {
                const auto row = std::strtoll(at_, &at_, 10) - 1;
                const auto col = std::strtoll(at_, &at_, 10) - 1;
                put(row, col, header_.field == Field::pattern ? T(1) : value());
            }
        } else {
            for (std::int64_t col = 0; col < header_.shape.cols; ++col) {
                const std::int64_t first = header_.symmetry == Symmetry::general          ? 0
                                           : header_.symmetry == Symmetry::skew_symmetric ? col + 1
                                                                                          : col;
                for (std::int64_t row = first; row < header_.shape.rows; ++row) put(row, col, value());
            }
        }
        const bool sums = header_.storage == Storage::coordinate;  // whose zeros have either sign
        for (std::size_t i = 0; i < elements; ++i)
            require(!is_sum<T>(counts_[i]) || same(values_[i], matrix.as<T>()[i]) ||
                        (sums && equal(values_[i], matrix.as<T>()[i])),
                    "element " + std::to_string(i) + " is not what the C library reads");
    }

  private:
    template <class Part>
    Part number() {
        if constexpr (std::is_same_v<Part, float>) return std::strtof(at_, &at_);
        if constexpr (std::is_same_v<Part, double>) return std::strtod(at_, &at_);
        if constexpr (std::is_integral_v<Part>) return static_cast<Part>(std::strtold(at_, &at_));
    }

    T value() {
        if constexpr (std::is_arithmetic_v<T>) {
            const T real = number<T>();
            if (header_.field == formats::matrix_market::Field::complex) (void)number<double>();
            return real;
        } else {
            using Part = typename T::value_type;
            const Part real = number<Part>();
            return {real, header_.field == formats::matrix_market::Field::complex ? number<Part>() : Part{}};
        }
    }

    void put(std::int64_t row, std::int64_t col, const T& value) {
        using formats::matrix_market::Symmetry;
        add(row, col, value);
        if (row == col || header_.symmetry == Symmetry::general) return;
        T mirrored = value;
        if (header_.symmetry == Symmetry::skew_symmetric) mirrored = static_cast<T>(-value);
        if constexpr (!std::is_arithmetic_v<T>) {
            if (header_.symmetry == Symmetry::hermitian) mirrored = std::conj(value);
        }
        add(col, row, mirrored);
    }

    void add(std::int64_t row, std::int64_t col, const T& value) {
        const auto i = static_cast<std::size_t>(row * header_.shape.cols + col);
        fuzz::add(values_[i], ++counts_[i], value);
    }

    formats::matrix_market::FileHeader header_;
    std::string body_;
    char* at_;
    std::vector<T> values_;
    std::vector<int> counts_;
};

/// Reads an accepted file once more, slowly, and requires the same numbers. f16 and bf16, which the C library
/// does not read, and compressed files are left out.
inline void check_values(std::string_view text, const std::string& path, const Matrix& matrix) {
    if (text.starts_with('\x1f') || matrix.bytes() == 0) return;
    formats::matrix_market::Leniency strict(path, {.strict = true});
    const auto source = formats::matrix_market::open_text(path, 1);
    const auto header = formats::matrix_market::parse_header(*source, path, strict);
    visit_type(matrix.type(), [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>)
            SlowReader<T>(header,
                          std::string(text.substr(std::min<std::size_t>(text.size(), header.body_offset))))
                .check(matrix);
    });
}

}  // namespace gpumat::fuzz
