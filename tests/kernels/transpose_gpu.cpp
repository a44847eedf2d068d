// Every GPU transpose of the registry × shapes × element sizes: bit for bit against the definition, into
// poisoned memory between guard bytes. GPUMAT_SMALL_SHAPES=1 leaves out most shapes, for the slow memory and
// race checkers.
#include <algorithm>
#include <array>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "kernels/registry.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/spread.hpp"

using namespace gpumat;

namespace {

using Bytes = std::vector<unsigned char>;

constexpr unsigned char kPoison = 0xA5;
constexpr std::size_t kGuard_bytes = 512;
/// One type for each element size; what the bits mean is no matter to a transpose.
constexpr std::array kTypes = {Type::u8, Type::u16, Type::u32, Type::u64, Type::c128};

struct Sides {
    std::int64_t m;
    std::int64_t n;
};

/// Empty, single, around the tiles, prime, tall, wide, and multiples of 16 bytes in every combination.
const std::vector<Sides> kAllShapes = {
    {0, 0},     {0, 7},     {7, 0},     {1, 1},     {1, 2},     {2, 1},     {1, 1000},  {1000, 1},
    {3, 5},     {15, 17},   {16, 16},   {31, 33},   {32, 32},   {33, 31},   {47, 49},   {48, 48},
    {63, 65},   {64, 64},   {65, 63},   {64, 128},  {128, 64},  {127, 251}, {251, 127}, {128, 128},
    {129, 257}, {256, 192}, {192, 272}, {3000, 3},  {3, 3000},  {2, 2049},  {2049, 2},  {4097, 5},
    {5, 4097},  {1024, 8},  {8, 1024},  {640, 16},  {16, 640},  {20, 700},  {700, 20},  {320, 321},
    {321, 320}, {131, 98},  {131, 100}, {131, 104}, {131, 112}, {600, 257}};

/// One of each way of working: whole words, shifted rows of odd and even counts, with tiles inside the matrix
/// and without, few columns, few rows.
const std::vector<Sides> kFewShapes = {{33, 47}, {64, 96}, {131, 97},  {130, 98}, {600, 3},
                                       {3, 600}, {300, 4}, {321, 320}, {513, 257}};

bool small_shapes_only() {
    return std::getenv("GPUMAT_SMALL_SHAPES") != nullptr;
}

const std::vector<Sides> kShapes = small_shapes_only() ? kFewShapes : kAllShapes;

Gpu& gpu() {
    static const std::unique_ptr<Gpu> kGpu = Gpu::open(0);
    return *kGpu;
}

Device device() {
    return {.kind = DeviceKind::gpu, .threads = 1, .gpu = &gpu()};
}

const Registry& registry() {
    static const Registry kRegistry = Registry::standard();
    return kRegistry;
}

Bytes random_bytes(std::size_t count) {
    static std::mt19937_64 generator(20260101);
    Bytes bytes(count);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(generator());
    return bytes;
}

/// The definition: element (i, j) of the m×n input is element (j, i) of the output.
template <std::size_t SIZE>
Bytes transposed_elements(const Bytes& in, std::size_t m, std::size_t n) {
    Bytes out(in.size());
    for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j)
            std::memcpy(out.data() + (j * m + i) * SIZE, in.data() + (i * n + j) * SIZE, SIZE);
    }
    return out;
}

Bytes transposed(const Bytes& in, const Problem& problem) {
    const auto m = static_cast<std::size_t>(problem.m);
    const auto n = static_cast<std::size_t>(problem.n);
    switch (size_of(problem.type)) {
        case 1:
            return transposed_elements<1>(in, m, n);
        case 2:
            return transposed_elements<2>(in, m, n);
        case 4:
            return transposed_elements<4>(in, m, n);
        case 8:
            return transposed_elements<8>(in, m, n);
        default:
            return transposed_elements<16>(in, m, n);
    }
}

