// What verification finds and what it lets pass, on products of many kinds of data.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/check/check.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/multiply/check/product_check.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/registry.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/catch.hpp"
#include "tests/verification/planted.hpp"
#include "tests/verification/products.hpp"

using namespace gpumat;
using namespace gpumat::verification;

namespace {

constexpr std::array kTypes = {Type::f32, Type::f64,  Type::c64, Type::c128,
                               Type::f16, Type::bf16, Type::i32, Type::i64};
constexpr Device kDevice = {.kind = DeviceKind::cpu, .threads = 2};

Verification verify(Product& x, VerifyMode mode, std::uint64_t seed = 1) {
    return verify_multiply(x.problem, x.operands(), {.mode = mode, .threads = 2, .seed = seed});
}

void compute_fast(Product& x) {
    const auto registry = Registry::standard();
    compute(x, *registry.choose(x.problem, kDevice).level, kDevice);
}

/// These may be smaller than ten times what rounding makes of a row; the others never are on normal data.
bool may_be_small(std::string_view name) {
    return name == "term of k missing in an element" || name == "one upper bit flipped" ||
           name == "element changed by 1/1000";
}

}  // namespace

TEST_CASE("every planted error is found, in every type and mode") {
    for (const Type type : kTypes) {
        for (const bool scaled : {false, true}) {
            Product x = make_product({type, 260, 257, 70, Data::normal, scaled, scaled, 7});
            compute_fast(x);
            const Matrix right = copy_of(x.c);
            for (const auto mode : {VerifyMode::freivalds, VerifyMode::full}) {
                REQUIRE_FALSE(verify(x, mode).failed());
                for (const Planted& error : planted_errors()) {
                    if (is_integer(type) && !error.for_integers) continue;
                    // Storing 16-bit numbers rounds by more than these.
                    if ((type == Type::f16 || type == Type::bf16) && may_be_small(error.name)) continue;
                    const std::uint64_t seed = scaled ? 1 : 0;
                    std::mt19937_64 random(seed);
                    error.plant(x, random);
                    if (std::memcmp(x.c.data(), right.data(), right.bytes()) != 0) {
                        INFO(name_of(type) << " " << error.name << " seed " << seed);
                        const Verification result = verify(x, mode, seed);
                        CHECK(result.failed());
                        CHECK(result.mismatches > 0);
                    }
                    std::memcpy(x.c.data(), right.data(), right.bytes());
                }
            }
        }
    }
}

TEST_CASE("planted errors are found on hard data, where the rows stand out by more than rounding") {
    for (const Data data : {Data::uniform, Data::graded, Data::positive, Data::dominant, Data::integers}) {
        for (const Type type : {Type::f32, Type::f64}) {
            Product x = make_product({type, 512, 512, 512, data, false, false, 3});
            compute_fast(x);
            const Matrix right = copy_of(x.c);
            for (const Planted& error : planted_errors()) {
                if (may_be_small(error.name)) continue;
                std::mt19937_64 random(5);
                error.plant(x, random);
                if (std::memcmp(x.c.data(), right.data(), right.bytes()) == 0) continue;
                INFO(name_of(type) << " " << name_of(data) << " " << error.name);
                CHECK(verify(x, VerifyMode::freivalds).failed());
                std::memcpy(x.c.data(), right.data(), right.bytes());
            }
        }
    }
}

