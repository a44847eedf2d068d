#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpumat {

/// The machine that the tool runs on.
struct HostInfo {
    std::string name;       ///< host name
    std::string processor;  ///< "Intel(R) Xeon(R) …"; "unknown" where the system does not say
    int threads = 1;        ///< processors that this process may use
    std::uint64_t memory_bytes = 0;
    std::string vector_instructions;  ///< "avx512", "avx2" or "plain": what the CPU levels will use
};

HostInfo describe_host();

/// The clock of the first processor, now or when it was first asked for; absent where the system does not
/// say.
std::optional<double> processor_clock_mhz();

/// What all caches of the processors from the second level up can hold together; 0 where the system does not
/// say.
std::uint64_t cache_bytes();

}  // namespace gpumat
