#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/record/record.hpp"

namespace gpumat {

/// The stages, and what makes them up to the total, by name.
inline constexpr std::array<std::pair<std::string_view, std::optional<double> StageTimes::*>, 11>
    kStageTimes = {{
        {"open", &StageTimes::open},
        {"prepare", &StageTimes::prepare},
        {"read", &StageTimes::read},
        {"host_to_device", &StageTimes::host_to_device},
        {"kernel", &StageTimes::kernel},
        {"device_to_host", &StageTimes::device_to_host},
        {"verify", &StageTimes::verify},
        {"hash", &StageTimes::hash},
        {"write", &StageTimes::write},
        {"rest", &StageTimes::rest},
        {"total", &StageTimes::total},
    }};

}  // namespace gpumat
