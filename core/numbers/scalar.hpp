#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "core/numbers/type.hpp"

namespace gpumat {

/// A factor of matrices. Floating and complex types use `value`, integer types use `integer`.
struct Scalar {
    std::complex<double> value{};
    std::int64_t integer = 0;

    static Scalar of(std::int64_t number) { return {static_cast<double>(number), number}; }
    [[nodiscard]] bool is_zero(Type type) const { return is_integer(type) ? integer == 0 : value == 0.0; }
    [[nodiscard]] bool is_one(Type type) const { return is_integer(type) ? integer == 1 : value == 1.0; }
};

/// A factor from its text: "2", "-0.5", "1e3", and "re,im" for complex types. `option` names it in errors.
/// Throws Error{usage} where the text is no number, or the type cannot hold it (a fraction or an
/// imaginary part that the type has no room for, a value beyond its range).
Scalar parse_scalar(const std::string& text, Type type, const std::string& option);

}  // namespace gpumat
