// Every CPU level of products with a sparse matrix, on every type, against plain sums of small whole numbers,
// which are exact in all of them; and the check, against faults that are planted.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <random>

#include "core/sparse/csr.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/check/verify_sparse.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/operation.hpp"
#include "tests/catch.hpp"

using namespace gpumat;
using multiply::Result;

namespace {

/// The entries of a matrix by place; zeros may be among them.
struct Whole {
    Shape shape;
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> at;

    [[nodiscard]] Whole transposed() const {
        Whole other{shape.transposed(), {}};
        for (const auto& [place, value] : at) other.at[{place.second, place.first}] = value;
        return other;
    }
    [[nodiscard]] Whole stored(bool transposing) const { return transposing ? transposed() : *this; }
};

Whole scattered(const Shape& shape, std::size_t count, std::uint64_t seed, bool power_law = false) {
    std::mt19937_64 random(seed);
    const auto index = [&](std::int64_t extent) {
        const double at = std::uniform_real_distribution<>(0, 1)(random);
        return std::min(extent - 1, static_cast<std::int64_t>((power_law ? at * at * at : at) *
                                                              static_cast<double>(extent)));
    };
    Whole matrix{shape, {}};
    for (std::size_t n = 0; n < count; ++n) {
        const std::int64_t row = index(shape.rows);
        matrix.at[{row, index(shape.cols)}] = static_cast<std::int64_t>(random() % 5) - 2;
    }
    return matrix;
}

Whole full(const Shape& shape, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Whole matrix{shape, {}};
    for (std::int64_t i = 0; i < shape.rows; ++i) {
        for (std::int64_t j = 0; j < shape.cols; ++j)
            matrix.at[{i, j}] = static_cast<std::int64_t>(random() % 5) - 2;
    }
    return matrix;
}

/// α·A·B + β·D, with an entry wherever there is a product or an entry of D.
Whole product(const Whole& a, const Whole& b, std::int64_t alpha, std::int64_t beta, const Whole& d) {
    Whole c{{a.shape.rows, b.shape.cols}, {}};
    if (alpha != 0) {
        for (const auto& [place, value] : a.at) {
            const auto end = b.at.lower_bound({place.second + 1, 0});
            for (auto other = b.at.lower_bound({place.second, 0}); other != end; ++other)
                c.at[{place.first, other->first.second}] += alpha * value * other->second;
        }
    }
    if (beta != 0)
        for (const auto& [place, value] : d.at) c.at[place] += beta * value;
    return c;
}

template <class T>
T number(std::int64_t value) {
    return T(static_cast<double>(value));
}

template <class T>
Csr csr_of(const Whole& matrix, Type type) {
    Csr csr(matrix.shape, type, static_cast<std::int64_t>(matrix.at.size()));
    const MutableCsrView to = csr.view();
    std::fill_n(to.pointers, matrix.shape.rows + 1, 0);
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        std::int64_t n = 0;
        for (const auto& [place, value] : matrix.at) {
            ++to.pointers[place.first + 1];
            to.columns_as<I>()[n] = static_cast<I>(place.second);
            to.values_as<T>()[n++] = number<T>(value);
        }
    });
    for (std::int64_t i = 0; i < matrix.shape.rows; ++i) to.pointers[i + 1] += to.pointers[i];
    return csr;
}

template <class T>
Matrix dense_of(const Whole& matrix, Type type) {
    Matrix dense(matrix.shape, type);
    std::fill_n(dense.data(), dense.bytes(), std::byte{0});
    for (const auto& [place, value] : matrix.at)
        dense.as<T>()[place.first * matrix.shape.cols + place.second] = number<T>(value);
    return dense;
}

/// A sparse result, whose memory starts out as bytes of 0xff.
class Counted final : public EntryRoom {
  public:
    Counted(const Shape& shape, Type type) : c_(shape, type, 0) {
        std::fill_n(c_.view().pointers, shape.rows + 1, -1);
    }
    MutableOperand take(std::int64_t entries) override {
        c_.hold(entries);
        const auto count = static_cast<std::size_t>(entries);
        std::fill_n(c_.view().columns, count * index_bytes(c_.shape()), std::byte{0xff});
        std::fill_n(c_.view().values, count * size_of(c_.type()), std::byte{0xff});
        return operand_of(c_.view());
    }
    [[nodiscard]] Csr& csr() { return c_; }

