// Every CPU level of transpose, on every element size and on shapes around its tiles, against a plain loop.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <random>

#include "kernels/registry.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/guarded.hpp"

using namespace gpumat;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count) {
    std::mt19937_64 random(count + 1);
    Bytes bytes(count);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

Bytes plain_transpose(const Bytes& in, std::size_t m, std::size_t n, std::size_t size) {
    Bytes out(in.size());
    for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            std::memcpy(out.data() + (j * m + i) * size, in.data() + (i * n + j) * size, size);
        }
    }
    return out;
}

bool same(const Bytes& expected, const std::byte* found) {
    return expected.empty() || std::memcmp(expected.data(), found, expected.size()) == 0;
}

std::string case_name(const Level& level, Type type, std::int64_t m, std::int64_t n) {
    return "transpose_" + std::string(level.name) + "_" + std::string(name_of(type)) + "_" +
           std::to_string(m) + "x" + std::to_string(n);
}

/// Runs the level out of place, and in place where the matrix is square.
void check(const Level& level, Problem problem, int threads) {
    const Device device{.kind = DeviceKind::cpu, .threads = threads, .gpu = nullptr};
    const std::size_t size = size_of(problem.type);
    const auto m = static_cast<std::size_t>(problem.m);
    const auto n = static_cast<std::size_t>(problem.n);
    const Bytes in = random_bytes(m * n * size);
    const Bytes expected = plain_transpose(in, m, n, size);
    if (const Reasons reasons = unsupported_reasons(level, problem, device); !reasons.empty()) {
        for (const std::string& reason : reasons) CHECK(!reason.empty());
        return;
    }

    // The output starts on a line in one run and off it by an element in the other.
    for (const std::size_t shift : {std::size_t{0}, size}) {
        Guarded out(in.size(), shift);
        // The input ends where its memory does, so that the address sanitizer sees what is read past it.
        Bytes memory(2 * shift);
        memory.insert(memory.end(), in.begin(), in.end());
        memory.shrink_to_fit();
        const std::byte* input = memory.data() + 2 * shift;
        const Launch launch =
            prepare_launch(level, problem, {.a = input, .b = nullptr, .d = nullptr, .c = out.data()}, device);
        CHECK(launch.level == level.name);
        launch.run();
        CHECK(same(expected, out.data()));
        CHECK(out.intact());
        CHECK(same(in, input));
    }
    if (m != n) return;

    problem.in_place = true;
    Guarded matrix(in.size(), size);
    if (!in.empty()) std::memcpy(matrix.data(), in.data(), in.size());
    prepare_launch(level, problem, {.a = matrix.data(), .b = nullptr, .d = nullptr, .c = matrix.data()},
                   device)
        .run();
    CHECK(same(expected, matrix.data()));
    CHECK(matrix.intact());
}

/// The widths of vectors that the level can be forced to, or 0 where it has no choice.
std::vector<int> vectors_of(const Level& level) {
    std::vector<int> widths;
    for (const Parameter& parameter : level.parameters) {
        if (parameter.name != "vector") continue;
        std::ranges::copy_if(parameter.choices, std::back_inserter(widths),
                             [](int choice) { return choice != 0; });
    }
    if (widths.empty()) widths.push_back(0);
    return widths;
}

// One type of every size that elements have; a transpose knows nothing else of a type.
constexpr std::array kTypes = {Type::u8, Type::f16, Type::f32, Type::f64, Type::c128};

// Around the sides of all tiles (8 … 256), long and thin, prime, empty; and rows of nearly 4 KiB.
constexpr std::array kShapes = std::to_array<std::pair<int, int>>({
    {0, 0},     {0, 5},     {5, 0},    {1, 1},     {1, 300},   {300, 1},   {2, 2},     {7, 9},
    {8, 8},     {15, 17},   {16, 16},  {17, 15},   {31, 33},   {32, 32},   {33, 31},   {63, 65},
    {64, 64},   {65, 63},   {97, 101}, {127, 129}, {128, 128}, {129, 127}, {255, 257}, {256, 128},
    {257, 255}, {257, 257}, {3, 1000}, {1000, 3},  {5, 2048},  {2048, 5},  {20, 1024}, {1023, 1023},
});

}  // namespace

