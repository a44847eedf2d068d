#include "kernels/check/verification.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/transpose/check/verify_transpose.hpp"
#include "kernels/transpose/operation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "core/error.hpp"
#include "core/sanitizer.hpp"
#include "kernels/check/check.hpp"
#include "kernels/check/elements.hpp"
#include "kernels/multiply/check/reference.hpp"
#include "kernels/reduce/check/verify_reduce.hpp"
#include "kernels/registry.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::array kMultiplyTypes = {Type::f16, Type::bf16, Type::f32, Type::f64,
                                       Type::c64, Type::c128, Type::i32, Type::i64};

/// Stores a complex value as `T`, rounded.
template <class T>
T element(std::complex<double> value) {
    if constexpr (kIsComplex<T>) {
        return {static_cast<typename T::value_type>(value.real()),
                static_cast<typename T::value_type>(value.imag())};
    } else {
        return static_cast<T>(value.real());
    }
}

void set(Matrix& matrix, std::int64_t at, std::complex<double> value) {
    visit_type(matrix.type(), [&]<class T>(TypeTag<T>) { matrix.as<T>()[at] = element<T>(value); });
}

std::complex<double> get(const Matrix& matrix, std::int64_t at) {
    return visit_type(matrix.type(), [&]<class T>(TypeTag<T>) { return as_complex(matrix.as<T>()[at]); });
}

/// Uniform in [−1, 1], or integers in [−100, 100].
Matrix random_matrix(Shape shape, Type type, std::uint64_t seed) {
    Matrix matrix(shape, type);
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (std::int64_t i = 0; i < shape.elements(); ++i) {
        const std::complex<double> value(uniform(random), uniform(random));
        set(matrix, i, is_integer(type) ? std::round(100 * value.real()) : value);
    }
    return matrix;
}

/// α·op(A)·op(B) + β·D in long double, rounded once; integers modulo 2^64.
Matrix product_of(const Problem& p, const Matrix& a, const Matrix& b, const Matrix& d) {
    Matrix c({p.m, p.n}, p.type);
    visit_type(p.type, [&]<class T>(TypeTag<T>) {
        const auto a_at = [&](std::int64_t i, std::int64_t k) {
            return p.transpose_a ? k * p.m + i : i * p.k + k;
        };
        const auto b_at = [&](std::int64_t k, std::int64_t j) {
            return p.transpose_b ? j * p.k + k : k * p.n + j;
        };
        const bool added = !p.beta.is_zero(p.type);
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) {
                if constexpr (std::is_integral_v<T>) {
                    std::uint64_t sum = 0;
                    for (std::int64_t k = 0; k < p.k; ++k)
                        sum += static_cast<std::uint64_t>(a.as<T>()[a_at(i, k)]) *
                               static_cast<std::uint64_t>(b.as<T>()[b_at(k, j)]);
                    sum *= static_cast<std::uint64_t>(p.alpha.integer);
                    if (added)
                        sum += static_cast<std::uint64_t>(p.beta.integer) *
                               static_cast<std::uint64_t>(d.as<T>()[i * p.n + j]);
                    c.as<T>()[i * p.n + j] = static_cast<T>(sum);
                } else {
                    using Wide = std::conditional_t<kIsComplex<T>, std::complex<long double>, long double>;
                    const auto wide = [](std::complex<double> value) -> Wide {
                        if constexpr (kIsComplex<T>)
                            return Wide(value.real(), value.imag());
                        else
                            return Wide(value.real());
                    };
                    Wide sum = 0;
                    for (std::int64_t k = 0; k < p.k; ++k)
                        sum +=
                            wide(as_complex(a.as<T>()[a_at(i, k)])) * wide(as_complex(b.as<T>()[b_at(k, j)]));
                    sum *= wide(p.alpha.value);
                    if (added) sum += wide(p.beta.value) * wide(as_complex(d.as<T>()[i * p.n + j]));
                    c.as<T>()[i * p.n + j] = element<T>(std::complex<double>(sum));
                }
            }
        }
    });
    return c;
}

/// A multiply with its operands, and a right result to spoil.
struct Case {
    Problem problem;
    Matrix a;
    Matrix b;
    Matrix d;
    Matrix c;

    Case(Type type, std::int64_t m, std::int64_t n, std::int64_t k, bool transposed = false,
         bool added = false) {
        problem.operation = &kMultiply;
        problem.type = type;
        problem.m = m;
        problem.n = n;
        problem.k = k;
        problem.transpose_a = problem.transpose_b = transposed;
        if (added) {
            problem.alpha = {{0.75, is_complex(type) ? 0.5 : 0.0}, 3};
            problem.beta = {{-1.5, is_complex(type) ? 0.25 : 0.0}, -7};
        }
        a = random_matrix(transposed ? Shape{k, m} : Shape{m, k}, type, 1);
        b = random_matrix(transposed ? Shape{n, k} : Shape{k, n}, type, 2);
        d = random_matrix({m, n}, type, 3);
        compute();
    }

