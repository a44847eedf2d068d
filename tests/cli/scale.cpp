// The tool with an operation that the project does not have, a scaled copy, made of nothing but a row, two
// levels (one of them wrong) and a verification.
#include <array>

#include "cli/app.hpp"
#include "kernels/check/check.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/transpose/operation.hpp"

using namespace gpumat;

namespace {

std::vector<Level> scale_levels();

constexpr std::array kRoles = {InputRole{.name = "A", .help = "the matrix to scale"}};
constexpr std::array kSettings = {
    Setting{.name = "alpha", .help = "the factor", .factor = &Problem::alpha, .fallback = "1"}};

Verification verify_scaled(const Problem& problem, const Operands& operands, const VerifyOptions&) {
    Verification verification;
    verification.mode = "full";
    const auto alpha = static_cast<float>(problem.alpha.value.real());
    for (std::int64_t i = 0; i < problem.m * problem.n; ++i) {
        if (operands.c.as<float>()[i] != alpha * operands.a.as<float>()[i]) ++verification.mismatches;
    }
    verification.verdict = verification.mismatches == 0 ? "passed" : "failed";
    return verification;
}

constinit const Check kCheck = {.verify = verify_scaled};

constinit const Operation kScale = {.name = "scale",
                                    .summary = "scale a stored matrix",
                                    .examples = "  gpumat scale A.h5 --alpha 2 -o B.h5",
                                    .roles = kRoles,
                                    .settings = kSettings,
                                    .extents = 2,
                                    .size_example = "10x20",
                                    .bench_size = "64",
                                    .rate = Rate::bandwidth,
                                    .yardstick = "plain",
                                    .dataset = "/B",
                                    .fit =
                                        [](const ProblemRequest& request, Problem& problem) {
                                            problem.m = request.inputs[0]->shape.rows;
                                            problem.n = request.inputs[0]->shape.cols;
                                        },
                                    .input =
                                        [](const Problem& problem, std::size_t) {
                                            return std::optional(Shape{problem.m, problem.n});
                                        },
                                    .result =
                                        [](const Problem& problem) {
                                            return Shape{problem.m, problem.n};
                                        },
                                    .bytes =
                                        [](const Problem& p) {
                                            return 2.0 * static_cast<double>(p.m * p.n) *
                                                   static_cast<double>(size_of(p.type));
                                        },
                                    .levels = scale_levels,
                                    .preference =
                                        [](const Problem&, const Device&) {
                                            return std::vector<Preference>{{"plain", "there is no other"}};
                                        },
                                    .check = &kCheck};

template <bool kWrong>
Launch prepare(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = kWrong ? "wrong" : "plain", .run = [=](Stream) {
                const auto alpha = static_cast<float>(problem.alpha.value.real());
                for (std::int64_t i = 0; i < problem.m * problem.n; ++i)
                    operands.c.as<float>()[i] =
                        alpha * operands.a.as<float>()[i] + (kWrong && i == 3 ? 1.0F : 0.0F);
            }};
}

constexpr std::array kF32 = {Type::f32};

std::vector<Level> scale_levels() {
    const auto level = [](int number, std::string_view name, auto prepare_level) {
        return Level{.operation = &kScale,
                     .device = DeviceKind::cpu,
                     .number = number,
                     .name = name,
                     .summary = "one loop",
                     .removes = "nothing",
                     .needs = {.types = kF32},
                     .prepare = prepare_level};
    };
    return {level(1, "plain", prepare<false>), level(2, "wrong", prepare<true>)};
}

}  // namespace

int main(int argc, char** argv) {
    return cli::run(argc, argv, Registry({&kTranspose, &kMultiply, &kScale}));
}
