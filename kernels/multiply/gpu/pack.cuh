#pragma once

// Operands for the kernel `packed`: k by k, in rows that start at multiples of 16 bytes, as the sums' type.
#include <functional>
#include <memory>

#include "kernels/common/tensor_map.cuh"
#include "kernels/multiply/gpu/arguments.cuh"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/gpu/vectors.cuh"

namespace gpumat::multiply::gpu {

/// How a packed operand lies: for each k, kRows rows of Elements. Complex numbers are whole, or in planes: a
/// row of real parts, then one of imaginary parts.
template <class S>
struct Whole {
    using Element = S;
    static constexpr int kRows = 1;
    __device__ static void take_apart(S value, Element (&to)[kRows]) { to[0] = value; }
};
template <class S>
struct Planes : Whole<S> {};
template <class R>
struct Planes<Complex<R>> {
    using Element = R;
    static constexpr int kRows = 2;
    __device__ static void take_apart(Complex<R> value, Element (&to)[kRows]) {
        to[0] = value.re;
        to[1] = value.im;
    }
};

/// Elements of 16 bytes of a packed operand.
template <class Layout>
inline constexpr int kPackedVector = 16 / static_cast<int>(sizeof(typename Layout::Element));

/// Extent of the square tile that a block of 256 threads packs.
template <class T>
inline constexpr int kPackExtent = sizeof(Sum<T>) > 8 ? 32 : 64;

/// Copies an operand, `extent` rows (or columns) by `depth` in k, so that element (x, k) comes to row k·kRows
/// and those that follow it, at x. `pitch`, in Elements, is a multiple of kPackedVector and at least
/// `extent`; what a row has beyond `extent` is not read by anyone. Reads run along k where the source does,
/// and are transposed in shared memory.
template <class T, class Layout, bool kAlongK>
__global__ void __launch_bounds__(256) pack(Strided<T> from, std::int64_t extent, std::int64_t depth,
                                            typename Layout::Element* to, std::int64_t pitch) {
    using Element = typename Layout::Element;
    constexpr int kRows = Layout::kRows;
    constexpr int kV = kPackedVector<Layout>;
    constexpr int kThreads = 256;
    constexpr int kExtent = kPackExtent<T>;
    __shared__ __align__(16) Element tile[kExtent * kRows][kExtent + kV];
    const std::int64_t tiles_x = divide_up<std::int64_t>(extent, kExtent);
    const std::int64_t x0 = blockIdx.x % tiles_x * kExtent;
    const std::int64_t k0 = blockIdx.x / tiles_x * kExtent;
    const int along = static_cast<int>(threadIdx.x) % kExtent;
    const int across = static_cast<int>(threadIdx.x) / kExtent;
#pragma unroll
    for (int step = 0; step < kExtent; step += kThreads / kExtent) {
        const int x = kAlongK ? across + step : along;
        const int k = kAlongK ? along : across + step;
        if (x0 + x >= extent || k0 + k >= depth) continue;
        Element parts[kRows];
        Layout::take_apart(to_sum(*from.at(x0 + x, k0 + k)), parts);
#pragma unroll
        for (int part = 0; part < kRows; ++part) tile[k * kRows + part][x] = parts[part];
    }
    __syncthreads();  // the tile is complete
    constexpr int kVectors = kExtent / kV;
#pragma unroll
    for (int step = 0; step < kExtent * kRows * kVectors; step += kThreads) {
        const int place = static_cast<int>(threadIdx.x) + step;
        const int x = place % kVectors * kV;
        const int row = place / kVectors;
        if (x0 + x < extent && k0 + row / kRows < depth) {
            *reinterpret_cast<Vector<Element, kV>*>(to + (k0 * kRows + row) * pitch + x0 + x) =
                *reinterpret_cast<const Vector<Element, kV>*>(&tile[row][x]);
        }
    }
}

/// Elements between the rows of a packed operand.
template <class Layout>
std::int64_t packed_pitch(std::int64_t extent) {
    return divide_up<std::int64_t>(extent, kPackedVector<Layout>) * kPackedVector<Layout>;
}

/// Whether the operand lies as the kernel `packed` needs it already. `from` steps by `row` along its extent.
template <class T, class Layout>
bool is_packed(const Strided<T>& from) {
    return std::is_same_v<T, typename Layout::Element> && from.row == 1 &&
           from.col % kPackedVector<Layout> == 0 && reinterpret_cast<std::uintptr_t>(from.data) % 16 == 0;
}

/// Bytes of device memory that packing the operand takes.
template <class T, class Layout>
std::uint64_t pack_bytes(const Strided<T>& from, std::int64_t extent, std::int64_t depth) {
    if (is_packed<T, Layout>(from)) return 0;
    return static_cast<std::uint64_t>(packed_pitch<Layout>(extent)) * static_cast<std::uint64_t>(depth) *
           sizeof(typename Layout::Element) * Layout::kRows;
}

/// An operand as the kernel `packed` reads it, and the work that brings it there.
template <class T, class Layout>
struct PackedOperand {
    using Element = typename Layout::Element;
    const Element* data = nullptr;
    std::int64_t pitch = 0;                  ///< in Elements
    std::function<void(cudaStream_t)> pack;  ///< empty where nothing is to be done

    PackedOperand(const Strided<T>& from, std::int64_t extent, std::int64_t depth, const Device& device) {
        if constexpr (std::is_same_v<T, Element>) {
            if (is_packed<T, Layout>(from)) {
                data = from.data;
                pitch = from.col;
                return;
            }
        }
        pitch = packed_pitch<Layout>(extent);
        auto memory = std::make_shared<DeviceMemory>(
            device.gpu->allocate(static_cast<std::size_t>(pack_bytes<T, Layout>(from, extent, depth))));
        auto* const to = static_cast<Element*>(memory->data());
        data = to;
        const auto blocks = static_cast<unsigned>(divide_up<std::int64_t>(extent, kPackExtent<T>) *
                                                  divide_up<std::int64_t>(depth, kPackExtent<T>));
        const auto kernel = from.col == 1 ? gpu::pack<T, Layout, true> : gpu::pack<T, Layout, false>;
        pack = [=, pitch = pitch](cudaStream_t stream) {
            kernel<<<blocks, 256, 0, stream>>>(from, extent, depth, to, pitch);
            GPUMAT_CUDA(cudaGetLastError());
            static_cast<void>(memory);  // lives as long as the launch
        };
    }

    /// The map of its boxes of `box_extent` by `box_depth` in k.
    [[nodiscard]] CUtensorMap map(std::int64_t extent, std::int64_t depth, int box_extent,
                                  int box_depth) const {
        constexpr int kWords = static_cast<int>(sizeof(Element)) / 4;
        return plain_map(data, depth * Layout::kRows, extent * kWords,
                         pitch * static_cast<std::int64_t>(sizeof(Element)), box_extent * kWords,
                         box_depth * Layout::kRows);
    }
};

}  // namespace gpumat::multiply::gpu
