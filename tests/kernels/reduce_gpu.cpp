// Every GPU reduction: op × axis × type × shape × alignment against the definition, into poisoned memory
// between guard bytes. GPUMAT_SMALL_SHAPES=1 leaves out most shapes, for the slow memory and race checkers.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>

#include "kernels/registry.hpp"
#include "tests/kernels/reduce_cases.hpp"
#include "tests/kernels/spread.hpp"

using namespace reduce_cases;

namespace {

constexpr unsigned char kPoison = 0xA5;
constexpr std::size_t kGuard_bytes = 512;

/// Empty, single, around warps, words and blocks, few columns that are folded, long and thin.
const std::vector<Sides> kAllShapes = {
    {0, 0},    {0, 5},    {5, 0},     {1, 1},    {1, 7},     {7, 1},     {3, 5},     {8, 8},      {17, 31},
    {33, 130}, {130, 33}, {256, 256}, {257, 64}, {5, 513},   {1, 5000},  {5000, 1},  {2100, 65},  {1, 100000},
    {31, 2},   {2, 31},   {4096, 3},  {3, 4096}, {3, 40000}, {40000, 3}, {20, 8192}, {100, 1000}, {64, 128},
};
const std::vector<Sides> kFewShapes = {{1, 1}, {33, 130}, {5, 513}, {300, 3}, {3, 20000}};

bool small_shapes_only() {
    return std::getenv("GPUMAT_SMALL_SHAPES") != nullptr;
}

const std::vector<Sides>& shapes() {
    return small_shapes_only() ? kFewShapes : kAllShapes;
}

Gpu& gpu() {
    static const std::unique_ptr<Gpu> kGpu = Gpu::open(0);
    return *kGpu;
}

Device device() {
    return {.kind = DeviceKind::gpu, .threads = 1, .gpu = &gpu()};
}

std::vector<const Level*> all_levels() {
    static const Registry kRegistry = Registry::standard();
    return kRegistry.levels(kReduce, DeviceKind::gpu);
}

/// Device memory, `offset_bytes` away from the alignment of cudaMalloc, between guards.
class Guarded {
  public:
    explicit Guarded(std::size_t bytes, std::size_t offset_bytes = 0)
        : bytes_(bytes), before_(kGuard_bytes + offset_bytes) {
        memory_ = gpu().allocate(before_ + bytes_ + kGuard_bytes);
        gpu().fill(memory_.data(), kPoison, memory_.bytes());
    }

    [[nodiscard]] void* data() const { return static_cast<unsigned char*>(memory_.data()) + before_; }

    void write(const Bytes& bytes) { gpu().upload(data(), bytes.data(), bytes.size()); }

    /// What is there; checks that the guards are as they were.
    [[nodiscard]] Bytes read() const {
        Bytes all(memory_.bytes());
        gpu().download(all.data(), memory_.data(), all.size());
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(before_);
        const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
        const auto poisoned = [](unsigned char byte) { return byte == kPoison; };
        CHECK(std::all_of(all.begin(), begin, poisoned));
        CHECK(std::all_of(end, all.end(), poisoned));
        return {begin, end};
    }

  private:
    std::size_t bytes_;
    std::size_t before_;
    DeviceMemory memory_;
};

std::size_t result_bytes(const Problem& problem) {
    const Shape shape = kReduce.result(problem);
    return static_cast<std::size_t>(shape.rows * shape.cols) * size_of(result_type(problem));
}

/// Runs the level twice and compares. Returns false where it says that it cannot serve the problem.
bool serves(const Level& level, const Problem& problem, const Bytes& input, std::size_t offset = 0) {
    INFO(describe(problem, level.name) << " at " << offset);
    if (!unsupported_reasons(level, problem, device()).empty()) return false;
    Guarded in(input.size(), offset * size_of(problem.type));
    Guarded out(result_bytes(problem));
    in.write(input);
    const Operands operands = contiguous_operands(problem, {.a = in.data(), .c = out.data()});
    const Launch launch = prepare_launch(level, problem, operands, device());
    CHECK(launch.level == level.name);
    launch.run(gpu().stream());
    gpu().synchronize();
    const Bytes found = out.read();
    CHECK(all_right(problem, input, found.data()));
    launch.run(gpu().stream());
    gpu().synchronize();
    CHECK((out.read() == found));  // the same bits once more
    CHECK((in.read() == input));
    return true;
}

Bytes run(const Level& level, const Problem& problem, const Bytes& input) {
    Guarded in(input.size());
    Guarded out(result_bytes(problem));
    in.write(input);
    prepare_launch(level, problem, contiguous_operands(problem, {.a = in.data(), .c = out.data()}), device())
        .run(gpu().stream());
    gpu().synchronize();
    return out.read();
}

struct Count {
    int ran = 0;
    int refused = 0;

