#pragma once

#include <algorithm>
#include <cstdint>

#include "core/sparse/csr.hpp"
#include "kernels/common/launch.cuh"
#include "kernels/multiply/gpu/arguments.cuh"

// What the levels that multiply a sparse A by a dense B share.

namespace gpumat::multiply::gpu::sparse {

constexpr int kWarp = 32;

/// Compressed rows on the device.
template <class T, class I>
struct Rows {
    const std::int64_t* pointers;
    const I* columns;
    const T* values;

    explicit Rows(const Operand& a)
        : pointers(a.pointers), columns(static_cast<const I*>(a.columns)), values(a.as<T>()) {}
};

/// Calls `function(TypeTag<T>{}, TypeTag<I>{})` with the types of the elements and of the indices of A.
template <class Function>
decltype(auto) visit_sparse(const Problem& problem, Function&& function) {
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T> element) -> decltype(auto) {
        return visit_index({problem.m, problem.k}, [&]<class I>(TypeTag<I> index) -> decltype(auto) {
            return function(element, index);
        });
    });
}

/// Blocks for so many pieces of work, of which each does several where there are many.
inline unsigned blocks_of(std::int64_t work, std::int64_t each) {
    constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
    return static_cast<unsigned>(std::clamp<std::int64_t>((work + each - 1) / each, 1, kMostBlocks));
}

/// A sum of another lane of the warp, of which `members` take part; complex ones in two parts.
template <class S>
__device__ __forceinline__ S from_lane(S value, int lane, unsigned members = ~0U) {
    return __shfl_sync(members, value, lane);
}
template <class R>
__device__ __forceinline__ Complex<R> from_lane(Complex<R> value, int lane, unsigned members = ~0U) {
    return {__shfl_sync(members, value.re, lane), __shfl_sync(members, value.im, lane)};
}

/// The value that another of the `members` has, the lanes exchanged by pairs `distance` apart.
template <class S>
__device__ __forceinline__ S exchanged(S value, int distance, unsigned members) {
    return __shfl_xor_sync(members, value, distance);
}
template <class R>
__device__ __forceinline__ Complex<R> exchanged(Complex<R> value, int distance, unsigned members) {
    return {__shfl_xor_sync(members, value.re, distance), __shfl_xor_sync(members, value.im, distance)};
}

/// The value of the lane so many before.
template <class S>
__device__ __forceinline__ S from_before(S value, int distance) {
    return __shfl_up_sync(~0U, value, distance);
}
template <class R>
__device__ __forceinline__ Complex<R> from_before(Complex<R> value, int distance) {
    return {__shfl_up_sync(~0U, value.re, distance), __shfl_up_sync(~0U, value.im, distance)};
}

}  // namespace gpumat::multiply::gpu::sparse