    void compute() { c = product_of(problem, a, b, d); }

    [[nodiscard]] Operands operands() {
        return contiguous_operands(
            problem, {a.data(), b.data(), problem.beta.is_zero(problem.type) ? nullptr : d.data(), c.data()});
    }
    [[nodiscard]] Verification verify(VerifyMode mode, std::optional<double> tolerance = std::nullopt) {
        return verify_multiply(problem, operands(),
                               {.mode = mode, .tolerance = tolerance, .threads = 2, .seed = 5});
    }
};

const auto both_modes = {VerifyMode::full, VerifyMode::freivalds};

void run_level(std::string_view name, Case& x) {
    const auto registry = Registry::standard();
    const Level* level = registry.find(kMultiply, DeviceKind::cpu, name);
    REQUIRE(level != nullptr);
    std::fill_n(x.c.data(), x.c.bytes(), std::byte{0xff});
    level->prepare(x.problem, x.operands(), {.kind = DeviceKind::cpu, .threads = 2}).run({});
}

}  // namespace

TEST_CASE("every CPU multiply level passes, for every type, shape and form") {
    const auto registry = Registry::standard();
    const Device device{.kind = DeviceKind::cpu, .threads = 2};
    for (const Type type : kMultiplyTypes) {
        for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                      {3, 5, 0},
                                      {0, 4, 3},
                                      {4, 0, 3},
                                      {1, 300, 7},
                                      {300, 1, 7},
                                      {37, 259, 131},
                                      {65, 33, 517}}) {
            for (const bool form : {false, true}) {
                Case x(type, m, n, k, form, form);
                for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu)) {
                    if (!unsupported_reasons(*level, x.problem, device).empty()) continue;
                    run_level(level->name, x);
                    for (const auto mode : both_modes) {
                        const Verification result = x.verify(mode);
                        INFO(name_of(type)
                             << " " << m << "x" << n << "x" << k << " " << level->name << " " << result.mode);
                        CHECK(result.verdict == "passed");
                        CHECK(result.mismatches == 0);
                        CHECK(result.worst_ratio <= 1);
                        CHECK(result.note.empty());
                    }
                }
            }
        }
    }
}

TEST_CASE("what a broken level does is caught in both modes") {
    for (const Type type : kMultiplyTypes) {
        for (const auto mode : both_modes) {
            INFO(name_of(type) << (mode == VerifyMode::full ? " full" : " freivalds"));
            const auto fresh = [&] { return Case(type, 70, 45, 33, true, true); };
            REQUIRE(fresh().verify(mode).verdict == "passed");

            Case one = fresh();
            const std::int64_t at = 41 * 45 + 17;
            set(one.c, at, get(one.c, at) + 3.0);
            const Verification result = one.verify(mode);
            CHECK(result.verdict == "failed");
            CHECK(result.mismatches == 1);
            REQUIRE(result.worst);
            CHECK(result.worst->row == 41);
            CHECK(result.worst->col == 17);
            CHECK(result.worst_ratio > 1);
            CHECK(std::abs(result.worst->error - 3.0) < 0.15);
            CHECK(result.worst->computed != result.worst->expected);

            Case swapped = fresh();
            for (std::int64_t i = 0; i < 70; ++i) {
                const auto left = get(swapped.c, i * 45 + 3);
                set(swapped.c, i * 45 + 3, get(swapped.c, i * 45 + 4));
                set(swapped.c, i * 45 + 4, left);
            }
            CHECK(swapped.verify(mode).verdict == "failed");

            // The last step of K left out: op(A)'s last column counts as zero.
            Case shorter = fresh();
            const Matrix a = random_matrix({33, 70}, type, 1);
            for (std::int64_t i = 0; i < 70; ++i) set(shorter.a, 32 * 70 + i, 0.0);
            shorter.compute();
            std::memcpy(shorter.a.data(), a.data(), a.bytes());
            CHECK(shorter.verify(mode).verdict == "failed");
            CHECK(shorter.verify(mode).mismatches > 60);

            Case stale = fresh();
            set(stale.c, 69 * 45 + 44, 77.0);
            CHECK(stale.verify(mode).verdict == "failed");

            if (is_integer(type)) continue;
            for (const double special : {kNaN, kInf, -kInf}) {
                Case unset = fresh();
                set(unset.c, at, special);
                const Verification found = unset.verify(mode);
                CHECK(found.verdict == "failed");
                CHECK(found.mismatches == 1);
                CHECK(found.worst_ratio == kInf);
                REQUIRE(found.worst);
                CHECK((found.worst->row == 41 && found.worst->col == 17));
            }
        }
    }
}