TEST_CASE("right products pass, whatever the level, shape and data") {
    const auto registry = Registry::standard();
    std::mt19937_64 random(17);
    for (int i = 0; i < 250; ++i) {
        const auto size = [&](double most) {
            return static_cast<std::int64_t>(
                std::exp(static_cast<double>(random() % 1000) / 1000 * std::log(most)));
        };
        const bool deep = i % 4 == 0;
        Product x = make_product({.type = kTypes[random() % kTypes.size()],
                                  .m = size(deep ? 8 : 100),
                                  .n = size(deep ? 8 : 100),
                                  .k = size(deep ? 20000 : 200),
                                  .data = all_data()[random() % all_data().size()],
                                  .transposed = random() % 3 == 0,
                                  .scaled = random() % 3 == 0,
                                  .seed = random()});
        for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu)) {
            if (!unsupported_reasons(*level, x.problem, kDevice).empty()) continue;
            compute(x, *level, kDevice);
            for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
                const Verification result = verify(x, mode, random());
                INFO(i << " " << name_of(x.problem.type) << " " << x.problem.m << "x" << x.problem.n << "x"
                       << x.problem.k << " " << level->name << " " << result.mode << " " << result.note);
                REQUIRE(result.verdict == "passed");
                CHECK(result.expected_ratio <= 1);
                CHECK(result.worst_ratio <= 1);
                CHECK(result.rows_recomputed > 0);
                CHECK(result.detects.has_value() == !is_integer(x.problem.type));
            }
        }
    }
}

TEST_CASE("right products pass where they are added to much larger numbers in many steps") {
    const auto registry = Registry::standard();
    for (const bool transposed : {false, true}) {
        for (const auto& [m, n, k, seed] :
             {std::tuple(4, 9, 17906, 5750601118270135285U), {3, 2, 21381, 13317497832110316184U}}) {
            Product x = make_product({Type::f32, m, n, k, Data::graded, transposed, true, seed});
            for (const Level* level : registry.levels(kMultiply, DeviceKind::cpu)) {
                if (!unsupported_reasons(*level, x.problem, kDevice).empty()) continue;
                compute(x, *level, kDevice);
                for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
                    INFO(m << "x" << n << "x" << k << " " << level->name);
                    CHECK(verify(x, mode).verdict == "passed");
                }
            }
        }
    }
}

namespace {

/// To the nearest number of so many bits behind the leading one.
void shorten(Matrix& matrix, int bits) {
    for (std::int64_t at = 0; at < matrix.shape().elements(); ++at) {
        int exponent = 0;
        const double part = std::frexp(get(matrix, at).real(), &exponent);
        set(matrix, at, std::ldexp(std::nearbyint(std::ldexp(part, bits + 1)), exponent - bits - 1));
    }
}

}  // namespace

TEST_CASE(
    "products that are added to much larger numbers one after the other pass where the level is not known") {
    for (const auto& [k, of_d, constant] :
         {std::tuple(300, 150.0, false), {300, 1e4, true}, {4000, 1e4, false}, {4000, 1e6, true}}) {
        Product x = make_product({Type::f32, 8, 8, k, Data::normal, false, true, 5});
        x.problem.alpha = x.problem.beta = Scalar::of(1);
        for (std::int64_t at = 0; constant && at < 8 * k; ++at) {
            set(x.a, at, 0.37);
            set(x.b, at, 0.73);
        }
        for (std::int64_t i = 0; i < 8; ++i) {
            for (std::int64_t j = 0; j < 8; ++j) {
                set(x.d, i * 8 + j, of_d + static_cast<double>(i * 8 + j));
                auto sum = static_cast<float>(get(x.d, i * 8 + j).real());
                for (std::int64_t s = 0; s < k; ++s) {
                    sum += static_cast<float>(get(x.a, i * k + s).real()) *
                           static_cast<float>(get(x.b, s * 8 + j).real());
                }
                set(x.c, i * 8 + j, sum);
            }
        }
        for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
            INFO(k << " " << of_d << " " << static_cast<int>(mode));
            CHECK(verify(x, mode).verdict == "passed");
        }
    }
}

TEST_CASE("planted errors are found among numbers whose squares vanish") {
    for (const Type type : {Type::f64, Type::c128}) {
        for (const double scale : {0x1p-270, 0x1p-300, 0x1p-500}) {
            Product x = make_product({type, 100, 120, 80, Data::normal, false, false, 2});
            for (std::int64_t at = 0; at < 100 * 80; ++at) set(x.a, at, scale * get(x.a, at));
            for (std::int64_t at = 0; at < 80 * 120; ++at) set(x.b, at, scale * get(x.b, at));
            compute_fast(x);
            INFO(name_of(type) << " " << scale);
            CHECK(verify(x, VerifyMode::freivalds).verdict == "passed");
            set(x.c, 50 * 120 + 7, -10.0 * get(x.c, 50 * 120 + 7));
            for (std::uint64_t seed = 0; seed < 4; ++seed)
                CHECK(verify(x, VerifyMode::freivalds, seed).failed());
        }
    }
}

