#include "lib/version.hpp"

namespace gpumat {

std::string_view version() {
    return GPUMAT_VERSION;
}

}  // namespace gpumat
