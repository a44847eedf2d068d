#pragma once

#include "kernels/multiply/gpu/tuning.hpp"

namespace gpumat::multiply::gpu {

// The block tiles of `tensor`: bytes of k that a stage has are 128. Stages are the most; a device has as many
// as its shared memory holds, and at least two.
//                                      bm   bn  bk  tm  tn  lanes_m  stages  resident  rate
inline constexpr Tile kTensorTile16{128, 256, 64, 8, 16, 8, 4, 1, 80};
inline constexpr Tile kTensorTile32{128, 256, 32, 8, 16, 8, 4, 1, 80};
inline constexpr Tile kTensorTile8{128, 256, 128, 8, 16, 8, 4, 1, 80};
inline constexpr Tile kTensorTile64{128, 128, 16, 8, 8, 8, 6, 1, 93};
inline constexpr Tile kTensorTileC128{64, 128, 8, 4, 8, 8, 6, 1, 80};

// The same for results that have few of those tiles.
inline constexpr Tile kTensorSmall16{64, 64, 64, 4, 8, 8, 4, 3, 45};
inline constexpr Tile kTensorSmall32{64, 64, 32, 4, 8, 8, 4, 3, 45};
inline constexpr Tile kTensorSmall8{64, 64, 128, 4, 8, 8, 4, 3, 45};
inline constexpr Tile kTensorSmall64{64, 64, 16, 4, 8, 8, 4, 3, 84};
inline constexpr Tile kTensorSmallC128{32, 64, 8, 4, 4, 8, 4, 2, 70};

}  // namespace gpumat::multiply::gpu
