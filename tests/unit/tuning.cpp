// The class of a problem, and the cache file of measurements: what it keeps, and what it refuses.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "kernels/multiply/operation.hpp"
#include "kernels/transpose/operation.hpp"
#include "lib/choose/auto_level.hpp"
#include "lib/choose/tuning_cache.hpp"
#include "lib/measure/tune.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;

namespace {

Problem transpose_of(std::int64_t m, std::int64_t n, Type type = Type::f32) {
    return {.operation = &kTranspose, .type = type, .m = m, .n = n};
}

Problem multiply_of(std::int64_t m, std::int64_t n, std::int64_t k, Type type = Type::f32) {
    return {.operation = &kMultiply, .type = type, .m = m, .n = n, .k = k};
}

std::optional<SizeClass> size_class_of(const Problem& problem) {
    return problem.operation->tunable->class_of(problem);
}

constexpr Device kCpu = {DeviceKind::cpu, 2, nullptr};

}  // namespace

TEST_CASE("the class of a transpose") {
    CHECK(size_class_of(transpose_of(127, 128)) == SizeClass::tiny);
    CHECK(size_class_of(transpose_of(128, 128)) == SizeClass::small);
    CHECK(size_class_of(transpose_of(1024, 1020)) == SizeClass::small);
    CHECK(size_class_of(transpose_of(1024, 1024)) == SizeClass::medium);
    CHECK(size_class_of(transpose_of(4096, 4092)) == SizeClass::medium);
    CHECK(size_class_of(transpose_of(4096, 4096)) == SizeClass::large);
    CHECK(size_class_of(transpose_of(4096, 4095)) == SizeClass::odd);
    CHECK(size_class_of(transpose_of(4095, 4096)) == SizeClass::odd);
    CHECK(size_class_of(transpose_of(4095, 4097, Type::c128)) == SizeClass::large);
    CHECK(size_class_of(transpose_of(8000, 1000)) == SizeClass::tall);
    CHECK(size_class_of(transpose_of(1000, 8001)) == SizeClass::wide);
    CHECK(size_class_of(transpose_of(7999, 1000)) == SizeClass::odd);
    CHECK(size_class_of(transpose_of(std::int64_t{1} << 40, std::int64_t{1} << 40)) == SizeClass::large);
    CHECK_FALSE(size_class_of(transpose_of(10'000'000, 16)));
    CHECK_FALSE(size_class_of(transpose_of(0, 100)));
    Problem in_place = transpose_of(4096, 4096);
    in_place.in_place = true;
    CHECK_FALSE(size_class_of(in_place));
}

TEST_CASE("the class of a multiply") {
    CHECK(size_class_of(multiply_of(64, 64, 64)) == SizeClass::tiny);
    CHECK(size_class_of(multiply_of(128, 128, 128)) == SizeClass::small);
    CHECK(size_class_of(multiply_of(512, 512, 512)) == SizeClass::medium);
    CHECK(size_class_of(multiply_of(2048, 2048, 2048)) == SizeClass::large);
    CHECK(size_class_of(multiply_of(2047, 2048, 2048)) == SizeClass::large);
    CHECK(size_class_of(multiply_of(2048, 2047, 2048)) == SizeClass::odd);
    CHECK(size_class_of(multiply_of(2048, 2048, 2047)) == SizeClass::odd);
    CHECK(size_class_of(multiply_of(64, 64, 65536)) == SizeClass::deep);
    CHECK(size_class_of(multiply_of(8192, 64, 64)) == SizeClass::tall);
    CHECK(size_class_of(multiply_of(64, 8192, 64)) == SizeClass::wide);
    CHECK_FALSE(size_class_of(multiply_of(4096, 1, 4096)));
    Problem transposed = multiply_of(2047, 2048, 2048);
    transposed.transpose_a = true;
    CHECK(size_class_of(transposed) == SizeClass::odd);
}

TEST_CASE("what is measured for a class is of that class") {
    for (const Operation* operation : {&kTranspose, &kMultiply}) {
        for (const Type type : all_types()) {
            for (const SizeClass size_class : operation->tunable->classes(type)) {
                for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::gpu}) {
                    const Extents size = operation->tunable->representative(type, size_class, device);
                    INFO(operation->name << " " << name_of(type) << " " << name_of(size_class) << " "
                                         << to_string(size));
                    CHECK(
                        size_class_of(
                            {.operation = operation, .type = type, .m = size.m, .n = size.n, .k = size.k}) ==
                        size_class);
                }
            }
        }
    }
}

