// Measures candidates for `pipelined` against cuBLAS: a development program, not a test. It is compiled for
// one type, GPUMAT_TUNE_TYPE (float where nothing is said). Only float is compared with cuBLAS.
//
// tune_multiply once INDEX M N K launches one candidate twice, or cuBLAS with index -1, for a profiler.
// tune_multiply [N…]: for squares of N, or a table of shapes where there is none, every candidate tile is
// checked against the naive level on whole numbers, where sums are exact, and then timed on random numbers
// with a cold L2 cache, in the way that the model chooses and in others. Prints the rates as ratios to
// cuBLAS. The last row is what `pipelined` chooses by itself. The figures go into
// kernels/multiply/gpu/tuning.hpp.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/common/cublas.hpp"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/pipelined_choice.cuh"
#include "kernels/multiply/operation.hpp"
#include "kernels/registry.hpp"

using namespace gpumat;
using namespace gpumat::multiply::gpu;

#ifndef GPUMAT_TUNE_TYPE
#define GPUMAT_TUNE_TYPE float
#endif

namespace {

using T = GPUMAT_TUNE_TYPE;
static_assert(std::is_same_v<T, Sum<T>>, "types that are their own sums");

template <class S>
constexpr Type kTypeOf = Type::f32;
template <>
constexpr Type kTypeOf<double> = Type::f64;
template <>
constexpr Type kTypeOf<Complex<float>> = Type::c64;
template <>
constexpr Type kTypeOf<Complex<double>> = Type::c128;
template <>
constexpr Type kTypeOf<std::uint32_t> = Type::i32;
template <>
constexpr Type kTypeOf<std::uint64_t> = Type::i64;

template <class S>
constexpr auto candidates() {
    //   bm   bn  bk  tm  tn  lanes_m  stages  resident  rate
    if constexpr (sizeof(S) == 4) {
        return std::array{
            Tile{128, 128, 16, 8, 16, 4, 3, 2, 78},        // 0
            Tile{64, 256, 8, 8, 16, 4, 4, 2, 77},          // 1
            Tile{64, 128, 16, 8, 8, 4, 3, 4, 72},          // 2
            Tile{16, 256, 16, 8, 4, 2, 4, 3, 60},          // 3
            Tile{16, 128, 16, 4, 4, 2, 4, 4, 57},          // 4
            Tile{64, 64, 16, 8, 4, 4, 4, 4, 66},           // 5
            Tile{32, 64, 16, 4, 4, 4, 4, 6, 57},           // 6
            Tile{128, 128, 32, 8, 16, 4, 3, 2, 86, true},  // 7
            Tile{128, 96, 24, 8, 12, 4, 3, 3, 84, true},   // 8
            Tile{128, 64, 16, 8, 8, 4, 4, 4, 82, true},    // 9
            Tile{96, 192, 32, 12, 12, 4, 3, 2, 84, true},  // 10
            Tile{256, 96, 20, 16, 12, 4, 4, 2, 85, true},  // 11
        };
    } else if constexpr (sizeof(S) == 8) {
        constexpr int kDepth = kIsComplex<S> ? 20 : 24;  // whole iterations of the inner loop
        return std::array{
            Tile{128, 128, 8, 8, 8, 4, 4, 1, 85},            // 0
            Tile{32, 64, 8, 4, 4, 4, 4, 4, 55},              // 1
            Tile{128, 128, 32, 8, 8, 4, 3, 1, 85, true},     // 2
            Tile{128, 128, 16, 8, 8, 4, 4, 1, 85, true},     // 3
            Tile{128, 64, 16, 8, 8, 4, 4, 2, 85, true},      // 4
            Tile{128, 64, kDepth, 8, 8, 4, 3, 2, 85, true},  // 5
        };
    } else {
        return std::array{
            Tile{64, 64, 8, 4, 4, 4, 3, 1, 80},          // 0
            Tile{64, 64, 16, 8, 4, 4, 3, 2, 85, true},   // 1
            Tile{128, 64, 16, 8, 4, 4, 4, 1, 85, true},  // 2
        };
    }
}
constexpr auto kCandidates = candidates<T>();

struct Sides {
    std::int64_t m, n, k;
};
constexpr std::array kShapes = {Sides{256, 256, 256},    Sides{512, 512, 512},      Sides{1024, 1024, 1024},
                                Sides{2048, 2048, 2048}, Sides{4000, 4000, 4000},   Sides{4096, 4096, 4096},
                                Sides{4097, 4097, 4097}, Sides{8191, 8191, 8191},   Sides{8192, 8192, 8192},
                                Sides{1000, 3000, 5000}, Sides{64, 64, 65536},      Sides{16384, 16384, 32},
                                Sides{16, 16384, 16384}, Sides{16384, 16384, 16384}};

/// An element of that value; complex ones have an imaginary part as well.
template <class S>
__device__ void set(S& to, float value, float) {
    if constexpr (std::is_integral_v<S>) {
        to = static_cast<S>(static_cast<std::int64_t>(value));
    } else {
        to = static_cast<S>(value);
    }
}
template <class R>
__device__ void set(Complex<R>& to, float value, float imaginary) {
    to = {static_cast<R>(value), static_cast<R>(imaginary)};
}

/// Uniform in [−1, 1), or whole numbers from −3 to 3.
__global__ void fill(T* to, std::int64_t count, unsigned seed, bool whole) {
    for (std::int64_t i = blockIdx.x * std::int64_t{256} + threadIdx.x; i < count;
         i += std::int64_t{gridDim.x} * 256) {
        auto x = static_cast<unsigned long long>(i) + (static_cast<unsigned long long>(seed) << 40);
        x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
        x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
        x ^= x >> 33;
        const float value = whole ? static_cast<float>(static_cast<int>(x % 7) - 3)
                                  : static_cast<float>(static_cast<int>(static_cast<unsigned>(x)) >> 8) *
                                        (std::is_integral_v<T> ? 1.0f : 0x1p-23f);
        set(to[i], value, static_cast<float>(x >> 32 & 3));
    }
}

__global__ void count_different(const unsigned* x, const unsigned* y, std::int64_t count,
                                unsigned long long* different) {
    for (std::int64_t i = blockIdx.x * std::int64_t{256} + threadIdx.x; i < count;
         i += std::int64_t{gridDim.x} * 256) {
        if (x[i] != y[i] && (x[i] | y[i]) << 1 != 0) atomicAdd(different, 1ull);
    }
}

/// One way to launch a candidate.
struct Way {
    std::string name;
    std::function<Launch(const Operands&)> prepare;
};

/// Operands packed: the model's number of blocks first, then a block for every tile, as many as run at once,
/// and for few tiles several for every tile.
template <Tile kTile>
requires(kTile.packed) std::vector<Way> ways(const Problem& problem, const Device& device) {
    const std::int64_t tiles = tiles_of(kTile, problem.m, problem.n);
    const int processors = device.gpu->info().multiprocessors;
    const std::int64_t at_once = std::int64_t{processors} * kTile.resident;
    std::vector<Share> shares = {best_share(kTile, problem.m, problem.n, problem.k, kCost<T>, processors),
                                 {tiles, 1},
                                 {at_once, tiles / at_once}};
    for (std::int64_t splits = 2; tiles * splits <= at_once; ++splits) shares.push_back({tiles * splits, 0});
    std::vector<Way> list;
    for (const Share& share : shares) {
        std::string name = std::to_string(share.blocks);
        name += 'x';
        name += std::to_string(share.whole);
        list.push_back({name, [problem, &device, share](const Operands& operands) {
                            return prepare_packed_tile<T, kTile>(problem, operands, device, share);
                        }});
    }
    return list;
}

/// Operands as they lie: the model's split first, then none, and for few tiles a range of splits of all.
template <Tile kTile>
requires(!kTile.packed) std::vector<Way> ways(const Problem& problem, const Device& device) {
    const std::int64_t tiles = tiles_of(kTile, problem.m, problem.n);
    const int processors = device.gpu->info().multiprocessors;
    const std::int64_t steps = divide_up<std::int64_t>(problem.k, kTile.bk);
    std::vector<Split> splits = {best_split(kTile, problem.m, problem.n, problem.k, kCost<T>, processors),
                                 {tiles, 1}};
    for (const int count : {2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256}) {
        if (count * kFewestSteps <= steps && tiles * count <= std::int64_t{3} * processors * kTile.resident)
            splits.push_back({0, count});
    }
    std::vector<Way> list;
    for (const Split& split : splits) {
        std::string name(split.whole == 0 && split.splits > 1 ? "s" : "t");
        name += std::to_string(split.splits);
        list.push_back({name, [problem, &device, split](const Operands& operands) {
                            return prepare_pipelined_tile<T, kTile>(problem, operands, device, split);
                        }});
    }
    return list;
}

using Ways = std::vector<Way> (*)(const Problem&, const Device&);

template <std::size_t... kIndices>
constexpr std::array<Ways, sizeof...(kIndices)> ways_table(std::index_sequence<kIndices...>) {
    return {ways<kCandidates[kIndices]>...};
}

class Tuner {
  public:
    Tuner() : gpu_(Gpu::open(0)), device_{.kind = DeviceKind::gpu, .gpu = gpu_.get()} {
        flush_ = gpu_->allocate(std::size_t{256} << 20);
        counter_ = gpu_->allocate(8);
        if (!std::is_same_v<T, float>) {
            std::printf("rates are ratios to 66.9 TFLOP/s\n");
        } else if (const std::string why = cublas::why_missing(); why.empty()) {
            cublas_ = std::make_unique<cublas::Handle>();
        } else {
            std::printf("no cuBLAS (%s): ratios are to 66.9 TFLOP/s\n", why.c_str());
        }
    }

