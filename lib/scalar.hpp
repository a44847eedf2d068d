#pragma once

#include <string>

#include "kernels/problem.hpp"

namespace gpumat {

/// α or β from its text: "2", "-0.5", "1e3", and "re,im" for complex types. `option` names it in errors.
/// Throws Error{usage} where the text is no number, or the type cannot hold it (a fraction or an
/// imaginary part that the type has no room for, a value beyond its range).
Scalar parse_scalar(const std::string& text, Type type, const std::string& option);

}  // namespace gpumat
