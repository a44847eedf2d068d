#pragma once

#include "kernels/multiply/gpu/sparse/shares.cuh"

// sparse × dense where a row of B is a few words: a block takes a share of rows and entries of A. All its
// threads multiply the entries, side by side, into shared memory; then each thread adds up as many rows and
// entries as any other, wherever rows begin. No lane waits for the length of a row, neither to load nor to
// add.
//
// Source of the idea: merge-based products, Merrill and Garland (2016).

namespace gpumat::multiply::gpu::sparse {

template <class T, int COLUMNS>
struct alignas(COLUMNS * sizeof(T)) Word {
    T elements[COLUMNS];
};

/// Lanes side by side have the words of a row of B. Threads walk through shared memory in steps of so many
/// words, an odd number, so that they meet different banks.
constexpr int kStagedWords = 7;
constexpr int kMostStagedLanes = 4;
constexpr int kStagedBlocks = 3;  ///< of a multiprocessor

/// A word that is a whole row of B, which the compiler knows.
struct OneLane {
    __host__ __device__ constexpr operator int() const { return 1; }
};

/// Rows and entries of a share.
inline std::int64_t staged_length(int lanes) {
    return kShareThreads / lanes * kStagedWords;
}

/// What the threads of a block share.
template <class T, int COLUMNS>
struct Staged {
    using Sums = Word<Sum<T>, COLUMNS>;
    Sums words[kShareThreads * kStagedWords + kMostStagedLanes];  ///< products of entries, then sums of rows
    int row_ends[kShareThreads * kStagedWords + 1];               ///< in entries of the share
    Sums edges[kShareThreads / kWarp * kMostStagedLanes];         ///< sums of rows that go on beyond a warp
    int edge_rows[kShareThreads / kWarp];
};

template <class S, int COLUMNS>
__device__ __forceinline__ void add_to(Word<S, COLUMNS>& sums, const Word<S, COLUMNS>& more) {
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) sums.elements[c] = sums.elements[c] + more.elements[c];
}

