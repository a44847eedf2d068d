#include "lib/measure/measure_overhead.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/memory.hpp"
#include "core/parallel.hpp"
#include "core/stopwatch.hpp"
#include "lib/record/timeline.hpp"
#include "lib/run/transfer.hpp"

namespace gpumat {
namespace {

/// Enough that the pieces of a transfer overlap.
constexpr std::uint64_t kMeasuredBytes = std::uint64_t{256} << 20;

/// Milliseconds of `work` for 10⁹ bytes, the best of a few times.
template <class Work>
double ms_per_gb(std::size_t bytes, const Work& work) {
    constexpr int kTimes = 3;
    double best_ms = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTimes; ++i) {
        const Stopwatch watch;
        work();
        best_ms = std::min(best_ms, watch.elapsed_ms());
    }
    return best_ms / static_cast<double>(bytes) * 1e9;
}

/// Memory that was never written, and now is.
Buffer touched(std::size_t bytes, int threads) {
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    Buffer memory(bytes);
    parallel_for(static_cast<std::int64_t>(bytes), kGrain, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     std::memset(memory.data() + begin, 1, static_cast<std::size_t>(end - begin));
                 });
    return memory;
}

DeviceOverhead of_gpu(Gpu& gpu, std::size_t bytes, int threads) {
    const Buffer host = touched(bytes, threads);
    Pool<PinnedMemory> pinned(kPinnedBuffers, [&] { return gpu.allocate_pinned(kPinnedBytes); });
    const Stopwatch watch;
    const DeviceMemory memory = gpu.allocate(bytes);
    Timeline timeline;  // nobody reads it
    Transfer transfer(gpu, pinned, kPinnedBytes, threads, timeline.host_to_device);
    const StageClock::Work copying(timeline.host_to_device);
    const auto upload = [&] {
        transfer.upload(memory.data(), host.data(), bytes);
        transfer.wait_for_uploads();
    };
    upload();
    DeviceOverhead found = {
        .start_ms = watch.elapsed_ms(),
        .input_ms_per_gb = ms_per_gb(bytes, upload),
        .result_ms_per_gb = ms_per_gb(
            bytes, [&] { transfer.download_pieces(memory.data(), bytes, kPinnedBytes, [](auto&&...) {}); })};
    const double upload_ms = found.input_ms_per_gb * static_cast<double>(bytes) / 1e9;
    found.start_ms = std::max(0.0, found.start_ms - upload_ms);
    return found;
}

}  // namespace

DeviceOverhead measure_overhead(const Device& device, int threads, std::uint64_t most_bytes) {
    const auto bytes = static_cast<std::size_t>(std::min(kMeasuredBytes, most_bytes));
    if (device.gpu != nullptr) return of_gpu(*device.gpu, bytes, threads);
    return {.start_ms = 0, .input_ms_per_gb = 0, .result_ms_per_gb = ms_per_gb(bytes, [&] {
                                                     touched(bytes, threads);
                                                 })};
}

}  // namespace gpumat
