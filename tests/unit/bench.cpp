// The bench with levels of its own: what it verifies, compares, refuses and exports.
#include "lib/measure/bench.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/transpose/operation.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.hpp"
#include "lib/measure/bench_export.hpp"
#include "lib/measure/bench_lineup.hpp"
#include "lib/measure/bench_memory.hpp"
#include "lib/measure/bench_sampling.hpp"
#include "lib/report/plot.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

// ---- levels that move 4-byte elements -------------------------------------------------------------

void transpose_u32(const Problem& problem, const Operands& operands) {
    const auto* in = operands.a.as<std::uint32_t>();
    auto* out = operands.c.as<std::uint32_t>();
    for (std::int64_t i = 0; i < problem.m; ++i) {
        for (std::int64_t j = 0; j < problem.n; ++j) out[j * problem.m + i] = in[i * problem.n + j];
    }
}

Launch prepare_plain(const Problem& problem, const Operands& operands, const Device&) {
    return {"plain", [problem, operands](Stream) { transpose_u32(problem, operands); }, {{"threads", "1"}}};
}

/// Transposes the matrix that it finds, in place where it is asked to; wrong in the last element where it is
/// u32.
Launch prepare_swap(const Problem& problem, const Operands& operands, const Device& device) {
    if (!problem.in_place) return {"swap", prepare_plain(problem, operands, device).run};
    REQUIRE(operands.a.data == operands.c.data);
    return {"swap", [=](Stream) {
                auto* matrix = operands.c.as<std::uint32_t>();
                for (std::int64_t i = 0; i < problem.n; ++i) {
                    for (std::int64_t j = 0; j < i; ++j)
                        std::swap(matrix[i * problem.n + j], matrix[j * problem.n + i]);
                }
                if (problem.type == Type::u32) matrix[problem.n * problem.n - 1] ^= 1U;
            }};
}

Reasons not_in_place(const Problem& problem, const Operands&, const Device&) {
    return problem.in_place ? Reasons{"not in place"} : Reasons{};
}

Reasons only_square(const Problem& problem, const Operands&, const Device&) {
    return problem.in_place && problem.m != problem.n ? Reasons{"only square"} : Reasons{};
}

/// Right everywhere but in the last element, and only where the tile is 2.
Launch prepare_wrong(const Problem& problem, const Operands& operands, const Device&) {
    const bool wrong = problem.parameters.contains("tile") && problem.parameters.at("tile") == "2";
    return {"wrong", [=](Stream) {
                transpose_u32(problem, operands);
                if (wrong) operands.c.as<std::uint32_t>()[problem.m * problem.n - 1] ^= 1U;
            }};
}

/// Writes nothing at all.
Launch prepare_idle(const Problem&, const Operands&, const Device&) {
    return {"idle", [](Stream) {}};
}

Launch prepare_impostor(const Problem& problem, const Operands& operands, const Device& device) {
    return prepare_plain(problem, operands, device);
}

Launch prepare_broken(const Problem&, const Operands&, const Device&) {
    return {"broken", [](Stream) { throw Error(ErrorCode::device, "the launch failed"); }};
}

Launch prepare_greedy(const Problem&, const Operands&, const Device&) {
    throw Error(ErrorCode::memory, "no room for the work space");
}

Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device&) {
    const auto bytes = static_cast<std::size_t>(problem.m * problem.n) * size_of(problem.type);
    return {"memcpy", [=](Stream) { std::memcpy(operands.c.data, operands.a.data, bytes); }};
}

constexpr auto kTiles = std::to_array<std::string_view>({"2", "4"});
constexpr std::array kParameters = {Parameter{"tile", "side of a tile", kTiles, "4"}};
constexpr std::array kF32 = {Type::f32};

Level level(int number, std::string_view name,
            Launch (*prepare)(const Problem&, const Operands&, const Device&)) {
    return {.operation = &kTranspose,
            .device = DeviceKind::cpu,
            .number = number,
            .name = name,
            .summary = "",
            .removes = "",
            .needs = {.types = kF32},
            .prepare = prepare};
}

