#pragma once

// How the level `pipelined` brings tiles of A and B to shared memory.
#include <type_traits>

#include "kernels/common/async_copy.cuh"
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/vectors.cuh"

namespace gpumat::multiply::gpu {

/// How a thread block loads an operand: element by element, whatever its steps; in 16-byte vectors along the
/// rows of C (for A) or its columns (for B); or in vectors along k, which are taken apart in registers.
enum class Load { element, vector, along_k };

/// The k of the tiles that are still to be loaded: whole tiles, and then what is left. Tiles are counted in
/// 32 bits.
struct Remaining {
    unsigned tiles;
    int rest;

    __device__ Remaining(std::int64_t k, int depth)
        : tiles(k > 0 ? static_cast<unsigned>(k / depth) : 0),
          rest(k > 0 ? static_cast<int>(k % depth) : 0) {}

    /// The k of the next tile, of at most `depth`.
    __device__ int next(int depth) {
        const int k = tiles != 0 ? depth : rest;
        if (tiles != 0) {
            --tiles;
        } else {
            rest = 0;
        }
        return k;
    }
};

/// Elements between the k-rows of an operand's tile in shared memory. Copies that transpose the operand write
/// several rows at once, which a shift of four banks a row keeps free of conflicts.
template <class T>
constexpr int pitch(int extent, Load load) {
    return extent + (load == Load::vector ? 0 : kVector<T>);
}

/// A k beyond every tile.
inline constexpr int kNever = 1 << 30;

/// Copies one operand's tiles, kExtent rows (or columns) × kDepth in k, to shared memory, k by k: element
/// (x, k) goes to k·pitch + x. `row` is the step in memory along x, `col` along k. `begin` goes on to the
/// next tile and `step` does the work that belongs to one of the kDepth steps of the arithmetic, so that
/// copies are spread evenly between multiply-adds.
///
/// Where the hardware copies asynchronously and elements are stored as they are, a step starts copies.
/// Elsewhere steps load into registers, and the last one converts and stores.
template <class T, int kExtent, int kDepth, int kThreads, Load kLoad>
class Loader {
    static constexpr int kWidth = kLoad == Load::vector ? kVector<T> : 1;
    static constexpr int kPitch = pitch<T>(kExtent, kLoad);
    static constexpr bool kAsync = GPUMAT_HAS_ASYNC_COPY && std::is_same_v<T, Sum<T>>;
    // Element-wise: a warp copies patches of kPatch × 8 in k, in kPerPatch steps of 32 elements.
    static constexpr int kPatch = kExtent < 32 ? kExtent : 32;
    static constexpr int kPerPatch = kPatch / 4;

    static constexpr int kCopies = kExtent * kDepth / kWidth / kThreads;
    static_assert(kCopies * kWidth * kThreads == kExtent * kDepth, "the threads share a tile evenly");
    static_assert(kCopies <= 32, "one bit of the mask a copy");
    static_assert(kLoad == Load::vector || kPerPatch % kCopies == 0 || kCopies % kPerPatch == 0,
                  "a warp copies whole patches, or an even part of one");
    static_assert(kLoad == Load::vector || kDepth % 8 == 0, "patches are 8 deep");
    static_assert(kLoad == Load::element || kThreads % (kExtent / kWidth) == 0, "threads load whole rows");

  public:
    /// Rows from `x0` on and k from `k0` on; `extent` is the matrix's number of rows.
    __device__ Loader(const Strided<T>& from, std::int64_t x0, std::int64_t extent, std::int64_t k0)
        : tile_step_(kDepth * from.col) {
        const int thread = static_cast<int>(threadIdx.x);
        int x = 0;
        int dx = 0;
        if constexpr (kLoad == Load::vector) {
            constexpr int kRow = kExtent / kWidth;  // vectors in a row
            x = thread % kRow * kWidth;
            k_ = thread / kRow;
            dk_ = kThreads / kRow;
        } else {
            const int lane = thread % 32;
            const int first = thread / 32 * kCopies;  // of all the steps of the tile
            const int patch = first / kPerPatch;
            const bool along_k = from.col == 1;  // neighbours in memory are neighbours in k
            dx = along_k ? 4 : 0;
            dk_ = along_k ? 0 : 32 / kPatch;
            x = patch / (kDepth / 8) * kPatch + (along_k ? lane / 8 : lane % kPatch) + first % kPerPatch * dx;
            k_ = patch % (kDepth / 8) * 8 + (along_k ? lane % 8 : lane / kPatch) + first % kPerPatch * dk_;
        }
        step_ = dx * from.row + dk_ * from.col;
        shared_step_ = dx + dk_ * kPitch;
        if constexpr (kPatches > 1) {
            next_k_ = 8 * from.col - (kPerPatch - 1) * step_;
            next_x_ = kPatch * from.row - (kDepth - 8) * from.col - (kPerPatch - 1) * step_;
        }
        for (int c = 0; c < kCopies; ++c) {
            inside_ |= static_cast<unsigned>(x0 + x + patch_x(c) + in_patch(c) * dx < extent) << c;
        }
        from_ = from.at(x0 + x, k0 + k_);
        shared_ = k_ * kPitch + x;
        if (kLoad == Load::vector && x0 + x >= extent) k_ = kNever;
    }