    void add(bool served) { ++(served ? ran : refused); }
    void print(const char* what) const {
        std::cout << what << ": " << ran << " ran, " << refused << " refused with a reason\n";
        CHECK(ran > 0);
    }
};

template <class Function>
void for_problems(Sides shape, const Function& function) {
    for (const Type type : all_types()) {
        for (const char* op : kOps) {
            for (const char* axis : kAxes) {
                const Problem problem = problem_of(type, shape, op, axis);
                if (has_result(problem)) function(problem);
            }
        }
    }
}

}  // namespace

TEST_CASE("every level reduces every shape, type, axis and op") {
    Count count;
    for (const Level* level : all_levels()) {
        for (const Sides shape : shapes()) {
            for_problems(shape, [&](const Problem& problem) {
                count.add(serves(*level, problem, matrix_of(problem)));
            });
        }
    }
    count.print("shapes");
}

TEST_CASE(
    "parts of a matrix, combined, have the result of the definition on the GPU, or it is said why not") {
    Count count;
    for (const Level* level : all_levels()) {
        for (const Shape step : {Shape{17, 400}, Shape{40, 90}, Shape{7, 90}}) {
            for_problems({40, 400}, [&](const Problem& problem) {
                INFO(describe(problem, level->name) << " in " << to_string(step));
                bool served = true;
                const Bytes input = matrix_of(problem);
                const Bytes found =
                    reduced_in_parts(problem, input, step, [&](const Problem& part, const Bytes& elements) {
                        served = served && unsupported_reasons(*level, part, device()).empty();
                        return served ? run(*level, part, elements) : Bytes(result_bytes(part));
                    });
                count.add(served);
                if (served) CHECK(all_right(problem, input, found.data()));
            });
        }
    }
    count.print("parts");
}

TEST_CASE("every level takes memory of any alignment") {
    Count count;
    for (const Level* level : all_levels()) {
        for (const Sides shape : {Sides{1, 3000}, Sides{67, 129}, Sides{300, 16}, Sides{2, 20001}}) {
            for_problems(shape, [&](const Problem& problem) {
                if (small_shapes_only() && problem.choices.at("op") != "sum") return;
                for (const std::size_t offset : {1, 3})
                    count.add(serves(*level, problem, matrix_of(problem), offset));
            });
        }
    }
    count.print("alignments");
}

TEST_CASE("a NaN is in every result of the GPU, and counted") {
    Count count;
    for (const Level* level : all_levels()) {
        for (const Sides shape : {Sides{1, 1}, Sides{40, 67}, Sides{3, 40000}}) {
            for_problems(shape, [&](const Problem& problem) {
                count.add(serves(*level, problem, matrix_of(problem, 5)));
            });
        }
    }
    count.print("NaN");
}

TEST_CASE("large reductions on the GPU are right, with every choice of waves") {
    if (small_shapes_only()) return;
    Count count;
    for (const Level* level : all_levels()) {
        for (const Sides shape :
             {Sides{1, 9000001}, Sides{3000001, 3}, Sides{6, 1500001}, Sides{3000, 3001}}) {
            for (const Type type : {Type::i8, Type::f16, Type::f32, Type::f64, Type::c64}) {
                for (const char* op : {"sum", "norm"}) {
                    if (op == std::string_view("norm") && type != Type::f32) continue;  // seconds each
                    for (const char* axis : kAxes) {
                        const Problem problem = problem_of(type, shape, op, axis);
                        count.add(serves(*level, problem, matrix_of(problem)));
                    }
                }
            }
        }
        for (const Parameter& parameter : level->parameters) {
            for (const std::string_view choice : parameter.choices) {
                Problem problem = problem_of(Type::f32, {1, 9000001}, "sum", "all");
                problem.parameters[std::string(parameter.name)] = choice;
                count.add(serves(*level, problem, matrix_of(problem)));
            }
        }
    }
    count.print("large");
}

TEST_CASE("every level takes rows with gaps between them, or says why not") {
    Count count;
    constexpr std::int64_t kGap = 3;
    for (const Level* level : all_levels()) {
        for (const Sides shape : {Sides{7, 33}, Sides{300, 5}, Sides{4, 20000}}) {
            for_problems(shape, [&](const Problem& problem) {
                if (small_shapes_only() && problem.choices.at("op") != "sum") return;
                INFO(describe(problem, level->name) << " with gaps");
                const std::size_t size = size_of(problem.type);
                const Bytes dense = matrix_of(problem);
                const std::size_t row_bytes = static_cast<std::size_t>(problem.n) * size;
                const Bytes spread_in = spread(dense.data(), static_cast<std::size_t>(problem.m), row_bytes,
                                               row_bytes + kGap * size, static_cast<unsigned char>(0xff));
                const Shape results = kReduce.result(problem);
                const std::size_t out_size = size_of(result_type(problem));
                Guarded in(spread_in.size());
                Guarded out(static_cast<std::size_t>(results.rows * (results.cols + kGap)) * out_size);
                Operands operands = contiguous_operands(problem, {.a = in.data(), .c = out.data()});
                operands.a.pitch += kGap;
                operands.c.pitch += kGap;
                const Reasons reasons = unsupported_reasons(*level, problem, operands, device());
                count.add(reasons.empty());
                if (!reasons.empty()) return;
                in.write(spread_in);
                prepare_launch(*level, problem, operands, device()).run(gpu().stream());
                gpu().synchronize();
                const bool by_row = problem.choices.at("axis") == "rows";
                CHECK(all_right(problem, dense, out.read().data(), by_row ? operands.c.pitch : 1));
            });
        }
    }
    count.print("gaps");
}