Registry registry_of(std::vector<Level> levels) {
    Level copy = level(0, "memcpy", prepare_memcpy);
    copy.needs = {};
    copy.copies = true;
    copy.role = Role::baseline;
    copy.yardstick = true;
    levels.push_back(copy);
    return Registry({&kTranspose}, std::move(levels));
}

Level with_tile(Level level) {
    level.parameters = kParameters;
    return level;
}

BenchOptions quick(std::vector<Extents> sizes) {
    BenchOptions options;
    options.operation = &kTranspose;
    options.sizes = std::move(sizes);
    options.types = {Type::f32};
    options.device = "cpu";
    options.hot = true;  // no rotation: these tests measure nothing
    options.time_limit_s = 0.002;
    return options;
}

struct Outcome {
    int exit_code = -1;
    BenchHead head;
    std::vector<BenchRow> rows;
};

Outcome bench(const BenchOptions& options, const Registry& registry) {
    Outcome outcome;
    outcome.exit_code = run_bench(options, registry,
                                  {.head = [&](const BenchHead& head) { outcome.head = head; },
                                   .row = [&](const BenchRow& row) { outcome.rows.push_back(row); },
                                   .progress = {}});
    return outcome;
}

template <class Function>
Error error_of(const Function& function) {
    try {
        function();
    } catch (const Error& error) {
        return error;
    }
    FAIL("no error was thrown");
    return {ErrorCode::usage, ""};
}

BenchRow measured_row(const std::string& name, double ms, const Extents& size, bool baseline = false) {
    BenchRow row;
    row.operation = &kTranspose;
    row.level = name;
    row.ran = name;
    row.baseline = baseline;
    row.yardstick = baseline;
    row.size = size;
    row.samples_ms = {ms};
    row.median_ms = ms;
    row.effective_bandwidth_gbps = 1 / ms;
    row.verification.mode = "full";
    row.verification.verdict = "passed";
    return row;
}

}  // namespace

TEST_CASE("sizes: squares, extents, ranges and lists") {
    using Sizes = std::vector<Extents>;
    CHECK(parse_bench_sizes("4096", kTranspose) == Sizes{{4096, 4096, 0}});
    CHECK(parse_bench_sizes("64", kMultiply) == Sizes{{64, 64, 64}});
    CHECK(parse_bench_sizes("3x5,7", kTranspose) == Sizes{{3, 5, 0}, {7, 7, 0}});
    CHECK(parse_bench_sizes("3x5x7", kMultiply) == Sizes{{3, 5, 7}});
    CHECK(parse_bench_sizes("5:12:3", kTranspose) == Sizes{{5, 5, 0}, {8, 8, 0}, {11, 11, 0}});
    CHECK(parse_bench_sizes("500:4000:4", kTranspose).size() == 876);
    CHECK(parse_bench_sizes("9223372036854775806:9223372036854775807:1", kTranspose).size() == 2);
    CHECK(to_string(Extents{3, 5, 7}) == "3x5x7");
    CHECK(to_string(Extents{3, 5, 0}) == "3x5");
}

TEST_CASE("sizes: what is none is refused, naming it") {
    for (const char* text : {"", "0", "-4", "4x", "x4", "4x0", "3x4x5", "1:2", "1:2:0", "5:4:1", "1:2:3:4",
                             "4k", "1,,2", "1:100001:1", " 4", "4 ", "99999999999999999999"}) {
        INFO(text);
        const Error error = error_of([&] { parse_bench_sizes(text, kTranspose); });
        CHECK(error.code() == ErrorCode::usage);
        CHECK(std::string(error.what()).find("--size '") == 0);
    }
    CHECK(error_of([] { parse_bench_sizes("3x4", kMultiply); }).code() == ErrorCode::usage);
}

