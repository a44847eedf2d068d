#pragma once

#include <functional>
#include <random>
#include <span>
#include <string_view>

#include "tests/verification/products.hpp"

// Errors to plant in a right result, as broken kernels, memory and programs make them.

namespace gpumat::verification {

struct Planted {
    std::string_view name;
    /// Spoils the result of a product, which is right, at a random place.
    std::function<void(Product&, std::mt19937_64&)> plant;
    bool for_integers = true;
};

/// Every kind of error; those that need D do nothing where there is none.
std::span<const Planted> planted_errors();

}  // namespace gpumat::verification
