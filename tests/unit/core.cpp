#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>

#include "core/error.hpp"
#include "core/helpers.hpp"
#include "core/memory.hpp"
#include "core/numbers/convert.hpp"
#include "core/parallel.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

TEST_CASE("every half converts to float and back to the same bits") {
    for (unsigned bits = 0; bits <= 0xffff; ++bits) {
        const auto half = Half::from_bits(static_cast<std::uint16_t>(bits));
        const auto brain = BFloat16::from_bits(static_cast<std::uint16_t>(bits));
        if (!std::isnan(static_cast<float>(half))) REQUIRE(Half(static_cast<double>(half)).bits == bits);
        if (!std::isnan(static_cast<float>(brain)))
            REQUIRE(BFloat16(static_cast<double>(brain)).bits == bits);
    }
}

TEST_CASE("halves round to nearest, ties to even") {
    // 2049 lies between 2048 and 2050; 2051 between 2050 and 2052; both are ties.
    CHECK(static_cast<float>(Half(2049.0)) == 2048.0F);
    CHECK(static_cast<float>(Half(2051.0)) == 2052.0F);
    CHECK(static_cast<float>(Half(2049.0000000001)) == 2050.0F);
    CHECK(std::isinf(static_cast<float>(Half(65520.0))));
    CHECK(static_cast<float>(Half(65519.999)) == 65504.0F);
    CHECK(Half(0x1p-25).bits == 0);
    CHECK(Half(0x1.8p-25).bits == 1);
    CHECK(Half(-0x1p-24).bits == 0x8001);
    CHECK(std::isnan(static_cast<float>(Half(std::nan("")))));
    CHECK(static_cast<float>(BFloat16(257.0)) == 256.0F);
    CHECK(static_cast<float>(BFloat16(259.0)) == 260.0F);
}

namespace {

template <class From, class To>
To converted(From value, Type from, Type to) {
    Matrix source({1, 1}, from);
    Matrix target({1, 1}, to);
    *source.as<From>() = value;
    convert(source.view(), target.view(), "test", 1);
    return *target.as<To>();
}

}  // namespace

TEST_CASE("conversions keep values or refuse them") {
    CHECK(converted<double, float>(0.1, Type::f64, Type::f32) == 0.1F);
    CHECK_THROWS_AS((converted<double, float>(1e300, Type::f64, Type::f32)), Error);
    CHECK(std::isinf(converted<double, float>(INFINITY, Type::f64, Type::f32)));
    CHECK(converted<double, std::int8_t>(-128.0, Type::f64, Type::i8) == -128);
    CHECK_THROWS_AS((converted<double, std::int8_t>(128.0, Type::f64, Type::i8)), Error);
    CHECK_THROWS_AS((converted<double, std::int32_t>(0.5, Type::f64, Type::i32)), Error);
    CHECK_THROWS_AS((converted<double, std::int64_t>(NAN, Type::f64, Type::i64)), Error);
    CHECK_THROWS_AS((converted<double, std::int64_t>(0x1p63, Type::f64, Type::i64)), Error);
    CHECK(converted<double, std::int64_t>(-0x1p63, Type::f64, Type::i64) ==
          std::numeric_limits<std::int64_t>::min());
    CHECK_THROWS_AS((converted<std::int64_t, std::uint64_t>(-1, Type::i64, Type::u64)), Error);
    CHECK((converted<std::complex<double>, double>({2, 0}, Type::c128, Type::f64)) == 2);
    CHECK_THROWS_AS((converted<std::complex<double>, double>({2, 1}, Type::c128, Type::f64)), Error);
    // 2⁸ + 2⁰ + 2⁻⁵⁵-like low bits: the integer lies just above a tie of bfloat16 and must round up.
    const std::int64_t above_tie = (std::int64_t{257} << 53) + 1;
    CHECK(static_cast<double>(converted<std::int64_t, BFloat16>(above_tie, Type::i64, Type::bf16)) ==
          258 * 0x1p53);
    CHECK_THROWS_AS((converted<std::int64_t, Half>(70000, Type::i64, Type::f16)), Error);
}

TEST_CASE("sizes are checked in wide arithmetic") {
    CHECK(dense_bytes({3, 5}, Type::c128, "x") == 240);
    CHECK(dense_bytes({0, std::numeric_limits<std::int64_t>::max()}, Type::f64, "x") == 0);
    CHECK_THROWS_AS(dense_bytes({std::int64_t{1} << 40, std::int64_t{1} << 40}, Type::i8, "x"), Error);
    CHECK_THROWS_AS(dense_bytes({-1, 2}, Type::i8, "x"), Error);
}