namespace {

/// Stands in for run_bench: each level takes the time that `time_ms` gives, and nothing runs.
struct TimedBench {
    std::function<double(const std::string& level, const Extents& size)> time_ms;
    std::vector<std::string> measured;  ///< "level MxN" for each row

    int operator()(const BenchOptions& options, const BenchListener& listener) {
        for (const std::string& level : options.levels) {
            const Extents& size = options.sizes.front();
            measured.push_back(level + " " + to_string(size));
            BenchRow row;
            row.level = level;
            row.type = options.types.front();
            row.size = size;
            row.median_ms = time_ms(level, size);
            listener.row(row);
        }
        return 0;
    }
};

/// The names of the levels that win on the sizes, of three of the CPU's.
std::vector<std::string> winners(TimedBench& bench, const std::vector<Extents>& sizes) {
    const Registry standard = Registry::standard();
    std::vector<Level> levels;
    for (const char* name : {"serial", "per-row", "vectorized"})
        levels.push_back(*standard.find(kTranspose, DeviceKind::cpu, name));
    TuneOptions options = {.operation = &kTranspose, .types = {Type::f32}, .sizes = sizes};
    options.device = "cpu";
    std::vector<std::string> names;
    const TuneListener listener = {.tuned = [&](const TunedLevel& entry) { names.push_back(entry.level); }};
    CHECK(run_tune(options, Registry({&kTranspose}, levels), listener,
                   [&](const auto& asked, const auto&, const auto& told) { return bench(asked, told); }) ==
          0);
    return names;
}

}  // namespace

TEST_CASE("a level that is far behind is not run on what is larger") {
    using Names = std::vector<std::string>;
    const TemporaryFolder folder;
    setenv("GPUMAT_CACHE", (folder / "cache").c_str(), 1);
    const Extents medium = {1056, 1056, 0};
    const Extents large = {4112, 4112, 0};
    const auto runs = [](const TimedBench& bench, const std::string& level, const Extents& size) {
        return std::ranges::count(bench.measured, level + " " + to_string(size));
    };

    SECTION("on a small problem, of anything") {
        TimedBench bench = {[](const std::string& level, const Extents&) {
                                return level == "serial" ? 4.1 : level == "per-row" ? 3.9 : 1.0;
                            },
                            {}};
        CHECK(winners(bench, {medium}) == Names{"vectorized"});
        CHECK(runs(bench, "serial", medium) == 0);
        CHECK(runs(bench, "per-row", medium) == 1);
    }
    SECTION("on a medium one, of a large one") {
        TimedBench bench = {[&](const std::string& level, const Extents& size) {
                                const bool small = size.m < medium.m;
                                return small ? 1.0 : level == "serial" ? 4.1 : level == "per-row" ? 3.9 : 1.0;
                            },
                            {}};
        CHECK(winners(bench, {large}) == Names{"vectorized"});
        CHECK(runs(bench, "serial", large) == 1);  // nothing was known of it
        bench.measured.clear();
        CHECK(winners(bench, {medium, large}) == Names{"vectorized", "vectorized"});
        CHECK(runs(bench, "serial", large) == 0);
        CHECK(runs(bench, "per-row", large) == 1);
    }
    SECTION("sooner where one run takes longer than the time limit, 100 ms") {
        TimedBench bench = {
            [&](const std::string& level, const Extents& size) {
                const bool small = size.m < medium.m;
                return small ? 1.0 : level == "serial" ? 205.0 : level == "per-row" ? 195.0 : 100.0;
            },
            {}};
        CHECK(winners(bench, {medium, large}) == Names{"vectorized", "vectorized"});
        CHECK(runs(bench, "serial", large) == 0);
        CHECK(runs(bench, "per-row", large) == 1);
    }
    SECTION("the fastest of each size wins") {
        TimedBench bench = {[&](const std::string& level, const Extents& size) {
                                return (level == "per-row") == (size == large) ? 1.0 : 1.5;
                            },
                            {}};
        CHECK(winners(bench, {medium, large}) == Names{"serial", "per-row"});
    }
}

