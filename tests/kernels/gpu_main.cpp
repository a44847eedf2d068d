// The main of tests that need a GPU: without one they are skipped (exit 77), or fail where the environment
// variable GPUMAT_REQUIRE_GPU says that this machine has one.
#include <cstdio>
#include <cstdlib>

#include "kernels/device/gpu.hpp"
#include "tests/runner.hpp"

int main(int argc, char** argv) {
    const gpumat::GpuList list = gpumat::list_gpus();
    if (list.gpus.empty()) {
        const bool required = std::getenv("GPUMAT_REQUIRE_GPU") != nullptr;
        std::fprintf(stderr, "%s: no GPU: %s\n", required ? "failed" : "skipped", list.why_none.c_str());
        return required ? 1 : 77;
    }
    return run_tests(argc, argv);
}
