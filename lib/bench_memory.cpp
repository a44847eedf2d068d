#include "lib/bench_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <complex>
#include <cstring>

#include "lib/core/error.hpp"
#include "lib/core/parallel.hpp"
#include "lib/core/shape.hpp"

namespace gpumat {
namespace {

// More sets than this cost more preparation than they are worth; smaller problems are cooled by a fill.
constexpr std::uint64_t kMostSets = 64;
// Before a set's next turn this many caches full are touched: on a CPU by all sets, its own included, on a
// GPU by the other sets. An L2 does not give up its oldest lines first: on an H200 with 60 MiB a copy of 64
// MiB was 8 % too fast where one set of 128 MiB took every turn, 1 % with two sets, and no more from three
// on.
constexpr std::uint64_t kCachesTouchedOnCpu = 2;
constexpr std::uint64_t kCachesTouchedOnGpu = 6;
constexpr std::uint64_t kSmallAlignment = 512;
constexpr std::uint64_t kPage = std::uint64_t{2} << 20;  // what an allocation of its own would be aligned to
constexpr int kUnwrittenByte = 0xff;
constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;

std::uint64_t aligned(std::uint64_t bytes) {
    const std::uint64_t unit = bytes >= kPage ? kPage : kSmallAlignment;
    return (bytes + unit - 1) / unit * unit;
}

std::uint64_t last_level_cache_bytes(const Device& device) {
    if (device.gpu != nullptr) return device.gpu->info().l2_bytes;
    for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
        if (const long bytes = sysconf(level); bytes > 0) return static_cast<std::uint64_t>(bytes);
    }
    return 0;
}

/// Bytes to be touched before a set's next turn.
std::uint64_t touched_bytes(const Device& device, std::uint64_t cache_bytes) {
    return (device.gpu != nullptr ? kCachesTouchedOnGpu : kCachesTouchedOnCpu) * cache_bytes;
}

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64 (Steele, Lea, Flood 2014)
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

double uniform(std::uint64_t bits) {
    return static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-63;
}

template <class T>
T random_element(std::uint64_t bits) {
    if constexpr (std::is_integral_v<T>) {
        const auto value = static_cast<int>((bits >> 32U) % 17);
        return static_cast<T>(std::is_signed_v<T> ? value - 8 : value);
    } else if constexpr (requires { typename T::value_type; }) {
        using Part = typename T::value_type;
        return T(static_cast<Part>(uniform(bits)), static_cast<Part>(uniform(mix(bits))));
    } else {
        return static_cast<T>(uniform(bits));
    }
}

void in_parallel(std::size_t bytes, int threads, const std::function<void(std::size_t, std::size_t)>& piece) {
    parallel_for(static_cast<std::int64_t>(bytes), kBytesAtOnce, threads,
                 [&](std::int64_t begin, std::int64_t end) {
                     piece(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
                 });
}

}  // namespace

void fill_random(void* data, Type type, std::int64_t elements, std::uint64_t seed, int threads) {
    constexpr std::int64_t kElementsAtOnce = 1 << 20;
    visit_type(type, [&]<class T>(TypeTag<T>) {
        auto* out = static_cast<T*>(data);
        const std::uint64_t key = mix(seed);
        parallel_for(elements, kElementsAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                out[i] = random_element<T>(mix(key + static_cast<std::uint64_t>(i)));
        });
    });
}

/// Bytes of the operands of one problem, and how many sets of them there are.
struct BenchMemory::Layout {
    std::size_t a = 0;
    std::size_t b = 0;
    std::size_t c = 0;
    std::uint64_t sets = 1;
    bool in_place = false;  ///< c lies where a does
    bool flush = false;

    [[nodiscard]] std::uint64_t set_bytes() const {
        return aligned(a) + aligned(b) + (in_place ? 0 : aligned(c));
    }
};

/// Throws Error{memory} where one operand alone is beyond the host's memory, so that sums of the sizes and
/// copies on the host are safe.
BenchMemory::Layout BenchMemory::layout_of(const Problem& problem) const {
    const bool transposes = problem.operation == Operation::transpose;
    const Shape first = {problem.m, transposes ? problem.n : problem.k};
    Layout layout;
    layout.a = dense_bytes(first, problem.type, "the input");
    layout.b = transposes ? 0 : dense_bytes({problem.k, problem.n}, problem.type, "the second input");
    layout.c = dense_bytes({problem.m, problem.n}, problem.type, "the result");
    layout.in_place = problem.in_place;
    const std::string what = "a " + std::string(name_of(problem.operation)) + " of this size";
    for (const std::size_t bytes : {layout.a, layout.b, layout.c}) require_memory(bytes, host_bytes_, what);
    if (hot_) return layout;
    const std::uint64_t touched = touched_bytes(device_, cache_bytes_);
    const std::uint64_t wanted =
        (touched + layout.set_bytes() - 1) / layout.set_bytes() + (device_.gpu != nullptr ? 1 : 0);
    const std::uint64_t room = std::max<std::uint64_t>(1, most_set_bytes_ / layout.set_bytes());
    layout.sets = std::clamp<std::uint64_t>(wanted, 1, std::min(kMostSets, room));
    layout.flush = layout.sets < wanted;
    return layout;
}