    /// Goes on to the next tile, of `depth` in k, whose copies go to `stage`.
    __device__ void begin(Sum<T>* stage, int depth) {
        stage_ = stage + shared_;
        to_ = stage_;
        now_ = from_;
        valid_ = inside_;
        from_ += tile_step_;
        depth_ = depth;
        if constexpr (kLoad == Load::element) {
            if (depth < kDepth) {  // the last tile, or none
                for (int c = 0; c < kCopies; ++c) {
                    if (k_ + patch_k(c) + in_patch(c) * dk_ >= depth) valid_ &= ~(1u << c);
                }
            }
        }
    }

    __device__ void step(int k) {
#pragma unroll
        for (int c = 0; c < kCopies; ++c) {
            if (c * kDepth / kCopies == k) copy(c);
        }
        if (k == kDepth - 1) finish();
    }

  private:
    static constexpr int kPatches = kLoad == Load::vector ? 1 : (kCopies + kPerPatch - 1) / kPerPatch;

    /// Starts copy c; they must come in order.
    __device__ void copy(int c) {
        const bool valid = kLoad == Load::vector ? k_ + c * dk_ < depth_ : (valid_ & 1u << c) != 0;
        if constexpr (kAsync) {
#if GPUMAT_HAS_ASYNC_COPY
            copy_async<kWidth* static_cast<int>(sizeof(T))>(shared_address(to_), now_, valid);
#endif
            to_ = after(to_, c);
        } else {
            staged_[c] = valid ? *reinterpret_cast<const Vector<T, kWidth>*>(now_) : Vector<T, kWidth>{};
        }
        const bool new_patch = (c + 1) % kPerPatch == 0;
        const bool new_rows = (c + 1) % (kPerPatch * (kDepth / 8)) == 0;
        now_ += kPatches == 1 || !new_patch ? step_ : new_rows ? next_x_ : next_k_;
    }

    /// Ends the copies of this tile.
    __device__ void finish() {
        if constexpr (!kAsync) {
#pragma unroll
            for (int c = 0; c < kCopies; ++c) {
                Vector<Sum<T>, kWidth> sums;
#pragma unroll
                for (int i = 0; i < kWidth; ++i) sums.at[i] = to_sum(staged_[c].at[i]);
                *reinterpret_cast<Vector<Sum<T>, kWidth>*>(to_) = sums;
                to_ = after(to_, c);
            }
        }
    }

    // Where copy c is, from the thread's first: its patch, and its step within it.
    static __device__ constexpr int patch_x(int c) {
        return kPatches == 1 ? 0 : c / kPerPatch / (kDepth / 8) * kPatch;
    }
    static __device__ constexpr int patch_k(int c) {
        return kPatches == 1 ? 0 : c / kPerPatch % (kDepth / 8) * 8;
    }
    static __device__ constexpr int in_patch(int c) {
        return kPatches == 1 ? c : c % kPerPatch;
    }

    /// Where copy c + 1 goes, given where copy c does.
    __device__ Sum<T>* after(Sum<T>* to, int c) const {
        if (kPatches == 1 || (c + 1) % kPerPatch != 0) return to + shared_step_;
        return stage_ + patch_x(c + 1) + patch_k(c + 1) * kPitch;
    }