std::string describe(const Level& level, const Problem& problem) {
    std::string text = "transpose_" + std::string(level.name) + "_" + std::string(name_of(problem.type)) +
                       "_" + std::to_string(problem.m) + "x" + std::to_string(problem.n);
    for (const auto& [name, value] : problem.parameters) text += "_" + name + value;
    if (problem.in_place) text += "_in_place";
    return text;
}

/// Device memory for one matrix, `offset_bytes` away from the alignment of cudaMalloc, between guards.
class Guarded {
  public:
    Guarded(std::size_t bytes, std::size_t offset_bytes)
        : bytes_(bytes), before_(kGuard_bytes + offset_bytes) {
        memory_ = gpu().allocate(before_ + bytes_ + kGuard_bytes);
        gpu().fill(memory_.data(), kPoison, memory_.bytes());
    }

    [[nodiscard]] void* data() const { return static_cast<unsigned char*>(memory_.data()) + before_; }

    void write(const Bytes& bytes) { gpu().upload(data(), bytes.data(), bytes.size()); }

    /// The matrix; checks that the guards are as they were.
    [[nodiscard]] Bytes read() const {
        Bytes all(memory_.bytes());
        gpu().download(all.data(), memory_.data(), all.size());
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(before_);
        const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
        const auto poisoned = [](unsigned char byte) { return byte == kPoison; };
        CHECK(std::all_of(all.begin(), begin, poisoned));
        CHECK(std::all_of(end, all.end(), poisoned));
        return {begin, end};
    }

  private:
    std::size_t bytes_;
    std::size_t before_;
    DeviceMemory memory_;
};

/// Where the matrices lie, in elements away from the alignment of cudaMalloc.
struct Offsets {
    std::size_t in = 0;
    std::size_t out = 0;
};

/// Elements between the rows.
struct Gaps {
    std::size_t in = 0;
    std::size_t out = 0;
};

/// Runs the level and compares. Returns false where it says that it cannot serve the problem.
bool serves(const Level& level, const Problem& problem, const Bytes& input, Offsets offsets = {}) {
    INFO(describe(level, problem) << " at " << offsets.in << ", " << offsets.out);
    const std::size_t size = size_of(problem.type);
    Guarded in(input.size(), offsets.in * size);
    Guarded out(input.size(), offsets.out * size);
    const Operands operands =
        contiguous_operands(problem, {.a = problem.in_place ? out.data() : in.data(), .c = out.data()});
    if (!unsupported_reasons(level, problem, operands, device()).empty()) return false;
    in.write(input);
    if (problem.in_place) out.write(input);
    const Launch launch = prepare_launch(level, problem, operands, device());
    CHECK(launch.level == level.name);
    launch.run(gpu().stream());
    gpu().synchronize();
    CHECK((in.read() == input));
    CHECK((out.read() == (level.copies ? input : transposed(input, problem))));
    return true;
}

/// The same for rows that lie so many elements further apart than they are long: what is between the rows of
/// the output must stay as it is.
bool serves_gaps(const Level& level, const Problem& problem, const Bytes& input, Gaps gaps) {
    INFO(describe(level, problem) << " with gaps of " << gaps.in << ", " << gaps.out);
    const auto rows = static_cast<std::size_t>(problem.m);
    const auto cols = static_cast<std::size_t>(problem.n);
    const std::size_t size = size_of(problem.type);
    const Bytes expected = level.copies ? input : transposed(input, problem);
    const std::size_t out_rows = level.copies ? rows : cols;
    const std::size_t out_cols = level.copies ? cols : rows;
    const std::size_t in_pitch = cols + gaps.in;
    const std::size_t out_pitch = out_cols + gaps.out;
    const Bytes spread_in = spread(input.data(), rows, cols * size, in_pitch * size, kPoison);
    const Bytes spread_out = spread(expected.data(), out_rows, out_cols * size, out_pitch * size, kPoison);
    Guarded in(spread_in.size(), 0);
    Guarded out(spread_out.size(), 0);
    in.write(spread_in);
    if (problem.in_place) out.write(spread(input.data(), rows, cols * size, out_pitch * size, kPoison));
    Operands operands;
    operands.c = {.data = out.data(),
                  .rows = static_cast<std::int64_t>(out_rows),
                  .cols = static_cast<std::int64_t>(out_cols),
                  .pitch = static_cast<std::int64_t>(out_pitch)};
    operands.a = {.data = in.data(),
                  .rows = problem.m,
                  .cols = problem.n,
                  .pitch = static_cast<std::int64_t>(in_pitch)};
    if (problem.in_place) operands.a = operands.c;
    const Reasons reasons = unsupported_reasons(level, problem, operands, device());
    if (!reasons.empty()) {
        CHECK(!reasons.front().empty());
        return false;
    }
    prepare_launch(level, problem, operands, device()).run(gpu().stream());
    gpu().synchronize();
    CHECK((in.read() == spread_in));
    CHECK((out.read() == spread_out));
    return true;
}