TEST_CASE("operands of a lower precision do not pass for those of the type, and exact ones do") {
    for (const auto& [type, bits] : {std::pair(Type::f32, 10), {Type::f32, 7}, {Type::f64, 23}}) {
        for (const Data data : {Data::normal, Data::positive, Data::graded, Data::integers}) {
            for (const std::int64_t n : {64, 400}) {
                Product x = make_product({type, n, n, n, data, false, false, 2});
                const Matrix a = copy_of(x.a);
                const Matrix b = copy_of(x.b);
                shorten(x.a, bits);
                shorten(x.b, bits);
                compute_fast(x);
                std::memcpy(x.a.data(), a.data(), a.bytes());
                std::memcpy(x.b.data(), b.data(), b.bytes());
                for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
                    INFO(name_of(type) << " " << bits << " bits " << name_of(data) << " " << n);
                    CHECK(verify(x, mode).failed() == (data != Data::integers));
                }
                // A level that says so may round its operands.
                Rounding rounded = Rounding::of(Problem{.type = type});
                rounded.operand_roundoff = std::ldexp(1, -bits - 1);
                const VerifyOptions options = {.mode = VerifyMode::full, .threads = 2, .rounding = rounded};
                CHECK(verify_multiply(x.problem, x.operands(), options).verdict == "passed");
            }
        }
    }
}

TEST_CASE("every planted error of a transpose is found, and where it is") {
    const Registry registry = Registry::standard();
    const std::int64_t rows = 131;  // of the result; partial tiles on both sides
    const std::int64_t cols = 166;
    for (const Type type : {Type::u8, Type::bf16, Type::f32, Type::i64, Type::c128}) {
        const std::size_t size = size_of(type);
        Matrix in({cols, rows}, type, "the input");
        std::mt19937_64 random(3);
        for (std::size_t at = 0; at < in.bytes(); ++at) in.data()[at] = static_cast<std::byte>(random());
        Matrix right({rows, cols}, type, "the result");
        const auto element = [&](Matrix& matrix, std::int64_t row, std::int64_t col) {
            return matrix.data() + static_cast<std::size_t>(row * cols + col) * size;
        };
        for (std::int64_t i = 0; i < rows; ++i) {
            for (std::int64_t j = 0; j < cols; ++j)
                std::memcpy(element(right, i, j), in.data() + static_cast<std::size_t>(j * rows + i) * size,
                            size);
        }
        Matrix out = copy_of(right);
        const Problem problem{.operation = &kTranspose, .type = type, .m = cols, .n = rows};
        const Level& level = *registry.choose(problem, kDevice).level;
        const auto found = [&] {
            return verify_result(level, problem,
                                 contiguous_operands(problem, {.a = in.data(), .c = out.data()}),
                                 {.threads = 2});
        };
        // Whether exactly those elements are told that differ, and the first of them.
        const auto check = [&](std::string_view what) {
            std::int64_t wrong = 0;
            std::int64_t first = -1;
            for (std::int64_t at = 0; at < rows * cols; ++at) {
                const std::size_t byte = static_cast<std::size_t>(at) * size;
                if (std::memcmp(out.data() + byte, right.data() + byte, size) == 0) continue;
                if (wrong++ == 0) first = at;
            }
            INFO(name_of(type) << " " << what << " " << first);
            const Verification result = found();
            CHECK(result.failed() == (wrong > 0));
            CHECK(result.mismatches == wrong);
            if (wrong > 0) CHECK((result.worst->row * cols + result.worst->col == first));
            std::memcpy(out.data(), right.data(), right.bytes());
        };
        const auto exchange = [&](std::int64_t edge, std::int64_t row, std::int64_t col) {
            for (std::int64_t i = 0; i < edge; ++i)
                std::swap_ranges(element(out, i, 0), element(out, i, edge), element(out, row + i, col));
        };
        const auto clear = [&](std::int64_t row, std::int64_t col) {
            for (std::int64_t i = row; i < rows; ++i)
                std::memset(element(out, i, col), 0xff, static_cast<std::size_t>(cols - col) * size);
        };
        check("right");
        for (std::int64_t at = 0; at < rows * cols; at += 1 + static_cast<std::int64_t>(random() % 20)) {
            const auto bit = random() % (8 * size);
            out.data()[static_cast<std::size_t>(at) * size + bit / 8] ^= std::byte{1} << (bit % 8);
            check("one bit");
        }
        for (const std::int64_t edge : {1, 8, 16, 32, 64}) {
            exchange(edge, rows - edge, cols - edge);
            check("blocks exchanged");
            exchange(edge, 0, edge);
            check("neighbours exchanged");
            clear(rows / edge * edge, cols / edge * edge);
            check("last partial tile missing");
            clear(0, cols / edge * edge);
            check("last partial tiles of all rows missing");
        }
        std::memset(out.data(), 0xff, out.bytes());
        check("nothing written");
        std::memcpy(out.data(), in.data(), in.bytes());
        check("not transposed");
    }
}

