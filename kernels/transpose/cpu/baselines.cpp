#include "kernels/transpose/cpu/baselines.hpp"

#include <array>
#include <cstring>

#include "lib/core/parallel.hpp"

namespace gpumat::transpose::cpu {
namespace {

// A thread copies this much at once: far beyond the caches of a core, far below what would unbalance threads.
constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;

Reasons memcpy_unsupported(const Problem& problem, const Device&) {
    if (!problem.in_place) return {};
    return {"a copy in place would move nothing"};
}

}  // namespace

std::span<const Level> baselines() {
    static constexpr std::array kBaselines = {
        Level{.operation = Operation::transpose,
              .device = DeviceKind::cpu,
              .number = 0,
              .name = "memcpy",
              .summary = "the C library's memcpy of the same bytes, on all threads",
              .removes = "nothing: the speed of memory to come close to",
              .unsupported = memcpy_unsupported,
              .prepare = prepare_memcpy,
              .copies = true},
    };
    return kBaselines;
}

Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device& device) {
    const std::int64_t bytes = problem.m * problem.n * static_cast<std::int64_t>(size_of(problem.type));
    return {.level = "memcpy",
            .run =
                [operands, bytes, threads = device.threads] {
                    const auto* from = static_cast<const std::byte*>(operands.a);
                    auto* to = static_cast<std::byte*>(operands.c);
                    parallel_for(bytes, kBytesAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
                        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
                    });
                },
            .details = {}};
}

}  // namespace gpumat::transpose::cpu
