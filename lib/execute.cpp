#include "lib/execute.hpp"

#include <cstring>
#include <utility>

#include "lib/core/parallel.hpp"
#include "lib/stopwatch.hpp"

namespace gpumat {
namespace {

constexpr int kUnwritten = 0xff;

void fill(Matrix& matrix, int byte, int threads) {
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    parallel_for(static_cast<std::int64_t>(matrix.bytes()), kGrain, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     std::memset(matrix.data() + begin, byte, static_cast<std::size_t>(end - begin));
                 });
}

template <class Time>
void run_samples(const Plan& plan, Execution& execution, int warmup, int repeat, const Time& time_one_ms) {
    const Stopwatch watch;
    for (int i = 0; i < warmup; ++i) time_one_ms();
    for (int i = 0; i < repeat; ++i) execution.samples_ms.push_back(time_one_ms());
    // In place, an even number of runs gives the input again.
    if (plan.problem.in_place && (warmup % 2 == repeat % 2)) time_one_ms();
    execution.kernel_ms = watch.elapsed_ms();
}

void note_launch(Execution& execution, const Launch& launch) {
    execution.level = launch.level;
    execution.details = launch.details;
    execution.workspace_bytes = launch.workspace_bytes;
}

void execute_on_cpu(const Plan& plan, const Inputs& inputs, int warmup, int repeat, Execution& execution) {
    const void* a = plan.problem.in_place ? execution.result.data() : inputs.a.data();
    const Operands operands = {a, inputs.b.data(), inputs.d.data(), execution.result.data()};
    const Launch launch = prepare_launch(*plan.level, plan.problem, operands, plan.device);
    note_launch(execution, launch);
    run_samples(plan, execution, warmup, repeat, [&] {
        const Stopwatch watch;
        launch.run();
        return watch.elapsed_ms();
    });
}

DeviceMemory upload(Gpu& gpu, const Matrix& matrix) {
    DeviceMemory memory = gpu.allocate(matrix.bytes());
    gpu.upload(memory.data(), matrix.data(), matrix.bytes());
    return memory;
}

/// What the device's own copy reaches on memory of the result's size, for the share of it in the record.
double copy_bandwidth_gbps(Gpu& gpu, const DeviceMemory& from, const DeviceMemory& to) {
    if (from.bytes() == 0 || from.bytes() != to.bytes()) return 0;
    const auto copy = [&] { gpu.copy(to.data(), from.data(), to.bytes()); };
    gpu.time_ms(copy);  // the first one pays for start-up
    return 2 * static_cast<double>(to.bytes()) / gpu.time_ms(copy) / 1e6;
}

void execute_on_gpu(const Plan& plan, const Inputs& inputs, int warmup, int repeat, Execution& execution) {
    Gpu& gpu = *plan.gpu;
    Stopwatch watch;
    const DeviceMemory a = upload(gpu, inputs.a);
    const DeviceMemory b = upload(gpu, inputs.b);
    const DeviceMemory d = upload(gpu, inputs.d);
    const bool in_place = plan.problem.in_place;
    const DeviceMemory apart = in_place ? DeviceMemory() : gpu.allocate(execution.result.bytes());
    const DeviceMemory& c = in_place ? a : apart;
    if (!in_place) gpu.fill(c.data(), kUnwritten, c.bytes());
    gpu.synchronize();
    execution.host_to_device_ms = watch.lap_ms();

    const Launch launch =
        prepare_launch(*plan.level, plan.problem, {a.data(), b.data(), d.data(), c.data()}, plan.device);
    note_launch(execution, launch);
    run_samples(plan, execution, warmup, repeat, [&] { return gpu.time_ms(launch.run); });
    gpu.synchronize();

    watch.lap_ms();
    gpu.download(execution.result.data(), c.data(), c.bytes());
    execution.device_to_host_ms = watch.lap_ms();
    if (plan.problem.operation == Operation::transpose && !in_place)
        execution.copy_bandwidth_gbps = copy_bandwidth_gbps(gpu, a, c);
}

}  // namespace

Execution execute(const Plan& plan, Inputs& inputs, int warmup, int repeat) {
    Execution execution;
    if (plan.problem.in_place && !plan.gpu) {
        execution.result = std::move(inputs.a);
        execute_on_cpu(plan, inputs, warmup, repeat, execution);
        return execution;
    }
    execution.result = Matrix(plan.result, plan.problem.type, "the result");
    if (plan.gpu) {
        execute_on_gpu(plan, inputs, warmup, repeat, execution);
    } else {
        fill(execution.result, kUnwritten, plan.device.threads);
        execute_on_cpu(plan, inputs, warmup, repeat, execution);
    }
    return execution;
}

}  // namespace gpumat
