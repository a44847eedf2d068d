#include "lib/run/executor.hpp"

#include <spdlog/fmt/fmt.h>

#include "core/error.hpp"
#include "core/stopwatch.hpp"

namespace gpumat {

std::vector<Launch> Executor::prepare(const Level& level, const Problem& problem,
                                      std::span<const Operands> sets) const {
    if (const Reasons reasons = unsupported_reasons(level, problem, device_); !reasons.empty()) {
        throw Error(ErrorCode::unsupported,
                    "level '" + std::string(level.name) + "' cannot serve this problem: " + join(reasons));
    }
    std::vector<Launch> launches;
    for (const Operands& operands : sets)
        launches.push_back(prepare_launch(level, problem, operands, device_));
    return launches;
}

double Executor::time_ms(const Launch& launch) const {
    if (device_.gpu != nullptr) return device_.gpu->time_ms(launch.run);
    const Stopwatch watch;
    launch.run({});
    return watch.elapsed_ms();
}

Timing Executor::time(const Launch& launch, const Problem& problem, int warmup, int repeat) const {
    const Stopwatch watch;
    Timing timing;
    for (int i = 0; i < warmup; ++i) (void)time_ms(launch);
    for (int i = 0; i < repeat; ++i) timing.samples_ms.push_back(time_ms(launch));
    if (problem.in_place && warmup % 2 == repeat % 2) (void)time_ms(launch);
    timing.all_ms = watch.elapsed_ms();
    return timing;
}

std::string describe_wrong(const Verification& verification) {
    // No element by itself, but all together.
    if (verification.expected_ratio <= 1 && !verification.note.empty()) return verification.note;
    const bool one = verification.mismatches == 1;
    return fmt::format("{} {}{} differ{}", verification.mismatches,
                       verification.mode == "freivalds" ? "row" : "element", one ? "" : "s", one ? "s" : "");
}

std::string describe_failure(const Verification& verification, const Shape& shape) {
    std::string text = describe_wrong(verification);
    if (verification.worst && verification.expected_ratio > 1) {
        const WorstElement& worst = *verification.worst;
        text += fmt::format(
            "; the worst is row {} of {}, column {} of {}: computed {}, expected {}, error / bound = {:.3g}",
            worst.row + 1, shape.rows, worst.col + 1, shape.cols, worst.computed, worst.expected,
            verification.expected_ratio);
    }
    return text;
}

std::string join(const Reasons& reasons) {
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    return text;
}

}  // namespace gpumat
