// sparse × dense, GPU level `tiled`: a lane has a word of 16 bytes of a row of B and the sums for it in
// registers. Where a row of B is a few words, products go through shared memory (staged.cuh).
//
// Since `merge`: a load of B brings 4 elements of f32 instead of one. Lanes that have no column of their own
// take the next entry, and where rows are short a warp takes several shares. Few registers a thread, though
// some are spilled, let twice as many warps wait for rows of B. Words of C are written whole. What limits it:
// the rows of B that are gathered, from L2 or device memory.
//
// Where the rows of B are no whole words of 16 bytes, a lane has one element.
//
// Source of the idea: row splitting with vector loads (Yang, Buluç and Owens 2018).
#include "kernels/multiply/gpu/sparse/levels.hpp"
#include "kernels/multiply/gpu/sparse/staged.cuh"

namespace gpumat::multiply::gpu::sparse {
namespace {

/// Blocks that a multiprocessor has room for: warps that wait for words are worth more than registers.
constexpr int kBlocks = 8;

/// A team that is a warp, which the compiler knows: registers for its size are missing elsewhere.
struct WholeWarp {
    __host__ __device__ constexpr operator int() const { return kWarp; }
};

/// `lanes` of a team have the columns of a panel; the others of it have them too, for other entries. A team
/// is a warp or a part of one; both counts are powers of two.
template <class T, int COLUMNS, class Team>
struct WordWalker {
    static constexpr int kColumns = COLUMNS;
    int lanes;
    Team team;

    [[nodiscard]] __host__ __device__ std::int64_t panels(std::int64_t n) const {
        return (n + lanes * kColumns - 1) / (lanes * kColumns);
    }
    /// Of the team.
    [[nodiscard]] __device__ int lane() const { return static_cast<int>(threadIdx.x) & (team - 1); }
    /// The lanes of the warp that are the team.
    [[nodiscard]] __device__ unsigned members() const { return (~0U >> (kWarp - team)) << first_member(); }
    [[nodiscard]] __device__ int first_member() const {
        return static_cast<int>(threadIdx.x) % kWarp / team * team;
    }
    [[nodiscard]] __device__ bool owns() const { return lane() < lanes; }
    [[nodiscard]] __device__ std::int64_t column(std::int64_t panel, int c) const {
        return (panel * lanes + lane() % lanes) * kColumns + c;
    }

    template <class I>
    __device__ void add(const Arguments<T>& p, const Rows<T, I>& a, std::int64_t begin, std::int64_t end,
                        std::int64_t panel, Sum<T>* sums) const {
        const std::int64_t j = column(panel, 0);
        const int group = lane() / lanes;
        const int groups = team / lanes;
        for (std::int64_t first = begin; first < end; first += team) {
            const int count = static_cast<int>(end - first < team ? end - first : team);
            const std::int64_t mine = first + (lane() < count ? lane() : 0);
            const I row = a.columns[mine];
            const Sum<T> value = to_sum(a.values[mine]);
#pragma unroll 2
            for (int e = 0; e < count; e += groups) {
                const I row_of_b = __shfl_sync(members(), row, first_member() + e + group);
                const Sum<T> factor = from_lane(value, first_member() + e + group, members());
                if (e + group >= count || j >= p.n) continue;
                const auto word = *reinterpret_cast<const Word<T, kColumns>*>(p.b.at(row_of_b, j));
#pragma unroll
                for (int c = 0; c < kColumns; ++c)
                    sums[c] = multiply_add(factor, to_sum(word.elements[c]), sums[c]);
            }
        }
    }

    /// A word of C at once, past what the caches keep of B.
    __device__ void finish(const Arguments<T>& p, std::int64_t row, std::int64_t panel,
                           const Sum<T>* sums) const {
        const std::int64_t j = column(panel, 0);
        if (j >= p.n) return;
        Word<T, kColumns> word;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) word.elements[c] = p.result(row, j + c, sums[c]);
        *reinterpret_cast<Word<T, kColumns>*>(p.c + row * p.ldc + j) = word;
    }

    /// The sums of all groups, in all of them.
    template <class S>
    __device__ void complete(S* sums) const {
        for (int distance = lanes; distance < team; distance *= 2) {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) sums[c] = sums[c] + exchanged(sums[c], distance, members());
        }
    }
};

