#pragma once

// The kernel of the level `tensor`; tensor.cu describes the level.
#include "kernels/common/async_copy.cuh"
#include "kernels/multiply/gpu/tensor_units.cuh"
#include "kernels/multiply/gpu/tile_work.cuh"

namespace gpumat::multiply::gpu {

/// The tile of Cᵀ.
constexpr Tile across(Tile tile) {
    std::swap(tile.bm, tile.bn);
    return tile;
}

/// An operand as the kernel reads it: lines along k or across it. Address, pitch and length of a line are
/// multiples of 16 bytes.
struct Lines {
    const unsigned char* data;
    std::int64_t pitch;  ///< bytes from one line to the next
};

/// The tile of an operand that a stage holds: kExtent rows of A, or columns of B, by kDepth in k.
template <class Unit, Form kForm, int kExtent, int kDepth, int kThreads, bool kIsA>
struct OperandTile {
    static constexpr int kLines = kForm == Form::along_k ? kExtent : kDepth;
    static constexpr int kLine = (kForm == Form::along_k ? kDepth : kExtent) * Unit::kSize;  // bytes
    static constexpr int kBytes = kLines * kLine;
    static constexpr int kPieces = kLine / kPieceBytes;
    static constexpr int kTogether = kThreads / kPieces;  // lines that the threads copy at once
    static constexpr int kCopies = kLines / kTogether;    // of a thread, for a stage
    static_assert(kForm == Form::across_k || kLine == kLineBytes);
    static_assert(kThreads % kPieces == 0 && kLines % kTogether == 0, "the threads share a tile evenly");
    static_assert((kTogether & (kTogether - 1)) == 0, "swizzles of lines combine");

    static __device__ int place(int x) { return Unit::template place<kForm, kIsA>(x, kLine); }
    template <class Fragment>
    static __device__ void load(Fragment& to, std::uint32_t tile_and_place, int group, int step) {
        Unit::template load<kForm, kLine>(to,
                                          Unit::template address<kForm, kLine>(tile_and_place, group, step));
    }
};

/// What a thread copies of an operand: one piece of some lines of each stage. What is outside of the matrix
/// becomes 0.
template <class Unit, Form kForm, class Shape>
class TileCopy {
  public:
    __device__ TileCopy()
        : line_(static_cast<int>(threadIdx.x) / Shape::kPieces),
          piece_(static_cast<int>(threadIdx.x) % Shape::kPieces),
          to_(static_cast<std::uint32_t>(line_ * Shape::kLine +
                                         (piece_ ^ Unit::swizzle(kForm, line_)) * kPieceBytes)) {}

    /// Begins at row (or column) x and depth k of an operand of `extent` by `depth`.
    __device__ void start(const Lines& from, std::int64_t x, std::int64_t extent, std::int64_t k,
                          std::int64_t depth) {
        const std::int64_t first = (kAlong ? x : k) + line_;
        const std::int64_t along = (kAlong ? k : x) * Unit::kSize + piece_ * kPieceBytes;
        const std::int64_t lines = (kAlong ? extent : depth) - first;
        const std::int64_t bytes = (kAlong ? depth : extent) * Unit::kSize - along;
        left_ = kAlong ? bytes : bytes > 0 ? lines : 0;
        lines_ = kAlong ? at_most_all(lines) : 0;
        from_ = from.data + first * from.pitch + along;
        prepare();
    }

    /// Moves on to the next stage.
    __device__ void advance(const Lines& from) {
        from_ += kAlong ? std::int64_t{kLineBytes} : Shape::kLines * from.pitch;
        left_ -= kAlong ? kLineBytes : Shape::kLines;
        prepare();
    }

    /// Starts the thread's copy number `index` of the stage at that address.
    __device__ void copy(const Lines& from, std::uint32_t stage, int index) const {
#if GPUMAT_HAS_ASYNC_COPY
        const int line = index * Shape::kTogether;
        const std::uint32_t to = stage + line * Shape::kLine +
                                 (to_ ^ static_cast<unsigned>(Unit::swizzle(kForm, line) * kPieceBytes));
        copy_async<kPieceBytes>(to, from_ + line * from.pitch, line < now_);
#endif
    }

  private:
    static constexpr bool kAlong = kForm == Form::along_k;

