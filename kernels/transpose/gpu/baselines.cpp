#include "kernels/transpose/gpu/baselines.hpp"

#include <array>

#include "kernels/common/build.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::transpose::gpu {
namespace {

/// The plain copies move one run of bytes.
Reasons plain_copy_reasons(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = baseline_reasons(problem, operands, device);
    if (!is_contiguous(operands.a) || !is_contiguous(operands.c))
        reasons.emplace_back("it copies matrices without gaps between rows");
    return reasons;
}

}  // namespace

std::span<const Level> baselines() {
    constexpr const Operation* op = &kTranspose;
    constexpr auto device = DeviceKind::gpu;
    static constexpr std::array kVendorTypes = {Type::f32, Type::f64, Type::c64, Type::c128};

    static const std::array kBaselines = {
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "copy",
              .summary = "a plain copy kernel, one 16-byte word a thread",
              .removes = "nothing: the ceiling of plain accesses",
              .unsupported = plain_copy_reasons,
              .prepare = GPUMAT_GPU_LEVEL(prepare_copy),
              .copies = true,
              .yardstick = true},
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "copy-kept",
              .summary = "the plain copy, what is read leaving L2 last",
              .removes = "nothing: the fastest way known to move many bytes",
              .unsupported = plain_copy_reasons,
              .prepare = GPUMAT_GPU_LEVEL(prepare_copy_kept),
              .copies = true},
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "copy-shared",
              .summary = "a copy through a padded shared tile with a barrier",
              .removes = "nothing: shows what the barrier costs",
              .unsupported = baseline_reasons,
              .prepare = GPUMAT_GPU_LEVEL(prepare_copy_shared),
              .copies = true},
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "copy-strided",
              .summary = "a copy down the columns",
              .removes = "nothing: shows what uncoalesced access costs",
              .unsupported = baseline_reasons,
              .prepare = GPUMAT_GPU_LEVEL(prepare_copy_strided),
              .copies = true},
        Level{.operation = op,
              .device = device,
              .role = Role::baseline,
              .name = "memcpy",
              .summary = "the driver's device-to-device copy",
              .removes = "nothing: the same ceiling, by the driver",
              .unsupported = baseline_reasons,
              .prepare = GPUMAT_GPU_LEVEL(prepare_memcpy),
              .copies = true,
              .yardstick = true},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "cuBLAS geam",
              .removes = "nothing: what a user would call instead",
              .needs = {.types = kVendorTypes},
              .unsupported = GPUMAT_GPU_LEVEL(vendor_unsupported),
              .prepare = GPUMAT_GPU_LEVEL(prepare_vendor)},
    };
    return kBaselines;
}

Reasons baseline_reasons(const Problem& problem, const Operands&, const Device&) {
    if (!problem.in_place) return {};
    return {"a baseline does not work in place"};
}

}  // namespace gpumat::transpose::gpu