/// A detail of the launch that the level would make for matrices at aligned places, which are not touched.
std::string detail_of(const Level& level, const Problem& problem, std::string_view detail) {
    const DeviceMemory place = gpu().allocate(16);
    const Operands operands = contiguous_operands(problem, {.a = place.data(), .c = place.data()});
    const Launch launch = prepare_launch(level, problem, operands, device());
    for (const auto& [name, value] : launch.details) {
        if (name == detail) return value;
    }
    return "";
}

std::size_t bytes_of(const Problem& problem) {
    return static_cast<std::size_t>(problem.m * problem.n) * size_of(problem.type);
}

/// Every combination of the level's parameters.
std::vector<Parameters> combinations(const Level& level) {
    std::vector<Parameters> all = {{}};
    for (const Parameter& parameter : level.parameters) {
        std::vector<Parameters> longer;
        for (const auto& one : all) {
            for (const std::string_view choice : parameter.choices) {
                longer.push_back(one);
                longer.back()[std::string(parameter.name)] = choice;
            }
        }
        all = longer;
    }
    return all;
}

struct Count {
    int ran = 0;
    int refused = 0;

    void add(bool served) { ++(served ? ran : refused); }
    void print(const char* what) const {
        std::cout << what << ": " << ran << " ran, " << refused << " refused with a reason\n";
        CHECK(ran > 0);
    }
};

}  // namespace

TEST_CASE("every level transposes every shape and element size") {
    Count count;
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        for (const Type type : kTypes) {
            for (const Sides shape : kShapes) {
                const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
                count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
            }
        }
    }
    count.print("shapes");
}

TEST_CASE("every level but those that say so takes memory of any alignment") {
    Count count;
    const std::array kOffsets = {Offsets{1, 0}, Offsets{0, 1}, Offsets{3, 5}, Offsets{2, 2}};
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        for (const Type type : kTypes) {
            for (const Sides shape : {Sides{128, 64}, Sides{129, 67}, Sides{3, 500}, Sides{500, 3}}) {
                if (small_shapes_only() && shape.m == 128) continue;
                for (const Offsets offsets : kOffsets) {
                    const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
                    count.add(serves(*level, problem, random_bytes(bytes_of(problem)), offsets));
                }
            }
        }
    }
    count.print("alignments");
}

TEST_CASE("every level takes rows with gaps between them, or says why not") {
    Count count;
    constexpr std::array kGaps = {Gaps{3, 0}, Gaps{0, 3}, Gaps{16, 16}, Gaps{3, 16}, Gaps{128, 64}};
    std::vector<Sides> shapes = {{33, 47}, {131, 97}, {130, 98}, {600, 3}, {3, 600}, {64, 96}};
    if (!small_shapes_only())
        shapes.insert(shapes.end(), {{1, 1},
                                     {1, 500},
                                     {500, 1},
                                     {128, 128},
                                     {320, 321},
                                     {640, 16},
                                     {16, 640},
                                     {2048, 2048},
                                     {1027, 2050},
                                     {3000, 4100},
                                     {8192, 40},
                                     {40, 8192},
                                     {4096, 3072}});
    std::vector<const Level*> levels = registry().levels(kTranspose, DeviceKind::gpu, Role::rung);
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::baseline))
        levels.push_back(level);
    for (const Level* level : levels) {
        for (const Type type : kTypes) {
            for (const Sides shape : shapes) {
                // The other levels have one kernel for all sizes.
                const bool has_large_tiles = level->name == "vectorized" || level->name == "tma";
                if (!has_large_tiles && shape.m * shape.n > 1000000) continue;
                const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
                const Bytes input = random_bytes(bytes_of(problem));
                for (const Gaps gaps : kGaps) count.add(serves_gaps(*level, problem, input, gaps));
            }
            const Problem in_place{
                .operation = &kTranspose, .type = type, .m = 130, .n = 130, .in_place = true};
            const Bytes input = random_bytes(bytes_of(in_place));
            for (const Gaps gaps : kGaps) count.add(serves_gaps(*level, in_place, input, gaps));
        }
    }
    count.print("gaps");
}

