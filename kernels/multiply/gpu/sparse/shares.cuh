#pragma once

#include <memory>

#include "kernels/device/gpu.hpp"
#include "kernels/multiply/gpu/sparse/entries.cuh"

// The rows and entries of A, in shares of as many of both together, for a block, a warp or a part of one
// each. A row that lies in several shares is summed up by each of them, and their sums are added in the same
// order in every run: the same bits.

namespace gpumat::multiply::gpu::sparse {

constexpr int kShareThreads = 256;

/// A place in the work: so many rows have ended, so many entries are done.
struct Cut {
    std::int64_t row;
    std::int64_t entry;
};

/// The end of a row comes after its entries: that of row r is number pointers[r + 1] + r. A warp looks at a
/// row in each lane at once, so that four loads that wait for each other find one of a million rows.
__device__ __forceinline__ Cut cut_at(const std::int64_t* pointers, std::int64_t rows, std::int64_t place) {
    std::int64_t begin = 0;
    std::int64_t end = rows;
    while (begin < end) {
        const std::int64_t step = (end - begin + kWarp - 1) / kWarp;
        const std::int64_t row = begin + step * (threadIdx.x % kWarp);
        const int before = __popc(__ballot_sync(~0U, row < end && pointers[row + 1] + row < place));
        if (before == 0) break;
        end = std::min(end, begin + before * step);
        begin += (before - 1) * step + 1;
    }
    return {begin, place - begin};
}

struct Shares {
    std::int64_t count;
    std::int64_t length;  ///< rows and entries together
    std::int64_t all;
    Cut* cuts;  ///< count + 1 of them, where the shares begin and the last one ends

    [[nodiscard]] __device__ std::int64_t begin(std::int64_t share) const {
        return share * length < all ? share * length : all;
    }
};

inline Shares shares_of_length(const Problem& problem, std::int64_t length) {
    const std::int64_t all = problem.m + problem.entries.front();
    return {(all + length - 1) / length, length, all, nullptr};
}

/// Shares for teams of so many lanes.
inline Shares shares_for_teams(const Problem& problem, const Device& device, int team) {
    constexpr std::int64_t kLanesOfMultiprocessor = 128 * kWarp;
    const std::int64_t least = 2 * team;
    const std::int64_t all = problem.m + problem.entries.front();
    const std::int64_t teams = device.gpu->info().multiprocessors * kLanesOfMultiprocessor / team;
    return shares_of_length(problem, std::max(least, (all + teams - 1) / teams));
}

/// A warp finds a cut, all of them at once: those that take the shares need not search.
inline __global__ void __launch_bounds__(kShareThreads)
    cut_kernel(const std::int64_t* pointers, std::int64_t rows, Shares shares) {
    const std::int64_t warps = std::int64_t{gridDim.x} * (kShareThreads / kWarp);
    for (std::int64_t share = (std::int64_t{blockIdx.x} * kShareThreads + threadIdx.x) / kWarp;
         share <= shares.count; share += warps) {
        const Cut cut = cut_at(pointers, rows, shares.begin(share));
        if (threadIdx.x % kWarp == 0) shares.cuts[share] = cut;
    }
}

/// The sums of rows that are in a share only in part: of its first row, which began before it, and of its
/// last one, which began in it and goes on.
template <class T>
struct Partial {
    Sum<T>* sums;
    std::int64_t n;

    [[nodiscard]] __device__ Sum<T>* head(std::int64_t share) const { return sums + 2 * share * n; }
    [[nodiscard]] __device__ Sum<T>* tail(std::int64_t share) const { return head(share) + n; }
};

/// A row that begins in a share and goes on in others, up to the last one.
struct Chain {
    std::int64_t row;
    std::int64_t share;
    std::int64_t last;  ///< the share itself where no row goes on

