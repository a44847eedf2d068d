#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "core/parallel.hpp"
#include "formats/hdf5/file/element.hpp"

namespace gpumat::formats::hdf5 {
namespace {

using Wide = unsigned __int128;

/// A float of any layout, widened. `inexact`: bits beyond the 64th were folded into the last one (rounding
/// to odd), so that one later rounding is right.
struct Decoded {
    long double value = 0;
    bool finite = true;
    bool inexact = false;
};
static_assert(std::numeric_limits<long double>::digits >= 64, "decode keeps 64 significant bits");

Wide bits_of(const FloatFields& fields, const std::byte* data) {
    Wide bits = 0;
    for (std::size_t i = 0; i < fields.bytes; ++i) {
        bits = bits << 8 | std::to_integer<unsigned>(data[fields.big_endian ? i : fields.bytes - 1 - i]);
    }
    return bits;
}

Decoded decode(const FloatFields& fields, const std::byte* data) {
    const Wide bits = bits_of(fields, data);
    const Wide exponent_mask = (Wide{1} << fields.exponent_bits) - 1;
    const bool negative = (bits >> fields.sign & 1) != 0;
    auto exponent = static_cast<long>(bits >> fields.exponent & exponent_mask);
    Wide mantissa = bits >> fields.mantissa & ((Wide{1} << fields.mantissa_bits) - 1);
    Decoded decoded;
    if (exponent == static_cast<long>(exponent_mask)) {
        decoded.finite = false;
        if (!fields.implied_bit) mantissa &= (Wide{1} << (fields.mantissa_bits - 1)) - 1;
        decoded.value = mantissa == 0 ? std::numeric_limits<long double>::infinity()
                                      : std::numeric_limits<long double>::quiet_NaN();
    } else {
        if (exponent == 0) {
            exponent = 1;
        } else if (fields.implied_bit) {
            mantissa |= Wide{1} << fields.mantissa_bits;
        }
        const auto point = static_cast<long>(fields.mantissa_bits - (fields.implied_bit ? 0 : 1));
        long scale = exponent - static_cast<long>(fields.bias) - point;
        while (mantissa >> 64 != 0) {
            decoded.inexact |= (mantissa & 1) != 0;
            mantissa = mantissa >> 1 | (mantissa & 1);
            ++scale;
        }
        decoded.value = std::ldexp(static_cast<long double>(static_cast<std::uint64_t>(mantissa)),
                                   static_cast<int>(scale));
    }
    if (negative) decoded.value = -decoded.value;
    return decoded;
}

/// Rounded to odd: of the two neighbours of an inexact value the one with the odd last bit.
double odd_double(long double value) {
    const auto nearest = static_cast<double>(value);
    if (std::isnan(value) || static_cast<long double>(nearest) == value) return nearest;
    if ((std::bit_cast<std::uint64_t>(nearest) & 1) != 0) return nearest;
    const double infinity = std::numeric_limits<double>::infinity();
    return std::nextafter(nearest, value > static_cast<long double>(nearest) ? infinity : -infinity);
}

template <class T>
bool narrow_real(const Decoded& from, T& to) {
    if (from.finite && !std::isfinite(from.value)) return false;
    if constexpr (std::is_integral_v<T>) {
        constexpr auto kLow = static_cast<long double>(std::numeric_limits<T>::min());
        const long double high = std::ldexp(1.0L, std::numeric_limits<T>::digits);
        const bool holds = from.finite && !from.inexact && from.value >= kLow && from.value < high &&
                           std::trunc(from.value) == from.value;
        if (holds) to = static_cast<T>(from.value);
        return holds;
    } else if constexpr (std::is_floating_point_v<T>) {
        to = static_cast<T>(from.value);
        return !from.finite || std::isfinite(to);
    } else {
        to = T(odd_double(from.value));
        return !from.finite || std::isfinite(static_cast<float>(to));
    }
}

template <class T>
bool narrow_element(const Element& element, const std::byte* data, T& to) {
    const FloatFields& fields = *element.wide;
    const Decoded real = decode(fields, data);
    const Decoded imaginary = is_complex(element.type) ? decode(fields, data + fields.bytes) : Decoded{};
    if constexpr (kIsComplex<T>) {
        typename T::value_type parts[2] = {};
        const bool holds = narrow_real(real, parts[0]) && narrow_real(imaginary, parts[1]);
        to = T(parts[0], parts[1]);
        return holds;
    } else {
        return imaginary.value == 0 && narrow_real(real, to);
    }
}

}  // namespace

void narrow(const Element& element, const std::byte* from, bool reversed, const MutableMatrixView& to,
            const Block& place, const std::string& what, int threads) {
    const std::int64_t row_stride = reversed ? 1 : to.shape.cols;
    const std::int64_t col_stride = reversed ? to.shape.rows : 1;
    visit_type(to.type, [&]<class T>(TypeTag<T>) {
        parallel_for(to.shape.rows, 16, threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                for (std::int64_t j = 0; j < to.shape.cols; ++j) {
                    const auto index = static_cast<std::size_t>(i * row_stride + j * col_stride);
                    if (narrow_element(element, from + index * element.stored_bytes, to.row<T>(i)[j]))
                        continue;
                    throw Error(ErrorCode::input, what + ": row " + std::to_string(place.row + i + 1) +
                                                      ", column " + std::to_string(place.col + j + 1) +
                                                      ": the " + element.name + " number cannot be held in " +
                                                      std::string(name_of(to.type)));
                }
            }
        });
    });
}

}  // namespace gpumat::formats::hdf5