/// A team takes a panel of columns of a share, row by row.
template <class Walker, class T, class I>
__global__ void __launch_bounds__(kShareThreads, kBlocks)
    tiled_kernel(Arguments<T> p, Rows<T, I> a, Walker walker, Shares shares, Partial<T> partial) {
    const std::int64_t panels = walker.panels(p.n);
    const std::int64_t teams = std::int64_t{gridDim.x} * (kShareThreads / walker.team);
    for (std::int64_t at = (std::int64_t{blockIdx.x} * kShareThreads + threadIdx.x) / walker.team;
         at < shares.count * panels; at += teams) {
        const std::int64_t share = at / panels;
        const std::int64_t panel = at % panels;
        const Cut begin = shares.cuts[share];
        const Cut end = shares.cuts[share + 1];
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
            if (!walker.owns()) continue;
            const bool is_head = has_head && row == begin.row;
            if (ends && !is_head) {
                walker.finish(p, row, panel, sums);
                continue;
            }
            Sum<T>* const part = is_head ? partial.head(share) : partial.tail(share);
#pragma unroll
            for (int c = 0; c < Walker::kColumns; ++c) {
                const std::int64_t j = walker.column(panel, c);
                if (j < p.n) part[j] = sums[c];
            }
        }
    }
}

int lanes_for(std::int64_t words) {
    int lanes = 1;
    while (lanes < kWarp && lanes < words) lanes *= 2;
    return lanes;
}

/// As many lanes as give each some entries of a row of mean length.
int team_for(const Problem& problem, int lanes) {
    constexpr std::int64_t kEntries = 2;
    const std::int64_t mean = problem.entries.front() / std::max<std::int64_t>(1, problem.m);
    int team = lanes;
    while (team < kWarp && 2 * team * kEntries <= lanes * mean) team *= 2;
    return team;
}

bool has_words(const Problem& problem, const Operands& operands) {
    constexpr std::size_t kWordBytes = 16;
    const auto in_words = [&](std::int64_t elements) {
        return static_cast<std::size_t>(elements) * size_of(problem.type) % kWordBytes == 0;
    };
    const auto are_words = [&](const Operand& operand) {
        return reinterpret_cast<std::uintptr_t>(operand.data) % kWordBytes == 0 && in_words(operand.pitch);
    };
    return !problem.transpose_b && in_words(problem.n) && are_words(operands.b) && are_words(operands.c);
}

template <class T, class I, int COLUMNS>
Launch launch_tiled(const Problem& problem, const Operands& operands, const Device& device) {
    const int lanes = lanes_for(problem.n / COLUMNS);
    const int team = team_for(problem, lanes);
    const Arguments<T> arguments(problem, operands);
    const Rows<T, I> rows(operands.a);
    const Shares shares = shares_for_teams(problem, device, team);
    const auto launch = [&](const auto& walker) {
        const unsigned blocks = blocks_of(shares.count * walker.panels(problem.n), kShareThreads / team);
        return launch_shares<T>("tiled", problem, operands, device, shares,
                                [=](cudaStream_t stream, const Shares& cut, const Partial<T>& partial) {
                                    tiled_kernel<<<blocks, kShareThreads, 0, stream>>>(arguments, rows,
                                                                                       walker, cut, partial);
                                });
    };
    if (team < kWarp) return launch(WordWalker<T, COLUMNS, int>{lanes, team});
    return launch(WordWalker<T, COLUMNS, WholeWarp>{lanes, {}});
}

template <class T, class I, int COLUMNS>
Launch launch_staged(const Problem& problem, const Operands& operands, const Device& device, int lanes) {
    const Arguments<T> arguments(problem, operands);
    const Rows<T, I> rows(operands.a);
    const auto launch = [&](const auto& known) {
        return launch_shares<T>(
            "tiled", problem, operands, device, shares_of_length(problem, staged_length(lanes)),
            [=](cudaStream_t stream, const Shares& cut, const Partial<T>& partial) {
                staged_kernel<T, I, COLUMNS><<<blocks_of(cut.count, 1), kShareThreads, 0, stream>>>(
                    arguments, rows, known, cut, partial);
            });
    };
    return lanes == 1 ? launch(OneLane{}) : launch(lanes);
}

/// With words of so many elements of B, fewer where their sums would be longer than 16 bytes.
template <class T, class I, int COLUMNS>
Launch launch_words(const Problem& problem, const Operands& operands, const Device& device) {
    constexpr int kStaged = std::min<int>(COLUMNS, 16 / sizeof(Sum<T>));
    const int lanes = lanes_for((problem.n + kStaged - 1) / kStaged);
    if (lanes <= kMostStagedLanes) return launch_staged<T, I, kStaged>(problem, operands, device, lanes);
    return launch_tiled<T, I, COLUMNS>(problem, operands, device);
}

}  // namespace

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_sparse(problem, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
        if (has_words(problem, operands))
            return launch_words<T, I, 16 / sizeof(T)>(problem, operands, device);
        return launch_words<T, I, 1>(problem, operands, device);
    });
}

}  // namespace gpumat::multiply::gpu::sparse