/// How many rows end before a place of the share: as cut_at, in shared memory.
__device__ __forceinline__ int rows_before(const int* row_ends, int rows, int place) {
    int begin = 0;
    int end = rows;
    while (begin < end) {
        const int middle = (begin + end) / 2;
        if (row_ends[middle] + middle < place) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/// One block's share. `lanes` threads, a power of two, have the words of a row of B, each COLUMNS elements.
template <class T, class I, int COLUMNS, class Lanes>
struct StagedShare {
    using Sums = Word<Sum<T>, COLUMNS>;
    const Arguments<T>& p;
    const Rows<T, I>& a;
    Staged<T, COLUMNS>& shared;
    Lanes lanes;
    Cut begin;
    int rows;  ///< that end in the share
    int entries;

    [[nodiscard]] __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes - 1); }
    /// Among the threads with the same words.
    [[nodiscard]] __device__ int runner() const { return static_cast<int>(threadIdx.x) / lanes; }
    [[nodiscard]] __device__ int runners() const { return kShareThreads / lanes; }
    [[nodiscard]] __device__ int column() const { return lane() * COLUMNS; }
    [[nodiscard]] __device__ Sums& product(int entry) const { return shared.words[entry * lanes + lane()]; }
    [[nodiscard]] __device__ Sums& row_sums(int row) const { return product(entries + row); }

    __device__ void load_row_ends() const {
        for (int row = static_cast<int>(threadIdx.x); row < rows; row += kShareThreads)
            shared.row_ends[row] = static_cast<int>(a.pointers[begin.row + row + 1] - begin.entry);
        if (threadIdx.x == 0) shared.row_ends[rows] = entries + 1;  // the last row does not end here
    }

    /// All loads of A are under way before the first of B, and all of B before the first product.
    __device__ void multiply_entries() const {
        I row_of_b[kStagedWords];
        T values[kStagedWords];
        Word<T, COLUMNS> words[kStagedWords];
        const int first = runner();
        const int step = runners();
        const bool has_column = column() < p.n;
#pragma unroll
        for (int s = 0; s < kStagedWords; ++s) {
            if (first + s * step >= entries) continue;
            row_of_b[s] = a.columns[begin.entry + first + s * step];
            values[s] = a.values[begin.entry + first + s * step];
        }
#pragma unroll
        for (int s = 0; s < kStagedWords; ++s) {
            if (first + s * step >= entries || !has_column) continue;
            words[s] = *reinterpret_cast<const Word<T, COLUMNS>*>(p.b.at(row_of_b[s], column()));
        }
#pragma unroll
        for (int s = 0; s < kStagedWords; ++s) {
            if (first + s * step >= entries || !has_column) continue;
            Sums products;
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                products.elements[c] =
                    multiply_add(to_sum(values[s]), to_sum(words[s].elements[c]), Sum<T>{});
            product(first + s * step) = products;
        }
    }

    /// The sums of rows that end in the thread's run go where they belong; what is left of the last one is
    /// added up over the threads after it.
    __device__ void add_runs() const {
        const int place = runner() * kStagedWords;
        const int last = std::min(place + kStagedWords, rows + entries);
        int row = rows_before(shared.row_ends, rows, place);
        int entry = place - row;
        Sums sums = {};
        for (int at = place; at < last; ++at) {
            if (entry < shared.row_ends[row]) {
                add_to(sums, product(entry++));
            } else {
                row_sums(row++) = sums;
                sums = {};
            }
        }
        if (threadIdx.x < lanes) row_sums(rows) = {};
        __syncthreads();
        add_rests(row, sums);
    }

    /// Rows come in the order of the threads. A warp adds up what its lanes have of a row; the last row of
    /// each warp waits for the others.
    __device__ void add_rests(int row, Sums sums) const {
        const int in_warp = static_cast<int>(threadIdx.x) % kWarp;
        const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
        for (int distance = lanes; distance < kWarp; distance *= 2) {
            const int row_before = __shfl_up_sync(~0U, row, distance);
            const Sums before = sums_before(sums, distance);
            if (in_warp >= distance && row_before == row) add_to(sums, before);
        }
        const int row_after = __shfl_down_sync(~0U, row, lanes);
        if (in_warp + lanes >= kWarp) {
            shared.edges[warp * lanes + lane()] = sums;
            shared.edge_rows[warp] = row;
        } else if (row_after != row) {
            add_to(row_sums(row), sums);
        }
        __syncthreads();
        add_edges();
    }

    [[nodiscard]] __device__ static Sums sums_before(const Sums& sums, int distance) {
        Sums before;
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) before.elements[c] = from_before(sums.elements[c], distance);
        return before;
    }

    /// Threads that have the first warp of a row add what it and the warps after it have.
    __device__ void add_edges() const {
        constexpr int kWarps = kShareThreads / kWarp;
        const int warp = runner();
        if (warp < kWarps) {
            const int row = shared.edge_rows[warp];
            if (warp == 0 || shared.edge_rows[warp - 1] != row) {
                for (int other = warp; other < kWarps && shared.edge_rows[other] == row; ++other)
                    add_to(row_sums(row), shared.edges[other * lanes + lane()]);
            }
        }
        __syncthreads();
    }

    /// `head` has the row that began before the share, `tail` the one that goes on after it.
    __device__ void write(Sum<T>* head, Sum<T>* tail) const {
        if (column() >= p.n) return;
        const bool has_head = begin.row < p.m && begin.entry > a.pointers[begin.row];
        for (int row = runner(); row <= rows; row += runners()) {
            const Sums& sums = row_sums(row);
            if (row == 0 && has_head) {
                *reinterpret_cast<Sums*>(head + column()) = sums;
            } else if (row == rows) {
                *reinterpret_cast<Sums*>(tail + column()) = sums;
            } else {
                Word<T, COLUMNS> word;
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c)
                    word.elements[c] = p.result(begin.row + row, column() + c, sums.elements[c]);
                *reinterpret_cast<Word<T, COLUMNS>*>(p.c + (begin.row + row) * p.ldc + column()) = word;
            }
        }
    }
};

template <class T, class I, int COLUMNS, class Lanes>
__global__ void __launch_bounds__(kShareThreads, kStagedBlocks)
    staged_kernel(Arguments<T> p, Rows<T, I> a, Lanes lanes, Shares shares, Partial<T> partial) {
    __shared__ __align__(16) unsigned char memory[sizeof(Staged<T, COLUMNS>)];
    for (std::int64_t share = blockIdx.x; share < shares.count; share += gridDim.x) {
        const Cut begin = shares.cuts[share];
        const Cut end = shares.cuts[share + 1];
        const StagedShare<T, I, COLUMNS, Lanes> work{p,
                                                     a,
                                                     *reinterpret_cast<Staged<T, COLUMNS>*>(memory),
                                                     lanes,
                                                     begin,
                                                     static_cast<int>(end.row - begin.row),
                                                     static_cast<int>(end.entry - begin.entry)};
        work.load_row_ends();
        work.multiply_entries();
        __syncthreads();
        work.add_runs();
        work.write(partial.head(share), partial.tail(share));
        __syncthreads();
    }
}

}  // namespace gpumat::multiply::gpu::sparse
