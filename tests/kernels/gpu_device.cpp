// The GPU interface: streams, events, pinned memory and copies that run beside the processor.
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "kernels/device/gpu.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;

}  // namespace

TEST_CASE("a copy on one stream waits for an event of another") {
    const auto gpu = Gpu::open(0);
    const OwnedStream up = gpu->new_stream();
    const OwnedStream down = gpu->new_stream();
    const Event uploaded = gpu->new_event();
    const PinnedMemory from = gpu->allocate_pinned(kBytes);
    const PinnedMemory to = gpu->allocate_pinned(kBytes);
    const DeviceMemory memory = gpu->allocate(kBytes);
    for (int round = 1; round < 20; ++round) {
        std::memset(from.data(), round, kBytes);
        std::memset(to.data(), 0, kBytes);
        gpu->upload_async(memory.data(), from.data(), kBytes, up);
        gpu->record(uploaded, up);
        gpu->wait(down, uploaded);
        gpu->download_async(to.data(), memory.data(), kBytes, down);
        gpu->synchronize(down);
        REQUIRE(std::memcmp(from.data(), to.data(), kBytes) == 0);
    }
}

TEST_CASE("events give the time of what is between them") {
    const auto gpu = Gpu::open(0);
    const OwnedStream stream = gpu->new_stream();
    const Event start = gpu->new_event();
    const Event stop = gpu->new_event();
    const PinnedMemory host = gpu->allocate_pinned(kBytes);
    const DeviceMemory device = gpu->allocate(kBytes);
    gpu->record(start, stream);
    gpu->upload_async(device.data(), host.data(), kBytes, stream);
    gpu->record(stop, stream);
    const double ms = gpu->elapsed_ms(start, stop);
    CHECK(ms > static_cast<double>(kBytes) / 1e12 * 1e3);  // 1 TB/s is faster than any link
    CHECK(ms < 1e4);
    gpu->synchronize(stop);
}

TEST_CASE("work is timed on the stream that it is given") {
    const auto gpu = Gpu::open(0);
    const DeviceMemory memory = gpu->allocate(kBytes);
    Stream given;
    const double ms = gpu->time_ms([&](Stream stream) {
        given = stream;
        gpu->fill(memory.data(), 1, kBytes);
    });
    CHECK(given.handle == gpu->stream().handle);
    CHECK(ms > 0);
}

TEST_CASE("memory moves with its owner, and none is no memory") {
    const auto gpu = Gpu::open(0);
    DeviceMemory first = gpu->allocate(256);
    void* const address = first.data();
    const DeviceMemory second = std::move(first);
    CHECK(second.data() == address);
    CHECK(second.bytes() == 256);
    CHECK(gpu->allocate(0).data() == nullptr);
    CHECK(gpu->allocate_pinned(0).bytes() == 0);
    try {
        static_cast<void>(gpu->allocate(std::size_t{1} << 60));
        FAIL("no device has an exabyte");
    } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::memory);
    }
}
