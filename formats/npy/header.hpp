#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"

namespace gpumat::formats::npy {

/// What the header of a file says of its array.
struct ArrayHeader {
    std::string element;       ///< as the file calls it: "<f4"
    std::optional<Type> type;  ///< nothing where no type of ours is like it
    bool swapped = false;      ///< the bytes of its numbers lie the other way round
    bool fortran = false;      ///< the first index runs fastest
    std::vector<std::int64_t> shape;
    std::uint64_t offset = 0;  ///< of the first element in the file
};

/// The bytes with which every file begins.
inline constexpr std::string_view kMagic = "\x93NUMPY";

/// Parses the start of the file. `start` is as much of it as there is, up to `kMostHeaderBytes`. Throws
/// Error{input} naming `file`, what was found and what was expected.
ArrayHeader parse_header(std::string_view start, const std::string& file);
inline constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 16;

/// The header of a file that holds a matrix in C order. Throws Error{usage} naming `file` for bf16.
std::string header_text(const Shape& shape, Type type, const std::string& file);
/// The same of an array of one dimension, and of any: "<f4", "(2, 3)".
std::string header_text(std::int64_t length, Type type, const std::string& file);
std::string header_text_of(const std::string& element, const std::string& extents);

}  // namespace gpumat::formats::npy
