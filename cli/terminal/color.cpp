#include "cli/terminal/color.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace gpumat::cli {

void set_color(const std::string& when) {
    const bool never = when == "never" || (when == "auto" && std::getenv("NO_COLOR") != nullptr);
    const auto mode = never              ? spdlog::color_mode::never
                      : when == "always" ? spdlog::color_mode::always
                                         : spdlog::color_mode::automatic;
    for (const auto& sink : spdlog::default_logger()->sinks()) {
        if (auto* coloured = dynamic_cast<spdlog::sinks::stderr_color_sink_st*>(sink.get()))
            coloured->set_color_mode(mode);
    }
}

}  // namespace gpumat::cli
