#pragma once

// How the level `tensor` takes its operands, and its launch.
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/pack_rows.cuh"
#include "kernels/multiply/gpu/tensor.cuh"

namespace gpumat::multiply::gpu {

/// An operand as the kernel reads it, and the work that brings it there.
struct TensorOperand {
    Lines lines{};
    Form form = Form::along_k;
    std::function<void(cudaStream_t)> pack = {};  ///< empty where nothing is to be done
    std::uint64_t packed_bytes = 0;
};

/// The operand, m or n by k, as it lies where the unit takes it so, else packed.
template <class Unit, class From>
TensorOperand tensor_operand(const Operand& operand, bool along_k, const Device& device) {
    using Element = typename Unit::Element;
    if (operand.rows == 0 || operand.cols == 0) return {};  // nothing is read
    constexpr bool kAcross = Unit::kAcrossK && std::is_same_v<From, Element>;
    const UnitPlan<From, Element> plan(operand, along_k,
                                       {.along_k = !kAcross, .rounded = true, .whole_pieces = true});
    const UnitOperand<Element> unit = plan.prepare(along_k, device);
    return {.lines = {.data = reinterpret_cast<const unsigned char*>(unit.rows.data),
                      .pitch = unit.rows.pitch * static_cast<std::int64_t>(sizeof(Element))},
            .form = unit.across ? Form::across_k : Form::along_k,
            .pack = unit.pack,
            .packed_bytes = unit.bytes};
}

/// How blocks share the tiles of the result.
template <class Unit>
Share tensor_share(Tile tile, const Problem& problem, const Device& device) {
    tile.packed = true;  // no bounds are checked: edges cost what the rest does
    return best_share(tile, problem.m, problem.n, problem.k, Unit::kCost, device.gpu->info().multiprocessors,
                      false);
}

/// a and b are what the instruction calls so.
template <class Unit, class T, Tile kTile, Form kFormA, Form kFormB, bool kSwapped = false>
Launch launch_tensor(const Problem& problem, const Arguments<T>& arguments, const Device& device,
                     const TensorOperand& a, const TensorOperand& b) {
    using TileOf = TypeOf<kTile>;
    constexpr auto kKernel = tensor<Unit, T, TileOf, kFormA, kFormB, kSwapped>;
    using Shape = TensorShape<Unit, TileOf, kFormA, kFormB, kSwapped>;
    constexpr int kStageBytes = Shape::kStageBytes;
    Tile tile = kSwapped ? across(kTile) : kTile;
    if (device.gpu->info().shared_bytes_per_block < static_cast<std::uint64_t>(kTile.stages) * kStageBytes)
        tile.stages = Shape::kFewStages;
    const int shared_bytes = tile.stages * kStageBytes;
    const Share share = tensor_share<Unit>(tile, problem, device);
    Launch launch = launch_tiles<T>(
        "tensor", tile, problem, arguments, device, share, reinterpret_cast<const void*>(kKernel),
        shared_bytes,
        [=, stages = tile.stages](unsigned grid, const Work<T, ShareTiles>& work, cudaStream_t stream) {
            if (a.pack) a.pack(stream);
            if (b.pack) b.pack(stream);
            kKernel<<<grid, kTile.threads(), shared_bytes, stream>>>(arguments, a.lines, b.lines, work,
                                                                     stages);
        });
    const bool packs_a = static_cast<bool>(kSwapped ? b.pack : a.pack);
    const bool packs_b = static_cast<bool>(kSwapped ? a.pack : b.pack);
    const std::string packs = packs_a && packs_b ? "A and B" : packs_a ? "A" : packs_b ? "B" : "nothing";
    launch.details.insert(launch.details.begin(), {"packs", packs});
    launch.workspace_bytes += a.packed_bytes + b.packed_bytes;
    return launch;
}

/// Prepares the launch of one tile for operands of type From and a result of type T.
template <class Unit, class From, class T, Tile kTile>
Launch prepare_tensor_tile(const Problem& problem, const Operands& operands, const Device& device) {
    const TensorOperand a = tensor_operand<Unit, From>(operands.a, !problem.transpose_a, device);
    const TensorOperand b = tensor_operand<Unit, From>(operands.b, problem.transpose_b, device);
    const Arguments<T> arguments(problem, operands);
    constexpr Form along = Form::along_k;
    constexpr Form across = Form::across_k;
    if constexpr (Unit::kAcrossK && std::is_same_v<From, typename Unit::Element>) {
        if (a.form == across && b.form == across)
            return launch_tensor<Unit, T, kTile, across, across>(problem, arguments, device, a, b);
        if (a.form == across)
            return launch_tensor<Unit, T, kTile, across, along>(problem, arguments, device, a, b);
        if (b.form == across) {
            if constexpr (Unit::kPrefersAcrossAlong)
                return launch_tensor<Unit, T, kTile, across, along, true>(problem, arguments, device, b, a);
            else
                return launch_tensor<Unit, T, kTile, along, across>(problem, arguments, device, a, b);
        }
    }
    return launch_tensor<Unit, T, kTile, along, along>(problem, arguments, device, a, b);
}

/// Prepares the launch of one unit, in the large or the small tile.
template <class Unit, class From, class T, Tile kLarge, Tile kSmall>
Launch prepare_tensor_unit(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.m == 0 || problem.n == 0) return {.level = "tensor", .run = [](Stream) {}};
    const std::string_view tile = parameter_choice(kTensorParameters, problem, "tile");
    const bool small = tile == kTensorAuto ? tensor_share<Unit>(kSmall, problem, device).clocks <
                                                 tensor_share<Unit>(kLarge, problem, device).clocks
                                           : tile == "small";
    return small ? prepare_tensor_tile<Unit, From, T, kSmall>(problem, operands, device)
                 : prepare_tensor_tile<Unit, From, T, kLarge>(problem, operands, device);
}

}  // namespace gpumat::multiply::gpu
