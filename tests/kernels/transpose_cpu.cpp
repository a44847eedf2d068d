// Every CPU level of transpose, on every element size and on shapes around its tiles, against a plain loop.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <random>

#include "kernels/registry.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/spread.hpp"

using namespace gpumat;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count) {
    std::mt19937_64 random(count + 1);
    Bytes bytes(count);
    for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + at, &word, std::min(sizeof word, count - at));
    }
    return bytes;
}

/// The size is known where it is compiled: the address sanitizer looks at each copy of another.
template <std::size_t kSize>
void move_elements(const Bytes& in, std::size_t m, std::size_t n, Bytes& out) {
    for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            std::memcpy(out.data() + (j * m + i) * kSize, in.data() + (i * n + j) * kSize, kSize);
        }
    }
}

Bytes plain_transpose(const Bytes& in, std::size_t m, std::size_t n, std::size_t size) {
    Bytes out(in.size());
    switch (size) {
        case 1:
            move_elements<1>(in, m, n, out);
            break;
        case 2:
            move_elements<2>(in, m, n, out);
            break;
        case 4:
            move_elements<4>(in, m, n, out);
            break;
        case 8:
            move_elements<8>(in, m, n, out);
            break;
        default:
            move_elements<16>(in, m, n, out);
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
        const Launch launch = prepare_launch(
            level, problem, contiguous_operands(problem, {.a = input, .c = out.data()}), device);
        CHECK(launch.level == level.name);
        launch.run({});
        CHECK(same(expected, out.data()));
        CHECK(out.intact());
        CHECK(same(in, input));
    }
    if (m != n) return;

    problem.in_place = true;
    Guarded matrix(in.size(), size);
    if (!in.empty()) std::memcpy(matrix.data(), in.data(), in.size());
    prepare_launch(level, problem, contiguous_operands(problem, {.a = matrix.data(), .c = matrix.data()}),
                   device)
        .run({});
    CHECK(same(expected, matrix.data()));
    CHECK(matrix.intact());
}

/// Runs the level on rows that lie `in_gap` and `out_gap` elements further apart than they are long, and in
/// place where the matrix is square. What is between the rows must stay as it is.
void check_gaps(const Level& level, Problem problem, std::size_t in_gap, std::size_t out_gap) {
    const Device device{.kind = DeviceKind::cpu, .threads = 3, .gpu = nullptr};
    if (!unsupported_reasons(level, problem, device).empty()) return;
    constexpr auto kGap = std::byte{0xa5};
    const std::size_t size = size_of(problem.type);
    const auto m = static_cast<std::size_t>(problem.m);
    const auto n = static_cast<std::size_t>(problem.n);
    const Bytes dense = random_bytes(m * n * size);
    Bytes in = spread(dense.data(), m, n * size, (n + in_gap) * size, kGap);
    Bytes out(((n - 1) * (m + out_gap) + m) * size, kGap);
    const Bytes expected =
        spread(plain_transpose(dense, m, n, size).data(), n, m * size, (m + out_gap) * size, kGap);
    Operands operands = contiguous_operands(problem, {.a = in.data(), .c = out.data()});
    operands.a.pitch += static_cast<std::int64_t>(in_gap);
    operands.c.pitch += static_cast<std::int64_t>(out_gap);
    const Bytes before = in;
    prepare_launch(level, problem, operands, device).run({});
    CHECK((out == expected));
    CHECK((in == before));
    if (m != n) return;

    problem.in_place = true;
    out = spread(dense.data(), m, n * size, (m + out_gap) * size, kGap);
    operands.c.data = out.data();
    operands.a = operands.c;
    prepare_launch(level, problem, operands, device).run({});
    CHECK((out == expected));
}

/// The vector instructions that the level can be forced to, or "" where it has no choice.
std::vector<std::string_view> vectors_of(const Level& level) {
    std::vector<std::string_view> widths;
    for (const Parameter& parameter : level.parameters) {
        if (parameter.name != "vector") continue;
        std::ranges::copy_if(parameter.choices, std::back_inserter(widths),
                             [](std::string_view choice) { return choice != "auto"; });
    }
    if (widths.empty()) widths.emplace_back();
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
    for (const Level* level : registry.levels(kTranspose, DeviceKind::cpu)) {
        DYNAMIC_SECTION("transpose_" << level->name) {
            for (const Type type : kTypes) {
                DYNAMIC_SECTION(name_of(type)) {
                    for (const auto& [m, n] : kShapes) {
                        DYNAMIC_SECTION(case_name(*level, type, m, n)) {
                            check(*level, {.operation = &kTranspose, .type = type, .m = m, .n = n}, 3);
                        }
                    }
                }
            }
        }
    }
}