TEST_CASE("the tolerance is sharp: errors just below pass and just above fail") {
    // One element of eight terms of modulus 1 that cancel: S = 8, Σt² = 8, Σt = 0. The expectation of the
    // squares of the partial sums is 8·8/6, of the products 8, and nothing is scaled.
    Case x(Type::f64, 1, 1, 8);
    for (std::int64_t i = 0; i < 8; ++i) {
        set(x.a, i, i % 2 == 0 ? 1.0 : -1.0);
        set(x.b, i, 1.0);
    }
    const double tolerance = 9 * 0x1p-53 * std::sqrt(8 * 8 / 6.0 + 8);
    const double worst = 11 * 0x1p-53 * 8;  // K + 3 roundings of 2^-53
    set(x.c, 0, 0.99 * tolerance);
    Verification result = x.verify(VerifyMode::full);
    CHECK(result.verdict == "passed");
    CHECK(std::abs(result.expected_ratio - 0.99) < 0.002);
    CHECK(std::abs(result.worst_ratio - 0.99 * tolerance / worst) < 0.002);
    REQUIRE(result.detects);
    CHECK(std::abs(result.detects->absolute - tolerance) < 0.002 * tolerance);
    set(x.c, 0, -1.01 * tolerance);
    result = x.verify(VerifyMode::full);
    CHECK(result.verdict == "failed");
    CHECK(result.worst_ratio < 1);

    // Of one product there is nothing to expect but the worst case.
    Case one(Type::f64, 1, 1, 1);
    set(one.a, 0, 3.0);
    set(one.b, 0, 1.0);
    set(one.c, 0, 3 + 0.99 * 4 * 0x1p-53 * 3);
    CHECK(one.verify(VerifyMode::full).verdict == "passed");
    set(one.c, 0, 3 + 8 * 0x1p-53 * 3);
    CHECK(one.verify(VerifyMode::full).verdict == "failed");

    // A tolerance takes the place of the bound.
    CHECK(x.verify(VerifyMode::full, 1e-6).verdict == "passed");
    set(x.c, 0, 8.1e-6);
    CHECK(x.verify(VerifyMode::full, 1e-6).verdict == "failed");
    set(x.c, 0, 7.9e-6);
    CHECK(x.verify(VerifyMode::full, 1e-6).verdict == "passed");
    CHECK(x.verify(VerifyMode::freivalds, 1e-7).verdict == "failed");
}

TEST_CASE("the reference of f64 has twice the precision of double") {
    // Plain double loses the 1 beside 2^60, and the square's last bits.
    Case x(Type::f64, 1, 1, 5);
    const std::array<double, 5> a = {0x1p60, 1.0, -0x1p60, 0.0, 0x1.0000000000001p0};
    const std::array<double, 5> b = {1.0, 1.0, 1.0, 1.0, 0x1.0000000000001p0};
    for (std::int64_t i = 0; i < 5; ++i) {
        set(x.a, i, a[static_cast<std::size_t>(i)]);
        set(x.b, i, b[static_cast<std::size_t>(i)]);
    }
    const std::array<std::int64_t, 1> rows = {0};
    FloatTile tile;
    reference_tile(x.problem, x.operands(), {rows, 0, 1}, tile);
    // 1 + (1 + 2^-52)² = 2 + 2^-51 + 2^-104
    CHECK((tile.re.sum[0] - 2) + tile.re.correction[0] == 0x1p-51);
    const ReferenceElement element = finish(ReferenceScalars(x.problem), tile, 0, 0.0);
    CHECK((element.re.value.high - 2) + element.re.value.low == 0x1p-51);
    CHECK(tile.re.magnitude[0] == 0x1p61);
    CHECK(tile.re.squares[0] == 0x1p121);
}

TEST_CASE("integers are exact and wrap, and wrapped results are counted") {
    Case x(Type::i32, 2, 3, 2);
    const std::int32_t big = std::numeric_limits<std::int32_t>::max();
    for (std::int64_t i = 0; i < 4; ++i) x.a.as<std::int32_t>()[i] = i < 2 ? big : 1;
    for (std::int64_t i = 0; i < 6; ++i) x.b.as<std::int32_t>()[i] = 1;
    x.compute();
    CHECK(x.c.as<std::int32_t>()[0] == -2);
    Verification result = x.verify(VerifyMode::full);
    CHECK(result.verdict == "passed");
    CHECK(result.wrapped == 3);

    Case wide(Type::i64, 40, 30, 50);
    std::mt19937_64 random(9);
    for (std::int64_t i = 0; i < 40 * 50; ++i)
        wide.a.as<std::int64_t>()[i] = static_cast<std::int64_t>(random());
    for (std::int64_t i = 0; i < 50 * 30; ++i)
        wide.b.as<std::int64_t>()[i] = static_cast<std::int64_t>(random());
    wide.compute();
    CHECK(wide.verify(VerifyMode::full).wrapped == 40 * 30);
    for (const auto mode : both_modes) {
        CHECK(wide.verify(mode).verdict == "passed");
        wide.c.as<std::int64_t>()[700] ^= std::int64_t{1} << 63;  // the highest bit alone, in one element
        CHECK(wide.verify(mode).mismatches == 1);
        wide.c.as<std::int64_t>()[701] ^= std::int64_t{1} << 63;  // and in two of one row
        CHECK(wide.verify(mode).mismatches == (mode == VerifyMode::full ? 2 : 1));
        wide.compute();
    }
}

