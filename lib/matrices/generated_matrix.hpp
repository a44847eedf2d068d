#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"

namespace gpumat {

/// What is to be generated.
struct GeneratedMatrix {
    std::string kind = "uniform";
    Shape shape;
    Type type = Type::f32;
    std::uint64_t seed = 0;
    std::map<std::string, std::string, std::less<>> parameters{};  ///< as texts, by name
};

}  // namespace gpumat
