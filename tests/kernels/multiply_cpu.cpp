// Every CPU level of multiply, on every type and on shapes around its tiles: with integer values, which every
// order of additions must give exactly, and with random values within a proved bound.
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/registry.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/spread.hpp"

using namespace gpumat;
using multiply::Result;

namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class T>
std::complex<double> widen(const T& value) {
    if constexpr (kIsComplex<T>) {
        return {value.real(), value.imag()};
    } else {
        return static_cast<double>(value);
    }
}

template <class T>
T narrow(double re, double im) {
    if constexpr (kIsComplex<T>) {
        return T(static_cast<typename T::value_type>(re), static_cast<typename T::value_type>(im));
    } else {
        return static_cast<T>(re);
    }
}

enum class Values {
    whole,   ///< small integers: every sum of products is exact in every type
    random,  ///< [-1, 1] for floating point, all bits for integers (which wrap)
};

template <class T>
std::vector<T> make(std::int64_t count, Values values, std::uint32_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<int> whole(kIsHalf<T> ? -1 : -4, kIsHalf<T> ? 1 : 4);
    std::uniform_real_distribution<double> real(-1, 1);
    std::vector<T> result(static_cast<std::size_t>(count));
    for (T& value : result) {
        if (values == Values::whole) {
            value = narrow<T>(whole(random), whole(random));
        } else if constexpr (std::is_integral_v<T>) {
            value = static_cast<T>(random());
        } else {
            value = narrow<T>(real(random), real(random));
        }
    }
    return result;
}

/// A value of the reference with its absolute value.
struct Wide {
    long double re = 0;
    long double im = 0;
    long double size = 0;
};

Wide wide(const std::complex<double>& value) {
    return {value.real(), value.imag(), std::abs(std::complex<long double>(value))};
}

/// α·A·B + β·D at one element, and in `size` the same sum of absolute values.
Wide add_product(const Wide& x, const Wide& y, const Wide& sum) {
    return {sum.re + x.re * y.re - x.im * y.im, sum.im + x.re * y.im + x.im * y.re,
            sum.size + x.size * y.size};
}

/// The exact result of an element: of integers as it is, else with the sum of absolute values that its error
/// scales with.
template <class T>
using Expected = std::conditional_t<std::is_integral_v<T>, Result<T>, Wide>;

template <class T>
struct Case;
template <class T>
Expected<T> expected(const Case<T>& c, std::int64_t i, std::int64_t j);

/// One problem with its operands and what it gives, for all levels. D is full of NaN (or noise) where β = 0:
/// it must not be read.
template <class T>
struct Case {
    Problem problem;
    Values values;
    std::vector<T> a;
    std::vector<T> b;
    std::vector<Result<T>> d;
    std::vector<Wide> wide_a;  // op(A) by rows; empty for integers
    std::vector<Wide> wide_b;  // op(B) by columns
    std::vector<Expected<T>> results;

    Case(const Problem& p, Values v) : problem(p), values(v) {
        a = make<T>(p.m * p.k, values, 1);
        b = make<T>(p.k * p.n, values, 2);
        d = make<Result<T>>(p.m * p.n, values, 3);
        if (p.beta.is_zero(p.type) && !d.empty()) {
            std::memset(static_cast<void*>(d.data()), 0xff, d.size() * sizeof(Result<T>));
        }
        if constexpr (!std::is_integral_v<T>) {
            for (std::int64_t i = 0; i < p.m; ++i) {
                for (std::int64_t k = 0; k < p.k; ++k) wide_a.push_back(wide(widen(op_a(i, k))));
            }
            for (std::int64_t j = 0; j < p.n; ++j) {
                for (std::int64_t k = 0; k < p.k; ++k) wide_b.push_back(wide(widen(op_b(k, j))));
            }
        }
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t j = 0; j < p.n; ++j) results.push_back(expected(*this, i, j));
        }
    }

    [[nodiscard]] const T& op_a(std::int64_t i, std::int64_t k) const {
        return a[static_cast<std::size_t>(problem.transpose_a ? k * problem.m + i : i * problem.k + k)];
    }
    [[nodiscard]] const T& op_b(std::int64_t k, std::int64_t j) const {
        return b[static_cast<std::size_t>(problem.transpose_b ? j * problem.k + k : k * problem.n + j)];
    }
};

