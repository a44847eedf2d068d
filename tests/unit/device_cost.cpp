// How long a run is expected to take on devices that are made up, and which one `auto` would take.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/transpose/operation.hpp"
#include "lib/choose/device_choice.hpp"
#include "lib/choose/device_cost.hpp"
#include "lib/choose/tuning_cache.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace gpumat;

namespace {

Problem transpose_of(std::int64_t n, Type type = Type::f32) {
    return {.operation = &kTranspose, .type = type, .m = n, .n = n};
}

Problem multiply_of(std::int64_t n, Type type = Type::f32) {
    return {.operation = &kMultiply, .type = type, .m = n, .n = n, .k = n};
}

GpuInfo an_h200() {
    GpuInfo gpu;
    gpu.compute_capability = 90;
    gpu.multiprocessors = 132;
    gpu.clock_mhz = 1980;
    gpu.memory_clock_mhz = 3201;
    gpu.memory_bus_bits = 6144;
    return gpu;
}

double on_gpu(const Problem& problem) {
    return expected_ms(problem, stated_gpu_cost(an_h200(), problem.type), 1, 1);
}

double on_cpu(const Problem& problem, int threads = 16) {
    return expected_ms(problem, stated_cpu_cost(threads, VectorWidth::avx512, problem.type), 1, 1);
}

/// One that does 10⁹ of everything in a second, and takes no time beside.
constexpr DeviceCost kGigahertz = {.overhead = {}, .bytes_per_s = 1e9, .flops_per_s = 1e9};

}  // namespace

