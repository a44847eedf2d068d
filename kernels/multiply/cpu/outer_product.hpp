#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numbers/type.hpp"

// What `outer-product` is made of: blocks and threads (outer_product.cpp), and for each type and width of
// vectors a kernel, which packs panels and multiplies them (micro_kernel.hpp).

namespace gpumat::multiply::cpu {

/// Elements of A or B to be packed: `width` rows of op(A) or columns of op(B), `depth` of k.
struct PackSource {
    const void* data;
    std::int64_t ld;  ///< elements from one stored row to the next
    std::int64_t width;
    std::int64_t depth;
    bool across;  ///< a stored row runs along k; else along the width
};

/// A tile of C, and what becomes of the sums of its products.
struct Target {
    void* to;                ///< C where `last`, else sums
    const void* before;      ///< the sums of the blocks of k before this one; null for the first
    const void* add;         ///< D; null: nothing is added
    std::int64_t ld;         ///< of `to`
    std::int64_t before_ld;  ///<
    std::int64_t add_ld;
    std::int64_t rows;
    std::int64_t cols;
    const void* alpha;  ///< of the type that sums have
    const void* beta;
    bool last;              ///< the last block of k: C = α·sum + β·D
    const std::byte* next;  ///< what of B is read later: a line for each step of k is prefetched
};

/// The functions for one type and width of vectors, and the tile that they work on. A panel of A holds `rows`
/// rows, one of B `cols` columns; of each, a line for every `group` steps of k.
struct Kernel {
    std::int64_t rows;
    std::int64_t cols;
    std::int64_t group;
    std::int64_t depth;     ///< of a block, in steps of k
    std::int64_t a_line;    ///< bytes
    std::int64_t b_line;    ///< bytes
    std::int64_t b_head;    ///< bytes of a panel of B before its lines
    std::int64_t sum_size;  ///< bytes of a sum in memory
    void (*pack_a)(const PackSource& from, std::byte* to);
    void (*pack_b)(const PackSource& from, std::byte* to);
    void (*multiply)(std::int64_t lines, const std::byte* a, const std::byte* b, const Target& target);

    [[nodiscard]] std::int64_t lines(std::int64_t steps) const { return (steps + group - 1) / group; }
    [[nodiscard]] std::int64_t a_panel(std::int64_t steps) const { return a_line * lines(steps); }
    [[nodiscard]] std::int64_t b_panel(std::int64_t steps) const { return b_head + b_line * lines(steps); }
};

/// The kernels of each instruction set, for every type that multiply takes.
Kernel plain_kernel(Type type);
Kernel avx2_kernel(Type type);
Kernel avx512_kernel(Type type);

}  // namespace gpumat::multiply::cpu
