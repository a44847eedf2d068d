#include "core/parallel.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "core/helpers.hpp"

namespace gpumat {

int hardware_threads() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void parallel_for(std::int64_t count, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
    if (count <= 0) return;
    grain = std::max<std::int64_t>(1, grain);
    const std::int64_t pieces = (count + grain - 1) / grain;
    const auto workers = static_cast<int>(std::min<std::int64_t>(std::max(1, threads), pieces));

    std::atomic<std::int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto work = [&] {
        try {
            for (std::int64_t piece = next++; piece < pieces; piece = next++) {
                body(piece * grain, std::min(count, (piece + 1) * grain));
            }
        } catch (...) {
            const std::lock_guard lock(failure_mutex);
            if (!failure) failure = std::current_exception();
            next = pieces;
        }
    };
    if (workers == 1) {
        work();
    } else if (const auto helpers = kept_helpers()) {
        helpers->run(work, workers - 1);
    } else {
        Helpers().run(work, workers - 1);
    }
    if (failure) std::rethrow_exception(failure);
}

}  // namespace gpumat
