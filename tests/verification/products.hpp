#pragma once

#include <complex>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>

#include "core/numbers/matrix.hpp"
#include "kernels/registry.hpp"

// Products to try verification on: operands of many kinds, computed by any level on any device.

namespace gpumat::verification {

/// What the operands hold. The first six are the ones whose planted errors must be found.
enum class Data {
    normal,
    uniform,      ///< in [−1, 1]
    graded,       ///< normal, the rows of A times 10^−6 … 10^6
    positive,     ///< uniform in [0, 1]
    dominant,     ///< normal, one element of each row of A times 10^6
    integers,     ///< in [−8, 8]: every sum is exact
    constant,     ///< 0.1 everywhere: rounding errors all go one way
    alternating,  ///< 0.1·(−1)^k against 0.3: partial sums depend on the order
    repeated,     ///< positive, all columns of B the same: so are all errors of a row
    sparse,       ///< normal, nine of ten are zero
    mixed,        ///< normal times 2^−20 … 2^20, each element on its own
    lost,         ///< 2^24 in front of positive numbers below 1: additions lose them all
    cancelling,   ///< normal, each odd k takes back the term before it, but for a little
};

std::span<const Data> all_data();
std::string_view name_of(Data data);

/// A multiply with its operands and its result.
struct Product {
    Problem problem;
    Matrix a;
    Matrix b;
    Matrix d;
    Matrix c;

    [[nodiscard]] Operands operands();
};

/// Which product: C = op(A)·op(B), with α, β and D where `scaled`, of transposed storage where `transposed`.
struct Wanted {
    Type type = Type::f32;
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    Data data = Data::normal;
    bool transposed = false;
    bool scaled = false;
    std::uint64_t seed = 0;
};

/// The operands; C is there and not set.
Product make_product(const Wanted& wanted);

/// Computes C with a level, on the device. Every element is NaN, or bits that are all set, before.
void compute(Product& product, const Level& level, const Device& device);

/// The element at an offset, and one stored there, rounded to the type.
std::complex<double> get(const Matrix& matrix, std::int64_t at);
void set(Matrix& matrix, std::int64_t at, std::complex<double> value);

/// The offsets of op(A)(i, k) and op(B)(k, j).
std::int64_t at_a(const Problem& problem, std::int64_t i, std::int64_t k);
std::int64_t at_b(const Problem& problem, std::int64_t k, std::int64_t j);

/// α and β as numbers, also for integers.
std::complex<double> number(const Scalar& scalar, Type type);

/// A copy of a matrix.
Matrix copy_of(const Matrix& matrix);

}  // namespace gpumat::verification
