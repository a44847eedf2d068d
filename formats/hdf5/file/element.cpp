#include "formats/hdf5/file/element.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace gpumat::formats::hdf5 {
namespace {

bool big_endian(hid_t type) {
    return H5Tget_order(type) == H5T_ORDER_BE;
}

/// The bytes of a number that have to be reversed to become the host's; 1 where none have.
std::size_t swapped_bytes(hid_t type) {
    const bool host_is_big = std::endian::native == std::endian::big;
    return big_endian(type) == host_is_big ? 1 : H5Tget_size(type);
}

std::string order_prefix(hid_t type) {
    return big_endian(type) && H5Tget_size(type) > 1 ? "big-endian " : "";
}

Type integer_type(std::size_t bits, bool has_sign) {
    if (bits <= 8) return has_sign ? Type::i8 : Type::u8;
    if (bits <= 16) return has_sign ? Type::i16 : Type::u16;
    if (bits <= 32) return has_sign ? Type::i32 : Type::u32;
    return has_sign ? Type::i64 : Type::u64;
}

hid_t native_integer(Type type) {
    switch (type) {
        case Type::i8:
            return H5T_NATIVE_INT8;
        case Type::i16:
            return H5T_NATIVE_INT16;
        case Type::i32:
            return H5T_NATIVE_INT32;
        case Type::i64:
            return H5T_NATIVE_INT64;
        case Type::u8:
            return H5T_NATIVE_UINT8;
        case Type::u16:
            return H5T_NATIVE_UINT16;
        case Type::u32:
            return H5T_NATIVE_UINT32;
        default:
            return H5T_NATIVE_UINT64;
    }
}

hid_t native_bitfield(std::size_t bytes) {
    return bytes == 1   ? H5T_NATIVE_B8
           : bytes == 2 ? H5T_NATIVE_B16
           : bytes == 4 ? H5T_NATIVE_B32
                        : H5T_NATIVE_B64;
}

/// Whether HDF5 only reverses the bytes of such integers, where it should extend their sign and leave out the
/// bits that are none of theirs: it does so where they start at the first bit, and the matrix type has as
/// many bytes.
bool only_swapped(hid_t type) {
    const std::size_t bits = H5Tget_precision(type);
    const std::size_t bytes = H5Tget_size(type);
    return H5Tget_class(type) == H5T_INTEGER && swapped_bytes(type) > 1 && bits < 8 * bytes &&
           H5Tget_offset(type) == 0 && size_of(integer_type(bits, false)) == bytes;
}

/// Integers of any precision up to 64 bits, and bit fields, which are unsigned integers.
std::optional<Element> integer_element(hid_t type) {
    const H5T_order_t order = H5Tget_order(type);
    const std::size_t bits = H5Tget_precision(type);
    const std::size_t bytes = H5Tget_size(type);
    const int offset = H5Tget_offset(type);
    if (bits == 0 || bits > 64 || bytes > 8 || (order != H5T_ORDER_LE && order != H5T_ORDER_BE)) return {};
    if (offset < 0 || static_cast<std::size_t>(offset) + bits > 8 * bytes || only_swapped(type)) return {};
    const bool is_bitfield = H5Tget_class(type) == H5T_BITFIELD;
    const bool has_sign = !is_bitfield && H5Tget_sign(type) == H5T_SGN_2;
    Element element;
    element.type = integer_type(bits, has_sign);
    element.stored_bytes = bytes;
    element.same_bits = bits == 8 * bytes && bytes == size_of(element.type);
    element.swap_bytes = swapped_bytes(type);
    element.memory =
        Handle(H5Tcopy(is_bitfield ? native_bitfield(size_of(element.type)) : native_integer(element.type)));
    element.name = order_prefix(type) + (element.same_bits ? std::string(name_of(element.type))
                                                           : std::to_string(bits) + "-bit integer");
    return element;
}

/// Booleans as h5py writes them.
std::optional<Element> boolean_element(hid_t type) {
    if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return {};
    unsigned char zero = 0xff;
    unsigned char one = 0xff;
    if (H5Tenum_valueof(type, "FALSE", &zero) < 0 || H5Tenum_valueof(type, "TRUE", &one) < 0) return {};
    if (zero != 0 || one != 1) return {};
    Element element;
    element.type = Type::u8;
    element.stored_bytes = 1;
    element.same_bits = true;
    element.memory = Handle(H5Tcopy(type));
    element.name = "bool";
    return element;
}

/// An enumeration other than a boolean: its integers.
std::optional<Element> enumeration_element(hid_t type) {
    const Handle stored(H5Tget_super(type));
    if (!stored.valid() || H5Tget_class(stored.id()) != H5T_INTEGER) return {};
    auto element = integer_element(stored.id());
    if (element) element->name = "enumeration of " + element->name;
    return element;
}

std::optional<FloatFields> fields_of(hid_t type) {
    const H5T_order_t order = H5Tget_order(type);
    if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return {};
    FloatFields fields;
    if (H5Tget_fields(type, &fields.sign, &fields.exponent, &fields.exponent_bits, &fields.mantissa,
                      &fields.mantissa_bits) < 0)
        return {};
    fields.bytes = H5Tget_size(type);
    fields.bias = H5Tget_ebias(type);
    fields.implied_bit = H5Tget_norm(type) == H5T_NORM_IMPLIED;
    fields.big_endian = order == H5T_ORDER_BE;
    const std::size_t bits = 8 * fields.bytes;
    const bool inside = fields.bytes <= sizeof(unsigned __int128) && fields.sign < bits &&
                        fields.exponent < bits && fields.mantissa < bits &&
                        fields.exponent_bits <= bits - fields.exponent &&
                        fields.mantissa_bits <= bits - fields.mantissa;
    const auto apart = [](std::size_t first, std::size_t bits_of_first, std::size_t second,
                          std::size_t bits_of_second) {
        return first + bits_of_first <= second || second + bits_of_second <= first;
    };
    const bool disjoint = apart(fields.sign, 1, fields.exponent, fields.exponent_bits) &&
                          apart(fields.sign, 1, fields.mantissa, fields.mantissa_bits) &&
                          apart(fields.exponent, fields.exponent_bits, fields.mantissa, fields.mantissa_bits);
    // The limits are those of binary128, the widest format that `decode` handles.
    const bool known = fields.exponent_bits >= 1 && fields.exponent_bits <= 15 && fields.mantissa_bits >= 1 &&
                       fields.mantissa_bits <= 112 && fields.bias < (std::size_t{1} << fields.exponent_bits);
    return inside && disjoint && known ? std::optional(fields) : std::nullopt;
}

/// The fields of a matrix type, all with an implied bit.
struct FloatRow {
    Type type;
    std::size_t bytes, exponent_bits, mantissa_bits;
};
constexpr std::array kFloats = {FloatRow{Type::f16, 2, 5, 10}, FloatRow{Type::bf16, 2, 8, 7},
                                FloatRow{Type::f32, 4, 8, 23}, FloatRow{Type::f64, 8, 11, 52}};

/// The matrix type with exactly these fields, or nothing.
std::optional<Type> type_with(const FloatFields& fields) {
    for (const FloatRow& row : kFloats) {
        if (fields.bytes == row.bytes && fields.implied_bit && fields.sign == 8 * row.bytes - 1 &&
            fields.exponent == row.mantissa_bits && fields.exponent_bits == row.exponent_bits &&
            fields.mantissa == 0 && fields.mantissa_bits == row.mantissa_bits &&
            fields.bias == (std::size_t{1} << (row.exponent_bits - 1)) - 1) {
            return row.type;
        }
    }
    return {};
}

/// The narrowest matrix type that holds every number with these fields, or nothing.
std::optional<Type> type_for(const FloatFields& fields) {
    struct Range {
        long digits, largest,
            finest;  ///< of the significand; powers of two of the largest number and of steps
    };
    const auto range_of = [](std::size_t exponent_bits, std::size_t mantissa_bits, std::size_t bias,
                             bool implied) {
        const long point = static_cast<long>(mantissa_bits) - (implied ? 0 : 1);
        return Range{point + 1, (1L << exponent_bits) - 2 - static_cast<long>(bias),
                     1 - static_cast<long>(bias) - point};
    };
    const Range from = range_of(fields.exponent_bits, fields.mantissa_bits, fields.bias, fields.implied_bit);
    for (const FloatRow& row : kFloats) {
        const std::size_t bias = (std::size_t{1} << (row.exponent_bits - 1)) - 1;
        const Range to = range_of(row.exponent_bits, row.mantissa_bits, bias, true);
        if (from.digits <= to.digits && from.largest <= to.largest && from.finest >= to.finest)
            return row.type;
    }
    return {};
}

std::optional<Element> float_element(hid_t type) {
    const auto fields = fields_of(type);
    if (!fields) return {};
    const auto exact = type_with(*fields);
    const auto holds = type_for(*fields);
    Element element;
    element.type = exact ? *exact : holds.value_or(Type::f64);
    element.exact = holds.has_value();
    element.stored_bytes = fields->bytes;
    element.same_bits = exact.has_value();
    if (exact) element.swap_bytes = swapped_bytes(type);
    if (!exact) element.wide = fields;
    element.memory = exact ? hdf5_type_of(*exact) : Handle(H5Tcopy(type));
    element.name =
        order_prefix(type) + (exact ? std::string(name_of(*exact))
                                    : std::to_string(H5Tget_precision(type)) + "-bit floating point");
    return element;
}

std::string member_name(hid_t type, unsigned index) {
    char* text = H5Tget_member_name(type, index);
    if (text == nullptr) return "?";
    std::string name = text;
    H5free_memory(text);
    return name;
}

/// The parts of a complex number, by the numbers of their members.
struct ComplexParts {
    unsigned real;
    unsigned imaginary;
};

/// Whatever the case of their names. In-phase and quadrature parts are told by their order too: beside
/// others, an i is the imaginary part.
std::optional<ComplexParts> complex_parts(hid_t type) {
    if (H5Tget_nmembers(type) != 2) return {};
    const auto lowered = [&](unsigned index) {
        std::string name = member_name(type, index);
        for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        return name;
    };
    const std::pair names(lowered(0), lowered(1));
    // h5py; MATLAB and Octave; Julia; NumPy and GNU Radio
    for (const auto& [real, imaginary] :
         {std::pair{"r", "i"}, std::pair{"real", "imag"}, std::pair{"re", "im"},
          std::pair{"real", "imaginary"}, std::pair{"i", "q"}}) {
        if (names == std::pair<std::string, std::string>(real, imaginary)) return ComplexParts{0, 1};
        const bool ordered = std::string_view(imaginary) == "q";
        if (!ordered && names == std::pair<std::string, std::string>(imaginary, real))
            return ComplexParts{1, 0};
    }
    return {};
}

/// A complex number in memory whose parts bear the stored names, by which HDF5 matches them.
Handle complex_memory(hid_t type, const ComplexParts& parts, const Handle& part) {
    const std::size_t bytes = H5Tget_size(part.id());
    Handle memory(H5Tcreate(H5T_COMPOUND, 2 * bytes));
    H5Tinsert(memory.id(), member_name(type, parts.real).c_str(), 0, part.id());
    H5Tinsert(memory.id(), member_name(type, parts.imaginary).c_str(), bytes, part.id());
    return memory;
}

/// Complex numbers of integers, which become those of the narrowest floating-point numbers that hold them.
std::optional<Element> complex_of_integers(hid_t type, const ComplexParts& parts, const Element& part) {
    if (!part.same_bits) return {};
    Element element;
    element.type = part.stored_bytes <= 2 ? Type::c64 : Type::c128;
    element.exact = part.stored_bytes <= 4;
    element.stored_bytes = H5Tget_size(type);
    element.memory =
        complex_memory(type, parts, hdf5_type_of(element.type == Type::c64 ? Type::f32 : Type::f64));
    element.name = "complex of " + part.name;
    return element;
}

std::optional<Element> complex_of_floats(hid_t type, const ComplexParts& parts, hid_t part, bool adjacent) {
    const auto fields = fields_of(part);
    const auto part_element = float_element(part);
    if (!fields || !part_element) return {};
    const auto exact = type_with(*fields);
    const bool has_type = exact == Type::f32 || exact == Type::f64;
    if (!has_type && !adjacent) return {};
    Element element;
    element.type = part_element->type == Type::f64 ? Type::c128 : Type::c64;
    element.exact = part_element->exact;
    element.stored_bytes = H5Tget_size(type);
    element.same_bits = has_type && adjacent;
    if (has_type) {
        element.swap_bytes = part_element->swap_bytes;
        element.memory = complex_memory(type, parts, part_element->memory);
        element.name = order_prefix(part) + std::string(name_of(element.type));
    } else {
        element.wide = fields;
        element.memory = Handle(H5Tcopy(type));
        element.name = "complex of " + part_element->name;
    }
    return element;
}

std::optional<Element> complex_element(hid_t type) {
    const auto parts = complex_parts(type);
    if (!parts) return {};
    const Handle part(H5Tget_member_type(type, parts->real));
    const Handle other(H5Tget_member_type(type, parts->imaginary));
    if (H5Tequal(part.id(), other.id()) <= 0) return {};
    const std::size_t bytes = H5Tget_size(part.id());
    const std::size_t real_offset = H5Tget_member_offset(type, parts->real);
    const std::size_t imaginary_offset = H5Tget_member_offset(type, parts->imaginary);
    const auto inside = [&](std::size_t offset) {  // which HDF5 takes for granted
        return offset <= H5Tget_size(type) && bytes <= H5Tget_size(type) - offset;
    };
    if (!inside(real_offset) || !inside(imaginary_offset)) return {};
    if (H5Tget_class(part.id()) == H5T_INTEGER) {
        const auto integer = integer_element(part.id());
        return integer ? complex_of_integers(type, *parts, *integer) : std::nullopt;
    }
    if (H5Tget_class(part.id()) != H5T_FLOAT) return {};
    const bool adjacent = H5Tget_size(type) == 2 * bytes && real_offset == 0 && imaginary_offset == bytes;
    return complex_of_floats(type, *parts, part.id(), adjacent);
}

/// The matrix type that comes nearest to a number, whether it can be read or not.
std::optional<Type> nearest_type(hid_t type) {
    switch (H5Tget_class(type)) {
        case H5T_INTEGER:
        case H5T_BITFIELD:
            return integer_type(H5Tget_precision(type), H5Tget_sign(type) == H5T_SGN_2);
        case H5T_FLOAT:
            return H5Tget_precision(type) <= 32 ? Type::f32 : Type::f64;
        case H5T_ENUM:
            return nearest_type(Handle(H5Tget_super(type)).id());
        case H5T_COMPOUND: {
            if (H5Tget_nmembers(type) != 2) return {};
            const Handle first(H5Tget_member_type(type, 0));
            const Handle second(H5Tget_member_type(type, 1));
            const H5T_class_t part = H5Tget_class(first.id());
            if ((part != H5T_INTEGER && part != H5T_FLOAT) || H5Tequal(first.id(), second.id()) <= 0)
                return {};
            return nearest_type(first.id()) == Type::f32 ? Type::c64 : Type::c128;
        }
        default:
            return {};
    }
}

std::optional<Element> classified(hid_t type) {
    switch (H5Tget_class(type)) {
        case H5T_INTEGER:
        case H5T_BITFIELD:
            return integer_element(type);
        case H5T_FLOAT:
            return float_element(type);
        case H5T_ENUM:
            if (auto boolean = boolean_element(type)) return boolean;
            return enumeration_element(type);
        case H5T_COMPOUND:
            return complex_element(type);
        default:
            return {};
    }
}

}  // namespace