TEST_CASE("the interval of the median holds the order statistics that the binomial distribution gives") {
    std::vector<double> samples(5);
    std::iota(samples.begin(), samples.end(), 1.0);
    CHECK_FALSE(median_interval(samples));  // P(all on one side) = 2/32 > 5 %
    CHECK_FALSE(median_interval({}));
    // Ranks of the 95 % interval for n = 6, 10, 20, 100 (tables of the sign test): 1, 2, 6, 40.
    const std::vector<std::pair<int, int>> table = {{6, 1}, {10, 2}, {20, 6}, {100, 40}};
    for (const auto& [n, rank] : table) {
        INFO(n);
        samples.resize(static_cast<std::size_t>(n));
        std::iota(samples.rbegin(), samples.rend(), 1.0);  // n … 1: the order must not matter
        const auto interval = median_interval(samples);
        REQUIRE(interval);
        CHECK(interval->low == rank);
        CHECK(interval->high == n + 1 - rank);
        CHECK(interval->median == (n + 1) / 2.0);
    }
    CHECK(MedianInterval{100, 99, 103}.spread() == 0.03);
}

TEST_CASE("sampling stops when the median is known, and at the limits") {
    const auto calm = [] { return std::string(); };
    const Samples steady = take_samples([] { return 1.0; }, calm, {.time_limit_s = 60});
    CHECK(steady.settled);
    CHECK(steady.ms.size() >= 6);
    CHECK(steady.ms.size() < 1000);

    double next = 1;
    const Samples wild = take_samples([&] { return next *= 1.1; }, calm, {.time_limit_s = 60, .most = 200});
    CHECK_FALSE(wild.settled);
    CHECK(wild.ms.size() == 200);

    const Samples one = take_samples([] { return 1.0; }, calm, {.time_limit_s = 0});
    CHECK(one.ms.size() == 1);
}

TEST_CASE("samples taken while clocks were throttled are discarded and counted") {
    int asked = 0;
    const Samples samples =
        take_samples([] { return 1.0; }, [&] { return ++asked == 1 ? std::string("heat") : std::string(); },
                     {.time_limit_s = 60});
    CHECK(samples.settled);
    CHECK(samples.discarded > 0);
    CHECK(samples.throttled_by == "heat");

    const Samples none =
        take_samples([] { return 1.0; }, [] { return std::string("heat"); }, {.time_limit_s = 0.01});
    CHECK(none.ms.empty());
}

TEST_CASE("random operands depend on index and seed, not on threads, and keep their range") {
    const Type type = GENERATE(Type::i8, Type::u16, Type::f16, Type::f32, Type::f64, Type::c128);
    constexpr std::int64_t kElements = (1 << 20) + 77;  // more than one thread's piece
    const auto bytes = static_cast<std::size_t>(kElements) * size_of(type);
    std::vector<std::byte> one(bytes);
    std::vector<std::byte> two(bytes);
    fill_random(one.data(), type, kElements, 1, 1);
    fill_random(two.data(), type, kElements, 1, 3);
    CHECK(one == two);
    fill_random(two.data(), type, kElements, 2, 1);
    CHECK(one != two);
    visit_type(type, [&]<class T>(TypeTag<T>) {
        const auto* values = reinterpret_cast<const T*>(one.data());
        double sum = 0;
        double most = 0;
        for (std::int64_t i = 0; i < kElements; ++i) {
            double value = 0;
            if constexpr (requires { values[i].real(); }) {
                value = values[i].real();
            } else {
                value = static_cast<double>(values[i]);
            }
            sum += value;
            most = std::max(most, std::abs(value));
        }
        const double expected_mean = type == Type::u16 ? 8 : 0;
        const double range = type == Type::u16 ? 16 : is_integer(type) ? 8 : 1;
        CHECK(std::abs(sum / kElements - expected_mean) < 0.02 * range);
        CHECK(most <= range);
        CHECK(most > 0.99 * range);
    });
}