    void run_once(int candidate, const Sides& s) {
        allocate(s);
        generate(false);
        if (candidate < 0 && cublas_) {
            run_cublas();
            run_cublas();
        } else {
            const Ways ways = kWays.at(static_cast<std::size_t>(candidate));
            const Launch launch = ways(problem_, device_).front().prepare(operands_);
            launch.run(gpu_->stream());
            launch.run(gpu_->stream());
        }
        gpu_->synchronize();
    }

    void measure(const Sides& s) {
        allocate(s);
        reference_ = gpu_->allocate(c_.bytes());
        generate(true);
        Operands to_reference = operands_;
        to_reference.c.data = reference_.data();
        prepare_naive(problem_, to_reference, device_).run(gpu_->stream());

        // Wrong candidates are found first, then the data become random.
        std::vector<std::vector<Way>> ways;
        std::vector<bool> wrong;
        for (const Ways all : kWays) {
            ways.push_back(all(problem_, device_));
            wrong.push_back(std::ranges::any_of(
                ways.back(), [&](const Way& way) { return differences(way.prepare(operands_)) != 0; }));
        }
        const bool choice_wrong = differences(prepare_pipelined(problem_, operands_, device_)) != 0;
        generate(false);

        const double flops = problem_.flops();
        const double vendor = cublas_ ? flops / (time_ms([this](Stream) { run_cublas(); }) * 1e9) : 66.9;
        std::printf("%lldx%lldx%lld  cuBLAS %.1f TFLOP/s\n ", static_cast<long long>(s.m),
                    static_cast<long long>(s.n), static_cast<long long>(s.k), vendor);
        for (std::size_t i = 0; i < kCandidates.size(); ++i) {
            if (wrong[i]) {
                std::printf(" %zu:WRONG", i);
                continue;
            }
            double best = 0;
            double first = 0;
            std::string name;
            for (const Way& way : ways[i]) {
                const double rate = flops / (time_ms(way.prepare(operands_).run) * 1e9);
                if (first == 0) first = rate;
                if (rate > best) {
                    best = rate;
                    name = way.name;
                }
            }
            std::printf(" %zu:%.4f %s (%s %.4f)", i, best / vendor, name.c_str(), ways[i][0].name.c_str(),
                        first / vendor);
        }
        const Launch choice = prepare_pipelined(problem_, operands_, device_);
        std::printf("\n  chosen %s: %.3f", choice_wrong ? "WRONG" : "",
                    flops / (time_ms(choice.run) * 1e9) / vendor);
        for (const auto& [name, value] : choice.details) std::printf(" %s", value.c_str());
        std::printf("\n");
        std::fflush(stdout);
    }

