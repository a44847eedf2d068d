#pragma once

#include <string_view>

namespace gpumat {

/// The version of this build, "0.1.0".
std::string_view version();

/// What this build is made of and by.
struct BuildInfo {
    std::string_view version;
    std::string_view commit;         ///< "1b6b0ba6f234", "…-dirty" with changes, "unknown" outside of git
    std::string_view build_type;     ///< "Release"
    std::string_view compiler;       ///< "GNU 12.2.0"
    std::string_view cuda;           ///< version of the toolkit; "none" in a build without GPU levels
    std::string_view architectures;  ///< of GPUs, "90a-real 90-virtual"; empty without GPU levels
    std::string_view hdf5;           ///< "1.10.8", that it was built with
};

const BuildInfo& build_info();

}  // namespace gpumat
