// Finds the best tile plans of the GPU transpose for one element size, GPUMAT_ELEMENT_BYTES, on the device at
// hand. Every candidate is verified bit for bit on every shape, then timed with a cold cache (rotating
// buffers of more than twice the L2), median of 15. The tables show the share of the fastest plain copy of
// the same bytes.
//
// A development tool, no test: build the target tune_transpose, run bin/tune_transpose_4 [FILE.csv], and put
// the winners into kernels/transpose/gpu/tuning.hpp.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/common/launch.cuh"
#include "kernels/common/tensor_map.cuh"
#include "kernels/device/cuda_check.cuh"
#include "kernels/transpose/gpu/shifted.cuh"
#include "kernels/transpose/gpu/thin.cuh"
#include "kernels/transpose/gpu/tma.cuh"
#include "kernels/transpose/gpu/vectorized.cuh"
#include "kernels/transpose/move.hpp"

using namespace gpumat;
using namespace gpumat::transpose;
using namespace gpumat::transpose::gpu;

namespace {

constexpr int kBytes = GPUMAT_ELEMENT_BYTES;
constexpr int kRuns = 15;
constexpr int kShownCandidates = 16;

struct Sides {
    const char* name;
    std::int64_t m;
    std::int64_t n;
    [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(m * n) * kBytes; }
};

const std::vector<Sides> kShapes = {{"512", 512, 512},
                                    {"1000", 1000, 1000},
                                    {"2000", 2000, 2000},
                                    {"4096", 4096, 4096},
                                    {"8192", 8192, 8192},
                                    {"16384", 16384, 16384},
                                    {"16383", 16383, 16383},
                                    {"10007x12289", 10007, 12289},
                                    {"16383x16388", 16383, 16388},
                                    {"16383x16400", 16383, 16400},
                                    {"1001", 1001, 1001},
                                    {"128 KiB", 8192, (128 << 10) / kBytes},
                                    {"1e6x64", 1000000, 64},
                                    {"64x1e6", 64, 1000000},
                                    {"1e7x3", 10000000, 3},
                                    {"3x1e7", 3, 10000000},
                                    {"1e6x50", 1000001, 50},
                                    {"50x1e6", 50, 1000001},
                                    {"3e6x40", 3000000, 40},
                                    {"40x3e6", 40, 3000000},
                                    {"1004", 1004, 1004},
                                    {"10004", 10004, 10004}};

struct Candidate {
    std::string name;
    std::function<bool(const Sides&)> serves;
    std::function<void(const Sides&, const void*, void*)> run;
};

template <int SIZE>
struct ElementOf {
    using type = typename WordOf<SIZE>::type;
};
template <>
struct ElementOf<8> {
    using type = std::uint64_t;
};
template <>
struct ElementOf<16> {
    using type = Bytes16;
};
using T = ElementOf<kBytes>::type;

std::vector<Candidate> candidates;

const char* text(Cache cache) {
    switch (cache) {
        case Cache::once:
            return "once";
        case Cache::keep:
            return "keep";
        case Cache::last:
            return "last";
        case Cache::normal:
            break;
    }
    return "-";
}

template <class Kernel>
void allow(Kernel kernel, std::size_t bytes) {
    GPUMAT_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

bool whole_words(const Sides& shape, int word) {
    return shape.m * kBytes % word == 0 && shape.n * kBytes % word == 0;
}

/// Plans that prefetch have kernels by the places of the order, others the one for any.
template <class PLAN>
WordsKernel kernel_of(Places places) {
    if constexpr (PLAN::kAhead > 0) {
        if (places == Places::columns) return vectorized_kernel<T, PLAN, Places::columns>;
        if (places == Places::turns) return vectorized_kernel<T, PLAN, Places::turns>;
    }
    return vectorized_kernel<T, PLAN>;
}

template <class PLAN>
void add_words(const std::vector<int>& bands) {
    using Tile = WordTile<T, PLAN>;
    for (const Places places : {Places::columns, Places::turns, Places::any}) {
        const WordsKernel kernel = kernel_of<PLAN>(places);
        allow(kernel, Tile::kShared_bytes);
        prefer_blocks(
            reinterpret_cast<const void*>(kernel),
            {.block = dim3(PLAN::kThreads), .shared_bytes = Tile::kShared_bytes, .blocks = PLAN::kBlocks});
    }
    for (const int band : bands) {
        char name[128];
        std::snprintf(name, sizeof(name), "words %d %2dx%2d t%d %s/%s ahead %d b%d %s band %d",
                      PLAN::kWord_bytes, PLAN::kWordsX, PLAN::kWordsY, PLAN::kThreads, text(PLAN::kLoad),
                      text(PLAN::kStore), PLAN::kAhead, PLAN::kBlocks, text(PLAN::kEdges), band);
        candidates.push_back({name, [](const Sides& shape) { return whole_words(shape, PLAN::kWord_bytes); },
                              [band](const Sides& shape, const void* in, void* out) {
                                  const TileOrder order =
                                      TileOrder::of(Tile::tiling(shape.m, shape.n), band, PLAN::kAhead);
                                  const WordsKernel kernel = kernel_of<PLAN>(order.places());
                                  kernel<<<grid_of(order), PLAN::kThreads, Tile::kShared_bytes>>>(
                                      in, out, shape.m, shape.n, shape.n, shape.m, order);
                              }});
    }
}

template <class... PLANS>
void add_all_words(const std::vector<int>& bands) {
    (add_words<PLANS>(bands), ...);
}

/// In column order.
template <class PLAN>
void add_shifted() {
    using Tile = ShiftTile<T, PLAN>;
    allow(shifted_kernel<T, PLAN>, Tile::most_shared_bytes());
    prefer_blocks(reinterpret_cast<const void*>(shifted_kernel<T, PLAN>),
                  {.block = dim3(PLAN::kThreads),
                   .shared_bytes = Tile::shared_bytes(Tile::pitch(1)),  // as for all odd numbers of columns
                   .blocks = PLAN::kBlocks});
    char name[128];
    std::snprintf(name, sizeof(name), "shifted %d %dx%d a%d t%d b%d -/%s", PLAN::kWord_bytes, PLAN::kRowWords,
                  PLAN::kRows, PLAN::kAlign_bytes, PLAN::kThreads, PLAN::kBlocks, text(PLAN::kStore));
    candidates.push_back(
        {name, [](const Sides& shape) { return !whole_words(shape, 16) && shape.n > 31; },
         [](const Sides& shape, const void* in, void* out) {
             const TileOrder order = TileOrder::of(shift_tiling<T, PLAN>(shape.m, shape.n), kColumns);
             const int pitch = Tile::pitch(shape.n);
             shifted_kernel<T, PLAN><<<grid_of(order), PLAN::kThreads, Tile::shared_bytes(pitch)>>>(
                 static_cast<const T*>(in), static_cast<T*>(out), shape.m, shape.n, shape.n, shape.m, pitch,
                 order);
         }});
}

template <class... PLANS>
void add_all_shifted() {
    (add_shifted<PLANS>(), ...);
}

/// Plans in wide and in narrow words.
template <int... SIZES>
void add_both_shifted() {
    add_all_shifted<ShiftPlan<16, SIZES...>, ShiftPlan<kNarrowest_bytes<T>, SIZES...>>();
}

template <class PLAN>
void add_tma(const std::vector<int>& bands) {
    using Tile = TmaTile<T, PLAN>;
    allow(tma_kernel<T, PLAN>, Tile::kShared_bytes);
    prefer_blocks(
        reinterpret_cast<const void*>(tma_kernel<T, PLAN>),
        {.block = dim3(PLAN::kThreads), .shared_bytes = Tile::kShared_bytes, .blocks = PLAN::kBlocks});
    for (const int band : bands) {
        char name[128];
        std::snprintf(name, sizeof(name), "tma %dx%d t%d b%d band %d", PLAN::kBoxesX, PLAN::kBoxesY,
                      PLAN::kThreads, PLAN::kBlocks, band);
        candidates.push_back({name, [](const Sides& shape) { return whole_words(shape, 16); },
                              [band](const Sides& shape, const void* in, void* out) {
                                  const TileOrder order = TileOrder::of(Tile::tiling(shape.m, shape.n), band);
                                  const CUtensorMap map = swizzled_map(in, shape.m, shape.n * kBytes,
                                                                       shape.n * kBytes, Tile::kRows);
                                  tma_kernel<T, PLAN>
                                      <<<grid_of(order), PLAN::kThreads, Tile::kShared_bytes>>>(
                                          map, static_cast<uint4*>(out), shape.m, shape.n, shape.m, order);
                              }});
    }
}

template <class... PLANS>
void add_all_tma(const std::vector<int>& bands) {
    (add_tma<PLANS>(bands), ...);
}

#if GPUMAT_ELEMENT_BYTES < 16
constexpr ThinPlan kThinPlan = Choices<kBytes>::kThin;

bool tall(const Sides& shape) {
    return shape.n <= kThinPlan.tall_most;
}

template <bool SKEWED>
void add_tall(int tile_bytes) {
    allow(tall_kernel<T, SKEWED>, 2 * kMostThin_bytes);
    candidates.push_back({std::string("tall ") + (SKEWED ? "skewed " : "") + std::to_string(tile_bytes), tall,
                          [tile_bytes](const Sides& shape, const void* in, void* out) {
                              const ThinTiles tiles = tall_tiles<T>(shape.m, shape.n, tile_bytes);
                              tall_kernel<T, SKEWED><<<tiles.count, kThinThreads, tiles.shared_bytes>>>(
                                  static_cast<const T*>(in), static_cast<T*>(out), shape.m,
                                  static_cast<int>(shape.n), tiles.length, tiles.warps);
                          }});
}

void add_thin() {
    for (const int tile_bytes : {8 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10}) {
        add_tall<false>(tile_bytes);
        add_tall<true>(tile_bytes);
        allow(wide_kernel<T>, 2 * kMostThin_bytes);
        candidates.push_back({"wide " + std::to_string(tile_bytes),
                              [](const Sides& shape) { return shape.m <= kThinPlan.wide_most; },
                              [tile_bytes](const Sides& shape, const void* in, void* out) {
                                  const ThinTiles tiles =
                                      wide_tiles<T>(shape.m, shape.n, wide_length<T>(shape.m, tile_bytes));
                                  wide_kernel<T><<<tiles.count, kThinThreads, tiles.shared_bytes>>>(
                                      static_cast<const T*>(in), static_cast<T*>(out),
                                      static_cast<int>(shape.m), shape.n, tiles.length, tiles.pitch_bytes);
                              }});
    }
}

#endif

template <class... PLANS>
void add_short(Plans<PLANS...>) {
    add_all_words<PLANS...>({kColumns});
}

void collect() {
    add_words<Choices<kBytes>::Large>({kColumns});
    add_words<Choices<kBytes>::Ragged>({kColumns});
    add_short(Choices<kBytes>::Low{});
    add_short(Choices<kBytes>::Narrow{});
    constexpr Cache N = Cache::normal;
    constexpr Cache O = Cache::once;
    const std::vector<int> bands = {1, 4, 8, 16, 32, 64, 1 << 20};
    constexpr Cache K = Cache::keep;
    const std::vector<int> few = {1, 8, 32, 1 << 20};
    const std::vector<int> columns = {kColumns};
#if GPUMAT_ELEMENT_BYTES == 1
    add_all_words<WordPlan<16, 16, 16, 256, 0, K>, WordPlan<16, 16, 8, 128, 0, K>,
                  WordPlan<8, 32, 32, 512, 0, K>, WordPlan<8, 32, 32, 512, 0, K, N, 0, 2>,
                  WordPlan<8, 32, 32, 1024, 0, K>, WordPlan<8, 32, 32, 1024, 0, N, N, 56, 2>>(columns);
    add_all_words<WordPlan<16, 8, 16, 128, 0>, WordPlan<16, 8, 8, 64, 0>, WordPlan<16, 16, 8, 128, 0>,
                  WordPlan<16, 16, 16, 256, 0>, WordPlan<8, 16, 16, 128, 0>, WordPlan<8, 32, 32, 256, 0>,
                  WordPlan<8, 32, 32, 512, 0>>(bands);
    add_all_words<WordPlan<16, 8, 16, 128, 0, O, N>, WordPlan<16, 8, 16, 128, 0, N, O>,
                  WordPlan<16, 8, 16, 128, 0, O, O>, WordPlan<8, 32, 32, 256, 0, O, O>,
                  WordPlan<8, 16, 16, 128, 0, O, O>>(few);
    add_all_words<WordPlan<8, 32, 32, 512, 0, O, O>>(few);
    add_all_words<WordPlan<1, 64, 64, 512, 0>, WordPlan<1, 128, 64, 1024, 0>>(few);
    add_all_words<WordPlan<4, 32, 64, 512, 0, K>, WordPlan<4, 32, 32, 256, 0, K>,
                  WordPlan<8, 16, 32, 256, 0, K>, WordPlan<4, 16, 64, 512, 0, K>,
                  WordPlan<4, 64, 64, 512, 0, K, N, 0, 2>>(columns);
    add_all_shifted<ShiftPlan<16, 16, 256, 32, 512, N, 2>, ShiftPlan<16, 8, 256, 32, 512, N, 2>,
                    ShiftPlan<8, 12, 256, 32, 384, N, 2>>();
    add_both_shifted<8, 256, 32, 256>();
    add_both_shifted<16, 128, 32, 256>();
    add_both_shifted<16, 128, 32, 512>();
    add_both_shifted<16, 256, 32, 512>();
    add_both_shifted<16, 256, 64, 512>();
    add_both_shifted<32, 128, 32, 512>();
    add_both_shifted<32, 256, 32, 1024>();
    add_all_tma<TmaPlan<1, 1, 64, 0>, TmaPlan<1, 2, 128, 0>, TmaPlan<2, 1, 128, 0, 4>, TmaPlan<1, 2, 64, 0>>(
        few);
#elif GPUMAT_ELEMENT_BYTES == 2
    add_all_words<WordPlan<16, 16, 16, 256, 0, K>, WordPlan<16, 16, 8, 128, 0, K>,
                  WordPlan<8, 32, 32, 512, 0, K>, WordPlan<16, 16, 16, 256, 0, K, N, 0, 3>,
                  WordPlan<8, 32, 32, 1024, 0, K>, WordPlan<8, 32, 32, 512, 0, N, O, 128>>(columns);
    add_all_words<WordPlan<16, 16, 16, 256, 0>, WordPlan<16, 8, 16, 128, 0>, WordPlan<16, 8, 8, 64, 0>,
                  WordPlan<16, 16, 8, 128, 0>, WordPlan<16, 32, 16, 256, 0>, WordPlan<8, 32, 32, 256, 0>,
                  WordPlan<8, 16, 16, 128, 0>>(bands);
    add_all_words<WordPlan<16, 16, 16, 256, 0, O, N>, WordPlan<16, 16, 16, 256, 0, N, O>,
                  WordPlan<16, 16, 16, 256, 0, O, O>, WordPlan<8, 32, 32, 256, 0, O, O>>(few);
    add_all_words<WordPlan<8, 32, 32, 512, 0, O, O>, WordPlan<8, 32, 32, 512, 0>,
                  WordPlan<8, 16, 16, 256, 0, O, N>>(few);
    add_all_words<WordPlan<2, 64, 64, 512, 0>, WordPlan<2, 128, 64, 1024, 0>>(few);
    add_all_shifted<ShiftPlan<8, 16, 192, 32, 512, N, 2>, ShiftPlan<8, 16, 192, 32, 384, N, 3>,
                    ShiftPlan<8, 24, 128, 32, 384, N, 2>, ShiftPlan<16, 16, 128, 32, 512, N, 2>>();
    add_both_shifted<16, 64, 32, 256>();
    add_both_shifted<16, 128, 32, 128>();
    add_both_shifted<16, 128, 32, 256>();
    add_both_shifted<16, 128, 64, 256>();
    add_both_shifted<16, 256, 32, 512>();
    add_both_shifted<32, 128, 32, 256>();
    add_both_shifted<32, 128, 32, 512>();
    add_both_shifted<32, 128, 64, 512>();
    add_both_shifted<32, 192, 32, 512>();
    add_all_tma<TmaPlan<1, 2, 128, 0>, TmaPlan<2, 2, 256, 0>, TmaPlan<2, 2, 128, 0>, TmaPlan<1, 1, 64, 0, 6>>(
        few);
#elif GPUMAT_ELEMENT_BYTES == 4
    add_all_words<WordPlan<8, 32, 32, 512, 0, K>, WordPlan<16, 16, 16, 256, 0, K>,
                  WordPlan<8, 32, 32, 1024, 0, N, N, 176, 2>, WordPlan<8, 32, 32, 1024, 0, N, N, 208, 2>,
                  WordPlan<8, 32, 16, 512, 0, N, N, 320, 3>, WordPlan<8, 32, 32, 512, 0, N, N, 112>,
                  WordPlan<8, 32, 32, 512, 0, N, N, 144>, WordPlan<8, 32, 32, 512, 0, N, N, 160>,
                  WordPlan<8, 32, 32, 512, 0, N, N, 192>, WordPlan<8, 32, 32, 512, 0, N, N, 160, 3>,
                  WordPlan<8, 32, 32, 512, 0, N, N, 256>, WordPlan<8, 32, 32, 512, 0, N, O, 192>,
                  WordPlan<8, 32, 32, 512, 0, N, O, 160>, WordPlan<8, 32, 64, 512, 0, N, O, 112>>(columns);
    add_all_shifted<ShiftPlan<8, 20, 128, 32, 320, N, 2>, ShiftPlan<8, 22, 128, 32, 352, N, 2>,
                    ShiftPlan<8, 22, 160, 32, 352, N, 2>, ShiftPlan<8, 24, 96, 32, 384, N, 3>,
                    ShiftPlan<8, 24, 128, 32, 384, N, 2>, ShiftPlan<8, 32, 96, 32, 512, N, 2>,
                    ShiftPlan<8, 32, 160, 32, 576, N, 2>, ShiftPlan<8, 16, 192, 32, 512, N, 2>,
                    ShiftPlan<8, 16, 64, 32, 256, N, 4>>();
    add_all_words<WordPlan<16, 16, 16, 256, 0>, WordPlan<16, 8, 8, 64, 0>, WordPlan<16, 16, 16, 128, 0>,
                  WordPlan<16, 8, 16, 128, 0>, WordPlan<16, 16, 32, 256, 0>, WordPlan<16, 32, 16, 256, 0>,
                  WordPlan<16, 32, 32, 512, 0>, WordPlan<16, 32, 32, 256, 0>>(bands);
    add_all_words<WordPlan<16, 16, 16, 256, 0, O, N>, WordPlan<16, 16, 16, 256, 0, N, O>,
                  WordPlan<16, 16, 16, 256, 0, O, O>, WordPlan<16, 32, 32, 512, 0, O, O>,
                  WordPlan<16, 16, 16, 128, 0, O, O>>(few);
    add_all_words<WordPlan<8, 32, 32, 512, 0, O, O>, WordPlan<8, 32, 32, 512, 0>>(few);
    add_all_words<WordPlan<4, 64, 64, 512, 0>, WordPlan<4, 64, 64, 256, 0>, WordPlan<4, 32, 32, 128, 0>,
                  WordPlan<4, 32, 64, 256, 0>, WordPlan<4, 64, 32, 256, 0>>(few);
    add_both_shifted<16, 64, 32, 256>();
    add_both_shifted<16, 128, 32, 128>();
    add_both_shifted<32, 64, 32, 256>();
    add_both_shifted<32, 96, 32, 256>();
    add_both_shifted<32, 96, 64, 256>();
    add_both_shifted<32, 128, 32, 128>();
    add_both_shifted<32, 128, 32, 256>();
    add_both_shifted<32, 128, 64, 256>();
    add_both_shifted<32, 128, 128, 256>();
    add_both_shifted<32, 192, 128, 256>();
    add_both_shifted<64, 64, 32, 256>();
    add_all_tma<TmaPlan<2, 2, 256, 0>, TmaPlan<2, 2, 128, 0, 3>, TmaPlan<1, 2, 128, 0>,
                TmaPlan<2, 1, 128, 0>>(few);
#elif GPUMAT_ELEMENT_BYTES == 8
    add_all_words<WordPlan<16, 16, 32, 512, 0, K>, WordPlan<16, 16, 16, 256, 0, K>,
                  WordPlan<8, 32, 32, 512, 0, N, N, 256, 4>, WordPlan<8, 32, 64, 1024, 0, N, N, 200, 2>,
                  WordPlan<16, 16, 32, 512, 0, N, N, 160, 3>, WordPlan<16, 16, 32, 512, 0, N, N, 192, 3>,
                  WordPlan<16, 16, 32, 512, 0, N, O, 160, 3>, WordPlan<16, 16, 32, 512, 0, N, N, 160>,
                  WordPlan<16, 16, 32, 512, 0, N, O, 160>, WordPlan<16, 16, 32, 512, 0, N, O, 256>,
                  WordPlan<16, 32, 16, 512, 0, N, O, 160>>(columns);
    add_all_words<WordPlan<8, 32, 64, 512, 0, N, N, 112>, WordPlan<8, 32, 64, 512, 0, N, N, 144>,
                  WordPlan<8, 32, 64, 512, 0, N, O, 192>>(columns);
    add_all_shifted<ShiftPlan<8, 32, 32, 32, 512, N, 4>, ShiftPlan<8, 24, 64, 32, 384, N, 3>,
                    ShiftPlan<8, 20, 128, 32, 480, N, 2>, ShiftPlan<8, 16, 160, 32, 320, N, 2>,
                    ShiftPlan<8, 32, 96, 32, 768, N, 2>, ShiftPlan<8, 16, 192, 32, 768, N, 2>>();
    add_all_words<WordPlan<16, 16, 16, 256, 0>, WordPlan<16, 16, 16, 128, 0>, WordPlan<16, 16, 16, 64, 0>,
                  WordPlan<16, 8, 8, 64, 0>, WordPlan<16, 32, 16, 256, 0>, WordPlan<16, 16, 32, 256, 0>,
                  WordPlan<16, 32, 32, 512, 0>, WordPlan<16, 32, 32, 256, 0>>(bands);
    add_all_words<WordPlan<16, 16, 16, 128, 0, O, N>, WordPlan<16, 16, 16, 128, 0, N, O>,
                  WordPlan<16, 16, 16, 128, 0, O, O>, WordPlan<16, 32, 32, 512, 0, O, O>>(few);
    add_all_words<WordPlan<16, 16, 32, 512, 0, O, O>, WordPlan<16, 16, 32, 512, 0>>(few);
    add_all_words<WordPlan<8, 32, 32, 256, 0>, WordPlan<8, 32, 32, 128, 0>, WordPlan<8, 64, 32, 256, 0>,
                  WordPlan<8, 32, 64, 256, 0>>(few);
    add_both_shifted<16, 32, 32, 256>();
    add_both_shifted<16, 64, 32, 256>();
    add_both_shifted<32, 32, 32, 512>();
    add_both_shifted<32, 32, 64, 512>();
    add_both_shifted<32, 32, 128, 512>();
    add_both_shifted<32, 64, 32, 512>();
    add_both_shifted<32, 64, 64, 512>();
    add_both_shifted<32, 64, 128, 512>();
    add_both_shifted<32, 96, 32, 512>();
    add_both_shifted<32, 128, 64, 1024>();
    add_both_shifted<64, 32, 32, 1024>();
    add_all_tma<TmaPlan<2, 2, 256, 0, 5>, TmaPlan<2, 2, 128, 0>, TmaPlan<4, 2, 256, 0>,
                TmaPlan<2, 4, 256, 0>>(few);
#else
    add_all_words<WordPlan<16, 32, 32, 512, 0, K>, WordPlan<16, 16, 16, 128, 0, K>,
                  WordPlan<16, 16, 32, 512, 0, N, N, 256, 4>, WordPlan<16, 16, 64, 1024, 0, N, N, 192, 2>,
                  WordPlan<16, 32, 32, 512, 0, N, N, 160>, WordPlan<16, 32, 32, 512, 0, N, O, 160>,
                  WordPlan<16, 32, 32, 512, 0, N, O, 160, 3>, WordPlan<16, 16, 64, 512, 0, N, N, 192, 3>,
                  WordPlan<16, 16, 64, 512, 0, N, O, 192>, WordPlan<16, 16, 64, 512, 0, N, O, 224>>(columns);
    add_all_words<WordPlan<16, 32, 32, 256, 0>, WordPlan<16, 32, 32, 512, 0>, WordPlan<16, 16, 16, 128, 0>,
                  WordPlan<16, 16, 16, 64, 0>, WordPlan<16, 32, 16, 128, 0>, WordPlan<16, 16, 32, 128, 0>,
                  WordPlan<16, 64, 32, 512, 0>, WordPlan<16, 32, 64, 512, 0>>(bands);
    add_all_words<WordPlan<16, 16, 16, 128, 0, O, O>>(columns);
    add_all_words<WordPlan<16, 32, 32, 256, 0, O, N>, WordPlan<16, 32, 32, 256, 0, N, O>,
                  WordPlan<16, 32, 32, 256, 0, O, O>>(few);
    add_all_tma<TmaPlan<4, 4, 256, 0>, TmaPlan<2, 4, 256, 0>, TmaPlan<2, 2, 64, 0>, TmaPlan<4, 8, 512, 0>>(
        few);
#endif
#if GPUMAT_ELEMENT_BYTES < 16
    add_thin();
#endif
}

template <int WORDS, int THREADS, Cache LOAD, Cache STORE>
__global__ void __launch_bounds__(THREADS)
    copy_words(const uint4* __restrict__ in, uint4* __restrict__ out, std::int64_t count) {
    const std::int64_t first = std::int64_t{blockIdx.x} * (THREADS * WORDS) + threadIdx.x;
    uint4 words[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; ++k) {
        if (first + k * THREADS < count) words[k] = load_word<LOAD>(in + first + k * THREADS);
    }
#pragma unroll
    for (int k = 0; k < WORDS; ++k) {
        if (first + k * THREADS < count) store_word<STORE>(out + first + k * THREADS, words[k]);
    }
}

/// Copies rounded down to whole words: the byte or so that is left out is no matter to the time.
template <int WORDS, int THREADS, Cache LOAD, Cache STORE>
Candidate copy_candidate() {
    char name[64];
    std::snprintf(name, sizeof(name), "copy %d words t%d %s/%s", WORDS, THREADS, text(LOAD), text(STORE));
    return {name, [](const Sides&) { return true; },
            [](const Sides& shape, const void* in, void* out) {
                const auto count = static_cast<std::int64_t>(shape.bytes() / 16);
                const auto blocks = static_cast<unsigned>((count + THREADS * WORDS - 1) / (THREADS * WORDS));
                copy_words<WORDS, THREADS, LOAD, STORE>
                    <<<blocks, THREADS>>>(static_cast<const uint4*>(in), static_cast<uint4*>(out), count);
            }};
}

std::vector<Candidate> copies() {
    constexpr Cache N = Cache::normal;
    constexpr Cache O = Cache::once;
    return {{"memcpy", [](const Sides&) { return true; },
             [](const Sides& shape, const void* in, void* out) {
                 GPUMAT_CUDA(cudaMemcpyAsync(out, in, shape.bytes(), cudaMemcpyDeviceToDevice));
             }},
            copy_candidate<1, 256, N, N>(),
            copy_candidate<1, 128, N, N>(),
            copy_candidate<4, 512, N, N>(),
            copy_candidate<4, 256, N, N>(),
            copy_candidate<2, 512, N, N>(),
            copy_candidate<1, 1024, N, N>(),
            copy_candidate<4, 256, O, O>(),
            copy_candidate<8, 512, O, O>()};
}

__global__ void fill_kernel(std::uint64_t* words, std::size_t count) {
    for (std::size_t k = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; k < count;
         k += std::size_t{gridDim.x} * blockDim.x) {
        std::uint64_t x = k + 0x9E3779B97F4A7C15;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
        words[k] = x ^ (x >> 31);
    }
}

__global__ void check_kernel(const T* in, const T* out, std::int64_t m, std::int64_t n,
                             unsigned long long* wrong) {
    const std::int64_t count = m * n;
    for (std::int64_t e = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; e < count;
         e += std::int64_t{gridDim.x} * blockDim.x) {
        const auto* a = reinterpret_cast<const unsigned char*>(in + e % m * n + e / m);
        const auto* b = reinterpret_cast<const unsigned char*>(out + e);
        bool same = true;
        for (int k = 0; k < kBytes; ++k) same = same && a[k] == b[k];
        if (!same) atomicAdd(wrong, 1ULL);
    }
}

/// Two arenas of device memory, in which the matrices of a shape are laid out several times.
class Arena {
  public:
    explicit Arena(std::size_t bytes) : bytes_(bytes) {
        GPUMAT_CUDA(cudaMalloc(&in_, bytes));
        GPUMAT_CUDA(cudaMalloc(&out_, bytes));
        GPUMAT_CUDA(cudaMalloc(&wrong_, sizeof(*wrong_)));
        fill_kernel<<<4096, 256>>>(reinterpret_cast<std::uint64_t*>(in_), bytes / 8);
        GPUMAT_CUDA(cudaGetLastError());
        for (cudaEvent_t& event : events_) GPUMAT_CUDA(cudaEventCreate(&event));
    }
    ~Arena() {
        for (cudaEvent_t event : events_) cudaEventDestroy(event);
        cudaFree(wrong_);
        cudaFree(out_);
        cudaFree(in_);
    }
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    unsigned long long mismatches(const Candidate& candidate, const Sides& shape) {
        GPUMAT_CUDA(cudaMemset(out_, 0xA5, shape.bytes()));
        GPUMAT_CUDA(cudaMemset(wrong_, 0, sizeof(*wrong_)));
        candidate.run(shape, in_, out_);
        GPUMAT_CUDA(cudaGetLastError());
        check_kernel<<<8192, 256>>>(reinterpret_cast<T*>(in_), reinterpret_cast<T*>(out_), shape.m, shape.n,
                                    wrong_);
        unsigned long long wrong = 0;
        GPUMAT_CUDA(cudaMemcpy(&wrong, wrong_, sizeof(wrong), cudaMemcpyDeviceToHost));
        return wrong;
    }

    /// Median bandwidth in GB/s, counting bytes read and written.
    double gbps(const Candidate& candidate, const Sides& shape) {
        const std::size_t stride = (shape.bytes() + 511) / 512 * 512;
        const std::size_t sets = std::clamp<std::size_t>(kCold_bytes / (2 * stride) + 1, 1, bytes_ / stride);
        const auto run = [&](std::size_t k) {
            candidate.run(shape, in_ + k % sets * stride, out_ + k % sets * stride);
        };
        for (std::size_t k = 0; k < 2; ++k) run(k);
        for (int k = 0; k < kRuns; ++k) {
            GPUMAT_CUDA(cudaEventRecord(events_[2 * k]));
            run(static_cast<std::size_t>(k) + 2);
            GPUMAT_CUDA(cudaEventRecord(events_[2 * k + 1]));
        }
        GPUMAT_CUDA(cudaDeviceSynchronize());
        std::vector<float> times(kRuns);
        for (int k = 0; k < kRuns; ++k)
            GPUMAT_CUDA(cudaEventElapsedTime(&times[k], events_[2 * k], events_[2 * k + 1]));
        std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
        return 2e-6 * static_cast<double>(shape.bytes()) / times[kRuns / 2];
    }

  private:
    static constexpr std::size_t kCold_bytes = std::size_t{320} << 20;
    std::size_t bytes_;
    unsigned char* in_ = nullptr;
    unsigned char* out_ = nullptr;
    unsigned long long* wrong_ = nullptr;
    cudaEvent_t events_[2 * kRuns] = {};
};

using Shares = std::vector<double>;  // one a shape, 0 where the candidate does not serve it

void print_row(const std::string& name, const Shares& shares) {
    std::printf("%-40s", name.c_str());
    for (const double share : shares) {
        if (share > 0)
            std::printf(" %6.3f", share);
        else
            std::printf("      .");
    }
    std::printf("\n");
}

double mean_share(const Shares& shares) {
    double sum = 0;
    int count = 0;
    for (std::size_t k = 3; k < shares.size(); ++k) {  // the first three shapes are too small to rank by
        if (shares[k] > 0) {
            sum += std::log(shares[k]);
            ++count;
        }
    }
    return count == 0 ? 0 : std::exp(sum / count);
}

void tune(const char* csv_path) {
    std::FILE* csv = csv_path == nullptr ? nullptr : std::fopen(csv_path, "w");
    if (csv != nullptr) std::fprintf(csv, "element_bytes,shape,candidate,gbps,share\n");
    std::size_t most = 0;
    for (const Sides& shape : kShapes) most = std::max(most, shape.bytes());
    Arena arena(std::max(most + 512, std::size_t{1} << 30));
    collect();

    std::vector<double> ceiling(kShapes.size());
    std::map<std::string, Shares> copy_gbps;
    for (std::size_t s = 0; s < kShapes.size(); ++s) {
        for (const Candidate& copy : copies()) {
            const double rate = arena.gbps(copy, kShapes[s]);
            copy_gbps[copy.name].resize(kShapes.size());
            copy_gbps[copy.name][s] = rate;
            ceiling[s] = std::max(ceiling[s], rate);
            if (csv != nullptr)
                std::fprintf(csv, "%d,%s,%s,%.1f,\n", kBytes, kShapes[s].name, copy.name.c_str(), rate);
        }
    }

    std::vector<std::pair<std::string, Shares>> rows;
    for (const Candidate& candidate : candidates) {
        Shares shares(kShapes.size());
        for (std::size_t s = 0; s < kShapes.size(); ++s) {
            const Sides& shape = kShapes[s];
            if (!candidate.serves(shape)) continue;
            if (const auto wrong = arena.mismatches(candidate, shape); wrong != 0) {
                std::printf("WRONG: %s at %s: %llu elements\n", candidate.name.c_str(), shape.name, wrong);
                continue;
            }
            const double rate = arena.gbps(candidate, shape);
            shares[s] = rate / ceiling[s];
            if (csv != nullptr)
                std::fprintf(csv, "%d,%s,%s,%.1f,%.4f\n", kBytes, shape.name, candidate.name.c_str(), rate,
                             shares[s]);
        }
        rows.emplace_back(candidate.name, shares);
    }
    if (csv != nullptr) std::fclose(csv);

    std::printf("element of %d bytes; copies in GB/s, candidates as shares of the fastest copy\n%-40s",
                kBytes, "");
    for (const Sides& shape : kShapes)
        std::printf(" %6.6s", shape.name + (std::strlen(shape.name) > 6 ? std::strlen(shape.name) - 6 : 0));
    std::printf("\n");
    for (const auto& [name, rates] : copy_gbps) {
        std::printf("%-40s", name.c_str());
        for (const double rate : rates) std::printf(" %6.0f", rate);
        std::printf("\n");
    }
    std::ranges::stable_sort(rows, std::greater(), [](const auto& row) { return mean_share(row.second); });
    for (std::size_t k = 0; k < std::min<std::size_t>(kShownCandidates, rows.size()); ++k)
        print_row(rows[k].first, rows[k].second);
    std::printf("the three best of each shape\n");
    for (std::size_t s = 0; s < kShapes.size(); ++s) {
        std::ranges::stable_sort(rows, std::greater(), [s](const auto& row) { return row.second[s]; });
        std::printf("%-11s", kShapes[s].name);
        for (std::size_t k = 0; k < std::min<std::size_t>(3, rows.size()); ++k)
            std::printf("  %.3f %s;", rows[k].second[s], rows[k].first.c_str());
        std::printf("\n");
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        tune(argc > 1 ? argv[1] : nullptr);
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