TEST_CASE("measurements are read back, and decide auto where they can") {
    const TemporaryFolder folder;
    setenv("GPUMAT_CACHE", (folder / "cache").c_str(), 1);
    const Registry registry = Registry::standard();
    const std::string id = tuned_device_id(kCpu);
    const std::string path = *tuning_path(kTranspose, id);
    const Problem problem = transpose_of(4096, 4096);
    const Choice shipped = registry.choose(problem, kCpu);
    Tuning tuning = {&kTranspose, id, "a processor", tuned_software(kCpu), {}};
    const auto put = [&](const std::string& level, const Parameters& parameters) {
        tuning.put({"4-byte", SizeClass::large, {7056, 7056, 0}, level, parameters, 1.5, "2026-02-03"});
        save_tuning(path, tuning);
    };
    const auto chosen = [&](const Problem& asked) { return choose_auto(asked, kCpu, registry); };
    const auto replace = [&](const std::string& old, const std::string& with) {
        std::string text = to_json(tuning).dump();
        text.replace(text.find(old), old.size(), with);
        std::ofstream(path) << text;
    };
    const auto refused = [&] {
        std::string why_not;
        CHECK_FALSE(load_tuning(path, kTranspose, kCpu, why_not));
        CHECK(chosen(problem).level == shipped.level);
        CHECK(chosen(problem).reason == shipped.reason);
        return why_not;
    };

    CHECK(refused().empty());  // there is none
    put("serial", {});
    put("tiled", {{"tile", "16"}});
    SECTION("the entry is taken, for its class and element size alone") {
        const Choice choice = chosen(problem);
        CHECK(choice.level->name == "tiled");
        CHECK(choice.problem.parameters.at("tile") == "16");
        CHECK(choice.reason ==
              "the fastest for large 4-byte matrices, measured by gpumat tune on 2026-02-03");
        CHECK(chosen(transpose_of(4096, 4096, Type::i32)).level->name == "tiled");
        CHECK(chosen(transpose_of(4096, 4096, Type::f64)).reason == shipped.reason);
        CHECK(chosen(transpose_of(1024, 1024)).reason == shipped.reason);
    }
    SECTION("a parameter that was asked for stays") {
        Problem asked = problem;
        asked.parameters["tile"] = "64";
        CHECK(chosen(asked).problem.parameters.at("tile") == "64");
    }
    SECTION("a number of threads is a device of its own") {
        CHECK(choose_auto(problem, {DeviceKind::cpu, 3, nullptr}, registry).reason == shipped.reason);
    }
    SECTION("an empty GPUMAT_CACHE disables it") {
        setenv("GPUMAT_CACHE", "", 1);
        CHECK(chosen(problem).reason == shipped.reason);
    }
    SECTION("levels and parameters that do not serve are passed over") {
        const Parameters none;
        for (const auto& [level, parameters] : {std::pair{"unheard-of", none}, std::pair{"1", none},
                                                std::pair{"tiled", decltype(none){{"tile", "7"}}},
                                                std::pair{"tiled", decltype(none){{"depth", "1"}}}}) {
            put(level, parameters);
            CHECK(chosen(problem).level == shipped.level);
            const bool impossible = parameters.contains("tile");
            CHECK((chosen(problem).reason == shipped.reason) == !impossible);
            const std::string note =
                "'tiled', which gpumat tune measured as the fastest on 2026-02-03, cannot serve this "
                "problem: ";
            CHECK((chosen(problem).reason.find(note) != std::string::npos) == impossible);
        }
    }
    SECTION("files that are not ours say why") {
        replace("gpumat.tune/1", "gpumat.tune/2");
        CHECK(refused() == "it is no gpumat.tune/1");
        replace("\"version\":\"", "\"version\":\"9");
        CHECK(refused() == "another version of gpumat wrote it");
        replace("transpose", "multiply");
        CHECK(refused() == "it is for another operation");
        replace(id, "GPU-1");
        CHECK(refused() == "it is for another device");
        const std::string software = tuned_software(kCpu);
        CHECK_FALSE(software.empty());
        replace(software, "GCC 1.0");
        CHECK(refused() == "it was measured with 'GCC 1.0', and this is '" + software + "'");
        replace("\"software\"", "\"hardware\"");
        CHECK(refused() == "it is damaged");
        replace("large", "huge");
        CHECK(refused() == "an entry has no class of this version");
        replace("2026-02-03", "\\u001b[31m-03");
        CHECK(refused() == "an entry has no date");
        replace("\"tile\":\"16\"", "\"tile\":16");
        CHECK(refused() == "it is damaged");
        for (const std::string& text : {std::string(), std::string("[1, 2"), std::string("17"),
                                        std::string(100'000, '['), std::string("\xff\0", 2)}) {
            std::ofstream(path, std::ios::binary) << text;
            CHECK(refused() == "it is damaged");
        }
        std::ofstream(path) << std::string((1 << 20) + 1, ' ');
        CHECK(refused() == "it is too large");
        std::filesystem::remove(path);
        std::filesystem::create_directory(path);
        CHECK(refused() == "it is no regular file");
    }
}
