#pragma once

#include <array>

#include "kernels/level.hpp"

namespace gpumat::multiply::gpu {

/// The multiply ladder of the GPU, first rung first.
std::span<const Level> levels();

/// What `auto` tries for this problem, best first. It takes levels of ours, never `vendor`.
std::vector<Preference> preference(const Problem& problem, const Device& device);

inline constexpr auto kNaiveBlocks = std::to_array<std::string_view>({"16", "128"});
inline constexpr std::array kNaiveParameters = {
    Parameter{"block", "threads along a row of C: 128 (128x1) or 16 (16x16)", kNaiveBlocks, "128", true}};

inline constexpr auto kTiles = std::to_array<std::string_view>({"8", "16", "32"});
inline constexpr std::array kTiledParameters = {
    Parameter{"tile", "width and height of the tiles in shared memory", kTiles, "32", true}};

/// The ways of `pipelined` to take its operands; any other choice of "pack" is a number of columns.
inline constexpr std::string_view kPackAuto = "auto";
inline constexpr std::string_view kPackNever = "never";
inline constexpr auto kPacks = std::to_array<std::string_view>({kPackAuto, kPackNever, "64", "96", "128"});
inline constexpr std::array kPipelinedParameters = {Parameter{
    "pack",
    "auto: what is expected to be faster at this shape; never: operands as they lie; 64, 96 (f32 only), "
    "128 (not c128): operands packed k by k for the copy engine, in tiles of that many columns",
    kPacks, kPackAuto}};

/// The tiles of `tensor`.
inline constexpr std::string_view kTensorAuto = "auto";
inline constexpr auto kTensorTileChoices = std::to_array<std::string_view>({kTensorAuto, "large", "small"});
inline constexpr std::array kTensorParameters = {
    Parameter{"tile",
              "large: tiles of 128x256 (f64: 128x128, c128: 64x128); small: 64x64 (c128: 32x64), for results "
              "that have few of those; auto: by the shape",
              kTensorTileChoices, kTensorAuto}};

/// The tiles of `wgmma` by their columns, and the runs that it may split k into.
inline constexpr std::string_view kWgmmaAuto = "auto";
inline constexpr auto kWgmmaTileChoices =
    std::to_array<std::string_view>({kWgmmaAuto, "64", "128", "192", "256"});
inline constexpr auto kWgmmaSplitCounts = std::to_array<int>({1, 2, 3, 4, 6, 8, 12, 16, 32, 64});
inline constexpr std::string_view kWgmmaShare = "share";
inline constexpr auto kWgmmaSplitChoices = std::to_array<std::string_view>(
    {kWgmmaAuto, kWgmmaShare, "1", "2", "3", "4", "6", "8", "12", "16", "32", "64"});
inline constexpr std::array kWgmmaParameters = {
    Parameter{"tile", "columns of a tile of C, which has 128 rows; auto: by the shape", kWgmmaTileChoices,
              kWgmmaAuto},
    Parameter{"split",
              "runs that k is split into, added up in order; share: the tiles of the last wave alone, "
              "evenly; auto: by the shape",
              kWgmmaSplitChoices, kWgmmaAuto}};

// One function a level, each in the file of its level.
Launch prepare_naive_strided(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_naive(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled_uncoalesced(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled_conflicted(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_coarsened(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_coarsened_transposed(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_outer_product(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_unrolled(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_prefetch(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_register_blocked(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_pipelined(const Problem& problem, const Operands& operands, const Device& device);
Reasons pipelined_unsupported(const Problem& problem, const Operands&, const Device& device);
Launch prepare_tensor(const Problem& problem, const Operands& operands, const Device& device);
Reasons tensor_unsupported(const Problem& problem, const Operands&, const Device& device);
Launch prepare_wgmma(const Problem& problem, const Operands& operands, const Device& device);
Reasons wgmma_unsupported(const Problem& problem, const Operands&, const Device& device);
Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device);
Reasons vendor_unsupported(const Problem& problem, const Operands&, const Device& device);

// Parts of a level that compile on their own.
Launch prepare_pipelined_f32(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tensor_f16(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tensor_bf16(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tensor_f32(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tensor_i8(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tensor_f64(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_tensor_c128(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_wgmma_f16(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_wgmma_bf16(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_wgmma_f32(const Problem& problem, const Operands& operands, const Device& device);
Launch prepare_wgmma_i8(const Problem& problem, const Operands& operands, const Device& device);

}  // namespace gpumat::multiply::gpu