    static void legend() {
        for (std::size_t i = 0; i < kCandidates.size(); ++i) {
            const Tile& t = kCandidates[i];
            std::printf("%zu: %s %dx%dx%d thread %dx%d lanes_m %d stages %d resident %d\n", i,
                        t.packed ? "packed" : "as it lies", t.bm, t.bn, t.bk, t.tm, t.tn, t.lanes_m, t.stages,
                        t.resident);
        }
        std::printf(
            "INDEX:RATIO of the best way, then the model's: BLOCKSxWHOLE, the whole tiles of a block, of "
            "packed operands; of others t (the tiles of the last wave split) or s (all split), and in how "
            "many\n");
    }

  private:
    static constexpr auto kWays = ways_table(std::make_index_sequence<kCandidates.size()>{});

    void allocate(const Sides& s) {
        problem_ = Problem{};
        problem_.operation = &kMultiply;
        problem_.type = kTypeOf<T>;
        problem_.m = s.m;
        problem_.n = s.n;
        problem_.k = s.k;
        a_ = gpu_->allocate(static_cast<std::size_t>(s.m * s.k) * sizeof(T));
        b_ = gpu_->allocate(static_cast<std::size_t>(s.k * s.n) * sizeof(T));
        c_ = gpu_->allocate(static_cast<std::size_t>(s.m * s.n) * sizeof(T));
        operands_ = contiguous_operands(problem_, {a_.data(), b_.data(), nullptr, c_.data()});
    }