TEST_CASE("infinities and NaN of the inputs are expected in the result") {
    for (const Type type : {Type::f16, Type::bf16, Type::f32, Type::f64, Type::c64, Type::c128}) {
        Case x(type, 20, 30, 10, false, true);
        set(x.a, 3 * 10 + 4, kInf);
        set(x.a, 5 * 10 + 4, kNaN);
        set(x.d, 7 * 30 + 8, -kInf);
        run_level("naive", x);
        for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
            const Verification result = x.verify(mode);
            INFO(name_of(type));
            CHECK(result.verdict == "passed");
            CHECK(result.note.empty() == (mode == VerifyMode::full));
        }
        const auto right = get(x.c, 3 * 30 + 1);
        for (const double wrong : {1.0, is_complex(type) ? 0.0 : -right.real()}) {
            set(x.c, 3 * 30 + 1, wrong);
            CHECK(x.verify(VerifyMode::full).mismatches == 1);
        }
        set(x.c, 3 * 30 + 1, right);
        set(x.c, 5 * 30 + 2, 0.0);
        CHECK(x.verify(VerifyMode::full).mismatches == 1);
        set(x.c, 5 * 30 + 2, {kNaN, is_complex(type) ? kNaN : 0});
        CHECK(x.verify(VerifyMode::full).mismatches == 0);
        set(x.c, 7 * 30 + 8, kNaN);  // and an imaginary part of 0
        CHECK(x.verify(VerifyMode::full).mismatches == 1);
    }
}

TEST_CASE("a result beyond the range of its type may be infinite, and nothing else") {
    Case half(Type::f16, 1, 1, 2);
    const auto with = [&](double a, double c) {
        set(half.a, 0, a);
        set(half.a, 1, a);
        set(half.b, 0, 1.0);
        set(half.b, 1, 1.0);
        set(half.c, 0, c);
        return half.verify(VerifyMode::full).verdict;
    };
    CHECK(with(40000, kInf) == "passed");
    CHECK(with(40000, -kInf) == "failed");
    CHECK(with(40000, kNaN) == "failed");
    CHECK(with(40000, 65504) == "failed");
    CHECK(with(-40000, -kInf) == "passed");
    CHECK(with(32000, kInf) == "failed");
    CHECK(with(32000, 64000) == "passed");
    CHECK(half.verify(VerifyMode::freivalds).verdict == "passed");
    CHECK(with(40000, kInf) == "passed");
    CHECK(half.verify(VerifyMode::freivalds).verdict == "passed");

    // Sums that overflow on the way, in f32 and f64: infinite, NaN or right, but not wrong.
    for (const Type type : {Type::f32, Type::f64}) {
        const double most = type == Type::f32 ? 0x1.8p127 : 0x1.8p1023;
        Case x(type, 1, 1, 4);
        for (std::int64_t k = 0; k < 4; ++k) {
            set(x.a, k, k < 2 ? most : -most);
            set(x.b, k, k == 3 ? 0.75 : 1.0);
        }
        const auto verdict = [&](double c) {
            set(x.c, 0, c);
            return x.verify(VerifyMode::full).verdict;
        };
        INFO(name_of(type));
        CHECK(verdict(most / 4) == "passed");
        CHECK(verdict(most / 2) == "failed");
        CHECK(verdict(0) == "failed");
        CHECK(verdict(kInf) == "passed");
        CHECK(verdict(kNaN) == "passed");
        CHECK(x.verify(VerifyMode::freivalds).verdict == "passed");
        // A single product far beyond the range.
        for (std::int64_t k = 0; k < 4; ++k) {
            set(x.a, k, k == 0 ? most : 0.0);
            set(x.b, k, most);
        }
        CHECK(verdict(kInf) == "passed");
        for (const double wrong : {1.0, most, -kInf, kNaN}) CHECK(verdict(wrong) == "failed");
    }
}

TEST_CASE("a part of a complex element that overflows hides nothing in the other") {
    for (const Type type : {Type::c64, Type::c128}) {
        INFO(name_of(type));
        const double large = type == Type::c64 ? 0x1p100 : 0x1p700;
        Case x(type, 1, 1, 1);
        set(x.a, 0, {large, 0});
        set(x.b, 0, {large, 2});
        const auto verdict = [&](std::complex<double> c) {
            set(x.c, 0, c);
            return x.verify(VerifyMode::full).verdict;
        };
        CHECK(verdict({kInf, 2 * large}) == "passed");
        CHECK(verdict({kInf, kNaN}) == "passed");  // where α = 1 is taken for 1 + 0i
        CHECK(verdict({kInf, 12345}) == "failed");
        CHECK(verdict({kInf, -2 * large}) == "failed");
        CHECK(verdict({-kInf, 2 * large}) == "failed");
        CHECK(verdict({large, 2 * large}) == "failed");
        x.problem.alpha = {{0, -1}, 0};
        CHECK(verdict({2 * large, -kInf}) == "passed");
        CHECK(verdict({2 * large, kInf}) == "failed");
        CHECK(verdict({large, -kInf}) == "failed");
    }
}