TEST_CASE("what is expected is the sum of start, inputs, result and the slower of bytes and operations") {
    DeviceCost cost = {.overhead = {.start_ms = 7, .input_ms_per_gb = 1000, .result_ms_per_gb = 10'000},
                       .bytes_per_s = 4e6,
                       .flops_per_s = 1e6};
    // A transpose of 1000×1000 f32: 4 MB in, 4 MB out.
    CHECK(expected_ms(transpose_of(1000), cost, 1, 1) == Approx(7 + 4 + 40 + 2000));
    CHECK(expected_ms(transpose_of(1000), cost, 0.5, 3) == Approx(7 + 4 + 40 + 12'000));
    // A product of 100×100×100 f64: 2·10⁶ operations, 80 kB each.
    CHECK(expected_ms(multiply_of(100, Type::f64), cost, 1, 1) == Approx(7 + 0.16 + 0.8 + 2000));
    cost.bytes_per_s = 2.4e5;  // 240 kB
    cost.flops_per_s = 1e9;
    CHECK(expected_ms(multiply_of(100, Type::f64), cost, 1, 1) == Approx(7 + 0.16 + 0.8 + 1000));
    // A sum of all: the result has one element, and operations are not counted.
    Problem sum = {
        .operation = &kReduce, .type = Type::f32, .m = 1000, .n = 1000, .choices = {{"axis", "all"}}};
    CHECK(expected_ms(sum, cost, 1, 1) == Approx(7 + 4 + 8e-5 + 4.000008e6 / 2.4e5 * 1e3));
}

TEST_CASE("an input that is not read costs nothing") {
    Problem problem = multiply_of(1000);
    problem.alpha = Scalar::of(0);
    CHECK(expected_ms(problem, kGigahertz, 1, 1) == Approx(4));  // the result alone
}

TEST_CASE("more elements take longer, more threads and wider vectors do not") {
    for (const Type type : all_types()) {
        INFO(name_of(type));
        double cpu = 0;
        double gpu = 0;
        for (std::int64_t n = 64; n <= 65536; n *= 2) {
            const Problem problem = multiply_of(n, type);
            CHECK(on_cpu(problem) > cpu);
            CHECK(on_gpu(problem) > gpu);
            CHECK(on_cpu(problem, 1) > on_cpu(problem, 2));
            cpu = on_cpu(problem);
            gpu = on_gpu(problem);
        }
        const double plain = stated_cpu_cost(1, VectorWidth::plain, type).flops_per_s;
        const double avx2 = stated_cpu_cost(1, VectorWidth::avx2, type).flops_per_s;
        CHECK(plain < avx2);
        CHECK(avx2 < stated_cpu_cost(1, VectorWidth::avx512, type).flops_per_s);
    }
}

TEST_CASE("a GPU pays for its start with large products, and with no transpose of many threads") {
    for (const Type type : {Type::f32, Type::f64, Type::c64, Type::i32}) {
        INFO(name_of(type));
        bool gpu_before = false;
        for (std::int64_t n = 64; n <= 32768; n *= 2) {
            const bool gpu = on_gpu(multiply_of(n, type)) < on_cpu(multiply_of(n, type));
            CHECK((gpu || !gpu_before));  // there is one crossover
            gpu_before = gpu;
            CHECK(on_cpu(transpose_of(n, type)) < on_gpu(transpose_of(n, type)));
        }
        CHECK(on_cpu(multiply_of(1024, type)) < on_gpu(multiply_of(1024, type)));
        CHECK(on_gpu(multiply_of(16384, type)) < on_cpu(multiply_of(16384, type)));
    }
    CHECK(on_cpu(transpose_of(256)) < kSoonestGpuStartMs);
    CHECK(stated_gpu_cost(an_h200(), Type::f32).overhead.start_ms > kSoonestGpuStartMs);
}

TEST_CASE("a GPU of which nothing is known has costs that are finite") {
    for (const Type type : all_types()) {
        const double ms = expected_ms(multiply_of(4096, type), stated_gpu_cost({}, type), 1, 1);
        CHECK((ms > 0 && ms < 60'000));
    }
}

TEST_CASE("a rung is faster than the one before it, and the last one as fast as any") {
    const Registry registry = Registry::standard();
    for (const Operation* operation : registry.operations()) {
        for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::gpu}) {
            double before = 0;
            for (const Level* level : registry.levels(*operation, kind, Role::rung)) {
                CHECK(speed_of(*level, registry) > before);
                before = speed_of(*level, registry);
            }
            CHECK(before == 1);
            for (const Level* level : registry.levels(*operation, kind, Role::vendor))
                CHECK(speed_of(*level, registry) == 1);
        }
    }
}

TEST_CASE("what tune measured takes the place of what is stated") {
    const TemporaryFolder folder;
    setenv("GPUMAT_CACHE", (folder / "cache").c_str(), 1);
    const Device cpu = {DeviceKind::cpu, 2, nullptr};
    const std::string id = tuned_device_id(cpu);
    const std::string path = *overhead_path(id);
    const DeviceCost stated = stated_cpu_cost(2, widest_vectors(), Type::f32);
    std::string why_not;
    const auto cost = [&](const Problem& problem) {
        return device_cost(problem, cpu, [&](Severity, const std::string& text) { why_not = text; });
    };
    CHECK(cost(transpose_of(4096)).overhead.result_ms_per_gb == stated.overhead.result_ms_per_gb);
    CHECK(why_not.empty());

    save_overhead(path, cpu, {.start_ms = 1, .input_ms_per_gb = 2, .result_ms_per_gb = 3});
    const DeviceOverhead measured = cost(transpose_of(4096)).overhead;
    CHECK(measured.start_ms == 1);
    CHECK(measured.input_ms_per_gb == 2);
    CHECK(measured.result_ms_per_gb == 3);
    CHECK(why_not.empty());

    Tuning tuning = {&kMultiply, id, "a processor", tuned_software(cpu), {}};
    tuning.put({"f32", SizeClass::large, {2048, 2048, 2048}, "tiled", {}, 100, "2026-02-03"});
    save_tuning(*tuning_path(kMultiply, id), tuning);
    CHECK(cost(multiply_of(4096)).flops_per_s == Approx(2 * 2048.0 * 2048 * 2048 / 0.1));
    CHECK(cost(multiply_of(64)).flops_per_s == stated.flops_per_s);

    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto refused = [&](const std::string& old, const std::string& with) {
        std::string wrong = text;
        wrong.replace(wrong.find(old), old.size(), with);
        std::ofstream(path) << wrong;
        why_not.clear();
        CHECK(cost(transpose_of(4096)).overhead.result_ms_per_gb == stated.overhead.result_ms_per_gb);
        return why_not.substr(why_not.find(": ") + 2);
    };
    CHECK(refused("overhead/1", "overhead/2") == "it is no gpumat.overhead/1");
    CHECK(refused("\"version\": \"", "\"version\": \"9") == "another version of gpumat wrote it");
    CHECK(refused(id, "GPU-1") == "it is for another device");
    CHECK(refused(tuned_software(cpu), "GCC 1.0").starts_with("it was measured with 'GCC 1.0'"));
    CHECK(refused("\"start_ms\": 1", "\"start_ms\": -1") == "start_ms is no time");
    CHECK(refused("\"start_ms\": 1", "\"start_ms\": \"1\"") == "it is damaged");
    CHECK(refused("\"start_ms\": 1", "\"start_ms\": 1e999") == "it is damaged");
    CHECK(refused("{", "[") == "it is damaged");
}

TEST_CASE("a run is put on the device that has what it asks for") {
    const Registry registry = Registry::standard();
    const auto asking = [](const std::string& device, const std::string& level,
                           const Parameters& parameters) {
        return DeviceRequest{kMultiply, device, level, parameters};
    };
    const Parameters none;
    const auto reason = [&](const std::string& level, const Parameters& parameters) {
        return choose_device_for_run(asking("auto", level, parameters), multiply_of(256), registry, {})
            .reason;
    };
    setenv("GPUMAT_CACHE", "", 1);
    CHECK(reason("auto", none).find("on the cpu, expected") == 0);
    CHECK((reason("auto", none).find("before a gpu would have started") != std::string::npos) ==
          may_have_gpu());
    CHECK(reason("interchanged", none).find("only the cpu has this level") != std::string::npos);
    CHECK(reason("auto", {{"vector", "plain"}}).find("only the cpu") != std::string::npos);

    const auto cpu = cpu_instead(asking("auto", "auto", none), Type::f32, "it is full", registry);
    REQUIRE(cpu);
    CHECK(cpu->device.kind == DeviceKind::cpu);
    CHECK(cpu->reason == "on the cpu, because the gpu has no room: it is full");
    CHECK_FALSE(cpu_instead(asking("gpu", "auto", none), Type::f32, "it is full", registry));
    // Only GPUs have this level.
    CHECK_FALSE(cpu_instead(asking("auto", "register-blocked", none), Type::f32, "it is full", registry));
}