template <class T>
Expected<T> expected(const Case<T>& c, std::int64_t i, std::int64_t j) {
    const auto at = static_cast<std::size_t>(i * c.problem.n + j);
    if constexpr (std::is_integral_v<T>) {  // modulo 2^64, of which the type keeps the low bits
        std::uint64_t sum = 0;
        for (std::int64_t k = 0; k < c.problem.k; ++k)
            sum += static_cast<std::uint64_t>(c.op_a(i, k)) * static_cast<std::uint64_t>(c.op_b(k, j));
        sum *= static_cast<std::uint64_t>(c.problem.alpha.integer);
        if (c.problem.beta.integer != 0)
            sum += static_cast<std::uint64_t>(c.problem.beta.integer) * static_cast<std::uint64_t>(c.d[at]);
        return static_cast<Result<T>>(sum);
    } else {
        const Wide* row = c.wide_a.data() + i * c.problem.k;
        const Wide* column = c.wide_b.data() + j * c.problem.k;
        Wide sum;
        for (std::int64_t k = 0; k < c.problem.k; ++k) sum = add_product(row[k], column[k], sum);
        sum = add_product(wide(c.problem.alpha.value), sum, {});
        if (c.problem.beta.is_zero(c.problem.type)) return sum;
        return add_product(wide(c.problem.beta.value), wide(widen(c.d[at])), sum);
    }
}

/// Unit roundoff of the type that sums have, and of the result.
template <class T>
constexpr long double kSumRoundoff =
    std::is_same_v<T, double> || std::is_same_v<T, std::complex<double>> ? 0x1p-53L : 0x1p-24L;
template <class T>
constexpr long double kResultRoundoff = std::is_same_v<T, Half>       ? 0x1p-11L
                                        : std::is_same_v<T, BFloat16> ? 0x1p-8L
                                                                      : 0.0L;  // it is the sum itself

/// What |computed − exact| may be at most. No product or term goes through more than 2·K + 7 roundings,
/// however the sum over K is split (a complex product is two, each part of it is a sum of 2·K), so the error
/// is at most γ of that many times the sum of absolute values (Higham, Accuracy and Stability, 3.1). √2: a
/// complex α mixes the errors of both parts. A half rounds once more, its subnormals by 2^-25.
template <class T>
long double bound(const Problem& problem, const Wide& exact) {
    const long double steps = static_cast<long double>(2 * problem.k + 7) * kSumRoundoff<T>;
    const long double error = steps / (1 - steps) * exact.size * (kIsComplex<T> ? std::sqrt(2.0L) : 1.0L);
    return error + kResultRoundoff<T> * (std::hypot(exact.re, exact.im) + error) +
           (std::is_same_v<T, Half> ? 0x1p-25L : 0.0L);
}

/// The number of elements that are wrong; written so that NaN counts.
template <class T>
std::int64_t wrong_elements(const Case<T>& c, const Result<T>* computed) {
    std::int64_t wrong = 0;
    for (const Expected<T>& exact : c.results) {
        const Result<T>& found = *computed++;
        if constexpr (std::is_integral_v<T>) {
            if (found != exact) ++wrong;
        } else {
            const std::complex<double> value = widen(found);
            const long double allowed = c.values == Values::whole ? 0.0L : bound<T>(c.problem, exact);
            if (!(std::abs(value.real() - exact.re) <= allowed) ||
                !(std::abs(value.imag() - exact.im) <= allowed)) {
                ++wrong;
            }
        }
    }
    return wrong;
}