std::optional<Element> element_of(hid_t type) {
    auto element = classified(type);
    if (element) element->memory_bytes = H5Tget_size(element->memory.id());
    return element;
}

std::optional<Element> unread_element_of(hid_t type) {
    const auto number = nearest_type(type);
    if (!number) return {};
    Element element;
    element.type = *number;
    element.name = words_for(type);
    return element;
}

std::string words_for(hid_t type) {
    switch (H5Tget_class(type)) {
        case H5T_INTEGER:
            return "an integer of " + std::to_string(H5Tget_precision(type)) + " bits" +
                   (only_swapped(type) ? ", of whose bytes HDF5 only changes the order" : "");
        case H5T_BITFIELD:
            return "a bit field of " + std::to_string(H5Tget_precision(type)) + " bits";
        case H5T_FLOAT:
            return "a floating-point number of an unknown layout of " +
                   std::to_string(H5Tget_precision(type)) + " bits";
        case H5T_STRING:
            return "text";
        case H5T_OPAQUE:
            return "opaque bytes";
        case H5T_REFERENCE:
            return "references to other objects";
        case H5T_ENUM:
            return "an enumeration that is not of integers up to 64 bits";
        case H5T_VLEN:
            return "sequences of varying length";
        case H5T_ARRAY:
            return "arrays";
        case H5T_COMPOUND: {
            constexpr int kShown = 6;
            const int count = H5Tget_nmembers(type);
            std::string text = "a compound of ";
            for (int i = 0; i < count && i < kShown; ++i) {
                text += (i == 0 ? "" : ", ") + member_name(type, static_cast<unsigned>(i));
            }
            return text + (count > kShown ? ", …" : "");
        }
        default:
            return "of an unknown kind";
    }
}

