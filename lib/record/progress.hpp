#pragma once

#include <atomic>
#include <cstdint>

#include "lib/record/timeline.hpp"

namespace gpumat {

/// How far a run has come, for who watches it from another thread.
struct Progress {
    std::atomic<std::uint64_t> bytes_to_read{0};  ///< of all inputs; 0 before that is known
    std::atomic<std::uint64_t> bytes_read{0};
    std::atomic<std::uint64_t> bytes_to_check{0};  ///< of the result, which is also written
    std::atomic<std::uint64_t> bytes_checked{0};
    Timeline timeline;  ///< begins with the run
};

}  // namespace gpumat