TEST_CASE("every combination of a level's parameters works or is refused") {
    if (small_shapes_only()) return;
    Count count;
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        for (const auto& parameters : combinations(*level)) {
            if (parameters.empty()) continue;
            for (const Type type : kTypes) {
                for (const Sides shape : {Sides{131, 97}, Sides{64, 192}}) {
                    const Problem problem{.operation = &kTranspose,
                                          .type = type,
                                          .m = shape.m,
                                          .n = shape.n,
                                          .parameters = parameters};
                    count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
                }
            }
        }
    }
    count.print("parameters");
}

TEST_CASE("square matrices are transposed in place or refused") {
    Count count;
    using Sizes = std::vector<std::int64_t>;
    const Sizes sizes = small_shapes_only() ? Sizes{97, 128} : Sizes{0, 1, 17, 32, 97, 128, 200, 256};
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        for (const auto& parameters : combinations(*level)) {
            for (const Type type : kTypes) {
                for (const std::int64_t size : sizes) {
                    const Problem problem{.operation = &kTranspose,
                                          .type = type,
                                          .m = size,
                                          .n = size,
                                          .in_place = true,
                                          .parameters = parameters};
                    count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
                }
            }
        }
    }
    count.print("in place");
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        const Problem problem{.operation = &kTranspose, .m = 3, .n = 4, .in_place = true};
        CHECK_FALSE(unsupported_reasons(*level, problem, device()).empty());
    }
}

TEST_CASE("auto chooses a level that serves the problem") {
    Count count;
    for (const Type type : kTypes) {
        for (const Sides shape : kShapes) {
            const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
            const Choice choice = registry().choose(problem, device());
            count.add(serves(*choice.level, choice.problem, random_bytes(bytes_of(problem))));
        }
        const Problem in_place{.operation = &kTranspose, .type = type, .m = 130, .n = 130, .in_place = true};
        const Choice choice = registry().choose(in_place, device());
        count.add(serves(*choice.level, choice.problem, random_bytes(bytes_of(in_place))));
    }
    count.print("auto");
    CHECK(count.refused == 0);
}

TEST_CASE("the baselines copy, and the vendor's library transposes") {
    Count count;
    std::vector<const Level*> levels = registry().levels(kTranspose, DeviceKind::gpu, Role::baseline);
    levels.push_back(registry().find(kTranspose, DeviceKind::gpu, "vendor"));
    for (const Level* level : levels) {
        for (const Type type : {Type::u8, Type::u16, Type::f32, Type::f64, Type::c64, Type::c128}) {
            for (const Sides shape : kShapes) {
                const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
                // Arithmetic need not keep the bits of NaN: no exponent of this input is all ones.
                Bytes input = random_bytes(bytes_of(problem));
                for (unsigned char& byte : input) byte &= 0x3F;
                count.add(serves(*level, problem, input));
                if (level->copies) count.add(serves(*level, problem, input, Offsets{1, 1}));
            }
        }
    }
    count.print("baselines");
}