struct Sizes {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

std::string case_name(Type type, const Sizes& s) {
    return "multiply_" + std::string(name_of(type)) + "_" + std::to_string(s.m) + "x" + std::to_string(s.n) +
           "x" + std::to_string(s.k);
}
std::string case_name(const Level& level, Type type, const Sizes& s) {
    return case_name(type, s) + "_" + std::string(level.name);
}

/// A level with the parameters that it is given.
struct Candidate {
    const Level* level;
    Parameters parameters;
};

std::vector<Candidate> levels_as_they_are() {
    static const Registry registry = Registry::standard();
    std::vector<Candidate> all;
    for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu)) all.push_back({level, {}});
    return all;
}

template <class T>
void check(const Candidate& candidate, const Case<T>& c, int threads) {
    const Level& level = *candidate.level;
    Problem problem = c.problem;
    problem.parameters = candidate.parameters;
    const Device device{.kind = DeviceKind::cpu, .threads = threads, .gpu = nullptr};
    if (const Reasons reasons = unsupported_reasons(level, problem, device); !reasons.empty()) {
        for (const std::string& reason : reasons) CHECK(!reason.empty());
        return;
    }
    const auto elements = static_cast<std::size_t>(problem.m * problem.n);
    const std::size_t bytes = elements * sizeof(Result<T>);
    Guarded out(bytes, sizeof(Result<T>));
    const Launch launch = prepare_launch(
        level, problem,
        contiguous_operands(problem, {.a = c.a.data(), .b = c.b.data(), .d = c.d.data(), .c = out.data()}),
        device);
    CHECK(launch.level == level.name);
    launch.run({});
    std::vector<Result<T>> computed(elements);
    if (elements != 0) std::memcpy(static_cast<void*>(computed.data()), out.data(), bytes);
    INFO(level.name << (candidate.parameters.empty() ? "" : candidate.parameters.begin()->second)
                    << " transpose a " << problem.transpose_a << " b " << problem.transpose_b << " alpha "
                    << problem.alpha.value << " beta " << problem.beta.value << " values "
                    << (c.values == Values::whole ? "whole" : "random"));
    CHECK(wrong_elements(c, computed.data()) == 0);
    CHECK(out.intact());
    if (problem.beta.is_zero(problem.type)) {
        // Not even a null D may be touched, and a prepared launch gives the same bits again.
        Guarded again(bytes, sizeof(Result<T>));
        const Launch second = prepare_launch(
            level, problem,
            contiguous_operands(problem, {.a = c.a.data(), .b = c.b.data(), .c = again.data()}), device);
        second.run({});
        second.run({});
        CHECK((elements == 0 || std::memcmp(out.data(), again.data(), bytes) == 0));
    }
}

