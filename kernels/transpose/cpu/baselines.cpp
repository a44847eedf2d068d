#include "kernels/transpose/cpu/baselines.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/parallel.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose::cpu {
namespace {

// A thread copies this much at once: far beyond the caches of a core, far below what would unbalance threads.
constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;

Reasons memcpy_unsupported(const Problem& problem, const Operands&, const Device&) {
    if (!problem.in_place) return {};
    return {"a copy in place would move nothing"};
}

}  // namespace

std::span<const Level> baselines() {
    static constexpr std::array kBaselines = {
        Level{.operation = &kTranspose,
              .device = DeviceKind::cpu,
              .role = Role::baseline,
              .name = "memcpy",
              .summary = "the C library's memcpy of the same bytes, on all threads",
              .removes = "nothing: the speed of memory to come close to",
              .unsupported = memcpy_unsupported,
              .prepare = prepare_memcpy,
              .copies = true,
              .yardstick = true},
    };
    return kBaselines;
}

Launch prepare_memcpy(const Problem& problem, const Operands& operands, const Device& device) {
    const auto size = static_cast<std::int64_t>(size_of(problem.type));
    // Rows without gaps are one row.
    const bool one = is_contiguous(operands.a) && is_contiguous(operands.c);
    const std::int64_t rows = one ? 1 : problem.m;
    const std::int64_t row_bytes = (one ? problem.m : 1) * problem.n * size;
    const std::int64_t rows_at_once =
        std::max<std::int64_t>(1, kBytesAtOnce / std::max<std::int64_t>(1, row_bytes));
    return {.level = "memcpy",
            .run =
                [=, from_bytes = operands.a.pitch * size, to_bytes = operands.c.pitch * size,
                 threads = device.threads](Stream) {
                    const auto* from = operands.a.as<std::byte>();
                    auto* to = operands.c.as<std::byte>();
                    if (rows == 1) {
                        parallel_for(
                            row_bytes, kBytesAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
                                std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
                            });
                        return;
                    }
                    parallel_for(rows, rows_at_once, threads, [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t row = begin; row < end; ++row) {
                            std::memcpy(to + row * to_bytes, from + row * from_bytes,
                                        static_cast<std::size_t>(row_bytes));
                        }
                    });
                },
            .details = {}};
}

}  // namespace gpumat::transpose::cpu