TEST_CASE("rows a multiple of 128 KiB apart, whose tiles come in pairs") {
    if (small_shapes_only()) return;
    Count count;
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        if (level->name != "vectorized" && level->name != "tma") continue;  // only these take tiles so
        for (const Type type : kTypes) {
            for (const std::int64_t m : {48, 67, 304}) {
                const auto size = static_cast<std::int64_t>(size_of(type));
                const Problem problem{
                    .operation = &kTranspose, .type = type, .m = m, .n = (128 << 10) / size};
                count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
            }
        }
    }
    count.print("pairs");
}

TEST_CASE("few columns and few rows, and enough of the others to fill the device") {
    if (small_shapes_only()) return;
    const std::int64_t many = std::int64_t{1008} * gpu().info().multiprocessors;  // whole words
    Count count;
    int thin_tiles = 0;
    const Level* const level = registry().find(kTranspose, DeviceKind::gpu, "vectorized");
    REQUIRE(level != nullptr);
    for (const Type type : {Type::u8, Type::u16, Type::u32, Type::u64}) {
        std::vector<std::int64_t> few = {33, 40, 51, 83, 143};
        if (type == Type::u8) few.insert(few.end(), {48, 207, 319});
        for (const std::int64_t thin : few) {
            for (const Sides shape :
                 {Sides{many, thin}, Sides{many + 1, thin}, Sides{thin, many}, Sides{thin, many + 1}}) {
                const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
                thin_tiles +=
                    detail_of(*level, problem, "kernel") == (shape.n == thin ? "tall" : "wide") ? 1 : 0;
                count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
            }
        }
    }
    count.print("thin");
    CHECK(thin_tiles > count.ran / 2);  // the others have more rows or columns than such tiles
}

TEST_CASE("few columns and few rows of whole words, in each tile that they have") {
    struct Short {
        Type type;
        std::int64_t word;    ///< elements
        std::int64_t length;  ///< whole words of the widest
        std::int64_t other;   ///< whole words of `word` only
        std::size_t tiles;    ///< for few rows and for few columns, and Small's
    };
    const std::array kShort = {Short{Type::u8, 8, 1040, 1048, 9}, Short{Type::u16, 4, 1040, 1044, 11},
                               Short{Type::u32, 4, 1040, 1044, 5}, Short{Type::u64, 2, 1040, 1042, 8},
                               Short{Type::c128, 1, 1040, 1041, 7}};
    const Level* const level = registry().find(kTranspose, DeviceKind::gpu, "vectorized");
    REQUIRE(level != nullptr);
    Count count;
    for (const auto& [type, word, length, other, tiles] : kShort) {
        std::set<std::string> seen;
        for (std::int64_t words = 1; words <= 20; ++words) {
            if (small_shapes_only() && words > 4 && words != 6 && words % 3 != 1) continue;
            const std::int64_t side = words * word;
            for (const Sides shape :
                 {Sides{side, length}, Sides{side, other}, Sides{length, side}, Sides{other, side}}) {
                const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
                INFO(describe(*level, problem));
                CHECK(detail_of(*level, problem, "kernel") == "words");
                seen.insert(detail_of(*level, problem, "tile") + "/" + detail_of(*level, problem, "block"));
                count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
            }
        }
        INFO(name_of(type));
        CHECK(seen.size() >= tiles);
    }
    count.print("short");
}