TEST_CASE("what may differ follows from the arithmetic that a level states") {
    const Registry registry = Registry::standard();
    const std::int64_t n = 300;
    Product x = make_product({Type::f16, n, n, n, Data::positive, false, false, 2});
    const auto verdict = [&](Arithmetic (*arithmetic)(const Problem&)) {
        Level level = *registry.levels(kMultiply, DeviceKind::cpu).front();
        level.arithmetic = arithmetic;
        return verify_result(level, x.problem, x.operands(), {.mode = VerifyMode::full, .threads = 2})
            .verdict;
    };
    // Every addition rounds to f16.
    Matrix sum({1, 1}, Type::f16);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            set(sum, 0, 0);
            for (std::int64_t k = 0; k < n; ++k)
                set(sum, 0, get(sum, 0) + get(x.a, at_a(x.problem, i, k)) * get(x.b, at_b(x.problem, k, j)));
            set(x.c, i * n + j, get(sum, 0));
        }
    }
    CHECK(verdict(plain_arithmetic) == "failed");
    CHECK(verdict([](const Problem&) { return Arithmetic{Type::f16, Type::f16}; }) == "passed");
    // f32, with factors of f16: only a level that says so may.
    x = make_product({Type::f32, n, n, n, Data::normal, false, false, 2});
    const Matrix a = copy_of(x.a);
    shorten(x.a, 10);
    compute_fast(x);
    std::memcpy(x.a.data(), a.data(), a.bytes());
    CHECK(verdict(plain_arithmetic) == "failed");
    CHECK(verdict([](const Problem&) { return Arithmetic{Type::f16, Type::f32}; }) == "passed");
    // Tensor cores cut sums in f32, by up to 2u each: all errors go one way.
    x = make_product({Type::f16, 64, 64, 20000, Data::positive, false, false, 2});
    for (std::int64_t i = 0; i < 64; ++i) {
        for (std::int64_t j = 0; j < 64; ++j) {
            float total = 0;
            for (std::int64_t k = 0; k < x.problem.k; k += 4) {
                double next = total;
                for (std::int64_t l = k; l < k + 4; ++l)
                    next += get(x.a, at_a(x.problem, i, l)).real() * get(x.b, at_b(x.problem, l, j)).real();
                total = static_cast<float>(next);
                if (total > next) total = std::nextafter(total, 0.0F);
            }
            set(x.c, i * 64 + j, total);
        }
    }
    CHECK(verdict([](const Problem&) {
              return Arithmetic{Type::f32, Type::f32, Units::tensor};
          }) == "passed");
}