TEST_CASE("sets of operands rotate through more memory than the cache, each with the same inputs") {
    const Device device{DeviceKind::cpu, 1, nullptr};
    const Problem small{.operation = &kTranspose, .type = Type::f32, .m = 20, .n = 30};
    const Problem large{.operation = &kTranspose, .type = Type::f32, .m = 300, .n = 200};
    const std::vector<Problem> problems = {small, large};
    BenchMemory hot(device, problems, true, std::nullopt, 0, 0);
    hot.load(large);
    CHECK(hot.sets().size() == 1);

    BenchMemory cold(device, problems, false, std::nullopt, 0, 0);
    for (const Problem& problem : problems) {
        cold.load(problem);
        const std::size_t bytes = static_cast<std::size_t>(problem.m * problem.n) * 4;
        const auto& sets = cold.sets();
        if (cold.cache_bytes() > (std::size_t{1} << 20)) CHECK(sets.size() > 1);
        for (std::size_t i = 0; i < sets.size(); ++i) {
            CHECK(std::memcmp(sets[i].a.data, sets[0].a.data, bytes) == 0);
            if (i > 0) CHECK(sets[i].a.as<std::byte>() >= sets[i - 1].c.as<std::byte>() + bytes);
        }
        cold.poison_result();
        const Operands host = cold.on_host();
        CHECK(std::memcmp(host.a.data, sets[0].a.data, bytes) == 0);
        CHECK(static_cast<const unsigned char*>(host.c.data)[bytes - 1] == 0xff);
        cold.cool();
        CHECK(std::memcmp(host.a.data, sets[0].a.data, bytes) == 0);  // cooling touches no operand
    }
}

TEST_CASE("a bench measures baselines first, then levels with their shares and gains") {
    const Registry registry =
        registry_of({level(1, "plain", prepare_plain), level(2, "wrong", prepare_wrong)});
    const Outcome outcome = bench(quick({{30, 20, 0}, {7, 7, 0}}), registry);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.head.labels == std::vector<std::string>{"memcpy", "plain", "wrong"});
    CHECK(outcome.head.row_count == 6);
    REQUIRE(outcome.rows.size() == 6);
    const BenchRow& copy = outcome.rows[0];
    const BenchRow& first = outcome.rows[1];
    const BenchRow& second = outcome.rows[2];
    CHECK(copy.baseline);
    CHECK(copy.share == 1.0);
    CHECK(copy.verification.verdict == "passed");
    CHECK(first.size == Extents{30, 20, 0});
    CHECK(first.level == "plain");
    CHECK(first.share == *copy.median_ms / *first.median_ms);
    CHECK(first.effective_bandwidth_gbps == 2.0 * 30 * 20 * 4 / *first.median_ms / 1e6);
    CHECK_FALSE(first.gflops);
    CHECK_FALSE(first.gain_over_previous);
    CHECK(second.gain_over_previous == *first.median_ms / *second.median_ms);
    CHECK(second.gain_over_first == second.gain_over_previous);
    CHECK_FALSE(outcome.rows[4].gain_over_first);  // another problem starts anew
}

TEST_CASE("a level that computes wrongly, or nothing, fails and is not timed") {
    const Registry registry = registry_of({level(1, "plain", prepare_plain), level(2, "idle", prepare_idle),
                                           with_tile(level(3, "wrong", prepare_wrong))});
    BenchOptions options = quick({{30, 20, 0}});
    options.parameters = {{"tile", {"2", "4"}}};
    const Outcome outcome = bench(options, registry);
    CHECK(outcome.exit_code == 1);
    REQUIRE(outcome.rows.size() == 5);
    CHECK_FALSE(outcome.rows[1].failed());
    CHECK(outcome.rows[2].failed());
    CHECK(outcome.rows[2].samples_ms.empty());
    CHECK(outcome.rows[2].verification.mismatches == 600);
    CHECK(label_of(outcome.rows[3].level, outcome.rows[3].parameters) == "wrong tile=2");
    CHECK(outcome.rows[3].failed());
    CHECK(outcome.rows[3].verification.mismatches == 1);
    CHECK_FALSE(outcome.rows[4].failed());
    CHECK(outcome.rows[4].gain_over_previous == *outcome.rows[1].median_ms / *outcome.rows[4].median_ms);
    CHECK(table_cells(outcome.rows[2]).back() == "FAILED");
    CHECK(to_json(outcome.rows[2])["verdict"] == "failed");
    CHECK(to_json(outcome.rows[2])["median_ms"].is_null());
}