TEST_CASE("every CPU transpose moves every element, whatever the shape", "[transpose]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(Operation::transpose, DeviceKind::cpu)) {
        DYNAMIC_SECTION("transpose_" << level->name) {
            for (const Type type : kTypes) {
                DYNAMIC_SECTION(name_of(type)) {
                    for (const auto& [m, n] : kShapes) {
                        DYNAMIC_SECTION(case_name(*level, type, m, n)) {
                            check(*level, {.type = type, .m = m, .n = n}, 3);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("CPU transposes take every choice of every parameter", "[transpose]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(Operation::transpose, DeviceKind::cpu)) {
        for (const Parameter& parameter : level->parameters) {
            for (const int choice : parameter.choices) {
                for (const Type type : kTypes) {
                    for (const auto& [m, n] : {std::pair{131, 67}, std::pair{67, 131}, std::pair{259, 259}}) {
                        DYNAMIC_SECTION(case_name(*level, type, m, n) << "_" << parameter.name << choice) {
                            Problem problem{.type = type, .m = m, .n = n};
                            problem.parameters.emplace(parameter.name, choice);
                            check(*level, problem, 2);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("CPU transposes of results beyond the cache", "[transpose]") {
    // Large enough for streaming stores. Rows on lines (1024) and off them (519, 1023, 1031), 1023 and 1024
    // nearly a multiple of 4 KiB apart; low, with rows of 128 bytes, a little less and a little more; of some
    // hundred bytes, where the shape of a tile follows the width; so high that several strips of tiles lie
    // below each other; and each turned over.
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(Operation::transpose, DeviceKind::cpu)) {
        for (const Type type : kTypes) {
            const auto size = static_cast<std::int64_t>(size_of(type));
            for (const std::int64_t m :
                 {std::int64_t{1}, std::int64_t{3}, 100 / size + 1, 128 / size, 128 / size + 1, 208 / size,
                  260 / size + 1, 700 / size, std::int64_t{519}, std::int64_t{1023}, std::int64_t{1024},
                  std::int64_t{1031}, 16384 / size + 7}) {
                const std::int64_t n = (std::int64_t{5} << 18) / m / size + 3;
                for (const auto& [rows, cols] : {std::pair{m, n}, std::pair{n, m}}) {
                    for (const int vector : vectors_of(*level)) {
                        DYNAMIC_SECTION(case_name(*level, type, rows, cols) << "_vector" << vector) {
                            Problem problem{.type = type, .m = rows, .n = cols};
                            if (vector != 0) problem.parameters.emplace("vector", vector);
                            check(*level, problem, 2);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("the memcpy baseline copies", "[transpose]") {
    const Registry registry = Registry::standard();
    const auto baselines = registry.baselines(Operation::transpose, DeviceKind::cpu);
    REQUIRE(baselines.size() == 1);
    REQUIRE(baselines.front()->copies);
    const Bytes in = random_bytes(9'000'001);
    Guarded out(in.size());
    const Problem problem{.type = Type::u8, .m = 1, .n = static_cast<std::int64_t>(in.size())};
    const Launch launch =
        prepare_launch(*baselines.front(), problem,
                       {.a = in.data(), .b = nullptr, .d = nullptr, .c = out.data()}, {.threads = 2});
    CHECK(launch.level == baselines.front()->name);
    launch.run();
    CHECK(same(in, out.data()));
    CHECK(out.intact());
}

TEST_CASE("a transpose in place needs a square matrix", "[transpose]") {
    const Registry registry = Registry::standard();
    const Problem problem{.type = Type::f32, .m = 3, .n = 4, .in_place = true};
    for (const Level* level : registry.levels(Operation::transpose, DeviceKind::cpu)) {
        const Reasons reasons = unsupported_reasons(*level, problem, {});
        REQUIRE(reasons.size() == 1);
        CHECK(reasons.front().find("3x4") != std::string::npos);
    }
}