TEST_CASE("panels of a result give what the whole gives, in any order and expected or not") {
    for (const Type type : {Type::f32, Type::c128, Type::i32}) {
        Product x = make_product({type, 500, 70, 90, Data::normal, false, true, 4});
        compute_fast(x);
        const Operand c = x.operands().c;
        const auto by_panels = [&] {
            ProductCheck check(x.problem, x.operands(), {.threads = 2, .seed = 1});
            check.expect(0, 200);
            check.expect(200, 300);
            for (const auto& [first, count] :
                 {std::pair<std::int64_t, std::int64_t>{200, 300}, {0, 150}, {150, 50}}) {
                Operand panel = c;
                panel.data = x.c.data() + static_cast<std::size_t>(first * 70) * size_of(type);
                panel.rows = count;
                check.take(first, panel);
            }
            return check.finish();
        };
        INFO(name_of(type));
        for (const bool spoiled : {false, true}) {
            if (spoiled) set(x.c, 170 * 70 + 3, get(x.c, 170 * 70 + 3) + 5.0);
            const Verification whole = verify(x, VerifyMode::freivalds);
            const Verification panels = by_panels();
            CHECK(panels.failed() == spoiled);
            CHECK(panels.verdict == whole.verdict);
            CHECK(panels.mismatches == whole.mismatches);
            CHECK(panels.expected_ratio == whole.expected_ratio);
            CHECK(panels.rows_recomputed == whole.rows_recomputed);
            if (spoiled) CHECK((panels.worst->row == 170 && panels.worst->col == 3));
        }
    }
}

namespace {

/// Checks C in parts of 25 rows, as a result that does not fit into memory is; returns those that failed.
std::vector<std::int64_t> failed_parts(Product& x, std::int64_t& rows_recomputed) {
    constexpr std::int64_t kRows = 25;
    const Operands whole = x.operands();
    const std::int64_t parts = x.problem.m / kRows;
    const VerifyOptions options = {.threads = 2, .seed = 1, .parts = parts};
    std::vector<std::int64_t> failed;
    std::unique_ptr<ProductCheck> before;
    rows_recomputed = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
        Problem problem = x.problem;
        problem.m = kRows;
        Operands operands = whole;
        const auto down = [&](auto& operand) {
            operand.data = const_cast<std::byte*>(operand.template as<std::byte>()) +
                           static_cast<std::size_t>(part * kRows * operand.pitch) * size_of(problem.type);
            operand.rows = kRows;
        };
        down(operands.a);
        down(operands.c);
        auto check = before ? std::make_unique<ProductCheck>(problem, operands, options,
                                                             PartBefore{before.get(), part % 5 != 0})
                            : std::make_unique<ProductCheck>(problem, operands, options);
        check->take(0, operands.c);
        const Verification found = check->finish();
        rows_recomputed += found.rows_recomputed;
        if (found.failed()) failed.push_back(part);
        before = std::move(check);
    }
    return failed;
}

}  // namespace

TEST_CASE("every part of a product is checked, also where no rows are computed again that do not stand out") {
    for (const Type type : {Type::f32, Type::f64, Type::c64, Type::i32}) {
        INFO(name_of(type));
        Product x = make_product({type, 1000, 70, 300, Data::normal, false, false, 4});
        compute_fast(x);
        std::int64_t rows = 0;
        CHECK(failed_parts(x, rows).empty());
        CHECK((rows < (is_integer(type) ? 800 : 500)));  // of 1000
        CHECK(rows >= 16 * 2);
        const Matrix right = copy_of(x.c);
        constexpr std::int64_t kPart = 33;  // gets no sample as it is
        constexpr std::int64_t kFirst = kPart * 25 * 70;
        const auto planted = [&](const char* what) {
            INFO(what);
            CHECK(failed_parts(x, rows) == std::vector<std::int64_t>{kPart});
            std::memcpy(x.c.data(), right.data(), right.bytes());
        };
        set(x.c, kFirst + 5 * 70 + 3, get(x.c, kFirst + 5 * 70 + 3) + 5.0);
        planted("one element");
        for (std::int64_t i = 0; i < 25 * 70; ++i) set(x.c, kFirst + i, 0);
        planted("zero");
        for (std::int64_t i = 0; i < 25 * 70; ++i) set(x.c, kFirst + i, get(right, kFirst - 25 * 70 + i));
        planted("the part before it");
        if (type != Type::f32 && type != Type::f64) continue;
        const Matrix a = copy_of(x.a);
        shorten(x.a, type == Type::f32 ? 10 : 23);
        compute_fast(x);
        std::memcpy(x.a.data(), a.data(), a.bytes());
        const Matrix coarse = copy_of(x.c);
        std::memcpy(x.c.data(), right.data(), right.bytes());
        for (std::int64_t i = 0; i < 25 * 70; ++i) set(x.c, kFirst + i, get(coarse, kFirst + i));
        planted("a lower precision");
    }
}

