#pragma once

#include <memory>

#include "kernels/device/gpu.hpp"
#include "kernels/multiply/gpu/sparse/entries.cuh"

// The rows and entries of A, in shares of as many of both together, a warp or a part of one each. A row that
// lies in several shares is summed up by each of them, and their sums are added in the order of the shares:
// the same bits in every run.

namespace gpumat::multiply::gpu::sparse {

constexpr int kShareThreads = 256;

/// A place in the work: so many rows have ended, so many entries are done.
struct Cut {
    std::int64_t row;
    std::int64_t entry;
};

/// The end of a row comes after its entries: that of row r is number pointers[r + 1] + r.
__device__ __forceinline__ Cut cut_at(const std::int64_t* pointers, std::int64_t rows, std::int64_t place) {
    std::int64_t begin = 0;
    std::int64_t end = rows;
    while (begin < end) {
        const std::int64_t middle = begin + (end - begin) / 2;
        if (pointers[middle + 1] + middle < place) {
            begin = middle + 1;
        } else {
            end = middle;
        }
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

/// Shares for teams of so many lanes.
inline Shares shares_of(const Problem& problem, int multiprocessors, int team) {
    constexpr std::int64_t kLanesOfMultiprocessor = 128 * kWarp;
    const std::int64_t least = 2 * team;
    const std::int64_t all = problem.m + problem.entries.front();
    const std::int64_t teams = multiprocessors * kLanesOfMultiprocessor / team;
    const std::int64_t length = std::max(least, (all + teams - 1) / teams);
    return {(all + length - 1) / length, length, all, nullptr};
}

/// A thread finds a cut, all of them at once: the warps that take the shares need not search.
inline __global__ void __launch_bounds__(kShareThreads)
    cut_kernel(const std::int64_t* pointers, std::int64_t rows, Shares shares) {
    const std::int64_t threads = std::int64_t{gridDim.x} * kShareThreads;
    for (std::int64_t share = std::int64_t{blockIdx.x} * kShareThreads + threadIdx.x; share <= shares.count;
         share += threads)
        shares.cuts[share] = cut_at(pointers, rows, shares.begin(share));
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

/// So many lanes of a warp, or one alone, take a column of a share in which a row begins that goes on in
/// others, and add what they have of it.
template <class T, bool kAlone>
__global__ void __launch_bounds__(kShareThreads)
    add_parts_kernel(Arguments<T> p, const std::int64_t* pointers, Shares shares, Partial<T> partial,
                     int lanes) {
    const std::int64_t thread = std::int64_t{blockIdx.x} * kShareThreads + threadIdx.x;
    const std::int64_t takers = std::int64_t{gridDim.x} * kShareThreads / lanes;
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    const unsigned members = (~0U >> (kWarp - lanes)) << (threadIdx.x % kWarp - lane);
    for (std::int64_t at = thread / lanes; at < shares.count * p.n; at += takers) {
        const std::int64_t share = at / p.n;
        const std::int64_t j = at % p.n;
        const Cut begin = shares.cuts[share];
        const Cut end = shares.cuts[share + 1];
        if (end.row >= p.m || end.entry == pointers[end.row]) continue;
        if (begin.row == end.row && begin.entry > pointers[begin.row]) continue;  // it began before
        const std::int64_t last = (pointers[end.row + 1] + end.row) / shares.length;
        Sum<T> sum = lane == 0 ? partial.tail(share)[j] : Sum<T>{};
        if constexpr (kAlone) {
            for (std::int64_t other = share + 1; other <= last; ++other) sum = sum + partial.head(other)[j];
        } else {
#pragma unroll 8
            for (std::int64_t other = share + 1 + lane; other <= last; other += lanes)
                sum = sum + partial.head(other)[j];
            for (int distance = lanes / 2; distance > 0; distance /= 2)
                sum = sum + exchanged(sum, distance, members);
        }
        if (lane == 0) p.finish(end.row, j, sum);
    }
}

/// The launch of a level that works in shares: `launch(blocks, stream, shares, partial)` starts the kernel
/// whose teams of lanes take the panels of the shares.
template <class T, class LaunchKernel>
Launch launch_shares(std::string_view level, const Problem& problem, const Operands& operands,
                     const Device& device, std::int64_t panels, int team, LaunchKernel launch) {
    Shares shares = shares_of(problem, device.gpu->info().multiprocessors, team);
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
    int lanes = kWarp;  // where there are few columns, a long row would be one thread's
    while (lanes > 1 && lanes > kWarp / problem.n) lanes /= 2;
    return {.level = level,
            .run =
                [=](Stream to) {
                    cudaStream_t const stream = cuda_stream(to);
                    cut_kernel<<<blocks_of(shares.count + 1, kShareThreads), kShareThreads, 0, stream>>>(
                        pointers, arguments.m, shares);
                    GPUMAT_CUDA(cudaGetLastError());
                    launch(blocks_of(shares.count * panels, kShareThreads / team), stream, shares, partial);
                    GPUMAT_CUDA(cudaGetLastError());
                    const auto add_parts =
                        lanes == 1 ? add_parts_kernel<T, true> : add_parts_kernel<T, false>;
                    add_parts<<<blocks_of(shares.count * arguments.n * lanes, kShareThreads), kShareThreads,
                                0, stream>>>(arguments, pointers, shares, partial, lanes);
                    GPUMAT_CUDA(cudaGetLastError());
                    (void)memory;
                },
            .details = {{"shares", std::to_string(shares.count)}},
            .workspace_bytes = bytes};
}

}  // namespace gpumat::multiply::gpu::sparse
