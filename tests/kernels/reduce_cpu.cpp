// Every CPU reduction: op × axis × type × shape × alignment against the definition, into poisoned memory
// between guard bytes, and the same bits on any number of threads.
#include <array>
#include <set>

#include "kernels/registry.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/reduce_cases.hpp"
#include "tests/kernels/spread.hpp"

using namespace reduce_cases;

namespace {

/// Empty, single, around the vectors and the pieces of columns, long and thin, and of several pieces.
constexpr std::array kShapes = std::to_array<Sides>({
    {0, 0},
    {0, 5},
    {5, 0},
    {1, 1},
    {1, 7},
    {7, 1},
    {3, 5},
    {8, 8},
    {17, 31},
    {33, 130},
    {130, 33},
    {5, 513},
    {1, 5000},
    {5000, 1},
    {2100, 65},
});

std::vector<Problem> all_problems(Sides shape) {
    std::vector<Problem> problems;
    for (const Type type : all_types()) {
        for (const char* op : kOps) {
            for (const char* axis : kAxes) {
                const Problem problem = problem_of(type, shape, op, axis);
                if (has_result(problem)) problems.push_back(problem);
            }
        }
    }
    return problems;
}

/// The results, one after the other.
Bytes run(const Level& level, const Problem& problem, const Bytes& input, int threads, std::size_t shift) {
    const Device device{.kind = DeviceKind::cpu, .threads = threads, .gpu = nullptr};
    const Shape shape = kReduce.result(problem);
    const std::size_t bytes =
        static_cast<std::size_t>(shape.rows * shape.cols) * size_of(result_type(problem));
    // The input ends where its memory does, so that the address sanitizer sees what is read past it.
    Bytes memory(shift * size_of(problem.type));
    memory.insert(memory.end(), input.begin(), input.end());
    memory.shrink_to_fit();
    Guarded out(bytes);
    const auto* in = memory.data() + shift * size_of(problem.type);
    const Launch launch =
        prepare_launch(level, problem, contiguous_operands(problem, {.a = in, .c = out.data()}), device);
    CHECK(launch.level == level.name);
    launch.run({});
    CHECK(out.intact());
    const auto* found = reinterpret_cast<const unsigned char*>(out.data());
    return {found, found + bytes};
}

/// The choices of the level's parameter "vector", of those that this processor has.
std::vector<Parameters> choices_of(const Level& level, const Problem& problem) {
    std::vector<Parameters> choices;
    for (const Parameter& parameter : level.parameters) {
        for (const std::string_view choice : parameter.choices) {
            Problem chosen = problem;
            chosen.parameters = {{std::string(parameter.name), std::string(choice)}};
            if (unsupported_reasons(level, chosen, {.kind = DeviceKind::cpu}).empty())
                choices.push_back(chosen.parameters);
        }
    }
    if (choices.empty()) choices.emplace_back();
    return choices;
}

}  // namespace

TEST_CASE("every CPU reduction has the result of the definition", "[reduce]") {
    const Registry registry = Registry::standard();
    for (const Sides shape : kShapes) {
        for (Problem problem : all_problems(shape)) {
            const Bytes input = matrix_of(problem);
            const auto expected = expected_results(problem, input);
            for (const Level* level : registry.levels(kReduce, DeviceKind::cpu)) {
                for (const Parameters& parameters : choices_of(*level, problem)) {
                    problem.parameters = parameters;
                    INFO(describe(problem, level->name)
                         << " " << (parameters.empty() ? "" : parameters.begin()->second));
                    CHECK(all_right(problem, expected, run(*level, problem, input, 1, 0).data()));
                    CHECK(all_right(problem, expected, run(*level, problem, input, 3, 1).data()));
                }
            }
        }
    }
}

TEST_CASE("a NaN is in every result of the CPU, and counted", "[reduce]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kReduce, DeviceKind::cpu)) {
        for (const Sides shape : {Sides{1, 1}, Sides{40, 67}, Sides{3, 400}}) {
            for (const Problem& problem : all_problems(shape)) {
                INFO(describe(problem, level->name));
                const Bytes input = matrix_of(problem, 5);
                CHECK(all_right(problem, input, run(*level, problem, input, 2, 0).data()));
            }
        }
    }
}

TEST_CASE("parts of a matrix, combined, have the result of the definition on the CPU", "[reduce]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kReduce, DeviceKind::cpu, Role::rung)) {
        for (const Shape step : {Shape{17, 70}, Shape{40, 9}, Shape{7, 9}}) {
            for (const Problem& problem : all_problems({40, 70})) {
                for (const int planted : {0, 3}) {
                    INFO(describe(problem, level->name) << " in " << to_string(step));
                    const Bytes input = matrix_of(problem, planted);
                    const Bytes found = reduced_in_parts(
                        problem, input, step,
                        [&](const Problem& part, const Bytes& in) { return run(*level, part, in, 2, 0); });
                    CHECK(all_right(problem, input, found.data()));
                }
            }
        }
    }
}