TEST_CASE("what cannot run is a row with its reason") {
    const Registry registry =
        registry_of({level(1, "plain", prepare_plain), level(2, "greedy", prepare_greedy),
                     level(3, "impostor", prepare_impostor)});
    BenchOptions options = quick({{4, 5, 0}});
    const Outcome outcome = bench(options, registry);
    CHECK(outcome.exit_code == 0);
    REQUIRE(outcome.rows.size() == 4);
    CHECK(outcome.rows[2].reason == "no room for the work space");
    CHECK(outcome.rows[3].reason.find("names itself 'plain'") != std::string::npos);

    options.types = {Type::f64};  // none of the levels serves it, the copy does
    const Outcome none = bench(options, registry);
    CHECK(none.exit_code == 5);
    REQUIRE(none.rows.size() == 4);
    CHECK(none.rows[0].ran_at_all());
    CHECK(none.rows[1].reason == "it works on f32, not on f64");
    CHECK(to_json(none.rows[1])["verdict"].is_null());
    CHECK(table_remark(none.rows[1]) == "cannot run: it works on f32, not on f64");
}

TEST_CASE("a level that breaks the device ends the bench after its row") {
    const Registry registry =
        registry_of({level(1, "plain", prepare_plain), level(2, "broken", prepare_broken),
                     level(3, "wrong", prepare_wrong)});
    std::vector<BenchRow> rows;
    const Error error = error_of([&] {
        run_bench(quick({{4, 5, 0}}), registry,
                  {.head = {}, .row = [&](const BenchRow& row) { rows.push_back(row); }, .progress = {}});
    });
    CHECK(error.code() == ErrorCode::device);
    REQUIRE(rows.size() == 3);
    CHECK(rows.back().reason == "the launch failed");
}

TEST_CASE("names and parameters that nothing has are usage errors; what is too large is a memory error") {
    const Registry registry = registry_of({with_tile(level(1, "plain", prepare_plain))});
    const auto code_of = [&](const std::function<void(BenchOptions&)>& change) {
        BenchOptions options = quick({{4, 5, 0}});
        change(options);
        return error_of([&] { bench(options, registry); }).code();
    };
    CHECK(code_of([](BenchOptions& o) { o.levels = {"plain", "fast"}; }) == ErrorCode::usage);
    CHECK(code_of([](BenchOptions& o) { o.against = {"fast"}; }) == ErrorCode::usage);
    CHECK(code_of([](BenchOptions& o) { o.against = {"none", "memcpy"}; }) == ErrorCode::usage);
    CHECK(code_of([](BenchOptions& o) { o.parameters = {{"block", {"8"}}}; }) == ErrorCode::usage);
    CHECK(code_of([](BenchOptions& o) {
              o.sizes = {{std::int64_t{1} << 31, std::int64_t{1} << 30, 0}};
          }) == ErrorCode::memory);
    CHECK(code_of([](BenchOptions& o) { o.sizes = {{INT64_MAX, INT64_MAX, 0}}; }) == ErrorCode::memory);
    CHECK(code_of([](BenchOptions& o) { o.sizes = {{INT64_MAX / 4, 1, 0}}; }) == ErrorCode::memory);
    CHECK(code_of([](BenchOptions& o) { o.memory_limit = 100; }) == ErrorCode::memory);

    BenchOptions options = quick({{4, 5, 0}});
    options.parameters = {{"tile", {"3"}}};  // the level has it, and not this value
    const Outcome outcome = bench(options, registry);
    CHECK(outcome.exit_code == 5);
    CHECK(outcome.rows.back().reason == "its parameter 'tile' takes 2, 4, not 3");
}

