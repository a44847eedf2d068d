#include "lib/host.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

#include "lib/core/parallel.hpp"

namespace gpumat {
namespace {

std::string processor_name() {
    std::ifstream stream("/proc/cpuinfo");
    for (std::string line; std::getline(stream, line);) {
        if (!line.starts_with("model name")) continue;
        const auto start = line.find_first_not_of(" \t", line.find(':') + 1);
        return start == std::string::npos ? "unknown" : line.substr(start);
    }
    return "unknown";
}

std::string best_vector_instructions() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
    return "plain";
}

}  // namespace

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
