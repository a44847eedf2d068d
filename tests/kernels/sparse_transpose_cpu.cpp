// Every CPU level of the sparse transpose, on every size of values and of indices, against a plain one.
#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "core/sparse/csr.hpp"
#include "kernels/transpose/check/verify_sparse.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct Case {
    const char* name;
    Shape shape;
    Places places;  ///< in the order of rows and columns
};

Places random_places(const Shape& shape, std::size_t count, bool power_law) {
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

Places one_line(std::int64_t length, bool row, std::int64_t at) {
    Places places;
    for (std::int64_t i = 0; i < length; ++i) places.emplace_back(row ? at : i, row ? i : at);
    return places;
}

std::vector<Case> cases() {
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
Csr matrix_of(const Shape& shape, const Places& places, Type type) {
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

Csr plain_transpose(const Csr& matrix, const Places& places) {
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

bool same(const CsrView& a, const CsrView& b) {
    const auto count = static_cast<std::size_t>(a.entries);
    const std::size_t columns = count * index_bytes(a.shape);
    const std::size_t values = count * size_of(a.type);
    return a.entries == b.entries && std::equal(a.pointers, a.pointers + a.shape.rows + 1, b.pointers) &&
           std::equal(a.columns, a.columns + columns, b.columns) &&
           std::equal(a.values, a.values + values, b.values);
}

/// The result starts out as bytes of 0xff.
Csr poisoned(const Shape& shape, Type type, std::int64_t entries) {
    Csr matrix(shape, type, entries);
    const MutableCsrView view = matrix.view();
    std::fill_n(view.pointers, shape.rows + 1, -1);
    const auto count = static_cast<std::size_t>(entries);
    std::fill_n(view.columns, count * index_bytes(shape), std::byte{0xff});
    std::fill_n(view.values, count * size_of(type), std::byte{0xff});
    return matrix;
}

constexpr Structure kSparse = {.inputs = {Storage::csr}, .result = Storage::csr};

Problem problem_of(const Csr& matrix) {
    return {.operation = &kTranspose,
            .type = matrix.type(),
            .m = matrix.shape().rows,
            .n = matrix.shape().cols,
            .structure = kSparse,
            .entries = {matrix.entries()}};
}

}  // namespace

TEST_CASE("every level transposes sparse matrices") {
    for (const Case& one : cases()) {
        for (const Type type : {Type::i8, Type::f16, Type::f32, Type::f64, Type::c128}) {
            const Csr in = matrix_of(one.shape, one.places, type);
            const Csr expected = plain_transpose(in, one.places);
            for (const Level& level : transpose::cpu::sparse::levels()) {
                for (const int threads : {1, 2, 5}) {
                    INFO(one.name << ", " << name_of(type) << ", " << level.name << ", " << threads);
                    const Device device{.threads = threads};
                    const Problem problem = problem_of(in);
                    Csr out = poisoned(one.shape.transposed(), type, in.entries());
                    const Operands operands{.a = operand_of(in.view()), .c = operand_of(out.view())};
                    REQUIRE(unsupported_reasons(level, problem, operands, device).empty());
                    const Launch launch = prepare_launch(level, problem, operands, device);
                    CHECK(launch.level == level.name);
                    for (int run = 0; run < 2; ++run) launch.run({});
                    CHECK(same(out.view(), expected.view()));
                }
            }
        }
    }
}

namespace {

/// A right transpose, and what may be done to it.
struct Transposed {
    Csr in;
    Csr out;

    [[nodiscard]] Verification verify() const {
        CsrView a = in.view();
        CsrView c = out.view();
        Operands operands{.a = operand_of(a), .c = {}};
        operands.c = {.data = const_cast<std::byte*>(c.values),
                      .rows = c.shape.rows,
                      .cols = c.shape.cols,
                      .storage = Storage::csr,
                      .entries = c.entries,
                      .pointers = const_cast<std::int64_t*>(c.pointers),
                      .columns = const_cast<std::byte*>(c.columns)};
        return transpose::verify_sparse(problem_of(in), operands, {.threads = 2});
    }
};

Transposed right(Type type) {
    const Shape shape{400, 300};
    const Places places = random_places(shape, 5000, false);
    Csr in = matrix_of(shape, places, type);
    Csr out = plain_transpose(in, places);
    return {std::move(in), std::move(out)};
}

}  // namespace

TEST_CASE("what is wrong with a sparse transpose is found") {
    for (const Type type : {Type::i8, Type::u16, Type::f32, Type::f64, Type::c128}) {
        INFO(name_of(type));
        CHECK(right(type).verify().verdict == "passed");
        const std::size_t size = size_of(type);
        const auto note = [&](const auto& plant) {
            Transposed one = right(type);
            const MutableCsrView out = one.out.view();
            plant(one, out, out.columns_as<std::int32_t>());
            const Verification found = one.verify();
            return found.failed() ? found.note : "passed";
        };
        using One = Transposed&;
        using Out = const MutableCsrView&;
        using Columns = std::int32_t*;
        const std::string entries = "the entries of the result are not those of the input";
        // Values.
        CHECK(note([&](One, Out out, Columns) {
                  std::memset(out.values, 0, static_cast<std::size_t>(out.entries) * size);
              }).starts_with(entries));
        CHECK(note([&](One, Out out, Columns) {
                  const auto first = static_cast<std::size_t>(out.pointers[7]);
                  const auto last = static_cast<std::size_t>(out.pointers[8]);
                  std::memset(out.values + first * size, 0, (last - first) * size);
              }).starts_with(entries));
        CHECK(note([&](One, Out out, Columns) {
                  for (std::size_t at = 0; at < size; ++at)
                      std::swap(out.values[at], out.values[9 * size + at]);
              }).starts_with(entries));
        CHECK(
            note([&](One, Out out, Columns) { out.values[50 * size] ^= std::byte{1}; }).starts_with(entries));
        // Entries.
        CHECK(note([&](One, Out out, Columns columns) {
                  std::int64_t at = 0;  // the last of a row, which has room behind it
                  for (std::int64_t row = 0; row < out.shape.rows; ++row) {
                      at = out.pointers[row + 1] - 1;
                      if (columns[at] + 1 < out.shape.cols) break;
                  }
                  ++columns[at];
              }).starts_with(entries));
        CHECK(note([&](One, Out, Columns columns) { std::swap(columns[20], columns[21]); }) != "passed");
        CHECK(note([&](One, Out, Columns columns) {
                  columns[21] = columns[20];
              }).find("expected one beyond") != std::string::npos);
        CHECK(note([&](One, Out, Columns columns) { columns[21] = 400; }).find("expected columns from 0") !=
              std::string::npos);
        CHECK(note([&](One one, Out out, Columns) {
                  one.out.shorten(out.entries - 1);
              }).find("entries, expected") != std::string::npos);
        // Pointers.
        CHECK(note([&](One, Out out, Columns) { ++out.pointers[5]; }) != "passed");
        CHECK(note([&](One, Out out, Columns) { out.pointers[9] = -1; }).find("row pointer 9 is -1") !=
              std::string::npos);
        CHECK(note([&](One, Out out, Columns) {
                  out.pointers[9] += std::int64_t{1} << 32;
              }).find("expected at most") != std::string::npos);
        CHECK(note([&](One, Out out, Columns) { out.pointers[0] = 1; }).find("row pointer 0") !=
              std::string::npos);
        CHECK(note([&](One, Out out, Columns) {
                  --out.pointers[out.shape.rows];
              }).find("the last row pointer") != std::string::npos);
        // The entries of one row are those of the next: the structure holds.
        CHECK(note([&](One, Out out, Columns) { out.pointers[30] = out.pointers[31]; }) != "passed");
    }
}

TEST_CASE("sparse and dense levels say why they do not take the other") {
    const Problem sparse{.operation = &kTranspose, .m = 3, .n = 4, .structure = kSparse, .entries = {2}};
    Problem dense = sparse;
    dense.structure = {};
    const Device device{.threads = 1};
    for (const Level& level : transpose::cpu::sparse::levels()) {
        CHECK(unsupported_reasons(level, dense, device) ==
              Reasons{"it works on sparse matrices, not on dense ones"});
        Problem in_place = sparse;
        in_place.in_place = true;
        CHECK(unsupported_reasons(level, in_place, device).size() == 1);
    }
    for (const Level& level : kTranspose.levels()) {
        if (level.device != DeviceKind::cpu || !level.needs.structures.empty()) continue;
        CHECK(unsupported_reasons(level, sparse, device) ==
              Reasons{"it works on dense matrices, not on sparse ones"});
    }
}