    [[nodiscard]] __device__ std::int64_t length() const { return last - share; }
};

__device__ __forceinline__ Chain chain_of(const std::int64_t* pointers, std::int64_t rows,
                                          const Shares& shares, std::int64_t share) {
    const Chain none = {0, share, share};
    if (share >= shares.count) return none;
    const Cut begin = shares.cuts[share];
    const Cut end = shares.cuts[share + 1];
    if (end.row >= rows || end.entry == pointers[end.row]) return none;
    if (begin.row == end.row && begin.entry > pointers[begin.row]) return none;  // it began before
    return {end.row, share, (pointers[end.row + 1] + end.row) / shares.length};
}

/// Chains that a block looks for at a time, and how long one may be for a thread a column.
constexpr int kChains = 8;
constexpr int kShortChain = 16;

/// The columns of a long chain, each by several threads of the block, which leave their sums in `sums`.
template <class T>
__device__ void add_long_chain(const Arguments<T>& p, const Partial<T>& partial, const Chain& chain,
                               Sum<T>* sums) {
    const int thread = static_cast<int>(threadIdx.x);
    int width = 1;
    while (width < kShareThreads && width < p.n) width *= 2;
    const int slices = kShareThreads / width;
    const int slice = thread / width;
    for (std::int64_t panel = 0; panel < p.n; panel += width) {
        const std::int64_t j = panel + thread % width;
        Sum<T> sum = {};
        if (j < p.n) {
#pragma unroll 8
            for (std::int64_t other = chain.share + 1 + slice; other <= chain.last; other += slices)
                sum = sum + partial.head(other)[j];
        }
        sums[thread] = sum;
        for (int half = slices / 2; half > 0; half /= 2) {
            __syncthreads();
            if (slice < half) sums[thread] = sums[thread] + sums[thread + half * width];
        }
        if (slice == 0 && j < p.n) p.finish(chain.row, j, partial.tail(chain.share)[j] + sums[thread]);
        __syncthreads();
    }
}

/// Adds what shares have of rows that lie in several: a thread a column, or a block where they are many.
template <class T>
__global__ void __launch_bounds__(kShareThreads)
    add_parts_kernel(Arguments<T> p, const std::int64_t* pointers, Shares shares, Partial<T> partial) {
    __shared__ Chain chains[kChains];
    __shared__ __align__(16) unsigned char memory[kShareThreads * sizeof(Sum<T>)];
    for (std::int64_t first = std::int64_t{blockIdx.x} * kChains; first < shares.count;
         first += std::int64_t{gridDim.x} * kChains) {
        if (threadIdx.x < kChains) chains[threadIdx.x] = chain_of(pointers, p.m, shares, first + threadIdx.x);
        __syncthreads();
        for (std::int64_t at = threadIdx.x; at < kChains * p.n; at += kShareThreads) {
            const Chain& chain = chains[at / p.n];
            const std::int64_t j = at % p.n;
            if (chain.length() == 0 || chain.length() > kShortChain) continue;
            Sum<T> sum = partial.tail(chain.share)[j];
            for (std::int64_t other = chain.share + 1; other <= chain.last; ++other)
                sum = sum + partial.head(other)[j];
            p.finish(chain.row, j, sum);
        }
        for (const Chain& chain : chains) {
            if (chain.length() > kShortChain)
                add_long_chain(p, partial, chain, reinterpret_cast<Sum<T>*>(memory));
        }
        __syncthreads();
    }
}

/// The launch of a level that works in shares: `launch(stream, shares, partial)` starts the kernel that takes
/// them.
template <class T, class LaunchKernel>
Launch launch_shares(std::string_view level, const Problem& problem, const Operands& operands,
                     const Device& device, Shares shares, LaunchKernel launch) {
    if (shares.count == 0 || problem.n == 0) return {.level = level, .run = [](Stream) {}};
    const std::size_t cut_bytes = static_cast<std::size_t>(shares.count + 1) * sizeof(Cut);
    const std::size_t bytes =
        cut_bytes + static_cast<std::size_t>(2 * shares.count * problem.n) * sizeof(Sum<T>);
    const auto memory = std::make_shared<DeviceMemory>(device.gpu->allocate(bytes));
    shares.cuts = static_cast<Cut*>(memory->data());
    const Partial<T> partial{reinterpret_cast<Sum<T>*>(static_cast<std::byte*>(memory->data()) + cut_bytes),
                             problem.n};
    const Arguments<T> arguments(problem, operands);
    const std::int64_t* const pointers = operands.a.pointers;
    return {
        .level = level,
        .run =
            [=](Stream to) {
                cudaStream_t const stream = cuda_stream(to);
                cut_kernel<<<blocks_of(shares.count + 1, kShareThreads / kWarp), kShareThreads, 0, stream>>>(
                    pointers, arguments.m, shares);
                GPUMAT_CUDA(cudaGetLastError());
                launch(stream, shares, partial);
                GPUMAT_CUDA(cudaGetLastError());
                add_parts_kernel<<<blocks_of(shares.count, kChains), kShareThreads, 0, stream>>>(
                    arguments, pointers, shares, partial);
                GPUMAT_CUDA(cudaGetLastError());
                (void)memory;
            },
        .details = {{"shares", std::to_string(shares.count)}},
        .workspace_bytes = bytes};
}

}  // namespace gpumat::multiply::gpu::sparse
