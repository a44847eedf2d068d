#pragma once

// Operands for the kernel `packed`: k by k, in rows that start at multiples of 16 bytes, as the sums' type.
#include <functional>
#include <memory>

#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/vectors.cuh"

namespace gpumat::multiply::gpu {

/// Extent of the square tile that a block of 256 threads packs.
template <class T>
inline constexpr int kPackExtent = sizeof(Sum<T>) > 8 ? 32 : 64;

/// Copies an operand, `extent` rows (or columns) by `depth` in k, so that element (x, k) comes to k·pitch +
/// x, as a summand. `pitch` is a multiple of kVector<T> and at least `extent`; what a row has beyond `extent`
/// is not read by anyone. Reads run along k where the source does, and are turned in shared memory.
template <class T, bool kAlongK>
__global__ void __launch_bounds__(256)
    pack(Strided<T> from, std::int64_t extent, std::int64_t depth, Sum<T>* to, std::int64_t pitch) {
    using S = Sum<T>;
    constexpr int kV = kVector<T>;
    constexpr int kThreads = 256;
    constexpr int kExtent = kPackExtent<T>;
    __shared__ __align__(16) S tile[kExtent][kExtent + kV];  // a row a k
    const std::int64_t tiles_x = divide_up<std::int64_t>(extent, kExtent);
    const std::int64_t x0 = blockIdx.x % tiles_x * kExtent;
    const std::int64_t k0 = blockIdx.x / tiles_x * kExtent;
    const int along = static_cast<int>(threadIdx.x) % kExtent;
    const int across = static_cast<int>(threadIdx.x) / kExtent;
#pragma unroll
    for (int step = 0; step < kExtent; step += kThreads / kExtent) {
        const int x = kAlongK ? across + step : along;
        const int k = kAlongK ? along : across + step;
        if (x0 + x < extent && k0 + k < depth) tile[k][x] = to_sum(*from.at(x0 + x, k0 + k));
    }
    __syncthreads();  // the tile is complete
    constexpr int kVectors = kExtent / kV;
#pragma unroll
    for (int step = 0; step < kExtent * kVectors; step += kThreads) {
        const int place = static_cast<int>(threadIdx.x) + step;
        const int x = place % kVectors * kV;
        const int k = place / kVectors;
        if (x0 + x < extent && k0 + k < depth) {
            *reinterpret_cast<Vector<S, kV>*>(to + (k0 + k) * pitch + x0 + x) =
                *reinterpret_cast<const Vector<S, kV>*>(&tile[k][x]);
        }
    }
}

/// Elements between the rows of a packed operand.
template <class T>
std::int64_t packed_pitch(std::int64_t extent) {
    return divide_up<std::int64_t>(extent, kVector<T>) * kVector<T>;
}

/// Whether the operand lies as the kernel `packed` needs it already. `from` steps by `row` along its extent.
template <class T>
bool is_packed(const Strided<T>& from) {
    return std::is_same_v<T, Sum<T>> && from.row == 1 && from.col % kVector<T> == 0 &&
           reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0;
}

/// An operand as the kernel `packed` reads it, and the work that brings it there.
template <class T>
struct PackedOperand {
    const Sum<T>* data = nullptr;
    std::int64_t pitch = 0;
    std::function<void(cudaStream_t)> pack;  ///< empty where nothing is to be done

    PackedOperand(const Strided<T>& from, std::int64_t extent, std::int64_t depth, const Device& device) {
        if constexpr (std::is_same_v<T, Sum<T>>) {
            if (is_packed(from)) {
                data = from.data;
                pitch = from.col;
                return;
            }
        }
        pitch = packed_pitch<T>(extent);
        auto memory = std::make_shared<DeviceMemory>(
            device.gpu->allocate(static_cast<std::size_t>(pitch * depth) * sizeof(Sum<T>)));
        auto* const to = static_cast<Sum<T>*>(memory->data());
        data = to;
        const auto blocks = static_cast<unsigned>(divide_up<std::int64_t>(extent, kPackExtent<T>) *
                                                  divide_up<std::int64_t>(depth, kPackExtent<T>));
        const auto kernel = from.col == 1 ? gpu::pack<T, true> : gpu::pack<T, false>;
        pack = [=, pitch = pitch](cudaStream_t stream) {
            kernel<<<blocks, 256, 0, stream>>>(from, extent, depth, to, pitch);
            GPUMAT_CUDA(cudaGetLastError());
            static_cast<void>(memory);  // lives as long as the launch
        };
    }
};

}  // namespace gpumat::multiply::gpu
