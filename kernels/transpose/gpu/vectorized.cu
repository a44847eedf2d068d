// transpose, GPU level `vectorized`: words of 8 and 16 bytes on both sides of device memory, squares of
// elements transposed in registers.
//
// New: a thread moves words of 8 and 16 bytes (bytes also in words of 4). It reads the words of a square of
// elements (16×16 bytes … 2×2 of 8 bytes), transposes the square in registers and stores words into a
// swizzled shared tile, from which words leave in rows of the output. It removes the instructions and the
// shared-memory accesses for each element (one of each for 16 bytes, where `padded` spends four for an
// element), and keeps enough bytes in flight: a multiprocessor needs about 22 KB on an H200. Blocks take the
// tiles by column, or in bands (order.hpp), so that those in flight cover a compact part of both matrices.
// What is read leaves L2 last, and large matrices in whole lines, but of bytes, prefetch tiles into L2
// (prefetch.cuh), so that what is written meanwhile drives nothing out that is still to be read; of 4
// bytes and wider a thread then moves 16 bytes in all, as a copy's does, and a block finds its tile in a few
// instructions, for which its loads wait. Rows that are not whole words are read in aligned words all the
// same and written in whole sectors, through tiles that are shifted row by row (shifted.cuh); matrices of a
// few columns or rows have low and narrow tiles, or where words are not whole kernels whose tiles are one run
// of memory on the thin side (thin.cuh). Traffic: every element crosses device memory once in each direction;
// `shifted` reads the rows above a tile again, from L2. What limits it: device memory, and for small matrices
// the latency of one tile. Which shape of tile serves which element size is measured: tuning.hpp. Sources:
// swizzled tiles and conflict-free phases, CUDA C++ Programming Guide, "Shared Memory"; Little's law.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/common/launch.cuh"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/gpu/shifted.cuh"
#include "kernels/transpose/gpu/thin.cuh"
#include "kernels/transpose/gpu/vectorized.cuh"
#include "kernels/transpose/move.hpp"

