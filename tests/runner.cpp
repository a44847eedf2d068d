// Catch2 2 is a header; this is the one file that compiles the whole of it, for all tests.
#include "tests/runner.hpp"

#ifndef GPUMAT_CATCH2_V3
#define CATCH_CONFIG_RUNNER
#endif
#include "tests/catch.hpp"

int run_tests(int argc, char** argv) {
    return Catch::Session().run(argc, argv);
}
