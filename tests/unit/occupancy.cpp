// The occupancy calculator against that of the CUDA toolkit, header cuda_occupancy.h, over all that a kernel
// may take.
#include "kernels/common/occupancy.hpp"

#include <cuda_occupancy.h>

#include "tests/catch.hpp"

using namespace gpumat;

namespace {

/// What the toolkit's calculator says, of a kernel that may use all shared memory.
int blocks_by_toolkit(const Multiprocessor& chip, const BlockNeeds& needs) {
    cudaOccDeviceProp device = {};
    device.computeMajor = chip.compute_capability / 10;
    device.computeMinor = chip.compute_capability % 10;
    device.maxThreadsPerBlock = chip.block_threads;
    device.maxThreadsPerMultiprocessor = chip.threads;
    device.regsPerBlock = chip.registers;
    device.regsPerMultiprocessor = chip.registers;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = static_cast<std::size_t>(chip.shared_bytes);
    device.numSms = 1;
    device.sharedMemPerBlockOptin = static_cast<std::size_t>(chip.shared_bytes - chip.reserved_bytes);
    device.reservedSharedMemPerBlock = static_cast<std::size_t>(chip.reserved_bytes);
    cudaOccFuncAttributes kernel = {};
    kernel.maxThreadsPerBlock = chip.block_threads;
    kernel.numRegs = needs.registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
    cudaOccDeviceState state = {};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result = {};
    REQUIRE(cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, needs.threads,
                                                    static_cast<std::size_t>(needs.shared_bytes)) ==
            CUDA_OCC_SUCCESS);
    return result.activeBlocksPerMultiprocessor;
}

}  // namespace

TEST_CASE("the occupancy is that of the toolkit's calculator") {
    int compared = 0;
    for (const Multiprocessor& chip : multiprocessors()) {
        if (chip.compute_capability < 70) continue;  // the toolkit does not know the older ones any more
        for (int threads = 1; threads <= 1024; threads += threads < 64 ? 21 : 37) {
            for (int registers = 16; registers <= 255; registers += 13) {
                for (const int shared : {0, 1, 1000, 4096, 9000, 16384, 33000, 48000, 65000}) {
                    if (shared > chip.shared_bytes - chip.reserved_bytes) continue;
                    const BlockNeeds needs = {threads, registers, shared};
                    INFO(chip.compute_capability << ": " << threads << " threads, " << registers
                                                 << " registers, " << shared << " bytes");
                    CHECK(occupancy_of(chip, needs).blocks == blocks_by_toolkit(chip, needs));
                    ++compared;
                }
            }
        }
    }
    CHECK(compared > 10000);
}
