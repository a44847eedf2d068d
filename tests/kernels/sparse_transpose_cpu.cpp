// Every CPU level of the sparse transpose, on every size of values and of indices, against a plain one.
#include "kernels/transpose/check/verify_sparse.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/sparse_cases.hpp"

using namespace gpumat;

using namespace gpumat::sparse_cases;

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
                    const Reasons reasons = unsupported_reasons(level, problem, operands, device);
                    if (level.role == Role::vendor && !reasons.empty()) continue;  // it is not here
                    REQUIRE(reasons.empty());
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
        CHECK(unsupported_reasons(level, in_place, device).front().find("in place") != std::string::npos);
    }
    for (const Level& level : kTranspose.levels()) {
        if (level.device != DeviceKind::cpu || !level.needs.structures.empty()) continue;
        CHECK(unsupported_reasons(level, sparse, device) ==
              Reasons{"it works on dense matrices, not on sparse ones"});
    }
}
