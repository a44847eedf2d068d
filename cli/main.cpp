#include <cstdio>

#include "kernels/registry.hpp"

int main() {
    for (const auto& level : gpumat::Registry::standard().levels()) std::printf("%s\n", level.name.data());
}
