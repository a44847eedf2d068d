#pragma once

#include <type_traits>

#include "core/numbers/type.hpp"

namespace gpumat {

/// Whether a value is zero, of either sign.
template <class T>
bool is_zero(const T& value) {
    if constexpr (kIsComplex<T> || std::is_integral_v<T>) {
        return value == T(0);
    } else {
        return static_cast<double>(value) == 0;
    }
}

}  // namespace gpumat
