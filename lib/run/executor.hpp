#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/check/check.hpp"
#include "kernels/level.hpp"

namespace gpumat {

/// The samples of a level's time, in milliseconds: between device events on a GPU, of a steady clock on a
/// CPU.
struct Timing {
    std::vector<double> samples_ms;
    double all_ms = 0;  ///< all runs together, warm-ups included
};

/// Runs levels on one device: the one place where a launch is prepared, warmed up and timed, and where its
/// result is verified. Whoever computes (run, bench, tune) goes through it.
class Executor {
  public:
    Executor(const Device& device, VerifyOptions how) : device_(device), how_(how) {}

    [[nodiscard]] const Device& device() const { return device_; }

    /// A launch for each set of operands. Throws Error{unsupported} with every reason where the level cannot
    /// serve the problem, and Error{device, memory}.
    [[nodiscard]] std::vector<Launch> prepare(const Level& level, const Problem& problem,
                                              std::span<const Operands> sets) const;

    /// Runs it once and waits for it; the milliseconds that it took.
    [[nodiscard]] double time_ms(const Launch& launch) const;

    /// `warmup` runs, then `repeat` samples. In place an even number of runs gives the input again, so one
    /// more run follows then, which is no sample.
    [[nodiscard]] Timing time(const Launch& launch, const Problem& problem, int warmup, int repeat) const;

    /// Checks the operands, all in host memory, as the operation does.
    [[nodiscard]] Verification verify(const Level& level, const Problem& problem,
                                      const Operands& host) const {
        return verify_result(level, problem, host, how_);
    }

  private:
    Device device_;
    VerifyOptions how_;
};

/// How much of a result is wrong: "3 elements differ", "1 row differs", "the root mean square error is …
/// a lower precision".
std::string describe_wrong(const Verification& verification);

/// What a failed verification of a result of that shape found: "3 elements differ; the worst is row 2 of 500,
/// column 5 of 30: computed 1, expected 2, error / bound = 7". Rows and columns count from 1.
std::string describe_failure(const Verification& verification, const Shape& shape);

/// Every reason in one clause each: "it needs …; it works on …".
std::string join(const Reasons& reasons);

}  // namespace gpumat