TEST_CASE(
    "in place every level starts from the input; baselines and levels as baselines do not work in place") {
    Level swap = level(2, "swap", prepare_swap);
    swap.needs = {};
    swap.unsupported = only_square;
    Level plain = level(1, "plain", prepare_plain);
    plain.unsupported = not_in_place;
    Level idle = level(3, "idle", prepare_idle);
    const Registry registry = registry_of({plain, swap, idle});
    BenchOptions options = quick({{30, 30, 0}});
    options.settings = {{"in-place", ""}};
    options.levels = {"plain", "swap", "idle"};
    options.against = {"memcpy", "swap"};
    const bool hot = GENERATE(true, false);
    options.hot = hot;
    const Outcome outcome = bench(options, registry);
    CHECK(outcome.exit_code == 1);  // idle leaves the input
    CHECK(outcome.head.in_place);
    CHECK(outcome.head.labels ==
          std::vector<std::string>{"memcpy", "swap", "plain in place", "swap in place", "idle in place"});
    REQUIRE(outcome.rows.size() == 5);
    for (const std::size_t apart : {0, 1}) {
        CHECK_FALSE(outcome.rows[apart].in_place);
        CHECK(outcome.rows[apart].verification.verdict == "passed");
    }
    CHECK(outcome.rows[2].reason == "not in place");
    const BenchRow& swapped = outcome.rows[3];
    CHECK(swapped.in_place);
    CHECK(swapped.verification.verdict == "passed");
    CHECK(swapped.effective_bandwidth_gbps == 2.0 * 30 * 30 * 4 / *swapped.median_ms / 1e6);
    CHECK(swapped.share == *outcome.rows[0].median_ms / *swapped.median_ms);
    CHECK(outcome.rows[4].failed());
    CHECK(outcome.rows[4].verification.mismatches == 30 * 30 - 30);
    CHECK(to_json(swapped)["in_place"] == true);
    CHECK(to_json(outcome.rows[1])["in_place"] == false);
    CHECK(nlohmann::json::parse(json_begin(outcome.head) + json_end())["in_place"] == true);
    CHECK(csv_begin(outcome.head).find(",in_place,") != std::string::npos);
    CHECK(table_cells(swapped)[1] == "swap in place");
    CHECK(describe(outcome.head).find("transpose in place on ") == 0);
    BenchRow choice = swapped;
    choice.level = "auto";
    choice.parameters = {{"tile", "2"}};  // of the level that it took
    CHECK(label_of(choice) == "auto in place");
}

TEST_CASE("a vendor's library is measured in what the levels are asked for, not in how they work") {
    const Registry registry = Registry::standard();
    const auto entrants_of = [&](const Operation& operation, const Settings& settings) {
        BenchOptions options;
        options.operation = &operation;
        options.levels = {"vendor", "tiled"};
        options.against = {"vendor"};
        options.settings = settings;
        const Problem problem{.operation = &operation, .type = Type::f32, .m = 8, .n = 8, .k = 8};
        return line_up(options, problem, registry, DeviceKind::gpu);
    };
    for (const Settings& asked : {Settings{{"compute", "bf16"}}, Settings{{"result", "i32"}}}) {
        const std::vector<Entrant> entrants = entrants_of(kMultiply, asked);
        REQUIRE(entrants.size() == 2);  // the level `vendor` is the baseline
        CHECK(entrants[0].level->role == Role::vendor);
        CHECK(entrants[0].baseline);
        CHECK(entrants[0].settings == asked);
        CHECK(entrants[1].settings == asked);
    }
    BenchOptions options;
    options.operation = &kTranspose;
    options.settings = {{"in-place", ""}};
    const Problem problem{.operation = &kTranspose, .type = Type::f32, .m = 8, .n = 8};
    for (const Entrant& entrant : line_up(options, problem, Registry::standard(), DeviceKind::gpu))
        CHECK(entrant.settings.empty() == entrant.baseline);
}

