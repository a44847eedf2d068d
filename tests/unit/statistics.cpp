#include "lib/matrices/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/catch.hpp"

using namespace gpumat;

namespace {

template <class T>
Statistics of(const std::vector<T>& values, Shape shape, Type type, int threads = 2) {
    return statistics({type, shape, shape.cols, reinterpret_cast<const std::byte*>(values.data())}, threads);
}

}  // namespace

TEST_CASE("norms and extremes of a small matrix") {
    // By hand: column sums of magnitudes 4, 6; row sums 3, 7; 1 + 4 + 9 + 16 = 30.
    const auto found = of<double>({1, -2, -3, 4}, {2, 2}, Type::f64);
    CHECK(found.nonzeros == 4);
    CHECK(found.smallest == ExactReal(-3.0));
    CHECK(found.largest == ExactReal(4.0));
    CHECK(found.largest_magnitude == ExactReal(4.0));
    CHECK(found.one_norm == 6);
    CHECK(found.infinity_norm == 7);
    CHECK(found.frobenius_norm == Approx(std::sqrt(30.0)));
    CHECK_FALSE(found.symmetric);
}

TEST_CASE("the Frobenius norm neither overflows nor underflows early") {
    CHECK(of<double>({3e200, 4e200}, {1, 2}, Type::f64).frobenius_norm == Approx(5e200));
    CHECK(of<double>({3e-200, 4e-200}, {1, 2}, Type::f64).frobenius_norm == Approx(5e-200));
    CHECK(std::isinf(of<double>({1, INFINITY, 2}, {1, 3}, Type::f64).frobenius_norm));
}

TEST_CASE("NaN and infinities are counted and kept out of the extremes") {
    const auto found = of<float>({NAN, INFINITY, 0, 2}, {2, 2}, Type::f32);
    CHECK(found.nans == 1);
    CHECK(found.infinities == 1);
    CHECK(found.nonzeros == 3);
    CHECK(found.smallest == ExactReal(0.0));
    CHECK(found.largest == ExactReal(std::numeric_limits<double>::infinity()));
    const auto nothing = of<float>({NAN, NAN}, {1, 2}, Type::f32);
    CHECK_FALSE(nothing.smallest.has_value());
    CHECK_FALSE(nothing.largest_magnitude.has_value());
}

TEST_CASE("a NaN is in every norm, an infinity makes them infinite") {
    const auto found = of<double>({1, NAN, INFINITY, 2}, {2, 2}, Type::f64);
    CHECK(std::isnan(found.one_norm));
    CHECK(std::isnan(found.infinity_norm));
    CHECK(std::isnan(found.frobenius_norm));
    const auto infinite = of<double>({1, -INFINITY, 3, 2}, {2, 2}, Type::f64);
    CHECK(std::isinf(infinite.one_norm));
    CHECK(std::isinf(infinite.infinity_norm));
    CHECK(infinite.smallest == ExactReal(-std::numeric_limits<double>::infinity()));
    CHECK(infinite.largest_magnitude == ExactReal(std::numeric_limits<double>::infinity()));
}

TEST_CASE("integer extremes are exact") {
    using Limits = std::numeric_limits<std::int64_t>;
    const auto found =
        of<std::int64_t>({Limits::max(), Limits::max() - 1, Limits::min(), 0}, {2, 2}, Type::i64);
    CHECK(found.smallest == ExactReal(Limits::min()));
    CHECK(found.largest == ExactReal(Limits::max()));
    CHECK(found.largest_magnitude == ExactReal(std::uint64_t{1} << 63));
    const auto most = std::numeric_limits<std::uint64_t>::max();
    const auto large = of<std::uint64_t>({most - 1, most}, {1, 2}, Type::u64);
    CHECK(large.smallest == ExactReal(most - 1));
    CHECK(large.largest == ExactReal(most));
    const auto small = of<std::int8_t>({-128, 127}, {1, 2}, Type::i8);
    CHECK(small.smallest == ExactReal(std::int64_t{-128}));
    CHECK(small.largest_magnitude == ExactReal(std::uint64_t{128}));
}

TEST_CASE("column sums are right wherever a panel of columns ends") {
    // Row 0 holds j, row 1 holds 1: the sum of column j is j + 1.
    for (const std::int64_t cols : {1, 4095, 4096, 4097, 20000}) {
        for (const int threads : {1, 2, 7}) {
            std::vector<double> values(static_cast<std::size_t>(2 * cols), 1.0);
            for (std::int64_t j = 0; j < cols; ++j)
                values[static_cast<std::size_t>(j)] = static_cast<double>(-j);
            const auto found = of<double>(values, {2, cols}, Type::f64, threads);
            CHECK(found.one_norm == static_cast<double>(cols));
            CHECK(found.infinity_norm ==
                  std::max(static_cast<double>(cols),
                           static_cast<double>(cols) * static_cast<double>(cols - 1) / 2));
        }
    }
}

TEST_CASE("symmetry is exact") {
    CHECK(of<double>({1, 2, 2, 1}, {2, 2}, Type::f64).symmetric);
    CHECK(of<double>({0, 2, -2, 0}, {2, 2}, Type::f64).skew_symmetric);
    CHECK_FALSE(of<double>({1, 2, -2, 0}, {2, 2}, Type::f64).skew_symmetric);
    CHECK_FALSE(of<double>({NAN, 2, 2, 1}, {2, 2}, Type::f64).symmetric);
    using C = std::complex<double>;
    const auto found = of<C>({{1, 0}, {2, 3}, {2, -3}, {5, 0}}, {2, 2}, Type::c128);
    CHECK(found.hermitian);
    CHECK_FALSE(found.symmetric);
    CHECK_FALSE(of<C>({{1, 1}, {2, 3}, {2, -3}, {5, 0}}, {2, 2}, Type::c128).hermitian);
    // The two differ by one, which a double cannot tell.
    const std::int64_t big = std::int64_t{1} << 60;
    CHECK_FALSE(of<std::int64_t>({0, big, big + 1, 0}, {2, 2}, Type::i64).symmetric);
}

TEST_CASE("symmetry is found across blocks") {
    constexpr std::int64_t n = 150;
    std::vector<double> values(n * n);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j)
            values[static_cast<std::size_t>(i * n + j)] = static_cast<double>(i * j);
    }
    CHECK(of<double>(values, {n, n}, Type::f64).symmetric);
    values[140 * n + 3] += 1;
    CHECK_FALSE(of<double>(values, {n, n}, Type::f64).symmetric);
}

TEST_CASE("symmetry is looked for no longer once there is none") {
    const Shape shape = {2, 2};
    const std::vector<double> values = {1, 2, 3, 4};
    const MatrixView view{Type::f64, shape, 2, reinterpret_cast<const std::byte*>(values.data())};
    const auto found = BlockStatistics::of(shape, Type::f64, 1);
    CHECK(found->may_be_symmetric());
    found->compare(Block::whole(shape), view, view);
    CHECK_FALSE(found->may_be_symmetric());
}

TEST_CASE("an empty matrix has no extremes") {
    const auto found = of<double>({}, {0, 7}, Type::f64);
    CHECK_FALSE(found.smallest.has_value());
    CHECK_FALSE(found.largest_magnitude.has_value());
    CHECK(found.frobenius_norm == 0);
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK(of<double>({}, {0, most}, Type::f64).one_norm == 0);
    CHECK(of<double>({}, {most, 0}, Type::f64).infinity_norm == 0);
}