/// Runs the level on whole numbers in operands whose rows have gaps of so many elements between them. What is
/// between the rows of C must stay as it is.
template <class T>
void check_gaps(const Level& level, const Case<T>& c, std::int64_t gap) {
    const Problem& problem = c.problem;
    const Device device{.kind = DeviceKind::cpu, .threads = 2, .gpu = nullptr};
    if (!unsupported_reasons(level, problem, device).empty()) return;
    Operands operands = contiguous_operands(problem, {.a = c.a.data(), .b = c.b.data(), .d = c.d.data()});
    std::vector<std::vector<std::byte>> memory;
    std::int64_t further = gap;
    const auto spread_out = [&](Operand& operand, std::size_t size) {
        const auto row_bytes = static_cast<std::size_t>(operand.cols) * size;
        operand.pitch += further++;  // another pitch for each
        memory.push_back(spread(operand.as<std::byte>(), static_cast<std::size_t>(operand.rows), row_bytes,
                                static_cast<std::size_t>(operand.pitch) * size, std::byte{0xff}));
        operand.data = memory.back().data();
    };
    spread_out(operands.a, sizeof(T));
    spread_out(operands.b, sizeof(T));
    spread_out(operands.d, sizeof(Result<T>));
    operands.c.pitch += gap;
    const auto row_bytes = static_cast<std::size_t>(problem.n) * sizeof(Result<T>);
    const auto pitch_bytes = static_cast<std::size_t>(operands.c.pitch) * sizeof(Result<T>);
    const auto rows = static_cast<std::size_t>(problem.m);
    std::vector<std::byte> result((rows - 1) * pitch_bytes + row_bytes, std::byte{0xa5});
    operands.c.data = result.data();
    prepare_launch(level, problem, operands, device).run({});
    std::vector<Result<T>> computed(rows * static_cast<std::size_t>(problem.n));
    for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(static_cast<void*>(computed.data() + row * static_cast<std::size_t>(problem.n)),
                    result.data() + row * pitch_bytes, row_bytes);
    }
    CHECK(wrong_elements(c, computed.data()) == 0);
    CHECK((result == spread(reinterpret_cast<const std::byte*>(computed.data()), rows, row_bytes, pitch_bytes,
                            std::byte{0xa5})));
}

/// α and β that every type represents.
Scalar scalar(Type type, int whole, double fraction) {
    if (is_integer(type)) return Scalar::of(whole);
    return {.value = {whole + fraction, is_complex(type) ? 2 * fraction : 0.0}, .integer = 0};
}

/// A product of this type; i8 gives i32.
Problem product(Type type, const Sizes& s, Problem problem = {}) {
    problem.operation = &kMultiply;
    problem.type = type;
    problem.m = s.m;
    problem.n = s.n;
    problem.k = s.k;
    if (type == Type::i8) problem.choices["result"] = "i32";
    return problem;
}

/// All four storages of A and B with all four cases of α and β, paired differently from shape to shape.
void check_all(const std::vector<Candidate>& candidates, Type type, const Sizes& s, int threads) {
    constexpr std::int64_t kWholeHalves = 120;  // sums of so many products of -1, 0 and 1 are exact in bf16
    Problem problem = product(type, s);
    multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
        for (const Values values : {Values::whole, Values::random}) {
            if (values == Values::whole && kIsHalf<T> && s.k > kWholeHalves) continue;
            const double fraction = values == Values::whole ? 0 : 0.25;
            for (int storage = 0; storage < 4; ++storage) {
                const auto scalars = (storage + s.m + s.n + s.k) % 4;
                problem.transpose_a = (storage & 1) != 0;
                problem.transpose_b = (storage & 2) != 0;
                problem.alpha = scalars % 2 != 0 ? scalar(type, 2, fraction) : Scalar::of(1);
                problem.beta = scalars / 2 != 0 ? scalar(type, -3, fraction) : Scalar::of(0);
                const Case<T> c(problem, values);
                for (const Candidate& candidate : candidates) check<T>(candidate, c, threads);
            }
        }
    });
}

constexpr std::array kTypes = {Type::f32,  Type::f64, Type::c64, Type::c128, Type::f16,
                               Type::bf16, Type::i32, Type::i64, Type::u64,  Type::i8};

// Around the sides of the tiles, long and thin, prime, empty.
constexpr std::array kShapes = {
    Sizes{0, 0, 0},    Sizes{0, 5, 3},    Sizes{5, 0, 3},     Sizes{5, 3, 0},    Sizes{1, 1, 1},
    Sizes{2, 3, 4},    Sizes{13, 31, 29}, Sizes{16, 48, 7},   Sizes{63, 63, 63}, Sizes{64, 64, 64},
    Sizes{65, 65, 65}, Sizes{67, 43, 89}, Sizes{129, 65, 33}, Sizes{1, 90, 40},  Sizes{90, 1, 40},
    Sizes{40, 90, 1},  Sizes{1, 1, 120},  Sizes{3, 300, 5},   Sizes{300, 3, 5},
};

}  // namespace