  private:
    Csr c_;
};

template <class T>
bool equals(const T& x, const T& y) {
    using Bytes = std::array<std::byte, sizeof(T)>;
    return std::bit_cast<Bytes>(x) == std::bit_cast<Bytes>(y) ||
           static_cast<multiply::Sum<T>>(x) == static_cast<multiply::Sum<T>>(y);
}

template <class R>
bool is_csr_of(const CsrView& found, const Whole& expected) {
    if (found.shape != expected.shape || structure_fault(found, 1)) return false;
    if (found.entries != static_cast<std::int64_t>(expected.at.size())) return false;
    auto next = expected.at.begin();
    return visit_index(found.shape, [&]<class I>(TypeTag<I>) {
        for (std::int64_t i = 0; i < found.shape.rows; ++i) {
            for (std::int64_t at = found.pointers[i]; at < found.pointers[i + 1]; ++at, ++next) {
                if (next->first != std::pair(i, std::int64_t{found.columns_as<I>()[at]})) return false;
                if (!equals(found.values_as<R>()[at], number<R>(next->second))) return false;
            }
        }
        return true;
    });
}

/// A case: what is multiplied, and how it lies.
struct Case {
    const char* name;
    Whole a;
    Whole b;
    Storage a_storage = Storage::csr;
    Storage b_storage = Storage::csr;

    [[nodiscard]] bool is_sparse() const { return a_storage == Storage::csr && b_storage == Storage::csr; }
};

std::vector<Case> cases() {
    constexpr auto csr = Storage::csr;
    constexpr auto dense = Storage::dense;
    Whole long_row = scattered({40, 3000}, 200, 5);
    for (std::int64_t j = 0; j < 2600; ++j) long_row.at[{7, j}] = j % 3 - 1;
    Whole heavy = scattered({60, 80}, 300, 6);
    for (std::int64_t j = 0; j < 80; ++j) heavy.at[{3, j}] = j % 3 - 1;
    std::vector<Case> all;
    const auto add = [&](const char* name, const Whole& a, const Whole& b, Storage a_storage = Storage::csr,
                         Storage b_storage = Storage::csr) {
        all.push_back({name, a, b, a_storage, b_storage});
    };
    add("nothing", {{0, 0}, {}}, {{0, 0}, {}});
    add("no inner", {{3, 0}, {}}, {{0, 4}, {}});
    add("no rows", {{0, 5}, {}}, scattered({5, 4}, 6, 1));
    add("no columns", scattered({5, 4}, 6, 1), {{4, 0}, {}});
    add("no entries", {{5, 6}, {}}, {{6, 7}, {}});
    add("one", {{1, 1}, {{{0, 0}, 3}}}, {{1, 1}, {{{0, 0}, -2}}});
    add("scattered", scattered({70, 50}, 300, 2), scattered({50, 90}, 400, 3));
    add("power law", scattered({90, 90}, 900, 4, true), scattered({90, 90}, 900, 5, true));
    add("a heavy row", heavy, scattered({80, 1500}, 4000, 7));
    add("indices of 64 bits", scattered({30, 40}, 100, 8), scattered({40, std::int64_t{1} << 40}, 200, 9));
    add("sparse x dense, no entries", {{4, 6}, {}}, full({6, 3}, 1), csr, dense);
    add("sparse x a column", scattered({70, 50}, 300, 2), full({50, 1}, 3), csr, dense);
    add("sparse x 19 columns", scattered({70, 50}, 300, 2), full({50, 19}, 3), csr, dense);
    add("sparse x 77 columns", scattered({70, 50}, 300, 2), full({50, 77}, 3), csr, dense);
    add("a long row x dense", long_row, full({3000, 5}, 3), csr, dense);
    add("a row x sparse", full({1, 50}, 8), scattered({50, 90}, 400, 3), dense, csr);
    add("dense x sparse", full({21, 50}, 8), scattered({50, 90}, 400, 3), dense, csr);
    return all;
}