    /// A number of lines, as far as a stage has them.
    static __device__ int at_most_all(std::int64_t lines) {
        return static_cast<int>(min(lines, std::int64_t{Shape::kLines}));
    }
    __device__ void prepare() {
        now_ = kAlong ? (left_ > 0 ? lines_ : 0) : at_most_all(left_);
    }

    int line_;
    int piece_;
    std::uint32_t to_;
    // From this thread's first line and piece on:
    std::int64_t left_ = 0;  ///< in the direction of k: bytes of a line, or lines
    int lines_ = 0;          ///< of all stages, where they lie along k
    int now_ = 0;            ///< lines that are inside, of this stage
    const unsigned char* from_ = nullptr;
};

/// Shapes that follow from unit and tile. kSwapped: what the instruction calls A is B, and it computes Cᵀ.
template <class Unit, class TileOf, Form kFormA, Form kFormB, bool kIsSwapped>
struct TensorShape {
    static constexpr bool kSwapped = kIsSwapped;
    static constexpr Tile kTile = TileOf::kTile;
    static constexpr Tile kTileOfC = kSwapped ? across(kTile) : kTile;
    using TileA = OperandTile<Unit, kFormA, kTile.bm, kTile.bk, kTile.threads(), true>;
    using TileB = OperandTile<Unit, kFormB, kTile.bn, kTile.bk, kTile.threads(), false>;
    static constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
    static constexpr int kGroupsM = kTile.warp_m() / kGroup;
    static constexpr int kGroupsN = kTile.warp_n() / kGroup;
    static constexpr int kSteps = kTile.bk / Unit::kStep;  ///< of a stage
    /// Stages where a device's blocks have no more shared memory than any of compute capability 8.0 and up.
    static constexpr int kFewStages = std::clamp(99 * 1024 / kStageBytes, 2, kTile.stages);
    static_assert(kTile.bk % Unit::kStep == 0);
    static_assert(kTile.lanes_m == 8, "as the instruction has them");
    static_assert(kSteps % Unit::kBuffers == 0, "fragments alternate between their buffers");
    static_assert(kTile.bm % kTile.warp_m() == 0 && kTile.bn % kTile.warp_n() == 0, "warps tile the block");
    static_assert(TileA::kBytes % 1024 == 0 && TileB::kBytes % 1024 == 0, "places combine by exclusive or");
};

/// Writes a vector of sums: to C, or to the slot of the partial sums.
template <class T, int kV>
__device__ inline void write_vector(const Arguments<T>& p, bool aligned, Sum<T>* slot,
                                    const Part<std::int64_t>& part, int pitch, int row, int col,
                                    const Sum<T> (&group)[kV]) {
    if (slot != nullptr) {
        Vector<Sum<T>, kV> together;
#pragma unroll
        for (int e = 0; e < kV; ++e) together.at[e] = group[e];
        *reinterpret_cast<Vector<Sum<T>, kV>*>(slot + row * pitch + col) = together;
    } else if (part.i0 + row < p.m) {
        finish_vector(p, aligned, part.i0 + row, part.j0 + col, group);
    }
}

/// Writes a warp's sums: to C, or where the part is not all of the tile, to its slot of the partial sums.
template <class Unit, class Shape, class T>
__device__ inline void write_groups(const Arguments<T>& p, Sum<T>* partial_sums,
                                    const Part<std::int64_t>& part, int m, int n,
                                    const typename Unit::Sums (&sums)[Shape::kGroupsM][Shape::kGroupsN]) {
    using S = Sum<T>;
    constexpr int kV = kVector<T>;
    constexpr Tile kTile = Shape::kTileOfC;
    S* const slot = part.slot >= 0 ? partial_sums + std::int64_t{part.slot} * (kTile.bm * kTile.bn) : nullptr;
    const bool aligned = writes_vectors(p);
#pragma unroll
    for (int place = 0; place < Shape::kGroupsM * Shape::kGroupsN * Unit::kRuns; ++place) {
        const int which = place % Unit::kRuns;
        const int group_n = place / Unit::kRuns % Shape::kGroupsN;
        const int group_m = place / (Unit::kRuns * Shape::kGroupsN);
        const Run<S, Unit::kRun> runs[2] = {Unit::run(sums[group_m][group_n], 0, which),
                                            Unit::run(sums[group_m][group_n], 1, which)};
        const int row = m + group_m * kGroup;
        const int col = n + group_n * kGroup + Unit::col(which);
        S group[kV];
        if constexpr (Shape::kSwapped) {
            // Both rows of the instruction's A are neighbours in a row of C, or vectors are of one element.
#pragma unroll
            for (int e = 0; e < Unit::kRun; ++e) {
#pragma unroll
                for (int half = 0; half < 2; half += kV) {
#pragma unroll
                    for (int v = 0; v < kV; ++v) group[v] = runs[half + v].at[e];
                    write_vector(p, aligned, slot, part, kTile.bn, col + e, row + Unit::row(half), group);
                }
            }
        } else {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int e = 0; e < Unit::kRun; e += kV) {
#pragma unroll
                    for (int v = 0; v < kV; ++v) group[v] = runs[half].at[e + v];
                    write_vector(p, aligned, slot, part, kTile.bn, row + Unit::row(half), col + e, group);
                }
            }
        }
    }
}

