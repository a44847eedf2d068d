#pragma once

// Operands for tensor cores that cannot be taken as they lie: copied into rows along k that start at
// multiples of 16 bytes, transposed and converted on the way.
#include <functional>
#include <memory>
#include <type_traits>

#include "kernels/common/launch.cuh"
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/tensor_units.cuh"
#include "kernels/multiply/gpu/tiles.cuh"

namespace gpumat::multiply::gpu {

/// An element as a factor of type To: rounded to the nearest, once.
template <class To, class From>
__device__ inline To convert(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (std::is_same_v<To, Tf32>) {
        std::uint32_t bits = 0;
#if __CUDA_ARCH__ >= 800
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
#else
        __trap();
#endif
        return {__uint_as_float(bits)};
    } else if constexpr (std::is_same_v<To, __half>) {
        return __float2half_rn(value);
    } else {
        return __float2bfloat16_rn(value);
    }
}

inline constexpr int kPackRows = 64;    ///< of a tile that a block of 256 threads packs
inline constexpr int kPackBytes = 128;  ///< of each of its rows

/// Copies an operand, `extent` rows (or columns) by `depth` in k, so that element (x, k) comes to to[x·pitch
/// + k]. `pitch` is a multiple of 16 bytes and at least `depth`; what a row has beyond is 0. Reads run along
/// k where the source does, and are transposed in shared memory.
template <class From, class To, bool kAlongK>
__global__ void __launch_bounds__(256)
    pack_k_major(Strided<From> from, std::int64_t extent, std::int64_t depth, To* to, std::int64_t pitch) {
    constexpr int kThreads = 256;
    constexpr int kSize = static_cast<int>(sizeof(To));
    constexpr int kDepth = kPackBytes / kSize;
    constexpr int kWords = kPackBytes / 4;
    constexpr int kMore = kSize > 4 ? kSize / 4 : 1;  // words, so that a column has all banks
    __shared__ __align__(8) std::uint32_t tile[kPackRows][kWords + kMore];
    const std::int64_t tiles_k = divide_up<std::int64_t>(depth, kDepth);
    const std::int64_t x0 = blockIdx.x / tiles_k * kPackRows;
    const std::int64_t k0 = blockIdx.x % tiles_k * kDepth;
    constexpr int kAlong = kAlongK ? kDepth : kPackRows;  // elements that lie along the source's lines
    constexpr int kTogether = kThreads / kAlong;          // lines at once
    const int along = static_cast<int>(threadIdx.x) % kAlong;
    const int across = static_cast<int>(threadIdx.x) / kAlong;
#pragma unroll 16
    for (int line = across; line < (kAlongK ? kPackRows : kDepth); line += kTogether) {
        const int x = kAlongK ? line : along;
        const int k = kAlongK ? along : line;
        To value{};
        if (x0 + x < extent && k0 + k < depth) value = convert<To>(*from.at(x0 + x, k0 + k));
        reinterpret_cast<To*>(tile[x])[k] = value;
    }
    __syncthreads();  // the tile is complete
    const int word = static_cast<int>(threadIdx.x) % kWords;
    const bool inside = k0 * kSize + word * 4 < pitch * kSize;
#pragma unroll
    for (int x = static_cast<int>(threadIdx.x) / kWords; x < kPackRows; x += kThreads / kWords) {
        if (inside && x0 + x < extent)
            *reinterpret_cast<std::uint32_t*>(reinterpret_cast<char*>(to + (x0 + x) * pitch + k0) +
                                              word * 4) = tile[x][word];
    }
}

inline constexpr int kPlaneDepth = 8;  ///< numbers whose real parts, then their imaginary ones, lie together

/// The same for complex numbers in planes: element (x, k) comes to to[x·pitch + k / 8·16 + k % 8], and 8
/// further.
template <bool kAlongK>
__global__ void __launch_bounds__(256) pack_planes(Strided<Complex<double>> from, std::int64_t extent,
                                                   std::int64_t depth, double* to, std::int64_t pitch) {
    constexpr int kThreads = 256;
    constexpr int kSide = 32;
    __shared__ Complex<double> tile[kSide][kSide + 1];
    const std::int64_t tiles_k = divide_up<std::int64_t>(depth, kSide);
    const std::int64_t x0 = blockIdx.x / tiles_k * kSide;
    const std::int64_t k0 = blockIdx.x % tiles_k * kSide;
    const int along = static_cast<int>(threadIdx.x) % kSide;
#pragma unroll
    for (int line = static_cast<int>(threadIdx.x) / kSide; line < kSide; line += kThreads / kSide) {
        const int x = kAlongK ? line : along;
        const int k = kAlongK ? along : line;
        Complex<double> value{};
        if (x0 + x < extent && k0 + k < depth) value = *from.at(x0 + x, k0 + k);
        tile[x][k] = value;
    }
    __syncthreads();  // the tile is complete
    constexpr int kRow = 2 * kSide;
    const int place = static_cast<int>(threadIdx.x) % kRow;
    const int k = place / (2 * kPlaneDepth) * kPlaneDepth + place % kPlaneDepth;
    const bool imaginary = place / kPlaneDepth % 2 != 0;
#pragma unroll
    for (int x = static_cast<int>(threadIdx.x) / kRow; x < kSide; x += kThreads / kRow) {
        if (x0 + x < extent && k0 * 2 + place < pitch)
            to[(x0 + x) * pitch + k0 * 2 + place] = imaginary ? tile[x][k].im : tile[x][k].re;
    }
}

/// Elements between the rows of an operand that is packed along k.
template <class To>
std::int64_t k_major_pitch(std::int64_t depth) {
    constexpr auto kVectorElements = static_cast<std::int64_t>(16 / sizeof(To));
    return divide_up<std::int64_t>(depth, kVectorElements) * kVectorElements;
}

/// A packed operand and the work that fills it, which holds its memory. To is double for planes.
template <class To>
struct KMajor {
    const To* data = nullptr;
    std::int64_t pitch = 0;  ///< in To
    std::uint64_t bytes = 0;
    std::function<void(cudaStream_t)> pack = {};

