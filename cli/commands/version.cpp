#include "cli/commands/version.hpp"

#include <spdlog/fmt/fmt.h>

#include "lib/record/version.hpp"

namespace gpumat::cli {

std::string version_text(const Registry& registry) {
    const BuildInfo& build = build_info();
    std::string cuda(build.cuda);
    if (!build.architectures.empty()) cuda += " for " + std::string(build.architectures);
    std::string text =
        fmt::format("gpumat {}\ncommit     {}\nbuild      {}, {}\nCUDA       {}\nHDF5       {}",
                    build.version, build.commit, build.build_type, build.compiler, cuda, build.hdf5);
    for (const Level& level : registry.levels()) {
        if (level.role == Role::vendor && level.prepare != nullptr)
            text += fmt::format("\n{:<10} {}, on {}", level.operation->name, level.summary,
                                name_of(level.device));
    }
    return text;
}

}  // namespace gpumat::cli
