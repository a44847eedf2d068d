#include "kernels/check/verification.hpp"

namespace gpumat {

std::optional<VerifyMode> verify_mode_from_name(std::string_view name) {
    if (name == "auto") return VerifyMode::automatic;
    if (name == "full") return VerifyMode::full;
    if (name == "freivalds") return VerifyMode::freivalds;
    if (name == "none") return VerifyMode::none;
    return std::nullopt;
}

}  // namespace gpumat
