// Every GPU level of the sparse transpose, on every size of values, against a plain one.
// GPUMAT_SMALL_SHAPES=1 leaves out the large ones, for the slow memory and race checkers.
#include <array>
#include <cstdlib>

#include "kernels/check/verification.hpp"
#include "kernels/transpose/check/verify_sparse.hpp"
#include "kernels/transpose/gpu/sparse/levels.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/sparse_cases.hpp"
#include "tests/kernels/sparse_on_gpu.hpp"

using namespace gpumat;
using namespace gpumat::sparse_cases;

namespace {

bool only_small() {
    return std::getenv("GPUMAT_SMALL_SHAPES") != nullptr;
}

Gpu& gpu() {
    static const std::unique_ptr<Gpu> kGpu = Gpu::open(0);
    return *kGpu;
}

Device device() {
    return {.kind = DeviceKind::gpu, .threads = 1, .gpu = &gpu()};
}

/// What the level makes of the matrix; nothing where it says why it does not take it.
std::optional<Csr> run_on_gpu(const Level& level, const Csr& in) {
    const Problem problem = problem_of(in);
    const SparseOnGpu from(gpu(), in.view(), true);
    Csr out = poisoned(in.shape().transposed(), in.type(), in.entries());
    const SparseOnGpu to(gpu(), out.view(), false);
    const Operands operands{.a = from.operand(), .c = to.operand()};
    if (!unsupported_reasons(level, problem, operands, device()).empty()) return {};
    const Launch launch = prepare_launch(level, problem, operands, device());
    CHECK(launch.level == level.name);
    for (int run = 0; run < 2; ++run) launch.run(gpu().stream());
    gpu().synchronize();
    to.download(out.view());
    return out;
}

/// A matrix of many entries, whose rows have `each`, or of a power law up to as many.
Csr large_matrix(const Shape& shape, std::int64_t each, bool power_law) {
    Places places;
    std::mt19937_64 random(static_cast<std::uint64_t>(shape.cols));
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        const std::int64_t count = power_law ? each * 16 / (row % 997 + 16) : each;
        std::int64_t before = -1;
        for (std::int64_t n = 0; n < count; ++n) {
            const double at = (static_cast<double>(n) + std::uniform_real_distribution<>(0, 1)(random)) /
                              static_cast<double>(count);
            const double share = power_law ? at * at * at : at;
            const auto column = static_cast<std::int64_t>(share * static_cast<double>(shape.cols));
            before = std::max(before + 1, column);
            if (before >= shape.cols) break;
            places.emplace_back(row, before);
        }
    }
    return matrix_of(shape, places, Type::f64);
}

}  // namespace

TEST_CASE("every level of the GPU transposes sparse matrices") {
    for (const Case& one : cases()) {
        if (only_small() && one.places.size() > 10'000) continue;
        for (const Type type : {Type::i8, Type::f16, Type::f32, Type::f64, Type::c128}) {
            if (only_small() && type != Type::f32 && type != Type::c128) continue;
            const Csr in = matrix_of(one.shape, one.places, type);
            const Csr expected = plain_transpose(in, one.places);
            for (const Level& level : transpose::gpu::sparse::levels()) {
                INFO(one.name << ", " << name_of(type) << ", " << level.name);
                const std::optional<Csr> out = run_on_gpu(level, in);
                REQUIRE((out || level.role == Role::vendor));
                if (out) CHECK(same(out->view(), expected.view()));
            }
        }
    }
}

TEST_CASE("every level of the GPU transposes sparse matrices of many entries") {
    if (only_small()) return;
    const std::array matrices = {
        large_matrix({60'000, 50'000}, 50, false), large_matrix({100, 1 << 22}, 20'000, false),
        large_matrix({1 << 21, 3}, 1, false), large_matrix({20'000, 1 << 20}, 3000, true),
        large_matrix({300, 100'000}, 10'000, true)};
    for (const Csr& in : matrices) {
        for (const Level& level : transpose::gpu::sparse::levels()) {
            INFO(to_string(in.shape()) << " " << in.entries() << ", " << level.name);
            std::optional<Csr> out = run_on_gpu(level, in);
            REQUIRE((out || level.role == Role::vendor));
            if (!out) continue;
            const Operands operands{.a = operand_of(in.view()), .c = operand_of(out->view())};
            const Verification found = transpose::verify_sparse(problem_of(in), operands, {.threads = 4});
            INFO(found.note);
            CHECK(found.verdict == "passed");
        }
    }
}

TEST_CASE("levels of the GPU say what they do not take") {
    Problem problem{.operation = &kTranspose, .m = 3, .n = 4, .structure = kSparse, .entries = {2}};
    for (const Level& level : transpose::gpu::sparse::levels()) {
        INFO(level.name);
        problem.in_place = true;
        CHECK_FALSE(unsupported_reasons(level, problem, device()).empty());
        problem.in_place = false;
        if (level.name != "blocked") continue;
        problem.n = std::int64_t{1} << 22;
        CHECK(unsupported_reasons(level, problem, device()).empty());
        ++problem.n;
        CHECK(unsupported_reasons(level, problem, device()) ==
              Reasons{"it takes up to 4194304 columns, and there are 4194305"});
    }
}
