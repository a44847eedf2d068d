#pragma once

// Operands for tensor cores: in rows that start at multiples of 16 bytes, as the type of the factors.
#include <functional>
#include <memory>

#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/matrix_unit.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/vectors.cuh"

namespace gpumat::multiply::gpu {

/// An element as a factor, rounded to nearest where the factor has fewer bits.
template <class Factor, class T>
__device__ inline Factor to_factor(T value) {
    if constexpr (std::is_same_v<Factor, T>) {
        return value;
    } else if constexpr (std::is_same_v<Factor, Tf32>) {
        std::uint32_t bits = 0;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
        __trap();
#endif
        return {__uint_as_float(bits)};
    } else if constexpr (std::is_same_v<Factor, __half>) {
        return __float2half_rn(value);
    } else {
        return __float2bfloat16_rn(value);
    }
}

/// A matrix in memory, row by row.
template <class T>
struct Rows {
    T* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t pitch = 0;  ///< elements from one row to the next
};

/// Copies a matrix, or its transpose, to rows whose pitch and base are multiples of 16 bytes, as factors.
/// Up to a multiple of 16 bytes a row has zeros beyond its columns. A block copies a tile of kPackTile².
inline constexpr int kPackTile = 64;
template <class T, class Factor, bool kTransposes>
__global__ void __launch_bounds__(256) pack_rows(const Rows<const T> from, const Rows<Factor> to) {
    constexpr int kThreads = 256;
    constexpr int kSize = static_cast<int>(sizeof(Factor));
    constexpr int kRowBytes = kPackTile * kSize + 4;  // an odd number of words: no two rows start in one bank
    __shared__ __align__(16) std::byte tile[kPackTile * kRowBytes];
    const std::int64_t tiles_x = divide_up<std::int64_t>(from.cols, kPackTile);
    const std::int64_t tiles = tiles_x * divide_up<std::int64_t>(from.rows, kPackTile);
    for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        const std::int64_t row0 = t / tiles_x * kPackTile;
        const std::int64_t col0 = t % tiles_x * kPackTile;
        const int x = static_cast<int>(threadIdx.x) % kPackTile;
        const int y0 = static_cast<int>(threadIdx.x) / kPackTile;
#pragma unroll
        for (int step = 0; step < kPackTile; step += kThreads / kPackTile) {
            const int y = y0 + step;
            Factor factor{};
            if (row0 + y < from.rows && col0 + x < from.cols)
                factor = to_factor<Factor>(from.data[(row0 + y) * from.pitch + col0 + x]);
            memcpy(tile + (kTransposes ? x * kRowBytes + y * kSize : y * kRowBytes + x * kSize), &factor,
                   kSize);
        }
        __syncthreads();  // the tile is complete
        constexpr int kEach = 16 / kSize;
        constexpr int kVectors = kPackTile / kEach;
        const std::int64_t to_row0 = kTransposes ? col0 : row0;
        const std::int64_t to_col0 = kTransposes ? row0 : col0;
#pragma unroll
        for (int place = static_cast<int>(threadIdx.x); place < kPackTile * kVectors; place += kThreads) {
            const int row = place / kVectors;
            const int col = place % kVectors * kEach;
            if (to_row0 + row >= to.rows || to_col0 + col >= to.cols) continue;
            std::uint32_t words[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) memcpy(&words[w], tile + row * kRowBytes + col * kSize + w * 4, 4);
            *reinterpret_cast<uint4*>(to.data + (to_row0 + row) * to.pitch + to_col0 + col) =
                make_uint4(words[0], words[1], words[2], words[3]);
        }
        __syncthreads();  // the tile is read
    }
}

/// An operand as tensor cores take it, and the work that brings it there.
template <class Factor>
struct UnitOperand {
    Rows<const Factor> rows;                      ///< as it is read
    bool across = false;                          ///< its rows run along m or n, not along k
    std::uint64_t bytes = 0;                      ///< of device memory that the copy takes
    std::function<void(cudaStream_t)> pack = {};  ///< empty where nothing is to be done
};

/// What a level asks of an operand, besides rows that start at multiples of 16 bytes.
struct UnitNeeds {
    bool along_k = true;        ///< rows run along k
    bool rounded = false;       ///< f32 is rounded to tf32 first: the units would cut it
    bool whole_pieces = false;  ///< the length of rows too is a multiple of 16 bytes
};

/// How an operand, m or n by k, is taken: as it lies where that is what is needed, else as a copy.
template <class T, class Factor>
struct UnitPlan {
    bool copies = false;
    bool transposes = false;
    Rows<const T> from;
    std::int64_t pitch = 0;  ///< of the copy

    UnitPlan(const Operand& operand, bool along_k, const UnitNeeds& needs)
        : from{operand.as<T>(), operand.rows, operand.cols, operand.pitch} {
        constexpr bool kSameBits = std::is_same_v<T, Factor>;
        constexpr bool kCut = std::is_same_v<T, float> && std::is_same_v<Factor, Tf32>;
        const std::int64_t multiples =
            (from.pitch | (needs.whole_pieces ? from.cols : 0)) * static_cast<std::int64_t>(sizeof(T));
        const bool aligned = reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0 && multiples % 16 == 0;
        transposes = !along_k && needs.along_k;
        copies = !(kSameBits || (kCut && !needs.rounded)) || !aligned || transposes;
        constexpr std::int64_t kVector = 16 / static_cast<std::int64_t>(sizeof(Factor));
        pitch = copies ? divide_up(transposes ? from.rows : from.cols, kVector) * kVector : from.pitch;
    }

    [[nodiscard]] std::uint64_t bytes() const {
        return copies ? static_cast<std::uint64_t>(pitch) *
                            static_cast<std::uint64_t>(transposes ? from.cols : from.rows) * sizeof(Factor)
                      : 0;
    }

    [[nodiscard]] UnitOperand<Factor> prepare(bool along_k, const Device& device) const {
        const bool across = !along_k && !transposes;
        const UnitOperand<Factor> lying{
            .rows = {reinterpret_cast<const Factor*>(from.data), from.rows, from.cols, pitch},
            .across = across};
        if constexpr (sizeof(Factor) == 16) {
            return lying;  // at multiples of 16 bytes whatever happens
        } else {
            if (!copies) return lying;
            const auto memory = std::make_shared<DeviceMemory>(device.gpu->allocate(bytes()));
            const Rows<Factor> to{static_cast<Factor*>(memory->data()), transposes ? from.cols : from.rows,
                                  transposes ? from.rows : from.cols, pitch};
            const std::int64_t tiles =
                divide_up<std::int64_t>(from.rows, kPackTile) * divide_up<std::int64_t>(from.cols, kPackTile);
            const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20));
            const auto kernel = transposes ? pack_rows<T, Factor, true> : pack_rows<T, Factor, false>;
            return {.rows = {to.data, to.rows, to.cols, to.pitch},
                    .across = across,
                    .bytes = bytes(),
                    .pack = [=, from = from](cudaStream_t stream) {
                        kernel<<<blocks, 256, 0, stream>>>(from, to);
                        GPUMAT_CUDA(cudaGetLastError());
                        static_cast<void>(memory);  // lives as long as the launch
                    }};
        }
    }
};

}  // namespace gpumat::multiply::gpu
