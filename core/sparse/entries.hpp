#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/numbers/type.hpp"

namespace gpumat {

/// One value of a sparse matrix. Rows and columns count from 0.
template <class T>
struct Entry {
    std::int64_t row;
    std::int64_t col;
    T value;
};

/// Some entries of a sparse matrix: `count` of type Entry<T>, where `type` is that of T.
struct Entries {
    Type type = Type::f64;
    std::int64_t count = 0;
    const void* first = nullptr;

    template <class T>
    [[nodiscard]] std::span<const Entry<T>> as() const {
        return {static_cast<const Entry<T>*>(first), static_cast<std::size_t>(count)};
    }
};

}  // namespace gpumat
