#pragma once

#include <cstdint>
#include <functional>

namespace gpumat {

/// The processors that this process may run on, at least 1.
int hardware_threads();

/// Splits [0, count) into pieces of `grain` and runs `body(begin, end)` on each, on up to `threads`
/// threads that take the next piece when free. Returns when all are done. The first exception thrown by
/// `body` is rethrown here after the threads have stopped.
void parallel_for(std::int64_t count, std::int64_t grain, int threads,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace gpumat
