#include "core/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace gpumat {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Whether a buffer has pages of its own, aligned to huge ones.
bool is_large(std::size_t bytes) {
    return bytes >= 2 * kHugePage;
}

/// What is allocated for a buffer.
std::size_t allocated_bytes(std::size_t bytes) {
    const std::size_t alignment = is_large(bytes) ? kHugePage : kAlignment;
    return (bytes + alignment - 1) / alignment * alignment;
}

std::atomic<std::uint64_t> memory_share{std::numeric_limits<std::uint64_t>::max()};

/// The number that `file` starts with, or nothing ("max" means no limit).
std::optional<std::uint64_t> number_in(const char* file) {
    std::ifstream stream(file);
    std::uint64_t value = 0;
    if (stream >> value) return value;
    return std::nullopt;
}

std::uint64_t system_available_bytes() {
    std::ifstream stream("/proc/meminfo");
    std::string key;
    std::uint64_t kib = 0;
    std::string unit;
    while (stream >> key >> kib >> unit) {
        if (key == "MemAvailable:") return kib * 1024;
    }
    return std::numeric_limits<std::uint64_t>::max();
}

std::uint64_t left_in_control_group() {
    constexpr std::array kPairs = {
        std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    for (const auto& [limit_file, used_file] : kPairs) {
        const auto limit = number_in(limit_file);
        const auto used = number_in(used_file);
        if (limit && used) return *limit > *used ? *limit - *used : 0;
    }
    return std::numeric_limits<std::uint64_t>::max();
}

/// With two digits of the unit, the nearest or the next above.
std::string text_of_bytes(std::uint64_t bytes, bool up) {
    constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    if (up) value = std::ceil(value * 100) / 100;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.2f %s", value, kUnits[unit]);
    return text.data();
}

}  // namespace

std::uint64_t available_memory_bytes() {
    return std::min({system_available_bytes(), left_in_control_group(), memory_share.load()});
}

void set_memory_share(std::optional<std::uint64_t> bytes) {
    memory_share = bytes.value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t peak_memory_bytes() {
    // Not getrusage, whose figure is that of the program which started this one, where that was larger.
    std::ifstream stream("/proc/self/status");
    for (std::string line; std::getline(stream, line);) {
        if (line.starts_with("VmHWM:")) return std::stoull(line.substr(line.find(':') + 1)) * 1024;
    }
    return 0;
}

void require_memory(std::uint64_t bytes, std::optional<std::uint64_t> limit, const std::string& what) {
    const std::uint64_t most = limit ? *limit : available_memory_bytes();
    if (bytes <= most) return;
    throw Error(ErrorCode::memory, what + " needs " + format_need(bytes) + " of memory, and " +
                                       (limit ? "the limit is " : "there are only ") + format_bytes(most) +
                                       (limit ? "" : " available"));
}

std::string format_bytes(std::uint64_t bytes) {
    return text_of_bytes(bytes, false);
}

std::string format_need(std::uint64_t bytes) {
    return text_of_bytes(bytes, true);
}

std::string format_traffic(double bytes) {
    constexpr double kMost = 0x1p63;
    if (bytes < kMost) return format_bytes(static_cast<std::uint64_t>(bytes));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g bytes", bytes);
    return text.data();
}

Buffer::Buffer(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    const std::size_t alignment = is_large(bytes) ? kHugePage : kAlignment;
    const std::size_t rounded = allocated_bytes(bytes);
    data_ = rounded < bytes ? nullptr : static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
    if (data_ == nullptr) {
        throw Error(ErrorCode::memory, "the system refused " + format_bytes(bytes) + " of memory");
    }
    if (!is_large(bytes)) return;
    madvise(data_, rounded, MADV_HUGEPAGE);  // a hint: fewer page faults, no effect on results
    madvise(data_, rounded, MADV_DONTFORK);  // a fork would copy its page tables, and later each page written
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

Buffer::~Buffer() {
    // The allocator may give the pages to others, which children do have.
    if (is_large(size_)) madvise(data_, allocated_bytes(size_), MADV_DOFORK);
    std::free(data_);
}

}  // namespace gpumat