TEST_CASE("every CPU multiply is right, whatever the shape and type", "[multiply]") {
    for (const Type type : kTypes) {
        DYNAMIC_SECTION(name_of(type)) {
            for (const Sizes& sizes : kShapes) {
                DYNAMIC_SECTION(case_name(type, sizes)) {
                    check_all(levels_as_they_are(), type, sizes, 3);
                }
            }
        }
    }
}

TEST_CASE("CPU multiplies take every choice of every parameter", "[multiply]") {
    std::vector<Candidate> candidates;
    for (const Candidate& plain : levels_as_they_are()) {
        for (const Parameter& parameter : plain.level->parameters) {
            for (const std::string_view choice : parameter.choices)
                candidates.push_back({plain.level, {{std::string(parameter.name), std::string(choice)}}});
        }
    }
    for (const Type type : kTypes) {
        DYNAMIC_SECTION(name_of(type)) {
            check_all(candidates, type, {67, 83, 71}, 2);
        }
    }
}

TEST_CASE("CPU multiplies of rows with gaps between them", "[multiply]") {
    for (const Type type : kTypes) {
        for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{67, 43, 89}, Sizes{64, 96, 64}, Sizes{3, 130, 5}}) {
            for (const int storage : {0, 1, 2, 3}) {
                DYNAMIC_SECTION(case_name(type, s) << "_" << storage) {
                    const Problem problem = product(type, s,
                                                    {.transpose_a = (storage & 1) != 0,
                                                     .transpose_b = (storage & 2) != 0,
                                                     .alpha = scalar(type, 2, 0),
                                                     .beta = scalar(type, storage % 2, 0)});
                    multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
                        const Case<T> c(problem, Values::whole);
                        for (const Candidate& candidate : levels_as_they_are()) {
                            for (const std::int64_t gap : {3, 16}) {
                                INFO(candidate.level->name << " with gaps of " << gap);
                                check_gaps<T>(*candidate.level, c, gap);
                            }
                        }
                    });
                }
            }
        }
    }
}

TEST_CASE("CPU multiplies of long sums", "[multiply]") {
    for (const Type type : types_of_long_cases(kTypes)) {
        for (const Sizes& sizes : {Sizes{19, 37, 1027}, Sizes{1, 1, 5000}, Sizes{46, 61, 517}}) {
            DYNAMIC_SECTION(case_name(type, sizes)) {
                check_all(levels_as_they_are(), type, sizes, 2);
            }
        }
    }
}

TEST_CASE("CPU multiplies that take more than one block of every extent", "[multiply]") {
    // Beyond outer-product's blocks: 240 × 768 a task, 3840 rows or columns, 384 of depth (complex types 192,
    // i8 1536).
    std::vector<Candidate> candidates = levels_as_they_are();
    std::erase_if(candidates, [](const Candidate& candidate) {
        return candidate.level->name != "outer-product" && candidate.level->name != "vendor";
    });
    REQUIRE(candidates.size() == 2);
    for (const Type type : types_of_long_cases(kTypes)) {
        for (const Sizes& sizes : {Sizes{251, 775, 7}, Sizes{3845, 5, 11}, Sizes{5, 3859, 11},
                                   Sizes{2, 3845, 390}, Sizes{3, 70, 3100}}) {
            DYNAMIC_SECTION(case_name(type, sizes)) {
                check_all(candidates, type, sizes, 3);
            }
        }
    }
}