    struct Nothing {};
    std::int64_t tile_step_;
    std::int64_t step_ = 0;    // in memory, from one copy to the next within a patch
    std::int64_t next_k_ = 0;  // to the next patch along k
    std::int64_t next_x_ = 0;  // to the first patch of the next rows
    const T* from_ = nullptr;  // this thread's first element of the next tile
    const T* now_ = nullptr;   // where the next copy of this tile reads
    Sum<T>* stage_ = nullptr;  // this thread's first element in the stage that is filled
    Sum<T>* to_ = nullptr;     // where the next copy goes
    int k_ = 0;                // of the first copy; kNever where vectors are not in the matrix
    int dk_ = 0;
    int depth_ = 0;  // k of this tile that is in the matrix
    int shared_ = 0;
    int shared_step_ = 0;
    unsigned inside_ = 0;  // copies whose row is in the matrix
    unsigned valid_ = 0;   // and whose k is as well, for this tile
    std::conditional_t<kAsync, Nothing, Vector<T, kWidth>[kCopies]> staged_;
};

/// The loader of vectors along k. Two neighbouring threads load 2 vectors of one row; each stores the
/// elements of its vector to as many rows of the tile. Loads come half of 8 steps before their stores.
template <class T, int kExtent, int kDepth, int kThreads>
class Loader<T, kExtent, kDepth, kThreads, Load::along_k> {
    static constexpr int kWidth = kVector<T>;
    static constexpr int kPitch = pitch<T>(kExtent, Load::along_k);
    static constexpr int kPair = 2 * kWidth;      // k that two neighbours load
    static constexpr int kAtOnce = kThreads / 2;  // rows × pairs that the block loads at once
    static constexpr int kPerPair = kExtent > kAtOnce ? kExtent / kAtOnce : 1;
    static constexpr int kPairsAtOnce = kExtent > kAtOnce ? 1 : kAtOnce / kExtent;
    static constexpr int kCopies = kExtent * kDepth / kWidth / kThreads;
    static constexpr int kRounds = kCopies < kDepth / 8 ? 1 : kDepth / 8;
    static constexpr int kSteps = kDepth / kRounds;      // of the arithmetic, in one round
    static constexpr int kPerRound = kCopies / kRounds;  // copies
    static_assert(kCopies * kWidth * kThreads == kExtent * kDepth, "the threads share a tile evenly");
    static_assert(kExtent % kAtOnce == 0 || kAtOnce % kExtent == 0, "threads load whole columns of vectors");
    static_assert(kPerRound * kRounds == kCopies, "the rounds share the copies evenly");

  public:
    __device__ Loader(const Strided<T>& from, std::int64_t x0, std::int64_t extent, std::int64_t k0)
        : row_step_(kAtOnce * from.row) {
        const int place = static_cast<int>(threadIdx.x) / 2;
        const int x = place % kExtent;
        k_ = static_cast<int>(threadIdx.x) % 2 * kWidth + place / kExtent * kPair;
        from_ = from.at(x0 + x, k0 + k_);
        shared_ = k_ * kPitch + x;
        for (int row = 0; row < kPerPair; ++row) {
            first_k_[row] = x0 + x + row_of(row) < extent ? k_ : kNever;
        }
    }

    __device__ void begin(Sum<T>* stage, int depth) {
        stage_ = stage + shared_;
        now_ = from_;
        from_ += kDepth;
        depth_ = depth;
    }

    __device__ void step(int k) {
        const int round = k / kSteps;
#pragma unroll
        for (int c = 0; c < kPerRound; ++c) {
            if (c * (kSteps / 2) / kPerRound == k % kSteps) load(round * kPerRound + c, c);
        }
#pragma unroll
        for (int s = 0; s < kPerRound * kWidth; ++s) {
            if (kSteps / 2 + s * (kSteps / 2) / (kPerRound * kWidth) == k % kSteps) {
                const int c = round * kPerRound + s / kWidth;
                stage_[row_of(c) + (depth_of(c) + s % kWidth) * kPitch] =
                    to_sum(staged_[s / kWidth].at[s % kWidth]);
            }
        }
    }

  private:
    // Where copy c is, from the thread's first.
    static __device__ constexpr int row_of(int c) {
        return c % kPerPair * kAtOnce;
    }
    static __device__ constexpr int depth_of(int c) {
        return c / kPerPair * kPairsAtOnce * kPair;
    }

    __device__ void load(int c, int slot) {
        const T* source = now_ + c % kPerPair * row_step_ + depth_of(c);
        const bool valid = first_k_[c % kPerPair] + depth_of(c) < depth_;
        staged_[slot] = valid ? *reinterpret_cast<const Vector<T, kWidth>*>(source) : Vector<T, kWidth>{};
    }

    std::int64_t row_step_;
    const T* from_ = nullptr;  // this thread's first vector of the next tile
    const T* now_ = nullptr;   // and of this one
    Sum<T>* stage_ = nullptr;  // this thread's first element in the stage that is filled
    int k_ = 0;
    int first_k_[kPerPair];  // k_, or kNever where the row is not in the matrix
    int depth_ = 0;          // k of this tile that is in the matrix
    int shared_ = 0;
    Vector<T, kWidth> staged_[kPerRound];
};

}  // namespace gpumat::multiply::gpu