namespace {

void require_every_index_once() {
    std::vector<int> seen(1001, 0);
    parallel_for(1001, 7, 4, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    CHECK(seen == std::vector<int>(1001, 1));
}

/// The threads of this process: the fewest in a tenth of a second, because the system lists those that have
/// been joined for a moment more.
std::ptrdiff_t threads_now() {
    std::ptrdiff_t fewest = std::numeric_limits<std::ptrdiff_t>::max();
    for (int i = 0; i < 100; ++i) {
        const std::filesystem::directory_iterator tasks("/proc/self/task");
        fewest = std::min(fewest, std::distance(begin(tasks), end(tasks)));
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return fewest;
}

}  // namespace

TEST_CASE("parallel_for covers every index once and passes failures on") {
    require_every_index_once();
    CHECK_THROWS_AS(
        parallel_for(10, 1, 3, [](std::int64_t, std::int64_t) { throw Error(ErrorCode::input, "x"); }),
        Error);
}

TEST_CASE("threads that are kept serve one call after the other, and end with the last who keeps them") {
    const std::ptrdiff_t before = threads_now();
    {
        const KeptThreads kept;
        const KeptThreads once_more;
        for (int i = 0; i < 1000; ++i) require_every_index_once();
        CHECK_THROWS_AS(
            parallel_for(10, 1, 3, [](std::int64_t, std::int64_t) { throw Error(ErrorCode::input, "x"); }),
            Error);
        require_every_index_once();
        CHECK(threads_now() == before + 3);
    }
    CHECK(threads_now() == before);
}

TEST_CASE("threads that are kept serve several calls at once, and calls within calls") {
    const KeptThreads kept;
    std::atomic<std::int64_t> sum{0};
    const auto add = [&](std::int64_t begin, std::int64_t end) {
        parallel_for(end - begin, 1, 3, [&, begin](std::int64_t from, std::int64_t to) {
            for (std::int64_t i = begin + from; i < begin + to; ++i) sum += i;
        });
    };
    {
        std::vector<std::jthread> callers;
        for (int i = 0; i < 4; ++i) callers.emplace_back([&] { parallel_for(1000, 9, 4, add); });
    }
    CHECK(sum == 4 * 1000 * 999 / 2);
}

TEST_CASE("a forked child has no kept threads to wait for") {
    const KeptThreads kept;
    require_every_index_once();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);  // where it waits for ever
        std::atomic<int> count{0};
        parallel_for(100, 1, 4, [&](std::int64_t, std::int64_t) { ++count; });
        _exit(count == 100 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

namespace {

/// Whether `test` holds in a forked child.
bool holds_in_child(const std::function<bool()>& test) {
    const pid_t child = fork();
    if (child == 0) _exit(test() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("a forked child has no large buffers, and what is allocated in their place") {
    constexpr std::size_t kLarge = std::size_t{8} << 20;
    constexpr std::size_t kSmall = std::size_t{1} << 16;
    const auto is_mapped = [](std::byte* place) {
        unsigned char resident = 0;
        const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        return mincore(place - reinterpret_cast<std::uintptr_t>(place) % page, 1, &resident) == 0;
    };
    {
        // From then on the allocator has smaller ones beside its others, and keeps their pages.
        const Buffer larger(3 * kLarge);
    }
    for (int round = 0; round < 2; ++round) {
        Buffer large(kLarge);
        std::memset(large.data(), 1, kLarge);
        CHECK(holds_in_child([&] { return !is_mapped(large.data()); }));
        CHECK(holds_in_child([&] { return !is_mapped(large.data() + kLarge - 1); }));
        large = Buffer(kSmall);
        std::vector<std::vector<char>> in_its_place(kLarge / kSmall);
        for (auto& piece : in_its_place) piece.assign(kSmall - 64, 'x');
        CHECK(holds_in_child([&] {
            return std::ranges::all_of(in_its_place, [](const std::vector<char>& piece) {
                return std::ranges::count(piece, 'x') == std::ssize(piece);
            });
        }));
        CHECK(holds_in_child([&] { return is_mapped(large.data()); }));
    }
}