TEST_CASE("rows of whole words of 4 and of 8 bytes") {
    if (small_shapes_only()) return;
    struct Narrow {
        Type type;
        Sides shape;
        std::string tile;     ///< and block, where the matrices start at multiples of 16 bytes, or empty
        std::size_t further;  ///< elements after which narrower words are whole, or none
    };
    const std::array kNarrow = {Narrow{Type::u8, {1000, 1008}, "128x128 128x1", 4},
                                Narrow{Type::u8, {6008, 6000}, "256x256 512x1", 4},
                                Narrow{Type::u8, {1004, 1004}, "128x128 256x1", 2},
                                Narrow{Type::u8, {6004, 6004}, "256x128 512x1", 2},
                                Narrow{Type::u16, {1004, 1004}, "64x64 256x1", 2},
                                Narrow{Type::u16, {2564, 2604}, "128x128 1024x1", 2},
                                Narrow{Type::u16, {100, 40004}, "64x64 256x1", 2},
                                Narrow{Type::u16, {200, 300004}, "128x128 1024x1", 2},
                                Narrow{Type::u16, {68, 300004}, "", 2},
                                Narrow{Type::u32, {1002, 1002}, "", 1}};
    const GpuInfo& info = gpu().info();
    const Level* const level = registry().find(kTranspose, DeviceKind::gpu, "vectorized");
    REQUIRE(level != nullptr);
    Count count;
    for (const auto& [type, shape, tile, further] : kNarrow) {
        const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
        INFO(describe(*level, problem));
        // How many tiles are enough depends on the device: as that of tuning.hpp.
        if (!tile.empty() && info.multiprocessors == 132 && info.l2_bytes >= std::uint64_t{50} << 20)
            CHECK(detail_of(*level, problem, "tile") + " " + detail_of(*level, problem, "block") == tile);
        const Bytes input = random_bytes(bytes_of(problem));
        count.add(serves(*level, problem, input));
        count.add(serves(*level, problem, input, Offsets{further, 0}));
        count.add(serves(*level, problem, input, Offsets{0, further}));
    }
    count.print("narrow words");
}

TEST_CASE("columns of tiles that share lines and are too tall for L2, in rows short and long") {
    if (small_shapes_only()) return;
    constexpr std::int64_t kShortestRun_bytes = 224;      // of a tile's row
    constexpr std::uint64_t kLeastL2_bytes = 2560 << 10;  // that is reckoned with
    const std::uint64_t l2_bytes = std::max(std::uint64_t{gpu().info().l2_bytes}, kLeastL2_bytes);
    const auto tall = static_cast<std::int64_t>(l2_bytes / 6 / kShortestRun_bytes / 16 * 16) + 96;
    struct Banded {
        Type type;
        Sides shape;
        std::string kernel;  ///< of `vectorized`
    };
    // More columns than tiles for few have; words, wide and narrow, and shifted rows; rows below and above
    // 8 KiB.
    const std::array kBanded = {
        Banded{Type::u8, {tall + 1, 485}, "shifted"},     Banded{Type::u16, {tall + 1, 153}, "shifted"},
        Banded{Type::u32, {tall + 1, 387}, "shifted"},    Banded{Type::u64, {tall + 1, 85}, "shifted"},
        Banded{Type::u64, {tall + 1, 1025}, "shifted"},   Banded{Type::u8, {tall, 1040}, "words"},
        Banded{Type::u32, {tall, 260}, "words"},          Banded{Type::u64, {tall, 130}, "words"},
        Banded{Type::u64, {tall, 1026}, "words"},         Banded{Type::c128, {tall, 65}, "words"},
        Banded{Type::u8, {2 * tall + 4, 516}, "shifted"}, Banded{Type::u16, {tall + 4, 516}, "shifted"},
        Banded{Type::u32, {tall, 288}, "words"}};
    Count count;
    for (const std::string_view name : {"vectorized", "tma"}) {
        const Level* const level = registry().find(kTranspose, DeviceKind::gpu, name);
        REQUIRE(level != nullptr);
        for (const Banded& banded : kBanded) {
            const Problem problem{
                .operation = &kTranspose, .type = banded.type, .m = banded.shape.m, .n = banded.shape.n};
            INFO(describe(*level, problem));
            if (name == "vectorized") {
                CHECK(detail_of(*level, problem, "kernel") == banded.kernel);
                const std::string grid = detail_of(*level, problem, "grid");
                CHECK(std::ranges::count(grid, 'x') == 2);  // bands are its z
            }
            count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
        }
    }
    count.print("tall columns");
}

