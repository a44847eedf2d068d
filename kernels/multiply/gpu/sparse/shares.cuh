#pragma once

#include <memory>

#include "kernels/device/gpu.hpp"
#include "kernels/multiply/gpu/sparse/entries.cuh"

// The rows and entries of A, in shares of as many of both together, a warp each. A row that lies in several
// shares is summed up by each of them, and their sums are added in the order of the shares: the same bits in
// every run.

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

inline Shares shares_of(const Problem& problem, int multiprocessors) {
    constexpr std::int64_t kWarpsOfMultiprocessor = 128;
    constexpr std::int64_t kLeast = 64;
    const std::int64_t all = problem.m + problem.entries.front();
    const std::int64_t warps = multiprocessors * kWarpsOfMultiprocessor;
    const std::int64_t length = std::max(kLeast, (all + warps - 1) / warps);
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

/// A block takes a share in which a row begins that goes on in others, and adds what they have of it.
template <class T>
__global__ void __launch_bounds__(kShareThreads)
    add_parts_kernel(Arguments<T> p, const std::int64_t* pointers, Shares shares, Partial<T> partial) {
    for (std::int64_t share = blockIdx.x; share < shares.count; share += gridDim.x) {
        const Cut begin = shares.cuts[share];
        const Cut end = shares.cuts[share + 1];
        if (end.row >= p.m || end.entry == pointers[end.row]) continue;
        if (begin.row == end.row && begin.entry > pointers[begin.row]) continue;  // it began before
        std::int64_t last = share + 1;
        while (shares.cuts[last + 1].row == end.row) ++last;
        for (std::int64_t j = threadIdx.x; j < p.n; j += kShareThreads) {
            Sum<T> sum = partial.tail(share)[j];
            for (std::int64_t other = share + 1; other <= last; ++other) sum = sum + partial.head(other)[j];
            p.finish(end.row, j, sum);
        }
    }
}

/// The launch of a level that works in shares: `launch(blocks, stream, shares, partial)` starts the kernel
/// whose warps take the panels of the shares.
template <class T, class LaunchKernel>
Launch launch_shares(std::string_view level, const Problem& problem, const Operands& operands,
                     const Device& device, std::int64_t panels, LaunchKernel launch) {
    Shares shares = shares_of(problem, device.gpu->info().multiprocessors);
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
    return {.level = level,
            .run =
                [=](Stream to) {
                    cudaStream_t const stream = cuda_stream(to);
                    cut_kernel<<<blocks_of(shares.count + 1, kShareThreads), kShareThreads, 0, stream>>>(
                        pointers, arguments.m, shares);
                    GPUMAT_CUDA(cudaGetLastError());
                    launch(blocks_of(shares.count * panels, kShareThreads / kWarp), stream, shares, partial);
                    GPUMAT_CUDA(cudaGetLastError());
                    add_parts_kernel<<<blocks_of(shares.count, 1), kShareThreads, 0, stream>>>(
                        arguments, pointers, shares, partial);
                    GPUMAT_CUDA(cudaGetLastError());
                    (void)memory;
                },
            .details = {{"shares", std::to_string(shares.count)}},
            .workspace_bytes = bytes};
}

}  // namespace gpumat::multiply::gpu::sparse