struct Asked {
    bool transpose_a;
    bool transpose_b;
    std::int64_t alpha;
    std::int64_t beta;
};

Problem problem_of(const Case& one, const Asked& asked, Type type) {
    Problem p{.operation = &kMultiply,
              .type = type,
              .m = one.a.shape.rows,
              .n = one.b.shape.cols,
              .k = one.a.shape.cols};
    p.transpose_a = asked.transpose_a;
    p.transpose_b = asked.transpose_b;
    p.alpha = Scalar::of(asked.alpha);
    p.beta = Scalar::of(asked.beta);
    if (type == Type::i8) p.choices["result"] = "i32";
    const auto c = one.is_sparse() ? Storage::csr : Storage::dense;
    p.structure = {{one.a_storage, one.b_storage, c}, c};
    const auto entries = [](const Whole& matrix) { return static_cast<std::int64_t>(matrix.at.size()); };
    p.entries = {entries(one.a), entries(one.b), 0};
    return p;
}

/// An input in either storage.
template <class T>
struct Stored {
    Csr csr;
    Matrix dense;
    Operand operand;

    Stored(const Whole& matrix, Type type, Storage storage) {
        if (storage == Storage::csr) {
            csr = csr_of<T>(matrix, type);
            operand = operand_of(std::as_const(csr).view());
        } else {
            dense = dense_of<T>(matrix, type);
            operand = operand_of(std::as_const(dense).view());
        }
    }
};

/// Runs a level; whether its result is the expected one, and the check agrees.
template <class T>
void run_case(const Case& one, const Asked& asked, Type type, const Level& level, int threads) {
    Problem p = problem_of(one, asked, type);
    const Device device{.threads = threads};
    constexpr std::int64_t kMostRows = 1'000'000;  // of B as it is stored
    if (!takes_structure(level, p) || (asked.transpose_b && p.n > kMostRows)) return;
    INFO(one.name << ", " << name_of(type) << ", " << level.name << ", " << threads << " threads, transposed "
                  << asked.transpose_a << asked.transpose_b << ", alpha " << asked.alpha << ", beta "
                  << asked.beta);
    const bool adds = asked.beta != 0 && type != Type::i8;
    if (!adds) p.beta = Scalar::of(0);
    const Whole added =
        one.is_sparse() ? scattered({p.m, p.n}, p.m > 0 && p.n > 0 ? 40 : 0, 9) : full({p.m, p.n}, 9);
    const Stored<T> a(one.a.stored(asked.transpose_a), type, one.a_storage);
    const Stored<T> b(one.b.stored(asked.transpose_b), type, one.b_storage);
    const Stored<T> d(added, type, p.structure.result);
    if (adds) p.entries[2] = static_cast<std::int64_t>(added.at.size());
    const Whole expected = product(one.a, one.b, asked.alpha, adds ? asked.beta : 0, added);
    const Type c_type = result_type(p);
    Operands operands{.a = a.operand, .b = b.operand, .d = adds ? d.operand : Operand{}};
    Counted sparse({p.m, p.n}, c_type);
    Matrix dense(one.is_sparse() ? Shape{} : Shape{p.m, p.n}, c_type);
    std::fill_n(dense.data(), dense.bytes(), std::byte{0xff});
    operands.c = one.is_sparse() ? operand_of(sparse.csr().view()) : operand_of(dense.view());
    operands.room = one.is_sparse() ? &sparse : nullptr;
    if (!adds) operands.d.storage = p.structure.inputs[2];
    const Reasons reasons = unsupported_reasons(level, p, device);
    if (level.role == Role::vendor && !reasons.empty()) return;  // of these factors, or it is not here
    REQUIRE(reasons.empty());
    const Launch launch = prepare_launch(level, p, operands, device);
    for (int run = 0; run < 2; ++run) launch.run({});
    if (one.is_sparse()) {
        CHECK(is_csr_of<Result<T>>(sparse.csr().view(), expected));
        operands.c = operand_of(sparse.csr().view());
    } else {
        const Matrix right = dense_of<Result<T>>(expected, c_type);
        bool same = true;
        for (std::int64_t at = 0; at < p.m * p.n; ++at)
            same = same && equals(dense.as<Result<T>>()[at], right.as<Result<T>>()[at]);
        CHECK(same);
    }
    for (const VerifyMode mode : {VerifyMode::full, VerifyMode::freivalds}) {
        const Verification found =
            multiply::verify_sparse_product(p, operands, {.mode = mode, .threads = threads});
        INFO(found.mode << ": " << found.note);
        CHECK(found.verdict == "passed");
    }
}

}  // namespace