TEST_CASE("a column that is wrong in one part of a wide product is found") {
    Product x = make_product({Type::bf16, 1000, 3000, 200, Data::normal, false, false, 4});
    compute_fast(x);
    std::int64_t rows = 0;
    CHECK(failed_parts(x, rows).empty());
    for (std::int64_t i = 33 * 25; i < 34 * 25; ++i)
        set(x.c, i * 3000 + 7, 0.9 * get(x.c, i * 3000 + 7).real());
    CHECK(failed_parts(x, rows) == std::vector<std::int64_t>{33});
}

TEST_CASE("complex elements are judged by their parts, also where the modulus overflows") {
    for (const Type type : {Type::c64, Type::c128}) {
        const double most = type == Type::c64 ? 0x1.8p127 : 0x1.8p1023;
        for (const bool added : {false, true}) {
            Product x = make_product({.type = type, .m = 1, .n = 1, .k = 1, .scaled = added});
            x.problem.alpha = Scalar::of(1);
            if (added) x.problem.beta = {{0.5, 0}, 0};
            set(x.a, 0, {most, most});
            set(x.b, 0, 0.25);
            if (added) set(x.d, 0, {most, -most});
            const std::complex<double> right(added ? 0.75 * most : 0.25 * most,
                                             added ? -0.25 * most : 0.25 * most);
            for (const auto mode : {VerifyMode::full, VerifyMode::freivalds}) {
                INFO(name_of(type) << (added ? " with D" : ""));
                set(x.c, 0, right);
                CHECK(verify(x, mode).verdict == "passed");
                set(x.c, 0, {right.real(), -right.imag()});
                const Verification wrong = verify(x, mode);
                CHECK(wrong.failed());
                REQUIRE(wrong.worst);
                const std::string part = wrong.worst->expected.substr(1, wrong.worst->expected.find(','));
                CHECK(std::abs(std::stod(part) / right.real() - 1) < 1e-6);
            }
        }
    }
}

TEST_CASE("what was checked is said") {
    Product x = make_product({Type::f32, 1200, 1100, 700, Data::normal, false, false, 1});
    compute_fast(x);
    const Verification result = verify(x, VerifyMode::freivalds);
    REQUIRE(result.detects);
    // Elements are about √700 and err by some 1e-6.
    CHECK(std::abs(result.detects->absolute / result.detects->relative / std::sqrt(700.0) - 1) < 0.1);
    CHECK(result.detects->relative < 1e-4);
    CHECK(result.detects->relative > 1e-7);
    REQUIRE(result.rms_error);
    CHECK(*result.rms_error > 0.1);
    CHECK(*result.rms_error < 30);
    CHECK(result.rows_recomputed >= 4);
    CHECK(result.rows_recomputed <= 24);
    // An error of that size is found wherever it is.
    std::mt19937_64 random(2);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto at = static_cast<std::int64_t>(random() % (1200 * 1100));
        const auto kept = get(x.c, at);
        set(x.c, at, kept + 1.01 * result.detects->absolute);
        CHECK(verify(x, VerifyMode::freivalds, seed).failed());
        set(x.c, at, kept);
    }
}