/// One block computes tiles of C, or parts of their sums, one after the other. T is the type of C.
///
/// Stages of shared memory are a ring, of kTile.stages or kFewStages: copies run `stages` − 1 of them ahead
/// of the products. A warp reads the fragments of the next step of k while it multiplies: each as soon as the
/// one in its registers has been used for the last time. So the last step of a stage reads from the next one,
/// and begins with the only barrier.
template <class Unit, class T, class TileOf, Form kFormA, Form kFormB, bool kSwapped>
__global__ void __launch_bounds__(TileOf::kTile.threads(),
                                  resident_blocks(TileOf::kTile.resident, TileOf::kTile.threads()))
    tensor(const __grid_constant__ Arguments<T> p, const __grid_constant__ Lines from_a,
           const __grid_constant__ Lines from_b, const __grid_constant__ Work<T, ShareTiles> work,
           int stages) {
#if GPUMAT_HAS_ASYNC_COPY
    using Shape = TensorShape<Unit, TileOf, kFormA, kFormB, kSwapped>;
    using TileA = typename Shape::TileA;
    using TileB = typename Shape::TileB;
    constexpr Tile kTile = TileOf::kTile;
    constexpr int kBuffers = Unit::kBuffers;
    constexpr int kSteps = Shape::kSteps;
    constexpr int kCopies = TileA::kCopies + TileB::kCopies;
    constexpr int kPlaces = Shape::kGroupsM * Shape::kGroupsN;  // of a step, where a copy may come
    // The copies that come up to a place after the barrier, of all those of a stage.
    const auto copies_before = [](int place) {
        return (kCopies * place + kSteps * kPlaces - 1) / (kSteps * kPlaces);
    };

    extern __shared__ __align__(1024) unsigned char tensor_storage[];
    const std::uint32_t ring = shared_address(tensor_storage);
    const std::uint32_t ring_end = ring + stages * Shape::kStageBytes;
    const auto wait_for_next_stage = [&] {
        if (stages == kTile.stages) {
            wait_copies<kTile.stages - 2>();
        } else {
            wait_copies<Shape::kFewStages - 2>();
        }
    };
    const auto after = [&](std::uint32_t stage) {
        const std::uint32_t next = stage + Shape::kStageBytes;
        return next == ring_end ? ring : next;
    };
    const int warp = static_cast<int>(threadIdx.x) / 32;
    constexpr int kWarpsN = kTile.bn / kTile.warp_n();
    const int m = warp / kWarpsN * kTile.warp_m();
    const int n = warp % kWarpsN * kTile.warp_n();
    const auto place_a = static_cast<std::uint32_t>(TileA::place(m));
    const auto place_b = static_cast<std::uint32_t>(TileA::kBytes + TileB::place(n));

    TileCopy<Unit, kFormA, TileA> copy_a;
    TileCopy<Unit, kFormB, TileB> copy_b;
    const auto copy = [&](std::uint32_t stage, int first, int end) {
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            if (i < first || i >= end) continue;
            if (i < TileA::kCopies) {
                copy_a.copy(from_a, stage, i);
            } else {
                copy_b.copy(from_b, stage + TileA::kBytes, i - TileA::kCopies);
            }
        }
    };

    std::uint32_t used = ring;    // the stage that is read
    std::uint32_t filled = ring;  // the stage that is copied to
    int to_fill = 0;              // stages whose copies are not complete
    const auto start = [&](const Part<std::int64_t>& part) {
        const std::int64_t k = part.first * kTile.bk;
        const std::int64_t depth = divide_up<std::int64_t>(p.k, Unit::kDepth) * Unit::kDepth;
        copy_a.start(from_a, kSwapped ? part.j0 : part.i0, kSwapped ? p.n : p.m, k, depth);
        copy_b.start(from_b, kSwapped ? part.i0 : part.j0, kSwapped ? p.m : p.n, k, depth);
        filled = used;
        to_fill = static_cast<int>(part.steps);
        for (int stage = 0; stage < stages - 1; ++stage) {
            if (to_fill > 0) copy(filled, 0, kCopies);
            commit_copies();
            copy_a.advance(from_a);
            copy_b.advance(from_b);
            filled = after(filled);
            --to_fill;
        }
        if (to_fill > 0) copy(filled, 0, copies_before(kPlaces));
    };

    SharedParts parts(work.division);
    Part<std::int64_t> part;
    bool more = parts.next(work.tiles, work.division, Shape::kTileOfC, part);
    if (more) start(part);
    while (more) {
        typename Unit::Sums sums[Shape::kGroupsM][Shape::kGroupsN] = {};
        typename Unit::A a[kBuffers][Shape::kGroupsM];
        typename Unit::B b[kBuffers][Shape::kGroupsN];
        wait_for_next_stage();
        __syncthreads();  // the first stage is complete
#pragma unroll
        for (int group = 0; group < Shape::kGroupsM; ++group)
            TileA::load(a[0][group], used + place_a, group, 0);
#pragma unroll
        for (int group = 0; group < Shape::kGroupsN; ++group)
            TileB::load(b[0][group], used + place_b, group, 0);
#pragma unroll 1
        for (auto left = static_cast<unsigned>(part.steps); left != 0; --left) {
#pragma unroll
            for (int step = 0; step < kSteps; ++step) {
                if (step == kSteps - 1) {
                    commit_copies();
                    wait_for_next_stage();
                    __syncthreads();  // the next stage is complete, and all reads of this one have begun
                    copy_a.advance(from_a);
                    copy_b.advance(from_b);
                    used = after(used);
                    filled = after(filled);
                    --to_fill;
                }
                const int next_step = (step + 1) % kSteps;
                const int now = step % kBuffers;
                const int first_place = next_step * kPlaces;  // since the barrier
                const bool copies = to_fill > 0;
                constexpr int kLastB =
                    kBuffers > 1 ? 0 : Shape::kGroupsM - 1;  // row after which B is read anew
                const int next = (step + 1) % kBuffers;
#pragma unroll
                for (int i = 0; i < Shape::kGroupsM; ++i) {
                    if (kBuffers > 1) TileA::load(a[next][i], used + place_a, i, next_step);
#pragma unroll
                    for (int pass = 0; pass < Unit::kPasses; ++pass) {
                        Unit::prepare(pass, a[now][i]);
#pragma unroll
                        for (int j = 0; j < Shape::kGroupsN; ++j) {
                            Unit::multiply(pass, sums[i][j], a[now][i], b[now][j]);
                            const int place = first_place + i * Shape::kGroupsN + j;
                            if (copies && pass == 0)
                                copy(filled, copies_before(place), copies_before(place + 1));
                            if (i == kLastB && pass == Unit::kPasses - 1)
                                TileB::load(b[next][j], used + place_b, j, next_step);
                        }
                    }
                    if (kBuffers == 1) TileA::load(a[next][i], used + place_a, i, next_step);
                }
            }
        }
        __syncthreads();  // nobody reads the stages any more
        const Part<std::int64_t> done = part;
        more = parts.next(work.tiles, work.division, Shape::kTileOfC, part);
        if (more) start(part);  // under way while the sums are written
        write_groups<Unit, Shape>(p, work.partial, done, m, n, sums);
    }
#else
    __trap();
#endif
}

}  // namespace gpumat::multiply::gpu