TEST_CASE("each part of a complex element is compared in its own digits") {
    // One part is beyond the range, or so large that its terms are; the other one is some 2^1000 times
    // smaller.
    const auto verdict = [](Case& x, std::complex<double> c) {
        set(x.c, 0, c);
        return x.verify(VerifyMode::full).verdict;
    };
    Case added(Type::c128, 1, 1, 1, false, true);
    added.problem.alpha = Scalar::of(1);
    added.problem.beta = {{0x1p1000, 0}, 0};
    set(added.a, 0, {3, 0});
    set(added.b, 0, {0x1p-30, 0x1p-30});
    set(added.d, 0, {0x1p-1020, -0x1p100});  // β·D is 2^−20 − ∞i
    const double right = 3 * 0x1p-30 + 0x1p-20;
    CHECK(verdict(added, {right, -kInf}) == "passed");
    for (const double wrong : {right * (1 + 0x1p-40), right * 1.003, right / 2, 0.0})
        CHECK(verdict(added, {wrong, -kInf}) == "failed");
    CHECK(verdict(added, {right, kInf}) == "failed");
    CHECK(verdict(added, {right, 1.0}) == "failed");
    // The same in the products: ai·bi passes the range, where ar·bi and ai·br are 1 and 2.
    Case products(Type::c128, 1, 1, 1);
    set(products.a, 0, {0x1p-1000, 0x1p1000});
    set(products.b, 0, {0x1p-999, 0x1p1000});
    CHECK(verdict(products, {-kInf, 3}) == "passed");
    CHECK(verdict(products, {-kInf, 3 * (1 + 0x1p-40)}) == "failed");
    CHECK(verdict(products, {kInf, 3}) == "failed");
    // And in α.
    Case scaled(Type::c128, 1, 1, 1);
    scaled.problem.alpha = {{0x1p1000, 0x1p-1000}, 0};
    set(scaled.a, 0, {0x1p1000, 0});
    set(scaled.b, 0, {1, 0});
    CHECK(verdict(scaled, {kInf, 1}) == "passed");
    CHECK(verdict(scaled, {kInf, 1 + 0x1p-40}) == "failed");
    CHECK(verdict(scaled, {kInf, 0}) == "failed");
}

TEST_CASE("an infinity of the inputs shows through terms that overflow") {
    // Plain double gives NaN for each of these, a fused multiply-add the infinity; both are right.
    struct Sum {
        std::array<double, 3> a;
        std::array<double, 3> b;
        double d;
        double alpha;
        double beta;
        double result;
    };
    for (const Sum& sum : {Sum{{1, 0x1p1000, -0x1p1000}, {1, 0x1p1000, 0x1p1000}, kInf, 1, 1e-300, kInf},
                           Sum{{0x1p-1070, 0x1p1000, -0x1p1000}, {kInf, 0x1p1000, 0x1p1000}, 0, 1, 1, kInf},
                           Sum{{kInf, 1, 1}, {1, 1, 1}, 0x1p1000, -2, 1e300, -kInf}}) {
        Case x(Type::f64, 1, 1, 3);
        x.problem.alpha = {{sum.alpha, 0}, 0};
        x.problem.beta = {{sum.beta, 0}, 0};
        for (std::size_t k = 0; k < 3; ++k) {
            set(x.a, static_cast<std::int64_t>(k), sum.a[k]);
            set(x.b, static_cast<std::int64_t>(k), sum.b[k]);
        }
        set(x.d, 0, sum.d);
        const auto verdict = [&](double c) {
            set(x.c, 0, c);
            return x.verify(VerifyMode::full).verdict;
        };
        CHECK(verdict(sum.result) == "passed");
        CHECK(verdict(kNaN) == "passed");
        CHECK(verdict(-sum.result) == "failed");
        CHECK(verdict(1.0) == "failed");
    }
}

TEST_CASE("an infinity in a part of a complex element hides nothing in the other") {
    Case x(Type::c128, 1, 1, 1, false, true);
    x.problem.alpha = x.problem.beta = Scalar::of(1);
    set(x.a, 0, {1, 2});
    set(x.b, 0, {1, 1});  // a product of −1 + 3i
    set(x.d, 0, {kInf, 3});
    const auto verdict = [&](std::complex<double> c) {
        set(x.c, 0, c);
        return x.verify(VerifyMode::full).verdict;
    };
    CHECK(verdict({kInf, 6}) == "passed");
    CHECK(verdict({kInf, kNaN}) == "passed");  // where β = 1 is taken for 1 + 0i
    for (const std::complex<double> wrong :
         {std::complex<double>(-kInf, 6), {kInf, 999}, {7, kNaN}, {kInf, kInf}, {7, 6}}) {
        INFO(wrong);
        CHECK(verdict(wrong) == "failed");
    }
}

