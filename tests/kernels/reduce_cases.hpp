#pragma once

// Reductions to test levels with: matrices of whole numbers over 64, whose sums and sums of squares are exact
// in f64 in any order, and what their reductions are by the definition, in long double and 128-bit integers.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/reduce/operation.hpp"
#include "tests/catch.hpp"

namespace reduce_cases {

using namespace gpumat;

using Bytes = std::vector<unsigned char>;

__extension__ using Int128 = __int128;

struct Sides {
    std::int64_t m;
    std::int64_t n;
};

constexpr std::array kOps = {"sum", "min", "max", "absmax", "norm", "mean", "nan-count"};
constexpr std::array kAxes = {"all", "rows", "columns"};

inline Problem problem_of(Type type, Sides shape, const std::string& op, const std::string& axis) {
    Problem problem{.operation = &kReduce, .type = type, .m = shape.m, .n = shape.n};
    problem.choices = {{"op", op}, {"axis", axis}};
    return problem;
}

/// Whether there is a result: complex numbers have no least, and no elements have neither extremes nor mean.
inline bool has_result(const Problem& problem) {
    const std::string& op = problem.choices.at("op");
    const bool extreme = op == "min" || op == "max";
    if (is_complex(problem.type) && extreme) return false;
    return (problem.m > 0 && problem.n > 0) || !(extreme || op == "mean");
}

inline std::string describe(const Problem& problem, std::string_view level) {
    return "reduce_" + std::string(level) + "_" + problem.choices.at("op") + "_" +
           problem.choices.at("axis") + "_" + std::string(name_of(problem.type)) + "_" +
           std::to_string(problem.m) + "x" + std::to_string(problem.n);
}

template <class T>
T element_of(int value) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(std::is_signed_v<T> ? value : std::abs(value));
    } else if constexpr (requires { typename T::value_type; }) {
        using Part = typename T::value_type;
        return T(static_cast<Part>(value) / 64, static_cast<Part>(value % 7 - 3) / 64);
    } else {
        return T(value / 64.0);
    }
}

/// Whole numbers from −100 to 100, over 64 where the type has fractions; `planted` of them NaN where it has
/// any.
inline Bytes matrix_of(const Problem& problem, int planted = 0) {
    const auto count = static_cast<std::size_t>(problem.m * problem.n);
    Bytes bytes(count * size_of(problem.type));
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        std::mt19937 random(static_cast<unsigned>(count + 1));
        const auto put = [&](std::size_t i, T value) {
            std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
        };
        for (std::size_t i = 0; i < count; ++i) put(i, element_of<T>(static_cast<int>(random() % 201) - 100));
        if constexpr (!std::is_integral_v<T>) {
            for (int i = 0; i < planted && count > 0; ++i)
                put(random() % count, T(std::numeric_limits<double>::quiet_NaN()));
        }
    });
    return bytes;
}

/// A result by its definition. `exact` says that the level's must be equal, else within four ulps: a root or
/// a quotient of exact numbers is rounded once or twice here and there.
struct Expected {
    std::complex<long double> value;
    Int128 whole = 0;
    bool exact = true;
};

template <class T>
Expected expected_of(const std::string& op, const std::vector<T>& elements) {
    constexpr bool kWhole = std::is_integral_v<T>;
    constexpr bool kComplex = requires(T value) {
        value.imag();
    };
    std::complex<long double> sum;
    long double squares = 0;
    long double least = std::numeric_limits<long double>::infinity();
    long double most = -least;
    long double largest = 0;
    Int128 whole = 0;
    Int128 whole_largest = 0;
    int nans = 0;
    for (const T element : elements) {
        std::complex<long double> x;
        if constexpr (kComplex) {
            x = {element.real(), element.imag()};
        } else if constexpr (kWhole) {
            x = static_cast<long double>(element);
            whole += element;
            whole_largest = std::max<Int128>(whole_largest, element < 0 ? -Int128{element} : Int128{element});
        } else {
            x = static_cast<double>(element);
        }
        sum += x;
        squares += x.real() * x.real() + x.imag() * x.imag();
        if (std::isnan(x.real()) || std::isnan(x.imag())) ++nans;
        least = std::min(least, x.real());
        most = std::max(most, x.real());
        largest = std::max(largest, kComplex ? std::hypot(x.real(), x.imag()) : std::fabs(x.real()));
    }
    const auto count = static_cast<long double>(elements.size());
    const bool none = nans == 0;
    const long double nan = std::numeric_limits<long double>::quiet_NaN();
    if (op == "sum") return {sum, whole};
    if (op == "mean") return {kWhole ? static_cast<long double>(whole) / count : sum / count, 0, false};
    if (op == "norm") return {std::sqrt(squares), 0, false};
    if (op == "nan-count") return {static_cast<long double>(nans), nans};
    if (op == "absmax") return {none ? largest : nan, whole_largest, !kComplex};
    const long double extreme = op == "min" ? least : most;
    if constexpr (kWhole) {
        if (!elements.empty())
            whole = op == "min" ? *std::min_element(elements.begin(), elements.end())
                                : *std::max_element(elements.begin(), elements.end());
    }
    return {none ? extreme : nan, whole};
}