TEST_CASE("rows that are not whole words in each kind of tile that they have") {
    const GpuInfo& info = gpu().info();
    const std::int64_t processors = info.multiprocessors;
    struct Shifted {
        Type type;
        Sides shape;
    };
    // From small to large; of u8 and u16 also numbers of columns that have other tiles.
    const std::array kShifted = {Shifted{Type::u8, {1001, 1003}},
                                 Shifted{Type::u8, {4801, (40 * processors) | 1}},
                                 Shifted{Type::u8, {4801, 40 * processors}},
                                 Shifted{Type::u16, {1001, 1003}},
                                 Shifted{Type::u16, {3301, (25 * processors) | 1}},
                                 Shifted{Type::u16, {3301, 26 * processors}},
                                 Shifted{Type::u32, {2001, 2003}},
                                 Shifted{Type::u32, {4301, (33 * processors) | 1}},
                                 Shifted{Type::u64, {1001, 1003}},
                                 Shifted{Type::u64, {4301, (33 * processors) | 1}}};
    const Level* const level = registry().find(kTranspose, DeviceKind::gpu, "vectorized");
    REQUIRE(level != nullptr);
    Count count;
    std::set<std::string> tiles;
    for (const auto& [type, shape] : kShifted) {
        const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
        INFO(describe(*level, problem));
        CHECK(detail_of(*level, problem, "kernel") == "shifted");
        tiles.insert(std::string(name_of(type)) + detail_of(*level, problem, "tile") +
                     detail_of(*level, problem, "block"));
        const Bytes input = random_bytes(bytes_of(problem));
        count.add(serves(*level, problem, input));
        if (small_shapes_only()) continue;
        count.add(serves(*level, problem, input, Offsets{1, 0}));
        count.add(serves(*level, problem, input, Offsets{0, 1}));
    }
    count.print("shifted");
    // Each has another where the device has as many multiprocessors and as much L2 as that of tuning.hpp.
    if (processors == 132 && info.l2_bytes >= std::uint64_t{50} << 20) CHECK(tiles.size() == kShifted.size());
}

TEST_CASE("rows of whole words that are no whole sectors on either side") {
    const GpuInfo& info = gpu().info();
    const std::int64_t processors = info.multiprocessors;
    constexpr std::uint64_t kBlocks_bytes = 99 << 10;  // hold the blocks of these tiles
    const bool roomy = info.shared_bytes_per_block >= kBlocks_bytes;
    // As above: a column of tiles is too much.
    const auto tall = static_cast<std::int64_t>(info.l2_bytes / 10 / 352 + 97) / 8 * 8 + 4;
    const std::int64_t few = std::max<std::int64_t>(150000 * processors / tall / 8 * 8 + 4, 1028);
    struct Sectorless {
        Type type;
        Sides shape;
    };
    std::vector<Sectorless> cases = {{Type::u32, {4300, 40 * processors / 8 * 8 + 4}},
                                     {Type::u64, {1602, 12 * processors / 4 * 4 + 2}}};
    if (!small_shapes_only()) {
        cases.push_back({Type::u32, {tall, few}});
        cases.push_back({Type::u64, {tall + 2, few + 2}});
    }
    const Level* const level = registry().find(kTranspose, DeviceKind::gpu, "vectorized");
    REQUIRE(level != nullptr);
    Count count;
    for (const auto& [type, shape] : cases) {
        const Problem problem{.operation = &kTranspose, .type = type, .m = shape.m, .n = shape.n};
        INFO(describe(*level, problem));
        CHECK(detail_of(*level, problem, "kernel") == (roomy ? "shifted" : "words"));
        const Bytes input = random_bytes(bytes_of(problem));
        const std::size_t word = 16 / size_of(type);
        count.add(serves(*level, problem, input));
        if (small_shapes_only()) continue;
        count.add(serves(*level, problem, input, Offsets{word, 0}));
        count.add(serves(*level, problem, input, Offsets{0, word}));
    }
    count.print("no whole sectors");
}

