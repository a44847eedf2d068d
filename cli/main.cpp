#include "cli/app.hpp"

int main(int argc, char** argv) {
    return gpumat::cli::run(argc, argv, gpumat::Registry::standard());
}