TEST_CASE("every level multiplies sparse matrices") {
    const auto all = cases();
    for (const Type type : {Type::f32, Type::f64, Type::c64, Type::c128, Type::f16, Type::bf16, Type::i32,
                            Type::i64, Type::i8}) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            for (const Case& one : all) {
                const bool small_sums = type != Type::bf16 && type != Type::f16;
                if (!small_sums && one.a.shape.cols > 1000) continue;
                for (const Level& level : multiply::cpu::sparse::levels()) {
                    run_case<T>(one, {false, false, 1, 0}, type, level, 2);
                    if (type == Type::f64) {
                        run_case<T>(one, {true, false, 1, 0}, type, level, 1);
                        run_case<T>(one, {false, true, 2, -1}, type, level, 5);
                        run_case<T>(one, {true, true, 1, 3}, type, level, 2);
                        run_case<T>(one, {false, false, 0, 2}, type, level, 2);
                    }
                }
            }
        });
    }
}

TEST_CASE("products that cancel stay as entries, and what has no entry is not multiplied") {
    const Whole a{{1, 3}, {{{0, 0}, 1}, {{0, 1}, 1}}};
    const Whole b{{3, 2}, {{{0, 0}, 2}, {{1, 0}, -2}, {{1, 1}, 5}}};
    const Case one{"cancels", a, b};
    for (const Level& level : multiply::cpu::sparse::levels())
        run_case<double>(one, {false, false, 1, 0}, Type::f64, level, 1);
    CHECK(product(a, b, 1, 0, {}).at.size() == 2);

    const Csr left = csr_of<double>(a, Type::f64);
    Matrix right = dense_of<double>(full({3, 2}, 1), Type::f64);
    right.as<double>()[4] = std::numeric_limits<double>::quiet_NaN();  // in the row without an entry
    for (const Level& level : multiply::cpu::sparse::levels()) {
        Problem p = problem_of({"", a, full({3, 2}, 1), Storage::csr, Storage::dense}, {false, false, 1, 0},
                               Type::f64);
        if (!takes_structure(level, p) || level.role == Role::vendor) continue;
        Matrix c({1, 2}, Type::f64);
        const Operands operands{.a = operand_of(left.view()),
                                .b = operand_of(std::as_const(right).view()),
                                .c = operand_of(c.view())};
        prepare_launch(level, p, operands, {}).run({});
        CHECK(c.as<double>()[0] == right.as<double>()[0] + right.as<double>()[2]);
        CHECK(multiply::verify_sparse_product(p, operands, {}).verdict == "passed");
    }
}

namespace {

/// A right product of two sparse matrices of many more products than a full check takes by itself, and what
/// may be done to it.
struct Multiplied {
    Case one{"", scattered({900, 400}, 6000, 21), scattered({400, 700}, 5000, 22)};
    Csr a;
    Csr b;
    Counted c;
    Problem p;