TEST_CASE("tiles enough to fill the device, in rows of whole lines of 128 bytes and in others") {
    if (small_shapes_only()) return;
    struct Large {
        Type type;
        std::string tile;           ///< of lines
        std::vector<Sides> lines;   ///< enough whole tiles of whole lines for 132 multiprocessors
        std::vector<Sides> partly;  ///< the same, but some tiles reach beyond the matrix
        std::vector<Sides> others;  ///< fewer tiles, or rows that are not whole lines
    };
    // Plain ones, and those of which parts take turns: rows of the input a multiple of 128 KiB apart, rows of
    // the output a multiple of 512 KiB.
    const std::vector<Large> all = {{Type::u8,
                                     "256x256",
                                     {{6144, 5888}, {512, 131072}, {524288, 256}},
                                     {{6100, 5888}, {300, 131072}, {524288, 128}},
                                     {{5760, 5776}}},
                                    {Type::u16,
                                     "128x128",
                                     {{5632, 5504}, {512, 65536}, {262144, 128}},
                                     {{5512, 5632}, {504, 65536}},
                                     {{2560, 2688}, {128, 65536}, {2880, 2888}}},
                                    {Type::u32,
                                     "64x64",
                                     {{6144, 5120}, {1024, 32768}, {131072, 256}},
                                     {{6180, 5120}, {1000, 32768}, {131072, 288}},
                                     {{2084, 2080}, {2080, 2084}}},
                                    {Type::u64,
                                     "32x32",
                                     {{4096, 3072}, {768, 16384}, {65536, 192}},
                                     {{4100, 3072}, {770, 16384}, {65536, 208}},
                                     {{2050, 1040}, {2048, 1042}}},
                                    {Type::c128,
                                     "32x16",
                                     {{2048, 1600}, {416, 8192}, {32768, 112}},
                                     {{2050, 1600}, {410, 8192}, {32768, 104}},
                                     {{1504, 1504}, {2050, 1601}}}};
    const Level* const vectorized = registry().find(kTranspose, DeviceKind::gpu, "vectorized");
    const Level* const tma = registry().find(kTranspose, DeviceKind::gpu, "tma");
    REQUIRE(vectorized != nullptr);
    REQUIRE(tma != nullptr);
    constexpr int kMultiprocessors = 132;
    const int times = (gpu().info().multiprocessors + kMultiprocessors - 1) / kMultiprocessors;
    const bool roomy = gpu().info().threads_per_multiprocessor >= 2048;
    Count count;
    for (const auto& [type, tile, lines, partly, others] : all) {
        for (const std::vector<Sides>* shapes : {&lines, &partly, &others}) {
            for (const Sides shape : *shapes) {
                const Problem problem{
                    .operation = &kTranspose, .type = type, .m = shape.m * times, .n = shape.n};
                INFO(describe(*vectorized, problem));
                if (roomy && shapes == &lines) CHECK(detail_of(*vectorized, problem, "tile") == tile);
                const Bytes input = random_bytes(bytes_of(problem));
                count.add(serves(*vectorized, problem, input));
                count.add(serves(*vectorized, problem, input, Offsets{16, 16}));
                count.add(serves(*tma, problem, input));
            }
        }
    }
    count.print("large enough");
}

TEST_CASE("a column taller than the grid") {
    if (small_shapes_only()) return;
    Count count;
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        if (level->name == "serial") continue;  // seconds of one thread
        for (const Sides shape :
             {Sides{65535 * 64 + 77, 1}, Sides{1, 65535 * 64 + 77}, Sides{65536 * 32 + 5, 3}}) {
            const Problem problem{.operation = &kTranspose, .type = Type::u8, .m = shape.m, .n = shape.n};
            count.add(serves(*level, problem, random_bytes(bytes_of(problem))));
        }
    }
    count.print("tall");
}

// Takes 9 GB of host and 4.3 GB of device memory and minutes: run by name or tag.
TEST_CASE("more than 2^31 elements", "[.large]") {
    Count count;
    const Problem problem{.operation = &kTranspose, .type = Type::u8, .m = 46351, .n = 46337};
    const Bytes input = random_bytes(bytes_of(problem));
    for (const Level* level : registry().levels(kTranspose, DeviceKind::gpu, Role::rung)) {
        if (level->name == "serial") continue;  // minutes of one thread
        count.add(serves(*level, problem, input));
    }
    count.print("large");
}
