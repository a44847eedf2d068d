#pragma once

// What the rungs have in common that reduce by a tree in shared memory, pass after pass: where a pass reads
// from, and how the passes follow each other.

#include "kernels/common/launch.cuh"
#include "kernels/reduce/accumulators.hpp"
#include "kernels/reduce/gpu/passes.hpp"

namespace gpumat::reduce::gpu {

inline constexpr int kTreeThreads = 256;

/// The first pass reads elements, each as a total of its own.
template <class A>
struct FromElements {
    using Total = typename A::Total;

    static __device__ __forceinline__ Total at(const void* in, std::int64_t offset, const Mirror& mirror) {
        Total total;
        ScalarRun<A> run;
        run.add(element_at<A>(static_cast<const typename A::Element*>(in) + offset, mirror));
        total.take(run);
        return total;
    }
};

/// Further passes read what the one before left.
template <class T>
struct FromTotals {
    using Total = T;

    static __device__ __forceinline__ Total at(const void* in, std::int64_t offset, const Mirror&) {
        return static_cast<const Total*>(in)[offset];
    }
};

/// A pass over `in`. Leaves partial results, or in the last pass, which has no place for them, the results.
using TreeKernel = void (*)(const void* in, Pass pass, void* partials, Results results);

struct TreeKernels {
    TreeKernel of_elements;
    TreeKernel of_totals;
    std::size_t total_bytes;
};

Launch launch_tree(std::string_view level, const TreeKernels& kernels, const Problem& problem,
                   const Operands& operands, const Device& device);

}  // namespace gpumat::reduce::gpu