    explicit Multiplied(Type type) : c({900, 700}, type), p(problem_of(one, {false, false, 1, 0}, type)) {
        multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
            a = csr_of<T>(one.a, type);
            b = csr_of<T>(one.b, type);
        });
        const auto levels = multiply::cpu::sparse::levels();
        const auto binned = std::find_if(levels.begin(), levels.end(),
                                         [](const Level& level) { return level.name == "binned"; });
        prepare_launch(*binned, p, operands(), {.threads = 2}).run({});
    }
    [[nodiscard]] Operands operands() {
        Operands all{.a = operand_of(std::as_const(a).view()),
                     .b = operand_of(std::as_const(b).view()),
                     .c = operand_of(c.csr().view()),
                     .room = &c};
        all.d.storage = Storage::csr;
        return all;
    }
    [[nodiscard]] Verification verify(VerifyMode mode) {
        return multiply::verify_sparse_product(
            p, operands(),
            {.mode = mode, .threads = 2, .rounding = Rounding::of(p.type, plain_arithmetic(p.type))});
    }
};

}  // namespace

TEST_CASE("what is wrong with a sparse product is found") {
    for (const Type type : {Type::i64, Type::f32, Type::f64, Type::c128}) {
        for (const VerifyMode mode : {VerifyMode::full, VerifyMode::freivalds}) {
            INFO(name_of(type));
            CHECK(Multiplied(type).verify(mode).verdict == "passed");
            const std::size_t size = size_of(type);
            const auto found = [&](const auto& plant) {
                Multiplied one(type);
                const MutableCsrView c = one.c.csr().view();
                plant(one, c, c.columns_as<std::int32_t>());
                const Verification verdict = one.verify(mode);
                return verdict.failed() ? "failed: " + verdict.note : "passed";
            };
            using One = Multiplied&;
            using View = const MutableCsrView&;
            using Columns = std::int32_t*;
            /// A row in the middle with room between its columns, and its first entry.
            const auto row_of = [](View c) {
                std::int64_t row = 450;
                while (c.pointers[row + 1] - c.pointers[row] < 4) ++row;
                return row;
            };
            // Values.
            CHECK(found([&](One, View c, Columns) {
                      std::memset(c.values, 0, static_cast<std::size_t>(c.entries) * size);
                  }).starts_with("failed"));
            CHECK(found([&](One, View c, Columns) {
                      // The highest byte of the real part of one value.
                      const std::size_t high = type == Type::c128 ? 7 : size - 1;
                      auto at = static_cast<std::size_t>(c.pointers[row_of(c)]);
                      while (c.values[at * size + high] == std::byte{0}) ++at;
                      c.values[at * size + high] ^= std::byte{0x04};
                  }).starts_with("failed"));
            CHECK(found([&](One, View c, Columns) {
                      const auto first = static_cast<std::size_t>(c.pointers[row_of(c)]) * size;
                      const auto last = static_cast<std::size_t>(c.pointers[row_of(c) + 1]) * size;
                      std::memset(c.values + first, 0, last - first);
                  }).starts_with("failed"));
            CHECK(found([&](One, View c, Columns) {
                      std::int64_t at = c.pointers[row_of(c)];
                      const auto value = [&](std::int64_t n) {
                          return c.values + static_cast<std::size_t>(n) * size;
                      };
                      while (std::equal(value(at), value(at) + size, value(at + 1))) ++at;
                      std::swap_ranges(value(at), value(at) + size, value(at + 1));
                  }).starts_with("failed"));
            // Entries: one column on, which only rows that are computed again must tell where it is a zero.
            CHECK(found([&](One, View c, Columns columns) {
                      std::int64_t at = c.pointers[row_of(c)];
                      const auto zero = [&](std::int64_t n) {
                          return std::all_of(c.values + static_cast<std::size_t>(n) * size,
                                             c.values + static_cast<std::size_t>(n + 1) * size,
                                             [](std::byte byte) { return byte == std::byte{0}; });
                      };
                      while (zero(at) || columns[at] + 1 >= columns[at + 1]) ++at;
                      ++columns[at];
                  }).starts_with("failed"));
            CHECK(found([&](One, View c, Columns columns) {
                      columns[c.pointers[row_of(c)] + 1] = columns[c.pointers[row_of(c)]];
                  }).find("expected one beyond") != std::string::npos);
            CHECK(found([&](One, View, Columns columns) {
                      columns[21] = 700;
                  }).find("expected columns from 0") != std::string::npos);
            CHECK(found([&](One, View, Columns columns) { columns[21] -= 1 << 30; }).starts_with("failed"));
            // Pointers: the last row of a share lost, one wrapped.
            CHECK(found([&](One one, View c, Columns) {
                      std::int64_t last = c.shape.rows;
                      while (c.pointers[last - 1] == c.entries) --last;
                      const std::int64_t left = c.pointers[last - 1];
                      for (std::int64_t i = last; i <= c.shape.rows; ++i) c.pointers[i] = left;
                      one.c.csr().shorten(left);
                  }).starts_with("failed"));
            CHECK(found([&](One, View c, Columns) {
                      c.pointers[9] += std::int64_t{1} << 32;
                  }).find("expected at most") != std::string::npos);
            CHECK(found([&](One, View c, Columns) {
                      c.pointers[9] -= std::int64_t{1} << 31;
                  }).starts_with("failed"));
            CHECK(found([&](One, View c, Columns) { ++c.pointers[row_of(c) + 1]; }).starts_with("failed"));
        }
    }
}

