#include "kernels/multiply/gpu/levels.hpp"

#include "kernels/common/build.hpp"
#include "kernels/common/measured.hpp"
#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply::gpu {
namespace {

constexpr std::array kTypes = {Type::f32,  Type::f64, Type::c64, Type::c128, Type::f16,
                               Type::bf16, Type::i32, Type::i64, Type::u64};
constexpr std::array kTensorTypes = {Type::f16, Type::bf16, Type::f32, Type::f64, Type::c128, Type::i8};
constexpr std::array kVendorTypes = {Type::f32, Type::f64,  Type::c64, Type::c128,
                                     Type::f16, Type::bf16, Type::i8};

using Prepare = Launch (*)(const Problem&, const Operands&, const Device&);

/// The matrix units of four warps take these, f32 only where it may be rounded to less.
constexpr std::array kWgmmaTypes = {Type::f16, Type::bf16, Type::f32, Type::i8};
constexpr auto kComputeSetting = std::to_array<std::string_view>({"compute"});

Arithmetic tensor_arithmetic(const Problem& problem) {
    Arithmetic arithmetic = plain_arithmetic(problem.type == Type::i8 ? Type::i32 : problem.type);
    arithmetic.units = Units::tensor;
    arithmetic.factors = factors_of(problem);
    return arithmetic;
}

/// f32, and c64 that is made of it, are not converted for the tensor cores unless that is asked for; the
/// others may go there.
Arithmetic cublas_arithmetic(const Problem& problem) {
    const Arithmetic arithmetic = tensor_arithmetic(problem);
    const bool own =
        (problem.type == Type::f32 || problem.type == Type::c64) && arithmetic.factors == Factors::own;
    return own ? plain_arithmetic(problem) : arithmetic;
}

constexpr Level rung(int number, std::string_view name, std::string_view summary, std::string_view removes,
                     Prepare prepare, std::span<const Parameter> parameters = {},
                     Reasons (*unsupported)(const Problem&, const Operands&, const Device&) = nullptr) {
    return {.operation = &kMultiply,
            .device = DeviceKind::gpu,
            .number = number,
            .name = name,
            .summary = summary,
            .removes = removes,
            .needs = {.types = kTypes},
            .parameters = parameters,
            .arithmetic = plain_arithmetic,
            .unsupported = unsupported,
            .prepare = prepare};
}

}  // namespace

std::span<const Level> levels() {
    static constexpr std::array kLevels = {
        rung(1, "naive-strided", "one thread an element, 1x128 blocks: a warp walks down a column of C",
             "nothing: the first attempt to beat", GPUMAT_GPU_LEVEL(prepare_naive_strided)),
        rung(2, "naive", "one thread an element, 128x1 or 16x16 blocks: a warp walks along a row of C",
             "uncoalesced reads of A and writes of C", GPUMAT_GPU_LEVEL(prepare_naive), kNaiveParameters),
        rung(3, "tiled-uncoalesced", "tiles in shared memory; B's tile is loaded down its columns",
             "memory traffic: an element is loaded once a tile instead of once a thread",
             GPUMAT_GPU_LEVEL(prepare_tiled_uncoalesced)),
        rung(4, "tiled-conflicted", "both tiles loaded along memory; B's tile is read down a bank",
             "uncoalesced loads of B", GPUMAT_GPU_LEVEL(prepare_tiled_conflicted)),
        rung(5, "tiled", "both tiles loaded along memory and read without conflicts", "bank conflicts",
             GPUMAT_GPU_LEVEL(prepare_tiled), kTiledParameters),
        rung(6, "coarsened", "32x16 threads on 32x32 tiles, two outputs a thread",
             "one of four shared loads for two multiply-adds", GPUMAT_GPU_LEVEL(prepare_coarsened)),
        rung(7, "coarsened-transposed", "coarsened, with B's tile transposed and padded",
             "address arithmetic of the inner loop", GPUMAT_GPU_LEVEL(prepare_coarsened_transposed)),
        rung(8, "outer-product", "rank-1 updates: A in shared memory, B and 16 rows of C in registers",
             "shared traffic of B", GPUMAT_GPU_LEVEL(prepare_outer_product)),
        rung(9, "unrolled", "outer-product with its loops unrolled",
             "branches and address arithmetic between steps", GPUMAT_GPU_LEVEL(prepare_unrolled)),
        rung(10, "prefetch", "unrolled, the next tile of A fetched while this one is used",
             "the wait for loads of A", GPUMAT_GPU_LEVEL(prepare_prefetch)),
        rung(11, "register-blocked", "128x128 tiles, 8x8 outputs a thread, 16-byte shared reads",
             "the shared load of every multiply-add", GPUMAT_GPU_LEVEL(prepare_register_blocked)),
        rung(12, "pipelined", "register and warp tiles, copies some stages ahead, k split where C is small",
             "the latency of memory, and instructions beside multiply-adds",
             GPUMAT_GPU_LEVEL(prepare_pipelined), kPipelinedParameters,
             GPUMAT_GPU_LEVEL(pipelined_unsupported)),
        Level{.operation = &kMultiply,
              .device = DeviceKind::gpu,
              .number = 13,
              .name = "tensor",
              .summary = "tensor cores through warp-level instructions, swizzled stages, cc 8.0",
              .removes = "an issue slot for each multiply-add of a warp",
              .needs = {.compute_capability = 80, .types = kTensorTypes, .settings = kComputeSetting},
              .parameters = kTensorParameters,
              .arithmetic = tensor_arithmetic,
              .unsupported = GPUMAT_GPU_LEVEL(tensor_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_tensor)},
        Level{.operation = &kMultiply,
              .device = DeviceKind::gpu,
              .number = 14,
              .name = "wgmma",
              .summary = "matrix units that read shared memory, fed by the copy engine for pairs of blocks",
              .removes =
                  "operands in registers, the instructions that bring them there, and half of the traffic",
              .needs = {.compute_capability = 90, .types = kWgmmaTypes, .settings = kComputeSetting},
              .parameters = kWgmmaParameters,
              .arithmetic = tensor_arithmetic,
              .unsupported = GPUMAT_GPU_LEVEL(wgmma_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_wgmma)},
        Level{.operation = &kMultiply,
              .device = DeviceKind::gpu,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "cuBLAS, loaded at run time, in the precision of the type",
              .removes = "nothing: what one would call instead",
              .needs = {.types = kVendorTypes, .settings = kComputeSetting},
              .arithmetic = cublas_arithmetic,
              .unsupported = GPUMAT_GPU_LEVEL(vendor_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_vendor),
              .yardstick = true},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem& problem, const Device& device) {
    constexpr std::string_view kExact =
        "tensor cores multiply factors of this type, or those asked for, exactly";
    constexpr int kHopper = 90;
    std::string pipelined = measured(device.gpu)
                                ? "it is the fastest of our levels on this device for every type and shape"
                                : "by the default for devices that were not measured";
    // Measured on an H100 at 8192: 12 times as fast as cuBLAS in f32.
    if (problem.type == Type::f32 && device.gpu != nullptr &&
        device.gpu->info().compute_capability == kHopper) {
        pipelined +=
            " that keeps f32; --compute bf16 rounds the factors first, for tensor cores, and is some ten "
            "times as "
            "fast where matrices are large";
    }
    return {{"wgmma", std::string(kExact)}, {"tensor", std::string(kExact)}, {"pipelined", pipelined}};
}

}  // namespace gpumat::multiply::gpu