TEST_CASE("in place: a wrong result fails, other shapes are rows with their reason, a multiply is refused") {
    Level swap = level(1, "swap", prepare_swap);
    swap.needs = {};
    swap.unsupported = only_square;
    const Registry registry = registry_of({swap});
    BenchOptions options = quick({{8, 8, 0}});
    options.settings = {{"in-place", ""}};
    options.types = {Type::u32};
    CHECK(bench(options, registry).exit_code == 1);

    options.sizes = {{8, 9, 0}};
    const Outcome outcome = bench(options, registry);
    CHECK(outcome.exit_code == 5);
    REQUIRE(outcome.rows.size() == 2);
    CHECK(outcome.rows[0].ran_at_all());  // the copy
    CHECK(outcome.rows[1].reason == "only square");

    options.operation = &kMultiply;
    CHECK(error_of([&] { bench(options, Registry::standard()); }).code() == ErrorCode::usage);
}

TEST_CASE("in place a set of operands is one matrix, and loading gives the input again") {
    const Device device{DeviceKind::cpu, 1, nullptr};
    Problem problem{.operation = &kTranspose, .type = Type::f32, .m = 600, .n = 600};
    constexpr std::size_t kBytes = std::size_t{600} * 600 * 4;
    const BenchMemory apart(device, std::array{problem}, true, std::nullopt, 0, 0);
    problem.in_place = true;
    BenchMemory hot(device, std::array{problem}, true, std::nullopt, 0, 0);
    CHECK(2 * hot.device_bytes() == apart.device_bytes());

    BenchMemory cold(device, std::array{problem}, false, std::nullopt, 0, 0);
    for (int time = 0; time < 2; ++time) {
        cold.load(problem);
        const Operands host = cold.on_host();
        const std::byte* end = nullptr;
        for (const Operands& set : cold.sets()) {
            CHECK(set.a.data == set.c.data);
            CHECK(set.a.as<std::byte>() >= end);
            CHECK(std::memcmp(set.a.data, host.a.data, kBytes) == 0);
            std::memset(set.c.data, time, kBytes);
            end = set.a.as<std::byte>() + kBytes;
        }
        CHECK(cold.cache_bytes() * 2 <=
              cold.sets().size() * kBytes + (cold.sets().size() == 64 ? SIZE_MAX / 2 : 0));
    }
}

TEST_CASE("the standard ladder of the CPU benches, multiplies and the choice of auto included") {
    BenchOptions options = quick({{40, 30, 20}});
    options.operation = &kMultiply;
    options.levels = {"all", "auto"};
    const Outcome outcome = bench(options, Registry::standard());
    CHECK(outcome.exit_code == 0);
    const BenchRow& choice = outcome.rows.back();
    CHECK(choice.level == "auto");
    CHECK_FALSE(choice.ran.empty());
    CHECK(choice.note.find("took '" + choice.ran + "'") == 0);
    REQUIRE(choice.gflops);
    CHECK(*choice.gflops == 2.0 * 40 * 30 * 20 / *choice.median_ms / 1e6);
}