TEST_CASE("a stored product may have other zeros") {
    Multiplied one(Type::f64);
    const CsrView all = std::as_const(one.c.csr()).view();
    Csr without(all.shape, Type::f64, all.entries);
    const MutableCsrView to = without.view();
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < all.shape.rows; ++i) {
        to.pointers[i] = count;
        for (std::int64_t at = all.pointers[i]; at < all.pointers[i + 1]; ++at) {
            if (all.values_as<double>()[at] == 0) continue;
            to.columns_as<std::int32_t>()[count] = all.columns_as<std::int32_t>()[at];
            to.values_as<double>()[count++] = all.values_as<double>()[at];
        }
    }
    to.pointers[all.shape.rows] = count;
    without.shorten(count);
    REQUIRE(count < all.entries);
    Operands operands = one.operands();
    operands.c = operand_of(without.view());
    for (const VerifyMode mode : {VerifyMode::full, VerifyMode::freivalds}) {
        CHECK(multiply::verify_sparse_product(one.p, operands, {.mode = mode}).verdict == "passed");
        to.values_as<double>()[count / 2] += 1;
        CHECK(multiply::verify_sparse_product(one.p, operands, {.mode = mode}).verdict == "failed");
        to.values_as<double>()[count / 2] -= 1;
    }
}

TEST_CASE("any number of threads gives the same bits") {
    const Case one{"", scattered({500, 400}, 9000, 31, true), full({400, 33}, 32), Storage::csr,
                   Storage::dense};
    Csr a = csr_of<float>(one.a, Type::f32);
    Matrix b = dense_of<float>(one.b, Type::f32);
    std::mt19937 random(33);
    std::uniform_real_distribution<float> real(-1, 1);
    for (std::int64_t at = 0; at < a.entries(); ++at) a.view().values_as<float>()[at] = real(random);
    for (std::int64_t at = 0; at < 400 * 33; ++at) b.as<float>()[at] = real(random);
    const Problem p = problem_of(one, {false, false, 1, 0}, Type::f32);
    for (const Level& level : multiply::cpu::sparse::levels()) {
        if (!takes_structure(level, p) || level.role == Role::vendor) continue;
        std::vector<std::vector<std::byte>> results;
        for (const int threads : {1, 2, 7}) {
            Matrix c({500, 33}, Type::f32);
            const Operands operands{.a = operand_of(std::as_const(a).view()),
                                    .b = operand_of(std::as_const(b).view()),
                                    .c = operand_of(c.view())};
            prepare_launch(level, p, operands, {.threads = threads}).run({});
            results.emplace_back(c.data(), c.data() + c.bytes());
            CHECK(multiply::verify_sparse_product(p, operands, {.threads = 2}).verdict == "passed");
        }
        CHECK(results[0] == results[1]);
        CHECK(results[0] == results[2]);
    }
}
