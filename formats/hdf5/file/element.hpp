#pragma once

#include <optional>
#include <string>

#include "core/numbers/matrix.hpp"
#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {

/// Where the fields of a binary floating-point number lie; bit 0 is the least significant one.
struct FloatFields {
    std::size_t bytes = 0;
    std::size_t sign = 0;
    std::size_t exponent = 0;
    std::size_t exponent_bits = 0;
    std::size_t mantissa = 0;
    std::size_t mantissa_bits = 0;
    std::size_t bias = 0;
    bool implied_bit = true;  ///< the leading 1 of a normal number is not stored
    bool big_endian = false;
};

/// What one stored element is and how it becomes a matrix element.
struct Element {
    Type type = Type::f64;         ///< the narrowest matrix type that holds it, or else the widest
    std::size_t stored_bytes = 0;  ///< size in the file
    /// Whether the file holds the bits of `type`, apart from the byte order.
    bool same_bits = false;
    std::size_t swap_bytes = 1;       ///< numbers of this size are byte-reversed in the file; 1: none is
    std::optional<FloatFields> wide;  ///< floating point of another layout than any type's, decoded here
    bool exact = true;                ///< whether `type` holds every value, NaNs being one
    Handle memory;                    ///< the type to ask H5Dread for
    std::size_t memory_bytes = 0;     ///< its size: that of `type`, or `stored_bytes` for `wide` elements
    std::string name;                 ///< "f64", "big-endian i16", "80-bit floating point"
};

/// The element that `type` describes, or nothing where it is not a number.
std::optional<Element> element_of(hid_t type);

/// A number that cannot be read, in the matrix type that comes nearest and in words: of another layout, an
/// enumeration, a pair of equal numbers under any names. Nothing where it is no number.
std::optional<Element> unread_element_of(hid_t type);

/// What `type` is, in words: "text", "a compound of x, y".
std::string words_for(hid_t type);

/// The type in which matrices of `type` are stored and held in memory: native byte order, h5py's names.
Handle hdf5_type_of(Type type);

/// That of h5py's booleans: an enumeration of one byte with FALSE = 0 and TRUE = 1.
Handle hdf5_type_of_booleans();

/// Rounds `wide` elements at most once, to the type of `to`. `from` holds from_rows × from_cols elements
/// without gaps; `to` has that shape or, where `reversed`, the transposed one. `to_row` and `to_col` place
/// `to` in its matrix. Throws Error{input} naming `what`, row and column where the type cannot hold a value.
void narrow(const Element& element, const std::byte* from, bool reversed, const MutableMatrixView& to,
            const Block& place, const std::string& what, int threads);

}  // namespace gpumat::formats::hdf5