TEST_CASE("a sum may be infinite only in the direction in which additions pass the range") {
    constexpr double kMost = 1.5e308;
    const auto verdict = [](std::array<double, 4> elements, double found) {
        Problem problem{.operation = &kReduce, .type = Type::f64, .m = 1, .n = 4};
        problem.choices = {{"op", "sum"}, {"axis", "all"}};
        const Operands operands = operands_at(problem, std::array<const void*, 1>{elements.data()}, &found);
        return verify_reduction(problem, operands, {}).verdict;
    };
    CHECK(verdict({kMost, kMost, 0, 1}, kInf) == "passed");
    for (const double wrong : {-kInf, kNaN, kMost}) CHECK(verdict({kMost, kMost, 0, 1}, wrong) == "failed");
    CHECK(verdict({-kMost, -kMost, 0, 1}, -kInf) == "passed");
    CHECK(verdict({-kMost, -kMost, 0, 1}, kInf) == "failed");
    for (const double right : {kInf, -kInf, kNaN, 0.0})
        CHECK(verdict({kMost, kMost, -kMost, -kMost}, right) == "passed");
    CHECK(verdict({kMost, 0x1p1000, -kMost, 0}, 0x1p1000) == "passed");
    CHECK(verdict({kMost, 0x1p1000, -kMost, 0}, kInf) == "failed");
    // An infinity among the elements meets the one to which the others can add up.
    for (const double right : {kInf, kNaN}) CHECK(verdict({-kMost, -kMost, 0, kInf}, right) == "passed");
    for (const double wrong : {-kInf, 0.0, kMost})
        CHECK(verdict({-kMost, -kMost, 0, kInf}, wrong) == "failed");
    CHECK(verdict({kMost, kMost, 0, kInf}, kNaN) == "failed");
    CHECK(verdict({-kMost, 1, 0, kInf}, kNaN) == "failed");
    CHECK(verdict({kMost, kMost, 5, -kInf}, kNaN) == "passed");
    CHECK(verdict({-kMost, -kMost, kInf, -kInf}, kInf) == "failed");
}

TEST_CASE("a large product is checked at random, a small one in full") {
    Case small(Type::f32, 8, 8, 8);
    CHECK(small.verify(VerifyMode::automatic).mode == "full");
    CHECK(small.verify(VerifyMode::none).mode == "none");
    CHECK(small.verify(VerifyMode::none).verdict == "skipped");
    CHECK(verify_mode_from_name("auto") == VerifyMode::automatic);
    CHECK(!verify_mode_from_name("half"));
    // 2^34 operations; all zero, but for one wrong element.
    Case large(Type::f32, 4, 4, 4);
    large.problem.m = large.problem.n = 2048;
    large.problem.k = 2048;
    large.a = Matrix({2048, 2048}, Type::f32);
    large.b = Matrix({2048, 2048}, Type::f32);
    large.c = Matrix({2048, 2048}, Type::f32);
    for (Matrix* matrix : {&large.a, &large.b, &large.c}) std::memset(matrix->data(), 0, matrix->bytes());
    large.c.as<float>()[2000 * 2048 + 5] = 1e-30F;
    const Verification result = large.verify(VerifyMode::automatic);
    CHECK(result.mode == "freivalds");
    CHECK(result.verdict == "failed");
    REQUIRE(result.worst);
    CHECK((result.worst->row == 2000 && result.worst->col == 5));
}

TEST_CASE("wrong elements are found in every part of a tall product") {
    // Rows are taken some at a time; these lie on both sides of where one part ends and the next begins.
    constexpr std::int64_t kRows = (1 << 18) + 70000;
    for (const Type type : {Type::f32, Type::i32}) {
        for (const auto mode : both_modes) {
            Case x(type, kRows, 3, 2);
            CHECK(x.verify(mode).verdict == "passed");
            const std::array<std::int64_t, 6> rows = {0,       (1 << 15) - 1, 1 << 15, (1 << 18) - 1,
                                                      1 << 18, kRows - 1};
            for (const std::int64_t row : rows) set(x.c, 3 * row + 1, get(x.c, 3 * row + 1) + 9.0);
            set(x.c, 3 * rows[3] + 1, get(x.c, 3 * rows[3] + 1) + 1000.0);
            const Verification result = x.verify(mode);
            INFO(name_of(type) << " " << result.mode);
            CHECK(result.verdict == "failed");
            CHECK(result.mismatches == 6);
            REQUIRE(result.worst);
            if (type == Type::f32) CHECK(result.worst->row == rows[3]);
            CHECK(result.worst->col == 1);
        }
    }
}

