#pragma once

#include <string>

// Catch2 2 and 3 name their headers differently.
#ifdef GPUMAT_CATCH2_V3
#include <catch2/catch_approx.hpp>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

// Catch2 2 calls ContainsSubstring Contains.
namespace Catch::Matchers {
inline auto Contains(const std::string& part) {
    return ContainsSubstring(part);
}
}  // namespace Catch::Matchers
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
