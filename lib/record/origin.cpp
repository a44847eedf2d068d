#include "lib/record/origin.hpp"

#include <sched.h>
#include <spdlog/fmt/fmt.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "core/host.hpp"
#include "lib/record/json_values.hpp"

namespace gpumat {
namespace {
std::string random_id() {
    std::array<std::uint64_t, 2> bits{};
    if (getrandom(bits.data(), sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) return "";
    return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

std::string time_now() {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto since = now - std::chrono::system_clock::from_time_t(seconds);
    std::tm utc = {};
    gmtime_r(&seconds, &utc);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
    return fmt::format("{}.{:06}Z", text.data(),
                       std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

std::optional<double> load_now() {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? std::optional(load) : std::nullopt;
}

/// As taskset writes and reads it.
std::string affinity_list() {
    constexpr std::size_t kMost = 8192;
    std::array<cpu_set_t, kMost / CPU_SETSIZE> sets{};
    if (sched_getaffinity(0, sizeof sets, sets.data()) != 0) return "";
    const auto may_use = [&](std::size_t cpu) {
        return cpu < kMost && CPU_ISSET_S(cpu, sizeof sets, sets.data());
    };
    std::string list;
    for (std::size_t first = 0; first < kMost; ++first) {
        if (!may_use(first)) continue;
        std::size_t last = first;
        while (may_use(last + 1)) ++last;
        if (!list.empty()) list += ',';
        list += std::to_string(first);
        if (last > first) list += '-' + std::to_string(last);
        first = last;
    }
    return list;
}

}  // namespace

Origin origin_of_this_run() {
    std::error_code no_folder;
    const HostInfo host = describe_host();
    return {.run_id = random_id(),
            .time = time_now(),
            .working_folder = std::filesystem::current_path(no_folder).string(),
            .build = build_info(),
            .host = host.name,
            .processor = host.processor,
            .clock_mhz = processor_clock_mhz(),
            .load = load_now(),
            .affinity = affinity_list()};
}

void add_origin(const Origin& origin, nlohmann::ordered_json& json) {
    json["run_id"] = origin.run_id;
    json["time"] = origin.time;
    json["working_folder"] = or_null(origin.working_folder);
    json["version"] = origin.build.version;
    json["build"] = {{"commit", origin.build.commit},
                     {"type", origin.build.build_type},
                     {"compiler", origin.build.compiler},
                     {"cuda", origin.build.cuda},
                     {"architectures", origin.build.architectures},
                     {"hdf5", origin.build.hdf5}};
    json["host"] = origin.host;
    json["processor"] = {{"name", origin.processor},
                         {"clock_mhz", or_null(origin.clock_mhz)},
                         {"load", or_null(origin.load)},
                         {"affinity", or_null(origin.affinity)}};
}

}  // namespace gpumat