TEST_CASE("a result without elements verifies at once, whatever its other extent") {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (const Shape& shape : {Shape{0, kMost}, Shape{kMost, 0}}) {
        const MatrixView in = {.type = Type::f64, .shape = shape, .ld = shape.cols};
        const MatrixView out = {.type = Type::f64, .shape = shape.transposed(), .ld = shape.rows};
        const Verification result = verify_transpose(in, out, {.threads = 2});
        CHECK(result.verdict == "passed");
        CHECK(result.mode == "full");
        const Problem problem = {
            .operation = &kMultiply, .type = Type::f64, .m = shape.rows, .n = shape.cols, .k = 0};
        for (const auto mode : {VerifyMode::automatic, VerifyMode::full, VerifyMode::freivalds})
            CHECK(verify_multiply(problem, {}, {.mode = mode, .threads = 2}).verdict == "passed");
        CHECK(verification_bytes(problem, VerifyMode::freivalds) == 0);
    }
}

TEST_CASE("only a randomized check needs memory that grows with the matrices") {
    Problem problem = {.operation = &kMultiply, .type = Type::f32, .m = 100, .n = 200, .k = 300};
    CHECK(verification_bytes(problem, VerifyMode::automatic) == 0);
    CHECK(verification_bytes(problem, VerifyMode::full) == 0);
    CHECK(verification_bytes(problem, VerifyMode::none) == 0);
    // 200 rows of X, of 16 real numbers; 300 of B·X and three times 100 of C, of 16 complex numbers and a sum
    // of squares; copies of 16 + 8 rows of C.
    CHECK(verification_bytes(problem, VerifyMode::freivalds) ==
          200 * 16 * 8 + (300 + 3 * 100) * (2 * 16 + 1) * 8 + (16 + 8) * 200 * 4);
    problem.m = problem.n = problem.k = 100000;
    CHECK(verification_bytes(problem, VerifyMode::automatic) > 0);
    problem.k = std::numeric_limits<std::int64_t>::max();
    CHECK(verification_bytes(problem, VerifyMode::freivalds) >= std::uint64_t{1} << 62);  // and no less
    problem.operation = &kTranspose;
    CHECK(verification_bytes(problem, VerifyMode::freivalds) == 0);
}

TEST_CASE("transposes are compared bit for bit") {
    for (const Type type : all_types()) {
        for (const Shape shape : {Shape{0, 3}, Shape{1, 1}, Shape{130, 67}, Shape{1, 200}}) {
            Matrix in(shape, type);
            Matrix out(shape.transposed(), type);
            std::mt19937_64 random(4);
            for (std::size_t i = 0; i < in.bytes(); ++i) in.data()[i] = static_cast<std::byte>(random());
            const std::size_t size = size_of(type);
            for (std::int64_t i = 0; i < shape.rows; ++i) {
                for (std::int64_t j = 0; j < shape.cols; ++j) {
                    std::memcpy(out.data() + static_cast<std::size_t>(j * shape.rows + i) * size,
                                in.data() + static_cast<std::size_t>(i * shape.cols + j) * size, size);
                }
            }
            INFO(name_of(type) << " " << to_string(shape));
            const VerifyOptions options{.threads = 2};
            Verification result = verify_transpose(in.view(), out.view(), options);
            CHECK(result.verdict == "passed");
            CHECK(result.mode == "full");
            CHECK_FALSE(result.worst);
            if (shape.elements() < 200) continue;
            // One bit of one element; for floating types the sign of a zero would count as well.
            const std::int64_t at = shape.rows * shape.cols - 2;
            out.data()[static_cast<std::size_t>(at) * size] ^= std::byte{1};
            result = verify_transpose(in.view(), out.view(), options);
            CHECK(result.verdict == "failed");
            CHECK(result.mismatches == 1);
            REQUIRE(result.worst);
            CHECK(result.worst->row == at / shape.rows);
            CHECK(result.worst->col == at % shape.rows);
        }
    }
    const Matrix in({2, 3}, Type::f32);
    const Matrix out({2, 3}, Type::f32);
    CHECK_THROWS_AS(verify_transpose(in.view(), out.view(), {}), Error);
}

