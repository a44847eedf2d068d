#include "kernels/multiply/cpu/levels.hpp"

#include <array>

#include "kernels/common/vector_width.hpp"
#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply::cpu {
namespace {

/// i8 is summed up in i32.
Arithmetic arithmetic(const Problem& problem) {
    return plain_arithmetic(problem.type == Type::i8 ? Type::i32 : problem.type);
}

Reasons unsupported(const Problem& problem, const Operands&, const Device&) {
    return result_reasons(problem);
}

Reasons outer_product_unsupported(const Problem& problem, const Operands&, const Device&) {
    return vector_reasons(problem, result_reasons(problem));
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kMultiply;
    constexpr auto device = DeviceKind::cpu;
    static constexpr std::array kTypes = {Type::f32,  Type::f64, Type::c64, Type::c128, Type::f16,
                                          Type::bf16, Type::i32, Type::i64, Type::u64,  Type::i8};
    static constexpr std::array kVendorTypes = {Type::f32, Type::f64, Type::c64, Type::c128};
    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "naive",
              .summary = "three nested loops in i, j, k order, one thread",
              .removes = "nothing: the textbook loop to beat",
              .needs = {.types = kTypes},
              .arithmetic = arithmetic,
              .unsupported = unsupported,
              .prepare = prepare_naive},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "interchanged",
              .summary = "the same loops in i, k, j order, so that a row of the result gathers its sums",
              .removes = "strided reads of B, and the chain of additions that each waited for the last",
              .needs = {.types = kTypes},
              .arithmetic = arithmetic,
              .unsupported = unsupported,
              .prepare = prepare_interchanged},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "tiled",
              .summary = "tiles of A, B and C that fit the cache, shared out among all threads",
              .removes = "all of B read from memory again for every row of A, on one core",
              .needs = {.types = kTypes},
              .parameters = tiled_parameters(),
              .arithmetic = arithmetic,
              .unsupported = unsupported,
              .prepare = prepare_tiled},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "outer-product",
              .summary = "packed panels, and a tile of C in vector registers that takes rank-1 updates",
              .removes = "a load and a store of a sum for every multiply-add",
              .needs = {.types = kTypes},
              .parameters = vector_parameters(),
              .arithmetic = arithmetic,
              .unsupported = outer_product_unsupported,
              .prepare = prepare_outer_product},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "OpenBLAS, loaded when asked for",
              .removes = "nothing of ours: what one would call instead",
              .needs = {.types = kVendorTypes},
              .arithmetic = plain_arithmetic,
              .unsupported = vendor_unsupported,
              .prepare = prepare_vendor,
              .yardstick = true},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem& p, const Device&) {
    // Measured: nothing to pack or tile for pays for itself in these, as long as one thread is enough.
    const bool tiny = p.flops() < 1e3;
    // Not of types that each element of B, or of C, would have to be converted of by itself.
    const bool vector = (p.k == 1 && p.type != Type::f16 && p.type != Type::bf16) ||
                        (p.m == 1 && !p.transpose_b && p.type != Type::f16);
    if (tiny || (vector && p.flops() < 4e6)) {
        return {{"interchanged", tiny ? "it is the fastest of our own levels below a thousand operations"
                                      : "it is the fastest of our own levels for a row or a depth of one"}};
    }
    return {{"outer-product", "it is the fastest of our own levels"}};
}

}  // namespace gpumat::multiply::cpu