/// Whether the stored result is that; NaN is NaN.
inline bool same(long double found, long double expected, bool exact) {
    if (std::isnan(found) || std::isnan(expected)) return std::isnan(found) && std::isnan(expected);
    if (found == expected) return true;
    return !exact && std::fabs(found - expected) <= 4 * 0x1p-53L * std::fabs(expected);
}

template <class Result>
bool is_right(const unsigned char* at, const Expected& expected) {
    Result found;
    std::memcpy(static_cast<void*>(&found), at, sizeof found);
    if constexpr (std::is_integral_v<Result>) {
        return found == static_cast<Result>(expected.whole);
    } else if constexpr (requires { found.imag(); }) {
        return same(found.real(), expected.value.real(), expected.exact) &&
               same(found.imag(), expected.value.imag(), expected.exact);
    } else {
        return same(static_cast<double>(found), expected.value.real(), expected.exact);
    }
}

/// Every result by its definition; `in` is the matrix without gaps.
inline std::vector<Expected> expected_results(const Problem& problem, const Bytes& in) {
    const std::string& axis = problem.choices.at("axis");
    const bool rows = axis == "rows";
    const bool columns = axis == "columns";
    std::vector<Expected> all(static_cast<std::size_t>(kReduce.result(problem).elements()));
    visit_type(problem.type, [&]<class T>(TypeTag<T>) {
        for (std::int64_t result = 0; result < std::ssize(all); ++result) {
            std::vector<T> elements;
            for (std::int64_t i = rows ? result : 0; i < (rows ? result + 1 : problem.m); ++i) {
                for (std::int64_t j = columns ? result : 0; j < (columns ? result + 1 : problem.n); ++j) {
                    T element;
                    std::memcpy(static_cast<void*>(&element),
                                in.data() + static_cast<std::size_t>(i * problem.n + j) * sizeof(T),
                                sizeof(T));
                    elements.push_back(element);
                }
            }
            all[static_cast<std::size_t>(result)] = expected_of(problem.choices.at("op"), elements);
        }
    });
    return all;
}

/// Checks every result; those `found` are `step` elements apart.
inline bool all_right(const Problem& problem, const std::vector<Expected>& expected,
                      const unsigned char* found, std::int64_t step = 1) {
    return visit_type(result_type(problem), [&]<class Result>(TypeTag<Result>) {
        return std::ranges::all_of(expected, [&](const Expected& each) {
            const unsigned char* place = found;
            found += static_cast<std::size_t>(step) * sizeof(Result);
            return is_right<Result>(place, each);
        });
    });
}
inline bool all_right(const Problem& problem, const Bytes& in, const unsigned char* found,
                      std::int64_t step = 1) {
    return all_right(problem, expected_results(problem, in), found, step);
}

/// The results of a matrix that is reduced in blocks of this size, from left to right and from the top down.
/// `run` gives the results of a part from its elements.
template <class Run>
Bytes reduced_in_parts(const Problem& problem, const Bytes& in, Shape step, const Run& run) {
    const Shape results = kReduce.result(problem);
    const std::size_t size = size_of(problem.type);
    const std::size_t result_size = size_of(result_type(problem));
    Bytes all(static_cast<std::size_t>(results.elements()) * result_size);
    std::map<std::int64_t, Bytes> unfinished;  // by the number of the first result
    for (std::int64_t row = 0; row < problem.m; row += step.rows) {
        for (std::int64_t col = 0; col < problem.n; col += step.cols) {
            const ProblemPart part = kReduce.part(problem, {row, col, std::min(step.rows, problem.m - row),
                                                            std::min(step.cols, problem.n - col)});
            Bytes elements;
            for (std::int64_t i = 0; i < part.problem.m; ++i) {
                const auto* from = in.data() + static_cast<std::size_t>((row + i) * problem.n + col) * size;
                elements.insert(elements.end(), from, from + static_cast<std::size_t>(part.problem.n) * size);
            }
            const Bytes given = run(part.problem, elements);
            const std::int64_t first = part.result.row + part.result.col;
            unsigned char* place = all.data() + static_cast<std::size_t>(first) * result_size;
            if (!part.shares_result()) {
                std::copy(given.begin(), given.end(), place);
                continue;
            }
            if (part.is_first) {
                unfinished[first] = given;
            } else {
                kReduce.combination->take(part.problem, unfinished[first].data(), given.data());
            }
            if (part.is_last) {
                kReduce.combination->finish(problem, unfinished[first].data(),
                                            part.result.rows * part.result.cols, place);
            }
        }
    }
    return all;
}

}  // namespace reduce_cases
