#include "lib/measure_overhead.hpp"

#include <algorithm>
#include <cstring>

#include "lib/core/memory.hpp"
#include "lib/core/parallel.hpp"
#include "lib/stopwatch.hpp"
#include "lib/transfer.hpp"

namespace gpumat {
namespace {

/// Enough that the pieces of a transfer overlap.
constexpr std::uint64_t kMeasuredBytes = std::uint64_t{256} << 20;

double ms_per_gb(double ms, std::size_t bytes) {
    return ms / static_cast<double>(bytes) * 1e9;
}

/// Memory that was never written.
double first_touch_ms(Buffer& memory, int threads) {
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    const Stopwatch watch;
    parallel_for(static_cast<std::int64_t>(memory.size()), kGrain, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     std::memset(memory.data() + begin, 1, static_cast<std::size_t>(end - begin));
                 });
    return watch.elapsed_ms();
}

DeviceOverhead of_gpu(Gpu& gpu, Buffer& host, int threads) {
    Pool<PinnedMemory> pinned(kPinnedBuffers, [&] { return gpu.allocate_pinned(kPinnedBytes); });
    const Stopwatch start;
    const DeviceMemory memory = gpu.allocate(host.size());
    Transfer transfer(gpu, pinned, kPinnedBytes, threads);
    transfer.upload(memory.data(), host.data(), host.size());
    const double with_start_ms = start.elapsed_ms();
    const Stopwatch there;
    transfer.upload(memory.data(), host.data(), host.size());
    const double upload_ms = there.elapsed_ms();
    const Stopwatch back;
    transfer.download_pieces(memory.data(), host.size(), kPinnedBytes, [](auto&&...) {});
    return {.start_ms = std::max(0.0, with_start_ms - upload_ms),
            .input_ms_per_gb = ms_per_gb(upload_ms, host.size()),
            .result_ms_per_gb = ms_per_gb(back.elapsed_ms(), host.size())};
}

}  // namespace

DeviceOverhead measure_overhead(const Device& device, int threads, std::uint64_t most_bytes) {
    Buffer host(static_cast<std::size_t>(std::min(kMeasuredBytes, most_bytes)));
    const double touch_ms = first_touch_ms(host, threads);
    if (device.gpu != nullptr) return of_gpu(*device.gpu, host, threads);
    return {.start_ms = 0, .input_ms_per_gb = 0, .result_ms_per_gb = ms_per_gb(touch_ms, host.size())};
}

}  // namespace gpumat
