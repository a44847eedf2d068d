#include "lib/host.hpp"

#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "lib/core/parallel.hpp"

namespace gpumat {
namespace {

namespace fs = std::filesystem;

/// What the system says of the first processor under this name; empty where it does not. Of a machine with
/// many processors the text is long: no more than the first one's is read.
std::string said_of_processor(std::string_view name) {
    std::ifstream stream("/proc/cpuinfo");
    for (std::string line; std::getline(stream, line) && !line.empty();) {
        if (!line.starts_with(name)) continue;
        const auto start = line.find_first_not_of(" \t", line.find(':') + 1);
        return start == std::string::npos ? "" : line.substr(start);
    }
    return "";
}

/// Read once.
const std::string& processor_name() {
    static const std::string kName = [] {
        std::string name = said_of_processor("model name");
        return name.empty() ? std::string("unknown") : name;
    }();
    return kName;
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
    const std::string text = said_of_processor("cpu MHz");
    double clock_mhz = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), clock_mhz);
    return failure == std::errc{} && clock_mhz > 0 ? std::optional(clock_mhz) : std::nullopt;
}

HostInfo describe_host() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return {.name = name.data(),
            .processor = processor_name(),
            .threads = hardware_threads(),
            .memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE)),
            .vector_instructions = best_vector_instructions()};
}

}  // namespace gpumat