Handle hdf5_type_of(Type type) {
    if (is_integer(type)) return Handle(H5Tcopy(native_integer(type)));
    if (is_complex(type)) {
        const Type part_type = type == Type::c64 ? Type::f32 : Type::f64;
        const Handle part = hdf5_type_of(part_type);
        Handle compound(H5Tcreate(H5T_COMPOUND, size_of(type)));
        H5Tinsert(compound.id(), "r", 0, part.id());
        H5Tinsert(compound.id(), "i", size_of(part_type), part.id());
        return compound;
    }
    if (type == Type::f64) return Handle(H5Tcopy(H5T_NATIVE_DOUBLE));
    Handle number(H5Tcopy(H5T_NATIVE_FLOAT));
    if (type == Type::f16) {
        H5Tset_fields(number.id(), 15, 10, 5, 0, 10);
        H5Tset_size(number.id(), 2);
        H5Tset_ebias(number.id(), 15);
    } else if (type == Type::bf16) {
        H5Tset_fields(number.id(), 15, 7, 8, 0, 7);
        H5Tset_size(number.id(), 2);
        H5Tset_ebias(number.id(), 127);
    }
    return number;
}

Handle hdf5_type_of_booleans() {
    const std::int8_t off = 0;
    const std::int8_t on = 1;
    Handle booleans(H5Tenum_create(H5T_NATIVE_INT8));
    H5Tenum_insert(booleans.id(), "FALSE", &off);
    H5Tenum_insert(booleans.id(), "TRUE", &on);
    return booleans;
}

}  // namespace gpumat::formats::hdf5