TEST_CASE("large reductions on the CPU are right, and have the same bits on any number of threads",
          "[reduce]") {
    const Registry registry = Registry::standard();
    constexpr std::array kTypes = {Type::i8, Type::bf16, Type::f32, Type::c64};
    for (const Sides shape : {Sides{1, 700000}, Sides{700000, 1}, Sides{9000, 70}}) {
        for (const Type type : types_of_long_cases(kTypes)) {
            for (const char* op : {"sum", "norm", "absmax"}) {
                for (const char* axis : kAxes) {
                    const Problem problem = problem_of(type, shape, op, axis);
                    const Bytes input = matrix_of(problem);
                    const auto expected = expected_results(problem, input);
                    for (const Level* level : registry.levels(kReduce, DeviceKind::cpu)) {
                        INFO(describe(problem, level->name));
                        const Bytes alone = run(*level, problem, input, 1, 0);
                        CHECK(all_right(problem, expected, alone.data()));
                        CHECK((run(*level, problem, input, 4, 0) == alone));
                    }
                }
            }
        }
    }
}

TEST_CASE("CPU reductions take rows with gaps between them, and leave gaps between results", "[reduce]") {
    const Registry registry = Registry::standard();
    const Device device{.kind = DeviceKind::cpu, .threads = 2, .gpu = nullptr};
    for (const Level* level : registry.levels(kReduce, DeviceKind::cpu)) {
        for (const Sides shape : {Sides{7, 33}, Sides{300, 5}, Sides{4, 70000}}) {
            for (const Type type : {Type::u8, Type::f32, Type::f64, Type::c128}) {
                for (const char* axis : kAxes) {
                    const Problem problem = problem_of(type, shape, "sum", axis);
                    INFO(describe(problem, level->name));
                    constexpr std::int64_t kGap = 3;
                    const Bytes dense = matrix_of(problem);
                    const std::size_t row_bytes = static_cast<std::size_t>(problem.n) * size_of(type);
                    const Bytes in =
                        spread(dense.data(), static_cast<std::size_t>(problem.m), row_bytes,
                               row_bytes + kGap * size_of(type), static_cast<unsigned char>(0xff));
                    const Shape results = kReduce.result(problem);
                    const std::size_t size = size_of(result_type(problem));
                    Bytes out(static_cast<std::size_t>(results.rows * (results.cols + kGap)) * size, 0x5a);
                    Operands operands = contiguous_operands(problem, {.a = in.data(), .c = out.data()});
                    operands.a.pitch += kGap;
                    operands.c.pitch += kGap;
                    prepare_launch(*level, problem, operands, device).run({});
                    const bool by_row = std::string(axis) == "rows";
                    CHECK(all_right(problem, dense, out.data(), by_row ? operands.c.pitch : 1));
                    const auto written = static_cast<std::size_t>(results.rows * results.cols) * size;
                    const auto kept = std::count(out.begin(), out.end(), 0x5a);
                    CHECK(static_cast<std::size_t>(kept) >= out.size() - written);
                }
            }
        }
    }
}

TEST_CASE("the largest and smallest integers are reduced exactly on the CPU", "[reduce]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kReduce, DeviceKind::cpu)) {
        for (const Type type : all_types()) {
            if (!is_integer(type)) continue;
            for (const char* op : kOps) {
                for (const char* axis : kAxes) {
                    const Problem problem = problem_of(type, {41, 43}, op, axis);
                    INFO(describe(problem, level->name));
                    Bytes input = matrix_of(problem);
                    visit_type(type, [&]<class T>(TypeTag<T>) {
                        for (std::size_t i = 0; i < input.size() / sizeof(T); ++i) {
                            const T value =
                                i % 3 == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
                            std::memcpy(input.data() + i * sizeof(T), &value, sizeof(T));
                        }
                    });
                    // The norm's squares are rounded there, and not here: 41·43 roundings of 2^-53 are far
                    // apart from what a lost element would be, and close to four ulps.
                    if (std::string(op) == "norm" && size_of(type) == 8) continue;
                    CHECK(all_right(problem, input, run(*level, problem, input, 2, 0).data()));
                }
            }
        }
    }
}

TEST_CASE("the baseline of the CPU reads every byte", "[reduce]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kReduce, DeviceKind::cpu, Role::baseline)) {
        REQUIRE(level->reads);
        for (const std::int64_t n : {0, 1, 7, 8, 255, 256, 257, 1000, 3000000}) {
            const Problem problem{.operation = &kReduce, .type = Type::u8, .m = 1, .n = n};
            const Bytes input = matrix_of(problem);
            std::uint64_t expected = 0;
            for (std::size_t i = 0; i < input.size(); ++i)
                expected ^= static_cast<std::uint64_t>(input[i]) << 8 * (i % 8);
            std::uint64_t found = ~std::uint64_t{0};
            const Device device{.kind = DeviceKind::cpu, .threads = 2, .gpu = nullptr};
            prepare_launch(*level, problem, contiguous_operands(problem, {.a = input.data(), .c = &found}),
                           device)
                .run({});
            CHECK(found == expected);
        }
    }
}