    template <class From>
    KMajor(const Strided<From>& from, std::int64_t extent, std::int64_t depth, const Device& device) {
        constexpr bool kPlanes = std::is_same_v<From, Complex<double>>;
        pitch = kPlanes ? divide_up<std::int64_t>(depth, kPlaneDepth) * kPlaneDepth * 2
                        : k_major_pitch<To>(depth);
        const auto memory = std::make_shared<DeviceMemory>(
            device.gpu->allocate(static_cast<std::size_t>(extent * pitch) * sizeof(To)));
        bytes = memory->bytes();
        auto* const to = static_cast<To*>(memory->data());
        data = to;
        const auto blocks_of = [&](std::int64_t rows, std::int64_t columns) {
            return static_cast<unsigned>(divide_up<std::int64_t>(extent, rows) *
                                         divide_up<std::int64_t>(depth, columns));
        };
        const auto packed_by = [&](auto kernel, unsigned blocks) {
            return [=, pitch = pitch](cudaStream_t stream) {
                kernel<<<blocks, 256, 0, stream>>>(from, extent, depth, to, pitch);
                GPUMAT_CUDA(cudaGetLastError());
                static_cast<void>(memory);  // lives as long as the launch
            };
        };
        const bool along_k = from.col == 1;
        if constexpr (kPlanes) {
            constexpr std::int64_t kSide = 32;
            pack = packed_by(along_k ? pack_planes<true> : pack_planes<false>, blocks_of(kSide, kSide));
        } else {
            constexpr std::int64_t kDepth = kPackBytes / static_cast<std::int64_t>(sizeof(To));
            pack = packed_by(along_k ? pack_k_major<From, To, true> : pack_k_major<From, To, false>,
                             blocks_of(kPackRows, kDepth));
        }
    }
};

}  // namespace gpumat::multiply::gpu