    void generate(bool whole) {
        fill<<<2048, 256, 0, cuda_stream(gpu_->stream())>>>(static_cast<T*>(a_.data()),
                                                            problem_.m * problem_.k, 1, whole);
        fill<<<2048, 256, 0, cuda_stream(gpu_->stream())>>>(static_cast<T*>(b_.data()),
                                                            problem_.k * problem_.n, 2, whole);
        GPUMAT_CUDA(cudaGetLastError());
    }

    std::uint64_t differences(const Launch& launch) {
        gpu_->fill(c_.data(), 0xff, c_.bytes());
        gpu_->fill(counter_.data(), 0, 8);
        launch.run(gpu_->stream());
        count_different<<<2048, 256, 0, cuda_stream(gpu_->stream())>>>(
            static_cast<unsigned*>(c_.data()), static_cast<unsigned*>(reference_.data()),
            problem_.m * problem_.n * static_cast<std::int64_t>(sizeof(T) / 4),
            static_cast<unsigned long long*>(counter_.data()));
        GPUMAT_CUDA(cudaGetLastError());
        std::uint64_t different = 0;
        gpu_->download(&different, counter_.data(), 8);
        return different;
    }

    /// The median of cold runs.
    double time_ms(const std::function<void(Stream)>& run) {
        const int runs = problem_.flops() > 1e12 ? 3 : problem_.flops() > 1e11 ? 5 : 9;
        std::vector<double> times;
        run(gpu_->stream());
        for (int i = 0; i < runs; ++i) {
            gpu_->fill(flush_.data(), i, flush_.bytes());
            times.push_back(gpu_->time_ms(run));
        }
        std::sort(times.begin(), times.end());
        return times[times.size() / 2];
    }

    void run_cublas() {
        const float one = 1;
        const float zero = 0;
        const auto m = static_cast<int>(problem_.m);
        const auto n = static_cast<int>(problem_.n);
        const auto k = static_cast<int>(problem_.k);
        static const auto sgemm = GPUMAT_CUBLAS_FUNCTION(cublasSgemm_v2);
        cublas::check(sgemm(cublas_->on(cuda_stream(gpu_->stream())), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one,
                            static_cast<float*>(b_.data()), n, static_cast<float*>(a_.data()), k, &zero,
                            static_cast<float*>(c_.data()), n),
                      "cublasSgemm");
    }

    std::unique_ptr<Gpu> gpu_;
    Device device_;
    std::unique_ptr<cublas::Handle> cublas_;
    DeviceMemory flush_, counter_, a_, b_, c_, reference_;
    Problem problem_;
    Operands operands_;
};

}  // namespace

int main(int argc, char** argv) try {
    Tuner tuner;
    if (argc == 6 && std::string_view(argv[1]) == "once") {
        tuner.run_once(std::atoi(argv[2]), {std::atoll(argv[3]), std::atoll(argv[4]), std::atoll(argv[5])});
        return 0;
    }
    Tuner::legend();
    for (const Sides& shape : kShapes) {
        if (argc == 1) tuner.measure(shape);
    }
    for (int i = 1; i < argc; ++i) {
        const std::int64_t n = std::atoll(argv[i]);
        tuner.measure({n, n, n});
    }
    return 0;
} catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
