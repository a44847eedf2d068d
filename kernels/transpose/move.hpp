#pragma once

#include <cstdint>

#include "core/numbers/type.hpp"

namespace gpumat::transpose {

/// 16 bytes that move together.
struct alignas(16) Bytes16 {
    std::uint64_t words[2];
};

/// A transpose moves elements whatever they mean: calls `function` with the TypeTag of the plain type that
/// has the element's size (1, 2, 4, 8 or 16 bytes).
template <class Function>
decltype(auto) visit_element(Type type, Function&& function) {
    switch (size_of(type)) {
        case 1:
            return function(TypeTag<std::uint8_t>{});
        case 2:
            return function(TypeTag<std::uint16_t>{});
        case 4:
            return function(TypeTag<std::uint32_t>{});
        case 8:
            return function(TypeTag<std::uint64_t>{});
        default:
            return function(TypeTag<Bytes16>{});
    }
}

}  // namespace gpumat::transpose
