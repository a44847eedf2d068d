#include "kernels/multiply/gpu/sparse/levels.hpp"

#include <array>

#include "kernels/common/build.hpp"
#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply::gpu::sparse {

std::span<const Level> levels() {
    constexpr const Operation* op = &kMultiply;
    constexpr auto device = DeviceKind::gpu;
    static constexpr std::array kTypes = {Type::f32,  Type::f64, Type::c64, Type::c128, Type::f16,
                                          Type::bf16, Type::i32, Type::i64, Type::u64};
    // In 16 bits the library rounds parts of long rows before it adds them.
    static constexpr std::array kVendorTypes = {Type::f32, Type::f64, Type::c64, Type::c128};
    static constexpr std::array kFirstSparse = {Structure{.inputs = {Storage::csr}}};
    constexpr Requirements needs{.types = kTypes, .structures = kFirstSparse};

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "a thread an element of C walks along its row of A",
              .removes = "nothing: the plain loop to beat",
              .needs = needs,
              .arithmetic = plain_arithmetic,
              .unsupported = plain_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_serial)},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "rows",
              .summary = "a warp a row of C, whose lanes read entries of A together and share them",
              .removes = "a load of A for each multiply-add, which the load of B waits for",
              .needs = needs,
              .arithmetic = plain_arithmetic,
              .unsupported = plain_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_rows)},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "merge",
              .summary = "a warp has as many rows and entries of A as any other; long rows are cut",
              .removes = "warps that wait for the one with the longest row",
              .needs = needs,
              .arithmetic = plain_arithmetic,
              .unsupported = plain_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_merge)},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "tiled",
              .summary = "words of 16 bytes of B; products of few columns go through shared memory",
              .removes = "an instruction for each element of B, and rows of B that come one after the other",
              .needs = needs,
              .arithmetic = plain_arithmetic,
              .unsupported = plain_unsupported,
              .prepare = GPUMAT_GPU_LEVEL(prepare_tiled)},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "cuSPARSE's product, loaded at run time",
              .removes = "nothing: what one would call instead",
              .needs = {.types = kVendorTypes, .structures = kFirstSparse},
              .arithmetic = plain_arithmetic,
              .unsupported = GPUMAT_GPU_LEVEL(vendor_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_vendor)},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem&, const Device&) {
    return {{"tiled", "long rows do not slow it down"}};
}

Reasons plain_unsupported(const Problem& problem, const Operands&, const Device&) {
    Reasons reasons;
    if (problem.transpose_a) reasons.emplace_back("it takes a sparse A as it is stored");
    if (problem.alpha.is_zero(problem.type)) reasons.emplace_back("it reads A and B, and alpha is 0");
    return reasons;
}

}  // namespace gpumat::multiply::gpu::sparse
