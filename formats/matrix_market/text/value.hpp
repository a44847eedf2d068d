#pragma once

#include <complex>
#include <string>
#include <type_traits>
#include <utility>

#include "core/numbers/type.hpp"
#include "core/numbers/zero.hpp"
#include "formats/matrix_market/numbers/number.hpp"
#include "formats/matrix_market/text/header.hpp"

namespace gpumat::formats::matrix_market {

/// Thrown while a piece of text is parsed; the place becomes a line and a column where it is reported.
struct Malformed {
    const char* at = nullptr;
    std::string found;
    std::string expected;
};

/// The value that follows from a stored one across the diagonal does not fit into the type, or a value on
/// the diagonal contradicts the symmetry, or stands there although it follows from it.
enum class MirrorFault { none, range, diagonal, zero_diagonal };

/// Most characters that are asked about are none of these.
inline bool above_blank(char c) {
    return static_cast<unsigned char>(c) > ' ';
}

inline const char* skip_blanks(const char* p) {
    while (!above_blank(*p) && (*p == ' ' || *p == '\t')) ++p;
    return p;
}

/// Text from TextSource ends with a line feed, so that looking one character ahead is safe.
inline bool at_line_end(const char* p) {
    return !above_blank(*p) && (*p == '\n' || (*p == '\r' && p[1] == '\n'));
}

inline const char* past_line_end(const char* p) {
    return p + (*p == '\r' ? 2 : 1);
}

[[noreturn]] void refuse_value(const char* token, Fault fault, Field field, Type type);
[[noreturn]] void refuse_imaginary(const char* token, Type type);
[[noreturn]] void refuse_missing_imaginary(const char* at);

/// One real or integer number, ended by a blank or the end of the line.
template <Field F, class T>
[[gnu::always_inline]] inline void parse_number(const char*& p, T& value, Type type) {
    const char* const token = p;
    Fault fault = Fault::none;
    if constexpr (F == Field::integer || F == Field::unsigned_integer) {
        fault = F == Field::unsigned_integer && *p == '-' ? Fault::malformed : parse_integer(p, value);
    } else if constexpr (F == Field::real && std::is_same_v<T, double>) {
        fault = parse_real(p, value);  // the usual case; a copy for each type would take long to compile
    } else {
        T found{};
        p = parse_real_apart(p, found, fault);
        value = found;
    }
    if (fault == Fault::none && *p == '\n') return;
    const bool ended = *p == '\n' || *p == ' ' || *p == '\t' || *p == '\r';
    if (fault != Fault::none || !ended) refuse_value(token, ended ? fault : Fault::malformed, F, type);
}

/// One value of a field other than pattern: one number, or two where the field is complex.
template <Field F, class T>
[[gnu::always_inline]] inline void parse_value(const char*& p, T& value, Type type) {
    if constexpr (F != Field::complex) {
        if constexpr (kIsComplex<T>) {
            typename T::value_type real{};
            parse_number<F>(p, real, type);
            value = T(real, 0);
        } else {
            parse_number<F>(p, value, type);
        }
    } else {
        using Part = typename std::conditional_t<kIsComplex<T>, T, std::complex<T>>::value_type;
        Part real{};
        parse_number<F>(p, real, type);
        p = skip_blanks(p);
        if (at_line_end(p)) refuse_missing_imaginary(p);
        if constexpr (kIsComplex<T>) {
            Part imaginary{};
            parse_number<F>(p, imaginary, type);
            value = T(real, imaginary);
        } else {
            const char* const token = p;
            double imaginary = 0;
            parse_number<F>(p, imaginary, type);
            Decimal decimal;
            scan(token, decimal);
            if (decimal.kind != Decimal::Kind::finite || decimal.mantissa != 0) refuse_imaginary(token, type);
            value = real;
        }
    }
}

/// The value at (j, i) of a matrix with that symmetry whose value at (i, j) is `value`, with i ≠ j.
template <class T>
MirrorFault mirror(Symmetry symmetry, const T& value, T& mirrored) {
    mirrored = value;
    if (symmetry == Symmetry::hermitian) {
        if constexpr (kIsComplex<T>) mirrored = std::conj(value);
    } else if (symmetry == Symmetry::skew_symmetric) {
        if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
            mirrored.bits = static_cast<std::uint16_t>(value.bits ^ 0x8000U);
        } else if constexpr (std::unsigned_integral<T>) {
            if (value != 0) return MirrorFault::range;
        } else if constexpr (std::signed_integral<T>) {
            if (value == std::numeric_limits<T>::min()) return MirrorFault::range;
            mirrored = static_cast<T>(-value);
        } else {
            mirrored = -value;
        }
    }
    return MirrorFault::none;
}

/// Whether `value` may stand on the diagonal of a matrix with that symmetry.
template <class T>
MirrorFault check_diagonal(Symmetry symmetry, const T& value) {
    if (symmetry == Symmetry::skew_symmetric)
        return is_zero(value) ? MirrorFault::zero_diagonal : MirrorFault::diagonal;
    if constexpr (kIsComplex<T>) {
        // Written so that NaN fails.
        if (symmetry == Symmetry::hermitian && !(value.imag() == 0)) return MirrorFault::diagonal;
    }
    return MirrorFault::none;
}

/// What was expected of the stored value at `at`.
Malformed mirror_problem(const char* at, MirrorFault fault, Symmetry symmetry, Type type);

}  // namespace gpumat::formats::matrix_market