BenchMemory::BenchMemory(const Device& device, std::span<const Problem> problems, bool hot,
                         std::optional<std::uint64_t> host_limit, std::uint64_t other_bytes,
                         std::uint64_t seed)
    : device_(device), hot_(hot), seed_(seed), cache_bytes_(last_level_cache_bytes(device)) {
    host_bytes_ = host_limit.value_or(available_memory_bytes());
    // Rotation is worth a part of the memory, not all of it.
    most_set_bytes_ = (device.gpu != nullptr ? device.gpu->free_memory() : host_bytes_) / 4;
    require_room(problems, host_limit, other_bytes);
    if (device.gpu != nullptr) {
        device_memory_ = device.gpu->allocate(device_bytes());
        base_ = static_cast<std::byte*>(device_memory_.data());
    } else {
        host_memory_ = Buffer(device_bytes());
        base_ = host_memory_.data();
    }
    fill(base_, 0, device_bytes());  // memory that was never written would be read from one page of zeros
}

void BenchMemory::require_room(std::span<const Problem> problems, std::optional<std::uint64_t> host_limit,
                               std::uint64_t other_bytes) {
    std::size_t a = 0;
    std::size_t b = 0;
    std::size_t c = 0;
    for (const Problem& problem : problems) {
        const Layout layout = layout_of(problem);
        a = std::max(a, layout.a);
        b = std::max(b, layout.b);
        c = std::max(c, layout.c);
        capacity_ = std::max(capacity_, layout.sets * layout.set_bytes());
        if (layout.flush) flush_bytes_ = aligned(touched_bytes(device_, cache_bytes_));
    }
    const bool on_gpu = device_.gpu != nullptr;
    require_memory(a + b + (on_gpu ? c : device_bytes()) + other_bytes, host_limit, "this bench");
    if (on_gpu && device_bytes() > device_.gpu->free_memory()) {
        throw Error(ErrorCode::memory, "this bench needs " + format_bytes(device_bytes()) + " on " +
                                           device_.gpu->info().name + ", and " +
                                           format_bytes(device_.gpu->free_memory()) + " are free");
    }
    a_ = Buffer(a);
    b_ = Buffer(b);
    if (on_gpu) result_ = Buffer(c);
}

void BenchMemory::generate(const Problem& problem) {
    if (generated_ == problem.type) return;
    const auto elements = [&](const Buffer& buffer) {
        return static_cast<std::int64_t>(buffer.size() / size_of(problem.type));
    };
    fill_random(a_.data(), problem.type, elements(a_), seed_, device_.threads);
    fill_random(b_.data(), problem.type, elements(b_), seed_ + 1, device_.threads);
    generated_ = problem.type;
}

void BenchMemory::load(const Problem& problem) {
    generate(problem);
    const Layout layout = layout_of(problem);
    a_bytes_ = layout.a;
    b_bytes_ = layout.b;
    c_bytes_ = layout.c;
    flush_ = layout.flush;
    sets_.clear();
    std::byte* next = base_;
    for (std::uint64_t i = 0; i < layout.sets; ++i) {
        std::byte* a = next;
        std::byte* b = a + aligned(layout.a);
        std::byte* c = layout.in_place ? a : b + aligned(layout.b);
        next += layout.set_bytes();
        if (i == 0) {
            upload(a, a_, layout.a);
            upload(b, b_, layout.b);
        } else {
            copy(a, static_cast<const std::byte*>(sets_.front().a), layout.a);
            copy(b, base_ + aligned(layout.a), layout.b);
        }
        sets_.push_back({.a = a, .b = layout.b > 0 ? b : nullptr, .d = nullptr, .c = c});
    }
}

void BenchMemory::cool() {
    if (flush_) fill(base_ + capacity_, 0, flush_bytes_);
}

void BenchMemory::poison_result() {
    fill(static_cast<std::byte*>(sets_.front().c), kUnwrittenByte, c_bytes_);
}

Operands BenchMemory::on_host() {
    void* result = sets_.front().c;
    if (device_.gpu != nullptr) {
        device_.gpu->download(result_.data(), result, c_bytes_);
        result = result_.data();
    }
    return {.a = a_.data(), .b = b_bytes_ > 0 ? b_.data() : nullptr, .d = nullptr, .c = result};
}

void BenchMemory::upload(std::byte* to, const Buffer& from, std::size_t bytes) {
    if (device_.gpu != nullptr) {
        device_.gpu->upload(to, from.data(), bytes);
    } else {
        copy(to, from.data(), bytes);
    }
}

void BenchMemory::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (device_.gpu != nullptr) return device_.gpu->copy(to, from, bytes);
    in_parallel(bytes, device_.threads,
                [&](std::size_t begin, std::size_t count) { std::memcpy(to + begin, from + begin, count); });
}

void BenchMemory::fill(std::byte* at, int byte, std::size_t bytes) {
    if (device_.gpu != nullptr) return device_.gpu->fill(at, byte, bytes);
    in_parallel(bytes, device_.threads,
                [&](std::size_t begin, std::size_t count) { std::memset(at + begin, byte, count); });
}

}  // namespace gpumat
