#include "lib/choose/device_cost.hpp"

#include <algorithm>
#include <cmath>

#include "lib/choose/auto_level.hpp"
#include "lib/choose/roofline.hpp"
#include "lib/choose/tuning_cache.hpp"

namespace gpumat {
namespace {

constexpr double kGb = 1e9;

// The rate of one thread, and that of all.
constexpr double kThreadBytesPerS = 12 * kGb;
constexpr double kCpuBytesPerS = 100 * kGb;
// Memory that was never written is had from the system page by page.
constexpr double kThreadMsPerGb = 300;
constexpr double kCpuMsPerGb = 100;

// An NVIDIA H200 in a host of 16 processors: CUDA starts in 0.2 to 0.3 s, pinning the buffers and leaving the
// process add to it; through those buffers go 15 to 20 GB/s either way.
constexpr DeviceOverhead kGpuOverhead = {.start_ms = 300, .input_ms_per_gb = 60, .result_ms_per_gb = 60};
/// The share of what a GPU's clocks allow that levels reach.
constexpr double kShareOfCeilings = 0.8;
/// Where nothing is known of the arithmetic, or of the memory.
constexpr double kUnknownGpuFlops = 5e12;
constexpr double kUnknownGpuBytesPerS = 50 * kGb;

/// Operations a second of one thread with the widest vectors, of types whose levels use them.
double thread_flops(VectorWidth vectors, Type type) {
    const double f32 = vectors == VectorWidth::avx512 ? 100 * kGb
                       : vectors == VectorWidth::avx2 ? 50 * kGb
                                                      : 8 * kGb;
    switch (type) {
        case Type::f32:
        case Type::c64:
        case Type::f16:
        case Type::bf16:
        case Type::i32:
        case Type::i8:  // at least
            return f32;
        case Type::f64:
        case Type::c128:
            return f32 / 2;
        case Type::i64:
            return vectors == VectorWidth::avx512 ? f32 / 2 : f32 / 8;
        default:
            return f32 / 10;
    }
}

/// Bytes or operations, whatever the operation's rate counts.
double counted(const Problem& problem) {
    return problem.operation->rate == Rate::bandwidth ? problem.bytes() : problem.flops();
}

/// The speed that was measured for the problem's class takes the place of the one stated.
void take_tuned_speed(const Problem& problem, const Device& device, DeviceCost& cost) {
    const auto entry = tuned_level(problem, device, {});
    if (!entry || entry->median_ms <= 0) return;
    Problem measured = problem;
    measured.m = entry->size.m;
    measured.n = entry->size.n;
    measured.k = entry->size.k;
    const double rate = counted(measured) / entry->median_ms * 1e3;
    if (rate <= 0) return;
    // The other ceiling was not reached.
    const bool moves = problem.operation->rate == Rate::bandwidth;
    (moves ? cost.bytes_per_s : cost.flops_per_s) = rate;
}

void take_measured_overhead(const Device& device, const Tell& say, DeviceCost& cost) {
    const auto path = overhead_path(tuned_device_id(device));
    if (!path) return;
    std::string why_not;
    if (const auto overhead = load_overhead(*path, device, why_not)) cost.overhead = *overhead;
    if (!why_not.empty()) tell(say, Severity::detail, "ignored " + *path + ": " + why_not);
}

double elements_bytes(const Shape& shape, Type type) {
    return static_cast<double>(shape.rows) * static_cast<double>(shape.cols) *
           static_cast<double>(size_of(type));
}

double input_bytes(const Problem& problem) {
    double bytes = 0;
    for (std::size_t role = 0; role < problem.operation->roles.size(); ++role) {
        if (const auto shape = problem.operation->input(problem, role))
            bytes += elements_bytes(*shape, problem.type);
    }
    return bytes;
}

}  // namespace

DeviceCost stated_cpu_cost(int threads, VectorWidth vectors, Type type) {
    const double all = threads;
    return {.overhead = {.start_ms = 0,
                         .input_ms_per_gb = 0,
                         .result_ms_per_gb = std::max(kThreadMsPerGb / all, kCpuMsPerGb)},
            .bytes_per_s = std::min(kThreadBytesPerS * all, kCpuBytesPerS),
            .flops_per_s = thread_flops(vectors, type) * all};
}

DeviceCost stated_gpu_cost(const GpuInfo& gpu, Type type) {
    const Ceilings ceilings = gpu_ceilings(type, gpu);
    return {
        .overhead = kGpuOverhead,
        .bytes_per_s = std::max(ceilings.bytes_per_s.value_or(0) * kShareOfCeilings, kUnknownGpuBytesPerS),
        .flops_per_s = ceilings.flops_per_s.value_or(kUnknownGpuFlops) * kShareOfCeilings};
}

DeviceCost device_cost(const Problem& problem, const Device& device, const Tell& say) {
    DeviceCost cost = device.gpu == nullptr ? stated_cpu_cost(device.threads, widest_vectors(), problem.type)
                                            : stated_gpu_cost(device.gpu->info(), problem.type);
    take_measured_overhead(device, say, cost);
    take_tuned_speed(problem, device, cost);
    return cost;
}

double speed_of(const Level& level, const Registry& registry) {
    // Ladders begin some 200 times slower than they end, and gain about as much with each rung.
    constexpr double kFirstRung = 1.0 / 200;
    const auto rungs =
        static_cast<double>(registry.levels(*level.operation, level.device, Role::rung).size());
    if (level.role != Role::rung || rungs < 2) return 1;
    return std::pow(kFirstRung, (rungs - level.number) / (rungs - 1));
}

double expected_ms(const Problem& problem, const DeviceCost& cost, double speed, int times) {
    const Problem read = as_read(problem);
    const double seconds = std::max(read.bytes() / cost.bytes_per_s, read.flops() / cost.flops_per_s);
    return cost.overhead.start_ms + input_bytes(read) / kGb * cost.overhead.input_ms_per_gb +
           elements_bytes(problem.operation->result(problem), result_type(problem)) / kGb *
               cost.overhead.result_ms_per_gb +
           seconds * 1e3 / speed * times;
}

}  // namespace gpumat
