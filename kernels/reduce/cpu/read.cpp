// reduce baseline `read`, CPU: every byte is read on all threads, 64 bytes an instruction where the processor
// has such, and combined by exclusive or, which no compiler can leave out.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/parallel.hpp"
#include "kernels/common/vector.hpp"
#include "kernels/reduce/cpu/levels.hpp"
#include "kernels/reduce/operation.hpp"

namespace gpumat::reduce::cpu {
namespace {

constexpr std::int64_t kBytesAtOnce = std::int64_t{1} << 20U;
using Words = Vector<std::uint64_t, 8>;

/// What chooses a clone runs before the thread sanitizer is ready for it, and would crash.
#if defined(__SANITIZE_THREAD__)
#define GPUMAT_WIDTHS
#else
#define GPUMAT_WIDTHS [[gnu::target_clones("default,avx2,avx512f")]]
#endif

/// In registers of whatever width the processor has.
GPUMAT_WIDTHS std::uint64_t combine(const std::byte* from, std::int64_t bytes) {
    Words words[4] = {};
    std::int64_t i = 0;
    constexpr std::int64_t kStep = sizeof words;
    for (; i + kStep <= bytes; i += kStep) {
        Words next[4];
        std::memcpy(&next, from + i, sizeof next);
        for (int w = 0; w < 4; ++w) words[w] ^= next[w];
    }
    words[0] ^= words[1] ^ words[2] ^ words[3];
    std::uint64_t all = 0;
    for (int lane = 0; lane < 8; ++lane) all ^= words[0][lane];
    for (; i < bytes; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, from + i, static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - i)));
        all ^= word;
    }
    return all;
}

}  // namespace

Launch prepare_read(const Problem& problem, const Operands& operands, const Device& device) {
    const auto bytes = problem.m * problem.n * static_cast<std::int64_t>(size_of(problem.type));
    return {.level = "read", .run = [problem, operands, bytes, threads = device.threads](Stream) {
                std::atomic<std::uint64_t> all{0};
                const auto* from = operands.a.as<std::byte>();
                parallel_for(bytes, kBytesAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
                    all ^= combine(from + begin, end - begin);
                });
                const std::uint64_t found = all;
                std::memset(operands.c.data, 0, size_of(result_type(problem)));
                std::memcpy(operands.c.data, &found, sizeof found);
            }};
}

}  // namespace gpumat::reduce::cpu
