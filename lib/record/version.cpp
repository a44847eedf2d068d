#include "lib/record/version.hpp"

#include <gpumat_commit.hpp>

namespace gpumat {

std::string_view version() {
    return GPUMAT_VERSION;
}

const BuildInfo& build_info() {
    static constexpr BuildInfo kBuild = {.version = GPUMAT_VERSION,
                                         .commit = GPUMAT_COMMIT,
                                         .build_type = GPUMAT_BUILD_TYPE,
                                         .compiler = GPUMAT_COMPILER,
                                         .cuda = GPUMAT_CUDA_VERSION,
                                         .architectures = GPUMAT_ARCHITECTURES,
                                         .hdf5 = GPUMAT_HDF5_VERSION};
    return kBuild;
}

}  // namespace gpumat
