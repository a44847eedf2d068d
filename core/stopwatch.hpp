#pragma once

#include <chrono>

namespace gpumat {

/// Milliseconds of a steady clock since it was made or restarted.
class Stopwatch {
  public:
    [[nodiscard]] double elapsed_ms() const {
        return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
    }

    /// Elapsed time, and starts again.
    double lap_ms() {
        const double elapsed = elapsed_ms();
        start_ = Clock::now();
        return elapsed;
    }

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point start_ = Clock::now();
};

}  // namespace gpumat