TEST_CASE("the largest and smallest integers are reduced exactly on the GPU") {
    Count count;
    for (const Level* level : all_levels()) {
        for_problems({41, 43}, [&](const Problem& problem) {
            // The norm's squares are rounded there, and not here.
            if (!is_integer(problem.type) ||
                (problem.choices.at("op") == "norm" && size_of(problem.type) == 8))
                return;
            Bytes input = matrix_of(problem);
            visit_type(problem.type, [&]<class T>(TypeTag<T>) {
                for (std::size_t i = 0; i < input.size() / sizeof(T); ++i) {
                    const T value =
                        i % 3 == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
                    std::memcpy(input.data() + i * sizeof(T), &value, sizeof(T));
                }
            });
            count.add(serves(*level, problem, input));
        });
    }
    count.print("integers");
}

TEST_CASE("doubles of any size have sums, norms and magnitudes on the GPU") {
    Count count;
    const std::vector<std::vector<double>> cases = {
        {1e16, 1, -1e16}, {5e-324, 5e-324, 1e-310}, {1e300, 1e300, -1e300}, {3e-320, 4e-320}, {0.0, -0.0}};
    const std::vector<double> sums = {1, 1e-310 + 2 * 5e-324, 1e300, 7e-320, 0};
    for (const Level* level : all_levels()) {
        if (level->role != Role::rung) continue;
        for (std::size_t i = 0; i < cases.size(); ++i) {
            const auto bytes = cases[i].size() * sizeof(double);
            for (const char* op : {"sum", "norm"}) {
                INFO(level->name << " " << op << " of case " << i);
                const Problem problem =
                    problem_of(Type::f64, {1, static_cast<std::int64_t>(cases[i].size())}, op, "all");
                Guarded in(bytes);
                Guarded out(sizeof(double));
                const auto* data = reinterpret_cast<const unsigned char*>(cases[i].data());
                in.write({data, data + bytes});
                prepare_launch(*level, problem,
                               contiguous_operands(problem, {.a = in.data(), .c = out.data()}), device())
                    .run(gpu().stream());
                gpu().synchronize();
                double found = -1;
                std::memcpy(&found, out.read().data(), sizeof found);
                double norm = 0;
                for (const double x : cases[i]) norm = std::hypot(norm, x);
                const double expected = std::string(op) == "sum" ? sums[i] : norm;
                // Three roundings of hypot here, and of squares, sum and root there; or of the smallest
                // numbers.
                CHECK(std::fabs(found - expected) <=
                      (std::string(op) == "sum" ? 0 : 8 * 0x1p-53 * expected + 5e-324));
                count.add(true);
            }
        }
    }
    count.print("doubles");
}

TEST_CASE("the baseline of the GPU reads every byte") {
    static const Registry kRegistry = Registry::standard();
    for (const Level* level : kRegistry.levels(kReduce, DeviceKind::gpu, Role::baseline)) {
        REQUIRE(level->reads);
        for (const std::int64_t n : {0, 1, 7, 8, 15, 16, 17, 255, 256, 257, 1000, 3000001}) {
            INFO(n);
            const Problem problem{.operation = &kReduce, .type = Type::u8, .m = 1, .n = n};
            const Bytes input = matrix_of(problem);
            std::uint64_t expected = 0;
            for (std::size_t i = 0; i < input.size(); ++i)
                expected ^= static_cast<std::uint64_t>(input[i]) << 8 * (i % 8);
            Guarded in(input.size());
            Guarded out(sizeof(std::uint64_t));
            in.write(input);
            const Launch launch = prepare_launch(
                *level, problem, contiguous_operands(problem, {.a = in.data(), .c = out.data()}), device());
            for (int run = 0; run < 2; ++run) {
                launch.run(gpu().stream());
                gpu().synchronize();
                std::uint64_t found = ~expected;
                std::memcpy(&found, out.read().data(), sizeof found);
                CHECK(found == expected);
            }
        }
    }
}
