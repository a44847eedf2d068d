#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/numbers/half.hpp"

namespace gpumat {

/// The element types that a matrix can hold. c64 is two f32, c128 two f64.
enum class Type : std::uint8_t { i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, c64, c128 };

/// Every type, in the order of the enumeration.
std::span<const Type> all_types();

/// The short name that the command line and the records use: "i8" … "c128".
std::string_view name_of(Type type);

/// The type of that short name, or nothing.
std::optional<Type> type_from_name(std::string_view name);

/// Bytes of one element: 1, 2, 4, 8 or 16.
std::size_t size_of(Type type);

constexpr bool is_integer(Type type) {
    return type <= Type::u64;
}
constexpr bool is_complex(Type type) {
    return type == Type::c64 || type == Type::c128;
}
constexpr bool is_floating(Type type) {
    return type >= Type::f16 && type <= Type::f64;
}

/// Whether an element of the C++ type T has a real and an imaginary part.
template <class T>
inline constexpr bool kIsComplex = false;
template <class R>
inline constexpr bool kIsComplex<std::complex<R>> = true;

template <class T>
struct TypeTag {
    using type = T;
};

/// Calls `function(TypeTag<T>{})` with the C++ type that stands for `type` on the host.
template <class Function>
decltype(auto) visit_type(Type type, Function&& function) {
    switch (type) {
        case Type::i8:
            return function(TypeTag<std::int8_t>{});
        case Type::i16:
            return function(TypeTag<std::int16_t>{});
        case Type::i32:
            return function(TypeTag<std::int32_t>{});
        case Type::i64:
            return function(TypeTag<std::int64_t>{});
        case Type::u8:
            return function(TypeTag<std::uint8_t>{});
        case Type::u16:
            return function(TypeTag<std::uint16_t>{});
        case Type::u32:
            return function(TypeTag<std::uint32_t>{});
        case Type::u64:
            return function(TypeTag<std::uint64_t>{});
        case Type::f16:
            return function(TypeTag<Half>{});
        case Type::bf16:
            return function(TypeTag<BFloat16>{});
        case Type::f32:
            return function(TypeTag<float>{});
        case Type::f64:
            return function(TypeTag<double>{});
        case Type::c64:
            return function(TypeTag<std::complex<float>>{});
        case Type::c128:
            return function(TypeTag<std::complex<double>>{});
    }
    __builtin_unreachable();
}

}  // namespace gpumat