namespace {

/// A value of the kinds that bounds go wrong on: over the whole range of the type, subnormal, huge, with
/// products that underflow or nearly overflow, mixed, sparse, constant.
double hard_value(int kind, Type type, std::mt19937_64& random) {
    const bool wide = type == Type::f64 || type == Type::c128;
    const int high = type == Type::f16 ? 15 : wide ? 1023 : 127;
    const int low = type == Type::f16 ? -24 : type == Type::bf16 ? -133 : wide ? -1074 : -149;
    const double unit = std::uniform_real_distribution<double>(-1, 1)(random);
    switch (kind) {
        case 0:
            return std::ldexp(unit, low + static_cast<int>(random() % static_cast<unsigned>(high - low)));
        case 1:
            return std::ldexp(unit, low + 8);
        case 2:
            return std::ldexp(unit, high);
        case 3:
            return std::ldexp(unit, low / 2);
        case 4:
            return std::ldexp(unit, high / 2 + static_cast<int>(random() % 3) - 1);
        case 5:
            return random() % 4 == 0 ? std::ldexp(unit, high / 2) : unit;
        case 6:
            return random() % 3 == 0 ? unit : 0.0;
        case 7:
            return 0.1;
        case 8:
            return random() % 60 == 0 ? kInf : random() % 60 == 1 ? kNaN : unit;
        default:
            return random() % 60 == 0 ? -kInf : std::ldexp(unit, high);
    }
}

void fill_hard(Matrix& matrix, int kind, bool cancelling, std::mt19937_64& random) {
    for (std::int64_t i = 0; i < matrix.shape().elements(); ++i) {
        const bool opposite = cancelling && i % 2 == 1;
        const std::complex<double> fresh(hard_value(kind, matrix.type(), random),
                                         hard_value(kind, matrix.type(), random));
        set(matrix, i, opposite ? -get(matrix, i - 1) : fresh);
    }
}

}  // namespace

TEST_CASE("correct levels pass on inputs that overflow, underflow and cancel") {
    const auto registry = Registry::standard();
    const Device device{.kind = DeviceKind::cpu, .threads = 1};
    std::mt19937_64 random(11);
    for (int i = 0; i < (kAddressSanitizer ? 150 : 600); ++i) {
        const Type type = kMultiplyTypes[random() % 6];
        const auto size = [&](unsigned most) { return static_cast<std::int64_t>(random() % most); };
        Case x(type, size(20), size(20), i % 8 == 0 ? size(1500) : size(60), random() % 2 == 0);
        const double huge = type == Type::f64 || type == Type::c128 ? 1e300 : 1e38;
        const auto scalar = [&] {
            const std::array choices = {1.0, 0.3, -2.0, huge, 1 / huge, 1e10, 1e-30};
            return Scalar{{choices[random() % choices.size()], is_complex(type) ? 0.5 : 0.0}, 0};
        };
        x.problem.alpha = scalar();
        x.problem.beta = random() % 2 == 0 ? scalar() : Scalar::of(0);
        for (Matrix* matrix : {&x.a, &x.b, &x.d}) {
            fill_hard(*matrix, static_cast<int>(random() % 10), random() % 3 == 0, random);
        }
        for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu)) {
            if (!unsupported_reasons(*level, x.problem, device).empty()) continue;
            run_level(level->name, x);
            for (const auto mode : both_modes) {
                const Verification result = x.verify(mode);
                INFO("case " << i << " " << name_of(type) << " " << level->name << " " << result.mode);
                REQUIRE(result.verdict == "passed");
            }
        }
    }
}

/// c = 3/4·a·b − 3/2·d in exact fractions, each element rounded once. Arguments: folder, NumPy type.
constexpr const char* kExactMultiply = R"(
import sys
import numpy as np
from fractions import Fraction as F
folder, dtype = sys.argv[1:]
a, b, d = [np.fromfile(folder + "/" + name, dtype=dtype) for name in "abd"]
a, b, d = a.reshape(7, 60), b.reshape(60, 5), d.reshape(7, 5)
def element(i, j):
    products = sum(F(float(p)) * F(float(q)) for p, q in zip(a[i], b[:, j]))
    return float(F(3, 4) * products - F(3, 2) * F(float(d[i, j])))
c = [[element(i, j) for j in range(5)] for i in range(7)]
np.array(c).astype(dtype).tofile(folder + "/c")
)";

TEST_CASE("the reference agrees with exact fractions") {
    const TemporaryFolder folder;
    for (const Type type : {Type::f32, Type::f64}) {
        Case x(type, 7, 5, 60, false, true);
        std::mt19937_64 random(13);
        for (Matrix* matrix : {&x.a, &x.b, &x.d}) fill_hard(*matrix, 5, true, random);
        x.compute();
        const std::string dtype = type == Type::f32 ? "<f4" : "<f8";
        for (const auto& [name, matrix] : {std::pair("a", &x.a), {"b", &x.b}, {"d", &x.d}}) {
            write_file(folder / name, {reinterpret_cast<const char*>(matrix->data()), matrix->bytes()});
        }
        REQUIRE(std::system((std::string(GPUMAT_TEST_PYTHON " -c '")
                                 .append(kExactMultiply)
                                 .append("' " + folder.path() + " '" + dtype + "'"))
                                .c_str()) == 0);
        const std::string exact = file_text(folder / "c");
        REQUIRE(exact.size() == x.c.bytes());
        CHECK(std::memcmp(exact.data(), x.c.data(), exact.size()) == 0);
        std::memcpy(x.c.data(), exact.data(), exact.size());
        CHECK(x.verify(VerifyMode::full).worst_ratio < 0.02);  // half a rounding of the 63 allowed
    }
}