TEST_CASE("our CPU multiplies give the same bits on any number of threads", "[multiply]") {
    // More than 384 of depth; more than one task of outer-product; both enough work for it to use threads.
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu, Role::rung)) {
        for (const Type type : kTypes) {
            for (const Sizes& s : {Sizes{131, 97, 389}, Sizes{251, 775, 11}}) {
                const Problem problem =
                    product(type, s, {.alpha = scalar(type, 2, 0.25), .beta = scalar(type, -3, 0.25)});
                if (!unsupported_reasons(*level, problem, {}).empty()) continue;
                DYNAMIC_SECTION(case_name(*level, type, s)) {
                    multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
                        const auto a = make<T>(s.m * s.k, Values::random, 1);
                        const auto b = make<T>(s.k * s.n, Values::random, 2);
                        const auto d = make<Result<T>>(s.m * s.n, Values::random, 3);
                        const auto on = [&](int threads) {
                            Guarded c(d.size() * sizeof(Result<T>));
                            prepare_launch(
                                *level, problem,
                                contiguous_operands(
                                    problem, {.a = a.data(), .b = b.data(), .d = d.data(), .c = c.data()}),
                                {.kind = DeviceKind::cpu, .threads = threads, .gpu = nullptr})
                                .run({});
                            return std::vector<std::byte>(c.data(), c.data() + d.size() * sizeof(Result<T>));
                        };
                        const auto expected = on(1);
                        for (const int threads : {2, 3, 5}) CHECK(on(threads) == expected);
                    });
                }
            }
        }
    }
}

namespace {

/// Calls `function` with every rung of the CPU, and with every choice of its vectors, that takes the problem.
template <class Function>
void for_all_rungs(const Problem& problem, const Function& function) {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu, Role::rung)) {
        const auto vectors = std::ranges::find(level->parameters, "vector", &Parameter::name);
        if (vectors == level->parameters.end()) {
            INFO(level->name);
            function(*level, problem);
            continue;
        }
        for (const std::string_view choice : vectors->choices) {
            INFO(level->name << " " << choice);
            Problem with = problem;
            with.parameters.emplace("vector", choice);
            if (unsupported_reasons(*level, with, {}).empty()) function(*level, with);
        }
    }
}

template <class T>
std::vector<Result<T>> computed_by(const Level& level, const Problem& problem, const std::vector<T>& a,
                                   const std::vector<T>& b) {
    std::vector<Result<T>> c(static_cast<std::size_t>(problem.m * problem.n));
    prepare_launch(level, problem,
                   contiguous_operands(problem, {.a = a.data(), .b = b.data(), .c = c.data()}), {})
        .run({});
    return c;
}

bool same(long double x, double y) {
    return std::isnan(x) ? std::isnan(y) : static_cast<double>(x) == y;
}

