#include "core/host.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/parallel.hpp"

namespace gpumat {
namespace {

namespace fs = std::filesystem;

/// What the system says of the first processor.
struct SaidOfProcessor {
    std::string name = "unknown";
    std::string clock_mhz;
};

SaidOfProcessor read_processor() {
    SaidOfProcessor said;
    std::ifstream stream("/proc/cpuinfo");
    for (std::string line; std::getline(stream, line) && !line.empty();) {
        const auto start = line.find_first_not_of(" \t", line.find(':') + 1);
        if (start == std::string::npos) continue;
        if (line.starts_with("model name")) said.name = line.substr(start);
        if (line.starts_with("cpu MHz")) said.clock_mhz = line.substr(start);
    }
    return said;
}

/// Read once: some systems take 10 ms to say it.
const SaidOfProcessor& this_processor() {
    static const SaidOfProcessor kSaid = read_processor();
    return kSaid;
}

std::optional<double> positive_number(const std::string& text) {
    double number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc{} && number > 0 ? std::optional(number) : std::nullopt;
}

std::string best_vector_instructions() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
    return "plain";
}

/// The first word of a file; empty where there is none.
std::string word_in(const fs::path& file) {
    std::ifstream stream(file);
    std::string word;
    stream >> word;
    return word;
}

std::uint64_t bytes_of(const std::string& size) {  // "2048K"
    std::uint64_t number = 0;
    const auto [end, failure] = std::from_chars(size.data(), size.data() + size.size(), number);
    const std::string_view unit(end, static_cast<std::size_t>(size.data() + size.size() - end));
    if (failure != std::errc{}) return 0;
    return number << (unit == "K" ? 10U : unit == "M" ? 20U : 0U);
}

/// The entries of a folder; none where it cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> paths;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        paths.push_back(entry->path());
    return paths;
}

}  // namespace

std::uint64_t cache_bytes() {
    std::uint64_t sum = 0;
    std::set<std::string> counted;  // a cache shows up at each processor that shares it
    for (const fs::path& processor : entries_of("/sys/devices/system/cpu")) {
        for (const fs::path& cache : entries_of(processor / "cache")) {
            const std::string level = word_in(cache / "level");
            if (level < "2" || word_in(cache / "type") == "Instruction") continue;
            if (counted.insert(level + " " + word_in(cache / "shared_cpu_list")).second)
                sum += bytes_of(word_in(cache / "size"));
        }
    }
    return sum;
}

std::optional<double> processor_clock_mhz() {
    constexpr double kKilohertz = 1e3;
    if (const auto now = positive_number(word_in("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")))
        return *now / kKilohertz;
    return positive_number(this_processor().clock_mhz);
}

HostInfo describe_host() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return {.name = name.data(),
            .processor = this_processor().name,
            .threads = hardware_threads(),
            .memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE)),
            .vector_instructions = best_vector_instructions()};
}

}  // namespace gpumat