namespace gpumat::transpose::gpu {
namespace {

constexpr std::string_view kName = "vectorized";

/// Puts the way of working and the tile, rows by columns of the input, before the facts of the launch.
Launch with_tile(Launch launch, const char* kernel, std::int64_t rows, std::int64_t cols) {
    launch.details.insert(launch.details.begin(),
                          {{"kernel", kernel}, {"tile", std::to_string(rows) + "x" + std::to_string(cols)}});
    return launch;
}

template <class T, class PLAN>
TileOrder words_order(const Problem& problem, int band = PLAN::kBand) {
    return TileOrder::of(WordTile<T, PLAN>::tiling(problem.m, problem.n), band, PLAN::kAhead);
}

/// The tile rows in a band. Tiles of whole lines share none, but in short rows they are together in memory.
template <class T, class PLAN>
int band_of(const Problem& problem, const Device& device) {
    const Tiling tiling = WordTile<T, PLAN>::tiling(problem.m, problem.n);
    const bool lines = tiling.row_bytes() % kLine_bytes == 0;
    return lines && tiling.row_bytes() >= TileOrder::kShortRow_bytes
               ? kColumns
               : TileOrder::sharing_band(tiling, device.gpu->info().l2_bytes);
}

template <class T, class PLAN>
Launch launch_words(const Problem& problem, const Operands& operands, const TileOrder& order,
                    WordsKernel kernel = vectorized_kernel<T, PLAN>) {
    using Tile = WordTile<T, PLAN>;
    return with_tile(make_launch(kName,
                                 {.grid = grid_of(order),
                                  .block = dim3(PLAN::kThreads),
                                  .shared_bytes = Tile::kShared_bytes,
                                  .blocks = PLAN::kBlocks},
                                 kernel, operands.a.data, operands.c.data, problem.m, problem.n,
                                 operands.a.pitch, operands.c.pitch, order),
                     "words", Tile::kRows, Tile::kCols);
}

/// Whether rows of both matrices, and the matrices themselves, start at multiples of the word.
bool whole_words(const Problem& problem, const Operands& operands, std::uint64_t word_bytes) {
    const std::uint64_t size = size_of(problem.type);
    return (reinterpret_cast<std::uint64_t>(operands.a.data) |
            reinterpret_cast<std::uint64_t>(operands.c.data) | static_cast<std::uint64_t>(problem.m) * size |
            static_cast<std::uint64_t>(problem.n) * size |
            static_cast<std::uint64_t>(operands.a.pitch) * size |
            static_cast<std::uint64_t>(operands.c.pitch) * size) %
               word_bytes ==
           0;
}

/// Launches the first of the plans whose words are whole and whose tiles hold the few rows, or the columns.
template <class T, class... PLANS>
std::optional<Launch> launch_first(Plans<PLANS...>, const Problem& problem, const Operands& operands) {
    const bool low = problem.m <= problem.n;
    std::optional<Launch> launch;
    const auto take = [&]<class PLAN>() {
        using Tile = WordTile<T, PLAN>;
        if ((low ? problem.m > Tile::kRows : problem.n > Tile::kCols) ||
            !whole_words(problem, operands, PLAN::kWord_bytes))
            return false;
        launch = launch_words<T, PLAN>(problem, operands, words_order<T, PLAN>(problem));
        return true;
    };
    (take.template operator()<PLANS>() || ...);
    return launch;
}

/// The launch for few rows or columns of whole words, or none.
template <class T>
std::optional<Launch> launch_short(const Problem& problem, const Operands& operands) {
    using Choice = Choices<sizeof(T)>;
    return problem.m <= problem.n ? launch_first<T>(typename Choice::Low{}, problem, operands)
                                  : launch_first<T>(typename Choice::Narrow{}, problem, operands);
}

/// The narrowest words of the plans.
template <class... PLANS>
constexpr int narrowest_word(Plans<PLANS...>) {
    return std::min({PLANS::kWord_bytes...});
}

template <class T, class PLAN>
Launch launch_in_place(const Problem& problem, const Operands& operands) {
    using Tile = WordTile<T, PLAN>;
    const auto tiles = static_cast<unsigned>((problem.n + Tile::kCols - 1) / Tile::kCols);
    return with_tile(
        make_launch(kName,
                    {.grid = dim3(tiles, tiles),
                     .block = dim3(PLAN::kThreads),
                     .shared_bytes = 2 * Tile::kShared_bytes},
                    vectorized_in_place_kernel<T, PLAN>, operands.c.data, problem.n, operands.c.pitch),
        "swap", Tile::kRows, Tile::kCols);
}

/// Whether a multiprocessor, which has little more shared memory than one block may take, has room for as
/// many blocks as the plan asks for: some load while others store. Reasoned, not measured.
template <class T, class PLAN>
bool blocks_fit(const Operands& operands, const Device& device) {
    using Tile = ShiftTile<T, PLAN>;
    return PLAN::kBlocks * Tile::shared_bytes(Tile::pitch(operands.a.pitch)) <=
           device.gpu->info().shared_bytes_per_block;
}

template <class T, class PLAN>
Launch launch_shifted(const Problem& problem, const Operands& operands, const Device& device) {
    using Tile = ShiftTile<T, PLAN>;
    const Tiling tiling = shift_tiling<T, PLAN>(problem.m, problem.n);
    const int band = TileOrder::sharing_band(tiling, device.gpu->info().l2_bytes);
    const TileOrder order = TileOrder::of(tiling, band);
    const int pitch = Tile::pitch(operands.a.pitch);
    return with_tile(make_launch(kName,
                                 {.grid = grid_of(order),
                                  .block = dim3(PLAN::kThreads),
                                  .shared_bytes = Tile::shared_bytes(pitch),
                                  .blocks = PLAN::kBlocks},
                                 shifted_kernel<T, PLAN>, operands.a.as<T>(), operands.c.as<T>(), problem.m,
                                 problem.n, operands.a.pitch, operands.c.pitch, pitch, order),
                     "shifted", Tile::kRows, Tile::kCols);
}

template <class T, bool SKEWED>
Launch launch_tall(const Problem& problem, const Operands& operands, const ThinTiles& tiles) {
    return with_tile(
        make_launch(
            kName,
            {.grid = dim3(tiles.count), .block = dim3(kThinThreads), .shared_bytes = tiles.shared_bytes},
            tall_kernel<T, SKEWED>, operands.a.as<T>(), operands.c.as<T>(), problem.m,
            static_cast<int>(problem.n), tiles.length, tiles.warps),
        "tall", tiles.length, problem.n);
}

template <class T>
Launch launch_wide(const Problem& problem, const Operands& operands, const ThinTiles& tiles) {
    return with_tile(
        make_launch(
            kName,
            {.grid = dim3(tiles.count), .block = dim3(kThinThreads), .shared_bytes = tiles.shared_bytes},
            wide_kernel<T>, operands.a.as<T>(), operands.c.as<T>(), static_cast<int>(problem.m), problem.n,
            tiles.length, tiles.pitch_bytes),
        "wide", problem.m, tiles.length);
}

/// Whether thin tiles serve: they fit, and there are enough of them to fill the device, which other tiles, of
/// which there are more, do sooner. Where fewer rows or columns than kAlways are in a matrix, though, other
/// tiles would be nearly empty.
bool takes_thin(const ThinTiles& tiles, std::int64_t thin, const Device& device) {
    constexpr std::int64_t kAlways = 31;
    const GpuInfo& gpu = device.gpu->info();
    return tiles.shared_bytes <= gpu.shared_bytes_per_block &&
           (thin <= kAlways || tiles.count >= static_cast<unsigned>(gpu.multiprocessors));
}

/// The launch for few columns or few rows that are not whole words, or none.
template <class T>
std::optional<Launch> launch_thin(const Problem& problem, const Operands& operands, const Device& device) {
    constexpr ThinPlan kPlan = Choices<sizeof(T)>::kThin;
    constexpr std::int64_t kTilesEach = 2;  // for a multiprocessor: smaller tiles rather than fewer
    const std::int64_t row_bytes = problem.n * static_cast<std::int64_t>(sizeof(T));
    const auto most_bytes = static_cast<int>(std::min<std::int64_t>(
        problem.m * row_bytes / (kTilesEach * device.gpu->info().multiprocessors), kMostThin_bytes));
    if (problem.n <= kPlan.tall_most) {
        const int tile_bytes = std::min(tall_tile_bytes(kPlan, problem.n), most_bytes);
        const ThinTiles tiles = tall_tiles<T>(problem.m, problem.n, tile_bytes);
        if (takes_thin(tiles, problem.n, device)) {
            return skews<T>(problem.n) ? launch_tall<T, true>(problem, operands, tiles)
                                       : launch_tall<T, false>(problem, operands, tiles);
        }
    }
    // Rows of whole words lie a multiple of words apart in shared memory too, and repeat its banks.
    if (problem.m <= (row_bytes % 16 == 0 ? kPlan.wide_most_words : kPlan.wide_most)) {
        const int length = wide_length<T>(problem.m, std::min(kPlan.wide_bytes, most_bytes));
        const ThinTiles tiles = wide_tiles<T>(problem.m, problem.n, length);
        if (takes_thin(tiles, problem.m, device)) return launch_wide<T>(problem, operands, tiles);
    }
    return std::nullopt;
}

/// Whether there are enough tiles of Shifted to fill the device, and room for them.
template <class T>
bool fills_shifted(const Problem& problem, const Operands& operands, const Device& device) {
    using Shifted = typename Choices<sizeof(T)>::Shifted;
    const auto processors = static_cast<unsigned>(device.gpu->info().multiprocessors);
    const std::uint64_t tiles = shift_tiling<T, Shifted>(problem.m, problem.n).tiles();
    return tiles >= Choices<sizeof(T)>::kSmallShifted * processors &&
           blocks_fit<T, Shifted>(operands, device);
}

/// The launch for rows that are not whole words.
template <class T>
Launch launch_any_shifted(const Problem& problem, const Operands& operands, const Device& device) {
    using Choice = Choices<sizeof(T)>;
    constexpr std::size_t kEveryDevice_bytes = 64 << 10;  // of shared memory that a block may have
    static_assert(ShiftTile<T, typename Choice::ShiftedSmall>::most_shared_bytes() <= kEveryDevice_bytes);
    if constexpr (requires { typename Choice::ShiftedNarrow; }) {
        static_assert(ShiftTile<T, typename Choice::ShiftedNarrow>::most_shared_bytes() <=
                      kEveryDevice_bytes);
        if (problem.n % Choice::kNarrow_columns == 0)
            return launch_shifted<T, typename Choice::ShiftedNarrow>(problem, operands, device);
    }
    if (!fills_shifted<T>(problem, operands, device))
        return launch_shifted<T, typename Choice::ShiftedSmall>(problem, operands, device);
    return launch_shifted<T, typename Choice::Shifted>(problem, operands, device);
}

/// Whether shifted tiles serve rows of whole words: of neither matrix are they whole sectors, parts of which
/// cost more than the shift. Elements of 1 and 2 bytes, in an even number of columns, would collide in shared
/// memory.
template <class T>
bool prefers_shifted(const Problem& problem, const Operands& operands, const Device& device) {
    constexpr std::int64_t kLeast = 1024;  // rows and columns; fewer were not measured
    if constexpr (sizeof(T) != 4 && sizeof(T) != 8) return false;
    constexpr std::int64_t kSector = kSector_bytes / sizeof(T);
    return problem.m % kSector != 0 && problem.n % kSector != 0 && std::min(problem.m, problem.n) >= kLeast &&
           fills_shifted<T>(problem, operands, device);
}

/// Whether the plan for whole lines serves: all tiles are whole, and a multiprocessor holds two blocks, of
/// which one loads while the other stores (reasoned, not measured).
template <class LARGE>
bool serves_large(const TileOrder& order, const GpuInfo& gpu) {
    return order.places() != Places::any && 2 * LARGE::kThreads <= gpu.threads_per_multiprocessor;
}

/// The kernel of Large. Of 4 bytes it takes for granted what the order allows, which is worth 2 %: every
/// instruction before its loads costs. Of other sizes it is worth less.
template <class T>
WordsKernel kernel_for_large(const TileOrder& order) {
    using Large = typename Choices<sizeof(T)>::Large;
    if constexpr (sizeof(T) == 4) {
        if (order.places() == Places::columns) return vectorized_kernel<T, Large, Places::columns>;
        if (order.places() == Places::turns) return vectorized_kernel<T, Large, Places::turns>;
    }
    return vectorized_kernel<T, Large>;
}

/// The tiles of Large for each multiprocessor.
template <class T>
std::uint64_t tiles_each(const Problem& problem, const Device& device) {
    const Tiling tiling = WordTile<T, typename Choices<sizeof(T)>::Large>::tiling(problem.m, problem.n);
    return tiling.tiles() / static_cast<unsigned>(device.gpu->info().multiprocessors);
}

/// The launch for rows of whole words of every plan but Low, Narrow and Fine.
template <class T>
Launch launch_whole_words(const Problem& problem, const Operands& operands, const Device& device) {
    using Choice = Choices<sizeof(T)>;
    using Large = typename Choice::Large;
    const std::uint64_t each = tiles_each<T>(problem, device);
    if (each < Choice::kSmallTiles || std::min(problem.m, problem.n) < Choice::kSmallSide) {
        using Small = typename Choice::Small;
        return launch_words<T, Small>(problem, operands, words_order<T, Small>(problem));
    }
    const bool lines = problem.n * static_cast<std::int64_t>(sizeof(T)) % kLine_bytes == 0 &&
                       operands.a.pitch * static_cast<std::int64_t>(sizeof(T)) % kLine_bytes == 0;
    if (lines && each >= Choice::kLargeTiles && whole_words(problem, operands, Large::kWord_bytes)) {
        const TileOrder order = words_order<T, Large>(problem);
        if (serves_large<Large>(order, device.gpu->info()))
            return launch_words<T, Large>(problem, operands, order, kernel_for_large<T>(order));
    }
    if constexpr (requires { typename Choice::Shifted; }) {
        if (prefers_shifted<T>(problem, operands, device))
            return launch_shifted<T, typename Choice::Shifted>(problem, operands, device);
    }
    using Ragged = typename Choice::Ragged;
    const TileOrder order = words_order<T, Ragged>(problem, band_of<T, Ragged>(problem, device));
    return launch_words<T, Ragged>(problem, operands, order);
}

/// The launch for rows of words that are whole, but too narrow for the other plans; or none, where columns of
/// tiles take more of L2 than they may: shifted tiles lose less then.
template <class T>
std::optional<Launch> launch_fine(const Problem& problem, const Operands& operands, const Device& device) {
    using Choice = Choices<sizeof(T)>;
    using Fine = typename Choice::Fine;
    if (!whole_words(problem, operands, Fine::kWord_bytes) || band_of<T, Fine>(problem, device) != kColumns)
        return std::nullopt;
    if (tiles_each<T>(problem, device) < Choice::kSmallTiles) {
        using Small = typename Choice::FineSmall;
        return launch_words<T, Small>(problem, operands, words_order<T, Small>(problem));
    }
    return launch_words<T, Fine>(problem, operands, words_order<T, Fine>(problem));
}

/// Whether a quarter of the tiles or more would lie beyond the shorter side of the matrix.
template <class T, class PLAN>
bool wastes_tiles(const Problem& problem) {
    using Tile = WordTile<T, PLAN>;
    const std::int64_t side = std::min(problem.m, problem.n);
    const std::int64_t tile = problem.m <= problem.n ? Tile::kRows : Tile::kCols;
    return 3 * tile * divided_up(side, tile) > 4 * side;
}

/// The launch for rows of narrower words than those of launch_whole_words, or of no words.
template <class T>
Launch launch_narrow_words(const Problem& problem, const Operands& operands, const Device& device) {
    using Choice = Choices<sizeof(T)>;
    bool words = whole_words(problem, operands, narrowest_word(typename Choice::Low{}));
    if constexpr (requires { typename Choice::Fine; })
        words = words && !wastes_tiles<T, typename Choice::Fine>(problem);
    if (!words && is_contiguous(operands.a) && is_contiguous(operands.c)) {
        if (std::optional<Launch> thin = launch_thin<T>(problem, operands, device)) return *std::move(thin);
    }
    if constexpr (requires { typename Choice::Fine; }) {
        if (std::optional<Launch> fine = launch_fine<T>(problem, operands, device)) return *std::move(fine);
    }
    return launch_any_shifted<T>(problem, operands, device);
}

template <class T>
Launch prepare(const Problem& problem, const Operands& operands, const Device& device) {
    using Choice = Choices<sizeof(T)>;
    constexpr int kWord_bytes = std::max(Choice::Ragged::kWord_bytes, Choice::Small::kWord_bytes);
    if (problem.m == 0 || problem.n == 0) return {.level = kName, .run = [](Stream) {}};
    if (problem.in_place) {
        return whole_words(problem, operands, Choice::Swap::kWord_bytes)
                   ? launch_in_place<T, typename Choice::Swap>(problem, operands)
                   : launch_in_place<T, typename Choice::SwapScalar>(problem, operands);
    }
    if (std::optional<Launch> few = launch_short<T>(problem, operands)) return *std::move(few);
    if constexpr (requires { typename Choice::Shifted; }) {
        if (!whole_words(problem, operands, kWord_bytes))
            return launch_narrow_words<T>(problem, operands, device);
    }
    return launch_whole_words<T>(problem, operands, device);
}

}  // namespace

Reasons vectorized_unsupported(const Problem& problem, const Operands&, const Device&) {
    if (problem.in_place && problem.m != problem.n)
        return {"only a square matrix can be transposed in place"};
    return {};
}

Launch prepare_vectorized(const Problem& problem, const Operands& operands, const Device& device) {
    return visit_element(problem.type,
                         [&]<class T>(TypeTag<T>) { return prepare<T>(problem, operands, device); });
}

}  // namespace gpumat::transpose::gpu