/// Small whole numbers, among which each row of A has one extreme value more than the one before, times ones:
/// every result is exact, infinite, or NaN.
template <class T>
void check_extremes(Type type, int storage) {
    const bool half = type == Type::f16;
    const bool wide = type == Type::f64 || type == Type::c128;
    const double largest = half                 ? 65504
                           : type == Type::bf16 ? 0x1.fep127
                           : wide               ? std::numeric_limits<double>::max()
                                                : static_cast<double>(std::numeric_limits<float>::max());
    const double least = half ? 0x1p-24 : type == Type::bf16 ? 0x1p-133 : wide ? 0x1p-1074 : 0x1p-149;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const std::array extremes = {0.0,    -0.0,      largest,    -largest,    least,
                                 -least, kInfinity, -kInfinity, std::nan("")};
    const Sizes s{4 * std::ssize(extremes) + 1, 71, 6};
    const Problem problem =
        product(type, s, {.transpose_a = (storage & 1) != 0, .transpose_b = (storage & 2) != 0});
    // Row 4·e + q: the extreme e at k = q. Column j of B: 1 at k = j mod 4 and else 0, or 2 there, or all
    // ones.
    std::vector<T> a(static_cast<std::size_t>(s.m * s.k));
    std::vector<T> b(static_cast<std::size_t>(s.k * s.n));
    const auto at_a = [&](std::int64_t i, std::int64_t k) -> T& {
        return a[static_cast<std::size_t>(problem.transpose_a ? k * s.m + i : i * s.k + k)];
    };
    const auto at_b = [&](std::int64_t k, std::int64_t j) -> T& {
        return b[static_cast<std::size_t>(problem.transpose_b ? j * s.k + k : k * s.n + j)];
    };
    for (std::int64_t i = 0; i < s.m; ++i) {
        for (std::int64_t k = 0; k < s.k; ++k) at_a(i, k) = narrow<T>(0, 0);
        if (i / 4 < std::ssize(extremes))
            at_a(i, i % 4) = narrow<T>(extremes[static_cast<std::size_t>(i / 4)], i % 2);
    }
    for (std::int64_t k = 0; k < s.k; ++k) {
        for (std::int64_t j = 0; j < s.n; ++j) {
            const double value = j % 5 == 4 ? 1 : k == j % 4 ? 1 + j % 2 : 0;
            at_b(k, j) = narrow<T>(value, j % 3 == 2 ? 1 : 0);
        }
    }
    for_all_rungs(problem, [&](const Level& level, const Problem& with) {
        const auto c = computed_by(level, with, a, b);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < s.m; ++i) {
            for (std::int64_t j = 0; j < s.n; ++j) {
                long double re = 0;
                long double im = 0;
                for (std::int64_t k = 0; k < s.k; ++k) {
                    const std::complex<double> x = widen(at_a(i, k));
                    const std::complex<double> y = widen(at_b(k, j));
                    re += static_cast<long double>(x.real()) * y.real();
                    if constexpr (!kIsComplex<T>) continue;
                    re -= static_cast<long double>(x.imag()) * y.imag();
                    im += static_cast<long double>(x.real()) * y.imag();
                    im += static_cast<long double>(x.imag()) * y.real();
                }
                // What the type holds of it, times an α of 1 (and 0 i).
                const T rounded = narrow<T>(static_cast<double>(re), static_cast<double>(im));
                std::complex<double> value = widen(rounded);
                if constexpr (kIsComplex<T>) {
                    value = {value.real() - 0 * value.imag(), value.imag() + 0 * value.real()};
                }
                const auto found = widen(c[static_cast<std::size_t>(i * s.n + j)]);
                if (!same(value.real(), found.real()) || !same(value.imag(), found.imag())) ++wrong;
            }
        }
        CHECK(wrong == 0);
    });
}

}  // namespace

TEST_CASE("CPU multiplies of zeros, subnormals, the largest values, infinities and NaN", "[multiply]") {
    for (const Type type : {Type::f32, Type::f64, Type::c64, Type::c128, Type::f16, Type::bf16}) {
        for (const int storage : {0, 1, 2, 3}) {
            DYNAMIC_SECTION(name_of(type) << "_" << storage) {
                multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
                    if constexpr (!std::is_integral_v<T>) check_extremes<T>(type, storage);
                });
            }
        }
    }
}

TEST_CASE("every half is multiplied as what it is, and rounded to the nearest", "[multiply]") {
    for (const Type type : {Type::f16, Type::bf16}) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            if constexpr (kIsHalf<T>) {
                std::mt19937 random(11);
                std::vector<T> a = {T(1.0), T(-1.0), T(3.0)};
                for (int i = 0; i < 12; ++i) a.push_back(T::from_bits(static_cast<std::uint16_t>(random())));
                std::vector<T> b;
                for (int bits = 0; bits < 0x10000; ++bits)
                    b.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
                const Problem problem = product(type, {std::ssize(a), std::ssize(b), 1});
                for_all_rungs(problem, [&](const Level& level, const Problem& with) {
                    const auto c = computed_by(level, with, a, b);
                    std::int64_t wrong = 0;
                    for (std::size_t i = 0; i < a.size(); ++i) {
                        for (std::size_t j = 0; j < b.size(); ++j) {
                            // The product is exact in double, the sum is rounded to f32, and then to T.
                            const double exact = static_cast<double>(a[i]) * static_cast<double>(b[j]);
                            const T expected(static_cast<double>(0.0F + static_cast<float>(exact)));
                            const T found = c[i * b.size() + j];
                            const bool nan = std::isnan(static_cast<float>(expected));
                            if (nan ? !std::isnan(static_cast<float>(found)) : found.bits != expected.bits)
                                ++wrong;
                        }
                    }
                    CHECK(wrong == 0);
                });
            }
        });
    }
}

