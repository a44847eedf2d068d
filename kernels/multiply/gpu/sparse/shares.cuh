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
    return {(all + length - 1) / length, length, all};
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

/// A warp takes a panel of columns of a share. What a walker does for one row of it: `add` the products of
/// some entries to the sums of the lane, `complete` them, and give `column`s of the lane.
template <class Walker, class T, class I>
__global__ void __launch_bounds__(kShareThreads)
    share_kernel(Arguments<T> p, Rows<T, I> a, Walker walker, Shares shares, Partial<T> partial) {
    const std::int64_t panels = walker.panels(p.n);
    const std::int64_t warps = std::int64_t{gridDim.x} * (kShareThreads / kWarp);
    for (std::int64_t at = (std::int64_t{blockIdx.x} * kShareThreads + threadIdx.x) / kWarp;
         at < shares.count * panels; at += warps) {
        const std::int64_t share = at / panels;
        const std::int64_t panel = at % panels;
        const Cut begin = cut_at(a.pointers, p.m, shares.begin(share));
        const Cut end = cut_at(a.pointers, p.m, shares.begin(share + 1));
        const bool has_head = begin.row < p.m && begin.entry > a.pointers[begin.row];
        std::int64_t entry = begin.entry;
        for (std::int64_t row = begin.row; row <= end.row; ++row) {
            const bool ends = row < end.row;
            const std::int64_t last = ends ? a.pointers[row + 1] : end.entry;
            if (!ends && entry == last) break;
            Sum<T> sums[Walker::kColumns] = {};
            walker.add(p, a, entry, last, panel, sums);
            walker.complete(sums);
            entry = last;
            const bool is_head = has_head && row == begin.row;
            for (int c = 0; c < Walker::kColumns; ++c) {
                const std::int64_t j = walker.column(panel, c);
                if (j >= p.n || !walker.owns()) continue;
                if (is_head) {
                    partial.head(share)[j] = sums[c];
                } else if (ends) {
                    p.finish(row, j, sums[c]);
                } else {
                    partial.tail(share)[j] = sums[c];
                }
            }
        }
    }
}

/// A block takes a share in which a row begins that goes on in others, and adds what they have of it.
template <class T>
__global__ void __launch_bounds__(kShareThreads)
    add_parts_kernel(Arguments<T> p, const std::int64_t* pointers, Shares shares, Partial<T> partial) {
    for (std::int64_t share = blockIdx.x; share < shares.count; share += gridDim.x) {
        const Cut begin = cut_at(pointers, p.m, shares.begin(share));
        const Cut end = cut_at(pointers, p.m, shares.begin(share + 1));
        if (end.row >= p.m || end.entry == pointers[end.row]) continue;
        if (begin.row == end.row && begin.entry > pointers[begin.row]) continue;  // it began before
        std::int64_t last = share + 1;
        while (cut_at(pointers, p.m, shares.begin(last + 1)).row == end.row) ++last;
        for (std::int64_t j = threadIdx.x; j < p.n; j += kShareThreads) {
            Sum<T> sum = partial.tail(share)[j];
            for (std::int64_t other = share + 1; other <= last; ++other) sum = sum + partial.head(other)[j];
            p.finish(end.row, j, sum);
        }
    }
}

/// The launch of a level that works in shares.
template <class T, class I, class Walker>
Launch launch_shares(std::string_view level, const Problem& problem, const Operands& operands,
                     const Device& device, const Walker& walker) {
    const Shares shares = shares_of(problem, device.gpu->info().multiprocessors);
    if (shares.count == 0 || problem.n == 0) return {.level = level, .run = [](Stream) {}};
    const auto bytes = static_cast<std::size_t>(2 * shares.count * problem.n) * sizeof(Sum<T>);
    const auto memory = std::make_shared<DeviceMemory>(device.gpu->allocate(bytes));
    const Partial<T> partial{static_cast<Sum<T>*>(memory->data()), problem.n};
    const Arguments<T> arguments(problem, operands);
    const Rows<T, I> rows(operands.a);
    const unsigned blocks = blocks_of(shares.count * walker.panels(problem.n), kShareThreads / kWarp);
    return {.level = level,
            .run =
                [=](Stream to) {
                    cudaStream_t const stream = cuda_stream(to);
                    share_kernel<<<blocks, kShareThreads, 0, stream>>>(arguments, rows, walker, shares,
                                                                       partial);
                    GPUMAT_CUDA(cudaGetLastError());
                    add_parts_kernel<<<blocks_of(shares.count, 1), kShareThreads, 0, stream>>>(
                        arguments, rows.pointers, shares, partial);
                    GPUMAT_CUDA(cudaGetLastError());
                    (void)memory;
                },
            .details = {{"shares", std::to_string(shares.count)}},
            .workspace_bytes = bytes};
}

}  // namespace gpumat::multiply::gpu::sparse