TEST_CASE("JSON is valid after every row, CSV has a line a row with the same members") {
    const Registry registry =
        registry_of({level(1, "plain", prepare_plain), level(2, "greedy", prepare_greedy)});
    const Outcome outcome = bench(quick({{4, 5, 0}}), registry);
    std::string text = json_begin(outcome.head);
    CHECK(nlohmann::json::parse(text + json_end())["rows"].empty());
    for (std::size_t i = 0; i < outcome.rows.size(); ++i) {
        text += json_row(outcome.rows[i], i == 0);
        const auto json = nlohmann::json::parse(text + json_end());
        CHECK(json["schema"] == "gpumat.bench/1");
        CHECK(json["device"]["kind"] == "cpu");
        CHECK(json["rows"].size() == i + 1);
    }
    const auto row = nlohmann::json::parse(text + json_end())["rows"][1];
    CHECK(row["level"] == "plain");
    CHECK(row["m"] == 4);
    CHECK(row["n"] == 5);
    CHECK(row["k"].is_null());
    CHECK(row["gflops"].is_null());
    CHECK(row["samples_ms"].size() == outcome.rows[1].samples_ms.size());
    CHECK(row["details"]["threads"] == "1");

    BenchRow awkward = outcome.rows[1];
    awkward.note = "says \"no\", twice\n";
    const std::string header = csv_begin(outcome.head);
    const std::string line = csv_row(outcome.head, awkward);
    CHECK(line.find("\"says \"\"no\"\", twice\n\"") != std::string::npos);
    const auto commas = [](const std::string& csv) {
        bool quoted = false;
        int count = 0;
        for (const char c : csv) {
            if (c == '"') quoted = !quoted;
            if (c == ',' && !quoted) ++count;
        }
        return count;
    };
    CHECK(commas(line) == commas(header));
}

TEST_CASE("numbers have four digits and no exponent") {
    CHECK(four_digits(0.0123456) == "0.01235");
    CHECK(four_digits(1.0) == "1.000");
    CHECK(four_digits(99.996) == "100.00");
    CHECK(four_digits(51234.4) == "51234");
    CHECK(four_digits(0) == "0");
}

TEST_CASE("one problem is drawn as bars, several as curves, with the copy marked") {
    BenchHead head;
    head.operation = &kTranspose;
    head.device.name = "Tesla 'K20c'";
    const Extents small{512, 512, 0};
    const Extents large{1024, 1024, 0};
    std::vector<BenchRow> rows = {measured_row("memcpy", 0.5, small, true),
                                  measured_row("copy", 0.25, small, true), measured_row("tiled", 1, small)};
    rows.push_back(rows.back());
    rows.back().median_ms.reset();  // a row without a time is left out
    rows.back().level = "absent";
    const std::string bars = plot_script(head, rows, "x.svg", "/tmp/it's.svg");
    CHECK(bars.find("set terminal svg") == 0);
    CHECK(bars.find("set output '/tmp/it''s.svg'\n") != std::string::npos);
    CHECK(bars.find("Tesla ''K20c''") != std::string::npos);
    CHECK(bars.find("boxxyerror") != std::string::npos);
    CHECK(bars.find("set arrow from 4,graph 0 to 4,graph 1") != std::string::npos);  // the faster copy
    CHECK(bars.find("absent") == std::string::npos);
    CHECK(bars.find("xerrorbars") == std::string::npos);  // no row has an interval

    std::vector<BenchRow> known = {rows[2]};
    known[0].low_ms = 0.8;
    known[0].high_ms = 1.25;
    CHECK(plot_script(head, known, "x.svg", "x.svg").find("$whiskers << END\n1 0 0.8 1.25\nEND") !=
          std::string::npos);
    known.push_back(known[0]);
    known[1].size = large;
    CHECK(plot_script(head, known, "x.svg", "x.svg")
              .find("$series0 << END\n512 1 0.8 1.25\n1024 1 0.8 1.25\nEND") != std::string::npos);

    rows.push_back(measured_row("tiled", 2, large));
    const std::string curves = plot_script(head, rows, "x.png", "x.png");
    CHECK(curves.find("set terminal pngcairo") == 0);
    CHECK(curves.find("boxxyerror") == std::string::npos);
    CHECK(curves.find("$series2 << END\n512 1\n1024 0.5\nEND") != std::string::npos);
    CHECK(curves.find("dashtype 2") != std::string::npos);
    CHECK(curves.find("square matrices") != std::string::npos);

    rows.push_back(measured_row("tiled", 2, {3, 7, 0}));
    CHECK(plot_script(head, rows, "x.png", "x.png").find("'3x7' 2") != std::string::npos);
    CHECK(error_of([] { require_plot_possible("x.pdf"); }).code() == ErrorCode::usage);
}
