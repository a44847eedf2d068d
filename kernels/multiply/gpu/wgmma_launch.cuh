#pragma once

// Launches of the level `wgmma`: tile and splits by the shape, operands as the kernel takes them.
#include <algorithm>
#include <string>

#include "kernels/common/tensor_map.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/pack_rows.cuh"
#include "kernels/multiply/gpu/wgmma.cuh"
#include "kernels/multiply/gpu/wgmma_tuning.hpp"

namespace gpumat::multiply::gpu {

/// The map of an operand's boxes: 128 bytes by `rows`.
template <class Factor>
CUtensorMap operand_map(const UnitOperand<Factor>& operand, int rows) {
    return tile_map(operand.rows.data, static_cast<int>(sizeof(Factor)), operand.rows.rows, operand.rows.cols,
                    operand.rows.pitch * static_cast<std::int64_t>(sizeof(Factor)), rows);
}

/// Memory for sums of tiles that several clusters share.
template <class Sum>
struct KeptSums {
    DeviceMemory sums;
    DeviceMemory flags;
    unsigned run = 0;

    KeptSums(unsigned slots, std::size_t words, const Device& device)
        : sums(device.gpu->allocate(slots * words * sizeof(Sum))),
          flags(device.gpu->allocate(slots * sizeof(unsigned))) {
        GPUMAT_CUDA(cudaMemset(flags.data(), 0, flags.bytes()));  // of no run
    }
    /// The slots of a new run.
    WgmmaSlots<Sum> next() {
        return {static_cast<Sum*>(sums.data()), static_cast<unsigned*>(flags.data()), ++run};
    }
    [[nodiscard]] std::uint64_t bytes() const { return sums.bytes() + flags.bytes(); }
};

/// Starts the kernel with clusters of S::kCluster blocks.
template <class S>
void launch_wgmma(unsigned blocks, cudaStream_t stream, const CUtensorMap& a, const CUtensorMap& b,
                  const CUtensorMap& c, const WgmmaWork& work,
                  const WgmmaResult<typename S::Sum, typename S::Out>& result,
                  const WgmmaSlots<typename S::Sum>& slots) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {S::kCluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(S::kThreads);
    config.dynamicSmemBytes = S::kSharedBytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    GPUMAT_CUDA(cudaLaunchKernelEx(&config, wgmma<S>, a, b, c, work, result, slots));
}

/// Starts the kernel that adds up runs of k.
template <class Sum, class Out>
void add_up(const WgmmaResult<Sum, Out>& result, int splits, cudaStream_t stream) {
    constexpr std::int64_t kMostBlocks = 1 << 16;
    const std::int64_t blocks = divide_up<std::int64_t>(result.m * (result.pitch / 4), 256);
    add_splits<<<static_cast<unsigned>(std::min(blocks, kMostBlocks)), 256, 0, stream>>>(result, splits);
    GPUMAT_CUDA(cudaGetLastError());
}

/// Prepares the launch of one shape of kernel.
template <class S>
Launch prepare_wgmma_shape(const WgmmaResult<typename S::Sum, typename S::Out>& to, std::int64_t k,
                           const UnitOperand<typename S::Factor>& a, const UnitOperand<typename S::Factor>& b,
                           const WgmmaPlan& plan, const Device& device) {
    using Out = typename S::Out;
    using Sum = typename S::Sum;
    WgmmaWork work;
    work.tiles_m = static_cast<int>(divide_up<std::int64_t>(to.m, S::kBm * S::kCluster));
    work.tiles_n = static_cast<int>(divide_up<std::int64_t>(to.n, S::kBn));
    work.stages = static_cast<int>(divide_up<std::int64_t>(k, S::kRow));
    work.splits = plan.splits;
    work.band = std::max(1, plan.band / S::kCluster);
    const int slots = std::max(1, device.gpu->info().multiprocessors / S::kCluster);
    const bool shares = plan.sharing > 0;
    work.whole = shares ? work.items() / slots * slots : work.items();
    work.sharing = std::max(1, plan.sharing);
    const int clusters = std::max(std::min(work.whole, slots), plan.sharing);
    const auto blocks = static_cast<unsigned>(clusters * S::kCluster);
    auto result = to;
    std::shared_ptr<DeviceMemory> sums;
    if (work.splits > 1) {
        sums = std::make_shared<DeviceMemory>(
            device.gpu->allocate(static_cast<std::size_t>(work.splits) * static_cast<std::size_t>(to.m) *
                                 static_cast<std::size_t>(result.pitch) * sizeof(Sum)));
        result.partial = static_cast<Sum*>(sums->data());
    }
    const auto kept =
        shares ? std::make_shared<KeptSums<Sum>>(blocks * S::kConsumers, S::kBn / 2 * 128, device) : nullptr;
    const CUtensorMap map_a = operand_map(a, S::kAcrossA ? S::kRow : S::kBm);
    const CUtensorMap map_b = operand_map(b, S::kBoxB);
    CUtensorMap map_c = map_a;  // of no use where C goes another way
    const std::int64_t pitch_bytes = to.ldc * static_cast<std::int64_t>(sizeof(Out));
    // The copy engine writes whole pieces of 16 bytes, also at the end of a row.
    if (S::kStaged && pitch_bytes % 16 == 0 && to.n * static_cast<std::int64_t>(sizeof(Out)) % 16 == 0 &&
        reinterpret_cast<std::uintptr_t>(to.c) % 16 == 0) {
        result.by_copies = true;
        map_c = tile_map(to.c, static_cast<int>(sizeof(Out)), to.m, to.n, pitch_bytes, 64);
    }
    const auto* const kernel = reinterpret_cast<const void*>(wgmma<S>);
    allow_shared_memory(kernel, S::kSharedBytes);
    Launch launch;
    launch.level = "wgmma";
    launch.workspace_bytes = a.bytes + b.bytes + (sums ? sums->bytes() : 0) + (kept ? kept->bytes() : 0);
    launch.details = {
        {"tile", std::to_string(S::kBm) + "x" + std::to_string(S::kBn) + "x" + std::to_string(S::kRow)},
        {"stages", std::to_string(S::kStages)},
        {"cluster", std::to_string(S::kCluster)},
        {"splits", std::to_string(work.splits)},
        {"sharing", std::to_string(plan.sharing)},
        {"packs", a.pack && b.pack ? "A and B"
                  : a.pack         ? "A"
                  : b.pack         ? "B"
                                   : "none"}};
    for (auto& detail : launch_details(kernel, {dim3(blocks), dim3(S::kThreads), S::kSharedBytes}))
        launch.details.push_back(std::move(detail));
    launch.run = [=](Stream on) {
        cudaStream_t const stream = cuda_stream(on);
        if (a.pack) a.pack(stream);
        if (b.pack) b.pack(stream);
        launch_wgmma<S>(blocks, stream, map_a, map_b, map_c, work, result,
                        kept ? kept->next() : WgmmaSlots<Sum>{});
        if (sums) {
            add_up(result, work.splits, stream);
        }
    };
    return launch;
}

/// Calls `function` with the kernel's shape for a tile of the plan.
template <class Factor, class Out, bool kAcrossA, bool kAcrossB, class Function>
Launch with_tile(const WgmmaPlan& plan, Function&& function) {
    if (plan.columns == 256) return function(WgmmaShape<Factor, Out, kAcrossA, kAcrossB, 256, 2>{});
    if (plan.columns == 192) return function(WgmmaShape<Factor, Out, kAcrossA, kAcrossB, 192, 2>{});
    if (plan.columns == 128) return function(WgmmaShape<Factor, Out, kAcrossA, kAcrossB, 128, 2>{});
    return function(WgmmaShape<Factor, Out, kAcrossA, kAcrossB, 64, 1>{});
}

/// Prepares the launch for elements T, whose factors and results have these types.
template <class T, class Factor, class Out>
Launch prepare_wgmma_as(const Problem& p, const Operands& operands, const Device& device) {
    using Sum = UnitSum<Factor>;
    if (p.m == 0 || p.n == 0) return {.level = "wgmma", .run = [](Stream) {}};
    const bool reads_d = !p.beta.is_zero(p.type);
    const WgmmaResult<Sum, Out> result{.m = p.m,
                                       .n = p.n,
                                       .alpha = scalar_as<Sum>(p.alpha),
                                       .beta = scalar_as<Sum>(p.beta),
                                       .d = reads_d ? operands.d.as<Out>() : nullptr,
                                       .ldd = operands.d.pitch,
                                       .c = operands.c.as<Out>(),
                                       .ldc = operands.c.pitch,
                                       .partial = nullptr,
                                       .pitch = divide_up<std::int64_t>(p.n, 4) * 4,
                                       .by_copies = false};
    if (p.k == 0) return {.level = "wgmma", .run = [=](Stream on) { add_up(result, 0, cuda_stream(on)); }};
    // Factors of 16 bits may lie in both directions, if they need no conversion.
    constexpr bool kBoth = sizeof(Factor) == 2 && std::is_same_v<T, Factor>;
    const UnitNeeds needs{.along_k = !kBoth};
    const UnitPlan<T, Factor> plan_a(operands.a, !p.transpose_a, needs);
    const UnitPlan<T, Factor> plan_b(operands.b, p.transpose_b, needs);
    const UnitOperand<Factor> a = plan_a.prepare(!p.transpose_a, device);
    const UnitOperand<Factor> b = plan_b.prepare(p.transpose_b, device);
    const WgmmaPlan plan =
        plan_wgmma(p, static_cast<int>(sizeof(Factor)), device.gpu->info().multiprocessors);
    const auto prepare = [&]<class S>(S) { return prepare_wgmma_shape<S>(result, p.k, a, b, plan, device); };
    if constexpr (kBoth) {
        if (a.across && b.across) return with_tile<Factor, Out, true, true>(plan, prepare);
        if (a.across) return with_tile<Factor, Out, true, false>(plan, prepare);
        if (b.across) return with_tile<Factor, Out, false, true>(plan, prepare);
    }
    return with_tile<Factor, Out, false, false>(plan, prepare);
}

}  // namespace gpumat::multiply::gpu
