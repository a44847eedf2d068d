// transpose, GPU level `tiled`: a tile is staged in shared memory.
//
// New: the tile is transposed in shared memory, so that a warp reads neighbours of an input row and writes
// neighbours of an output row. It removes the scattered global writes. Traffic: each element crosses device
// memory once in each direction in whole sectors, and shared memory twice. What limits it: the column reads
// of the tile. With 4-byte elements and a tile 32 wide all 32 lanes of a warp hit one bank and the read is
// replayed 32 times; the barrier also holds all threads of the block.
// Parameters: `tile` 16, 32, 48, 64 and `block`, the rows of threads. A smaller block makes each thread move
// more elements; one row of threads a row of the tile is one thread an element.
// Source: Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA" (75.1 GB/s on a GTX 280).
//
// The rows of tiles that exceed the grid's 65535 are reached by striding.
#include <algorithm>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr std::int64_t kMaxGridY = 65535;

/// Reads the part of the tile at (top, left) that lies in the matrix. Thread x reads column x.
template <class T, int TILE>
__device__ void load_tile(T* tile, const T* in, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                          std::int64_t top, std::int64_t left) {
    constexpr int kPitch = TILE;
    const std::int64_t j = left + threadIdx.x;
#pragma unroll 4
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        if (top + y < rows && j < cols) tile[y * kPitch + threadIdx.x] = in[(top + y) * pitch + j];
    }
}

/// Writes the tile that was read at (top, left) to its place in the output. Thread x walks column y, which
/// hits one bank.
template <class T, int TILE>
__device__ void store_tile(const T* tile, T* out, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                           std::int64_t top, std::int64_t left) {
    constexpr int kPitch = TILE;
    const std::int64_t i = top + threadIdx.x;
#pragma unroll 4
    for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
        if (left + y < cols && i < rows) out[(left + y) * pitch + i] = tile[threadIdx.x * kPitch + y];
    }
}

template <class T, int TILE>
__global__ void tiled_kernel(const T* __restrict__ in, T* __restrict__ out, std::int64_t rows,
                             std::int64_t cols, std::int64_t in_pitch, std::int64_t out_pitch) {
    extern __shared__ __align__(16) unsigned char shared[];
    T* tile = reinterpret_cast<T*>(shared);
    const std::int64_t left = static_cast<std::int64_t>(blockIdx.x) * TILE;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * TILE;
    for (std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * TILE; top < rows; top += stride) {
        load_tile<T, TILE>(tile, in, rows, cols, in_pitch, top, left);
        __syncthreads();  // the tile is whole before its columns are read
        store_tile<T, TILE>(tile, out, rows, cols, out_pitch, top, left);
        __syncthreads();  // its columns are read before the next tile overwrites it
    }
}

/// In place: a block holds a tile above the diagonal and its mirror image, and writes each where the other
/// was.
template <class T, int TILE>
__global__ void tiled_in_place_kernel(T* matrix, std::int64_t size, std::int64_t pitch) {
    extern __shared__ __align__(16) unsigned char shared[];
    T* upper = reinterpret_cast<T*>(shared);
    T* lower = upper + TILE * TILE;
    const std::int64_t left = static_cast<std::int64_t>(blockIdx.x) * TILE;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * TILE;
    for (std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * TILE; top <= left; top += stride) {
        load_tile<T, TILE>(upper, matrix, size, size, pitch, top, left);
        load_tile<T, TILE>(lower, matrix, size, size, pitch, left, top);
        __syncthreads();  // both tiles are read before either is overwritten
        store_tile<T, TILE>(upper, matrix, size, size, pitch, top, left);
        store_tile<T, TILE>(lower, matrix, size, size, pitch, left, top);
        __syncthreads();  // both are written before the next pair overwrites them
    }
}

std::size_t shared_bytes(const Problem& problem, std::size_t tile) {
    return tile * tile * size_of(problem.type) * (problem.in_place ? 2 : 1);
}

template <class T, int TILE>
Launch launch(const Problem& problem, const Operands& operands) {
    const auto block_rows = static_cast<unsigned>(parameter_number(tile_parameters(), problem, "block"));
    const std::int64_t grid_x = (problem.n + TILE - 1) / TILE;
    const std::int64_t grid_y = std::min((problem.m + TILE - 1) / TILE, kMaxGridY);
    const Geometry geometry = {.grid = dim3(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)),
                               .block = dim3(TILE, block_rows),
                               .shared_bytes = shared_bytes(problem, TILE)};
    if (problem.in_place) {
        return make_launch("tiled", geometry, tiled_in_place_kernel<T, TILE>, operands.c.as<T>(), problem.n,
                           operands.c.pitch);
    }
    return make_launch("tiled", geometry, tiled_kernel<T, TILE>, operands.a.as<T>(), operands.c.as<T>(),
                       problem.m, problem.n, operands.a.pitch, operands.c.pitch);
}

}  // namespace

Reasons tiled_unsupported(const Problem& problem, const Operands&, const Device& device) {
    const int tile = parameter_number(tile_parameters(), problem, "tile");
    return tile_reasons(problem, device, shared_bytes(problem, static_cast<std::size_t>(tile)));
}

Launch prepare_tiled(const Problem& problem, const Operands& operands, const Device&) {
    const int tile = parameter_number(tile_parameters(), problem, "tile");
    return visit_element(problem.type, [&]<class T>(TypeTag<T>) {
        switch (tile) {
            case 16:
                return launch<T, 16>(problem, operands);
            case 32:
                return launch<T, 32>(problem, operands);
            case 48:
                return launch<T, 48>(problem, operands);
            default:
                return launch<T, 64>(problem, operands);
        }
    });
}

}  // namespace gpumat::transpose::gpu