TEST_CASE("the largest bytes are multiplied exactly, modulo 2^32", "[multiply]") {
    // 2^17 products of -128 by -128 are 2^31, one more than i32 holds.
    for (const std::int64_t k : {std::int64_t{1}, std::int64_t{1537}, std::int64_t{1} << 17U}) {
        const Problem problem = product(Type::i8, {3, 5, k}, {.transpose_b = true});
        const std::array<std::int8_t, 5> values = {-128, 127, -128, 1, 0};
        std::vector<std::int8_t> a;
        std::vector<std::int8_t> b;
        for (const std::int8_t value : {-128, 127, -1}) a.insert(a.end(), static_cast<std::size_t>(k), value);
        for (const std::int8_t value : values) b.insert(b.end(), static_cast<std::size_t>(k), value);
        for_all_rungs(problem, [&](const Level& level, const Problem& with) {
            const auto c = computed_by(level, with, a, b);
            for (std::size_t i = 0; i < 3; ++i) {
                for (std::size_t j = 0; j < 5; ++j) {
                    const std::int64_t exact =
                        k * a[i * static_cast<std::size_t>(k)] * b[j * static_cast<std::size_t>(k)];
                    CHECK(c[i * 5 + j] == static_cast<std::int32_t>(exact));
                }
            }
        });
    }
}

TEST_CASE("products of bytes need a wider result", "[multiply]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu, Role::rung)) {
        const Reasons reasons = unsupported_reasons(*level, {.operation = &kMultiply, .type = Type::i8}, {});
        REQUIRE(reasons.size() == 1);
        CHECK(reasons.front().find("--result i32") != std::string::npos);
    }
}

TEST_CASE("halves are summed in f32 and rounded once", "[multiply]") {
    // 2048 + 1 + 1: a sum kept in f16 stays at 2048, since 2049 is a tie that rounds to even.
    const Registry registry = Registry::standard();
    const std::vector<Half> a = {Half(2048.0), Half(1.0), Half(1.0)};
    const std::vector<Half> b = {Half(1.0), Half(1.0), Half(1.0)};
    const Problem problem{.operation = &kMultiply, .type = Type::f16, .m = 1, .n = 1, .k = 3};
    for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu)) {
        if (!unsupported_reasons(*level, problem, {}).empty()) continue;
        Half c;
        prepare_launch(*level, problem, contiguous_operands(problem, {.a = a.data(), .b = b.data(), .c = &c}),
                       {})
            .run({});
        INFO(level->name);
        CHECK(static_cast<float>(c) == 2050.0F);
    }
}

TEST_CASE("OpenBLAS names the types and sizes that it cannot take", "[multiply]") {
    const Registry registry = Registry::standard();
    const Level* vendor = registry.find(kMultiply, DeviceKind::cpu, "vendor");
    REQUIRE(vendor != nullptr);
    for (const Type type : {Type::f16, Type::bf16, Type::i32, Type::i64, Type::u64}) {
        const Reasons reasons = unsupported_reasons(*vendor, {.operation = &kMultiply, .type = type}, {});
        REQUIRE(reasons.size() == 1);
        CHECK(reasons.front().find(name_of(type)) != std::string::npos);
    }
    const Problem wide{.operation = &kMultiply, .type = Type::f32, .m = 1, .n = std::int64_t{1} << 31};
    CHECK(!unsupported_reasons(*vendor, wide, {}).empty());
}