TEST_CASE("CPU transposes take every choice of every parameter", "[transpose]") {
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kTranspose, DeviceKind::cpu)) {
        for (const Parameter& parameter : level->parameters) {
            for (const std::string_view choice : parameter.choices) {
                for (const Type type : kTypes) {
                    for (const auto& [m, n] : {std::pair{131, 67}, std::pair{67, 131}, std::pair{259, 259}}) {
                        DYNAMIC_SECTION(case_name(*level, type, m, n) << "_" << parameter.name << choice) {
                            Problem problem{.operation = &kTranspose, .type = type, .m = m, .n = n};
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
    // below each other; and each transposed.
    const Registry registry = Registry::standard();
    for (const Level* level : registry.levels(kTranspose, DeviceKind::cpu)) {
        for (const Type type : kTypes) {
            const auto size = static_cast<std::int64_t>(size_of(type));
            for (const std::int64_t m :
                 {std::int64_t{1}, std::int64_t{3}, 100 / size + 1, 128 / size, 128 / size + 1, 208 / size,
                  260 / size + 1, 700 / size, std::int64_t{519}, std::int64_t{1023}, std::int64_t{1024},
                  std::int64_t{1031}, 16384 / size + 7}) {
                const std::int64_t n = (std::int64_t{5} << 18) / m / size + 3;
                for (const auto& [rows, cols] : {std::pair{m, n}, std::pair{n, m}}) {
                    for (const std::string_view vector : vectors_of(*level)) {
                        INFO(case_name(*level, type, rows, cols) << "_" << vector);
                        Problem problem{.operation = &kTranspose, .type = type, .m = rows, .n = cols};
                        if (!vector.empty()) problem.parameters.emplace("vector", vector);
                        check(*level, problem, 2);
                    }
                }
            }
        }
    }
}

TEST_CASE("CPU transposes of rows with gaps between them", "[transpose]") {
    const Registry registry = Registry::standard();
    constexpr std::array kGaps = {std::pair{3, 0}, std::pair{0, 3}, std::pair{16, 16}, std::pair{3, 16}};
    // The last are large enough for streaming stores, which levels with vectors have.
    for (const Level* level : registry.levels(kTranspose, DeviceKind::cpu)) {
        for (const Type type : kTypes) {
            for (const auto& [m, n] :
                 {std::pair{1, 1}, std::pair{1, 300}, std::pair{300, 1}, std::pair{5, 3}, std::pair{33, 47},
                  std::pair{64, 64}, std::pair{131, 131}, std::pair{300, 7}, std::pair{7, 300},
                  std::pair{1037, 1100}, std::pair{1024, 1152}}) {
                if (m > 1000 && vectors_of(*level).front().empty()) continue;
                for (const auto& [in_gap, out_gap] : kGaps) {
                    for (const std::string_view vector : vectors_of(*level)) {
                        INFO(case_name(*level, type, m, n)
                             << "_gaps_" << in_gap << "_" << out_gap << "_" << vector);
                        Problem problem{.operation = &kTranspose, .type = type, .m = m, .n = n};
                        if (!vector.empty()) problem.parameters.emplace("vector", vector);
                        check_gaps(*level, problem, static_cast<std::size_t>(in_gap),
                                   static_cast<std::size_t>(out_gap));
                    }
                }
            }
        }
    }
}

TEST_CASE("the memcpy baseline copies, also rows with gaps between them", "[transpose]") {
    const Registry registry = Registry::standard();
    const auto baselines = registry.levels(kTranspose, DeviceKind::cpu, Role::baseline);
    REQUIRE(baselines.size() == 1);
    REQUIRE(baselines.front()->copies);
    const Bytes in = random_bytes(9'000'001);
    Guarded out(in.size());
    const Problem problem{
        .operation = &kTranspose, .type = Type::u8, .m = 1, .n = static_cast<std::int64_t>(in.size())};
    const Launch launch =
        prepare_launch(*baselines.front(), problem,
                       contiguous_operands(problem, {.a = in.data(), .c = out.data()}), {.threads = 2});
    CHECK(launch.level == baselines.front()->name);
    launch.run({});
    CHECK(same(in, out.data()));
    CHECK(out.intact());

    constexpr auto kGap = std::byte{0xa5};
    const Problem rows{.operation = &kTranspose, .type = Type::u8, .m = 1500, .n = 2000};
    const Bytes from = spread(in.data(), 1500, 2000, 2003, kGap);
    Bytes to(1499 * 2016 + 2000, kGap);
    Operands operands = contiguous_operands(rows, {.a = from.data(), .c = to.data()});
    operands.a.pitch = 2003;
    operands.c = {.data = to.data(), .rows = 1500, .cols = 2000, .pitch = 2016};
    prepare_launch(*baselines.front(), rows, operands, {.threads = 2}).run({});
    CHECK((to == spread(in.data(), 1500, 2000, 2016, kGap)));
}

TEST_CASE("a transpose in place needs a square matrix", "[transpose]") {
    const Registry registry = Registry::standard();
    const Problem problem{.operation = &kTranspose, .type = Type::f32, .m = 3, .n = 4, .in_place = true};
    for (const Level* level : registry.levels(kTranspose, DeviceKind::cpu)) {
        const Reasons reasons = unsupported_reasons(*level, problem, {});
        REQUIRE(reasons.size() == 1);
        CHECK(reasons.front().find("3x4") != std::string::npos);
    }
}
