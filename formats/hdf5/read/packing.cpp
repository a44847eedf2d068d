#include "formats/hdf5/read/packing.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/numbers/convert.hpp"
#include "core/parallel.hpp"
#include "formats/hdf5/read/locate.hpp"

namespace gpumat::formats::hdf5 {
namespace {

constexpr const char* kUnsigned = "_Unsigned";
constexpr std::array kScaling = {"scale_factor", "add_offset", kUnsigned};
constexpr std::array kMissing = {"_FillValue", "missing_value"};
constexpr hssize_t kMostMissing = 1024;

/// The numbers of an attribute, in one row and their own type. Throws Error{input} where it has none.
Matrix numbers_of(hid_t dataset, const char* name, const std::string& what) {
    const std::string shown = what + ": its attribute '" + name + "'";
    const Handle attribute = take(H5Aopen(dataset, name, H5P_DEFAULT), ErrorCode::input, shown);
    const Handle type = take(H5Aget_type(attribute.id()), ErrorCode::input, shown);
    const Handle space = take(H5Aget_space(attribute.id()), ErrorCode::input, shown);
    const auto element = element_of(type.id());
    const hssize_t count = H5Sget_simple_extent_npoints(space.id());
    if (!element || element->wide || is_complex(element->type) || count < 1 || count > kMostMissing)
        throw Error(ErrorCode::input, shown + ": expected a number");
    Matrix numbers({1, count}, element->type);
    require(H5Aread(attribute.id(), element->memory.id(), numbers.data()), ErrorCode::input, shown);
    return numbers;
}

/// The one number of an attribute; `otherwise` where there is no such attribute.
double number_of(hid_t dataset, const char* name, double otherwise, const std::string& what) {
    if (!has_attribute(dataset, name, what)) return otherwise;
    const Matrix stored = numbers_of(dataset, name, what);
    if (stored.shape().cols != 1)
        throw Error(ErrorCode::input, what + ": its attribute '" + name + "': expected one number");
    double value = 0;
    convert(stored.view(), {Type::f64, {1, 1}, 1, reinterpret_cast<std::byte*>(&value)}, what, 1);
    return value;
}

/// Those of `numbers` that `type` can hold: no stored number is any other.
Matrix held_in(Type type, const std::vector<Matrix>& numbers) {
    std::vector<Matrix> held;
    for (const Matrix& row : numbers) {
        for (std::int64_t i = 0; i < row.shape().cols; ++i) {
            Matrix one({1, 1}, type);
            try {
                const std::byte* const at = row.data() + static_cast<std::size_t>(i) * size_of(row.type());
                convert({row.type(), {1, 1}, 1, at}, one.view(), "", 1);
                held.push_back(std::move(one));
            } catch (const Error&) {
            }
        }
    }
    Matrix all({1, std::ssize(held)}, type);
    for (std::size_t i = 0; i < held.size(); ++i)
        std::copy_n(held[i].data(), size_of(type), all.data() + i * size_of(type));
    return all;
}

/// What stands for missing values, as far as elements of `type` can be it.
Matrix missing_of(hid_t dataset, Type type, const std::string& what) {
    std::vector<Matrix> numbers;
    for (const char* name : kMissing) {
        if (has_attribute(dataset, name, what)) numbers.push_back(numbers_of(dataset, name, what));
    }
    return held_in(type, numbers);
}

/// The elements of both rows, which have the same number of bytes, as those of the first one's type.
Matrix together(const Matrix& first, const Matrix& second) {
    Matrix all({1, first.shape().cols + second.shape().cols}, first.type());
    const std::size_t bytes = static_cast<std::size_t>(first.shape().cols) * size_of(first.type());
    std::copy_n(first.data(), bytes, all.data());
    std::copy_n(second.data(), static_cast<std::size_t>(second.shape().cols) * size_of(first.type()),
                all.data() + bytes);
    return all;
}

/// By value; what is missing may be a zero of either sign.
template <class T>
bool same_number(T x, T y) {
    if constexpr (std::is_integral_v<T>) return x == y;
    return static_cast<double>(x) == static_cast<double>(y);
}

/// The types of integers, and those of the same width with or without a sign.
constexpr std::array kSigns = {std::pair{Type::i8, Type::u8}, std::pair{Type::i16, Type::u16},
                               std::pair{Type::i32, Type::u32}, std::pair{Type::i64, Type::u64}};

/// How elements of `type` are to be taken.
Type meant_by(hid_t dataset, Type type, const std::string& what) {
    if (!has_attribute(dataset, kUnsigned, what)) return type;
    std::string text = text_attribute(dataset, kUnsigned, what);
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (text != "true" && text != "false") {
        throw Error(ErrorCode::input, what + ": its attribute '" + std::string(kUnsigned) + "' is '" + text +
                                          "'; expected true or false");
    }
    for (const auto& [with_sign, without] : kSigns) {
        if (type == with_sign || type == without) return text == "true" ? without : with_sign;
    }
    return type;
}

/// Whether a 64-bit integer has no more digits than f64.
template <class T>
bool holds_exactly(T value) {
    constexpr double kBeyond = std::is_signed_v<T> ? 0x1p63 : 0x1p64;
    const auto rounded = static_cast<double>(value);
    return rounded < kBeyond && static_cast<T>(rounded) == value;
}

template <class T>
std::string number_text(T value) {
    if constexpr (std::is_integral_v<T>) return std::to_string(value);
    return "";
}

/// Whether nothing is missing but what is NaN already, as in floating point of xarray.
bool only_nan_is_missing(hid_t dataset, const Element& element, const std::string& what) {
    if (is_integer(element.type) || is_complex(element.type) || element.wide) return false;
    const Matrix missing = missing_of(dataset, Type::f64, what);
    const std::span values(missing.as<double>(), static_cast<std::size_t>(missing.shape().cols));
    return std::ranges::all_of(values, [](double value) { return std::isnan(value); });
}

}  // namespace

std::string packing_words(hid_t dataset, const Element& element, const std::string& what) {
    std::string words;
    const auto name_those_of = [&](const auto& names) {
        for (const char* name : names) {
            if (has_attribute(dataset, name, what)) words += (words.empty() ? "" : ", ") + std::string(name);
        }
    };
    name_those_of(kScaling);
    const bool scaled = !words.empty();
    name_those_of(kMissing);
    if (scaled || words.empty()) return words;
    try {
        return only_nan_is_missing(dataset, element, what) ? "" : words;
    } catch (const Error&) {  // who unpacks will hear of it
        return words;
    }
}

Packing packing_of(hid_t dataset, const Element& element, const std::string& what) {
    if (element.wide || is_complex(element.type))
        throw Error(ErrorCode::input, what + ": holds " + element.name + ", which --unpack does not unpack");
    Packing packing;
    packing.stored = element.type;
    packing.scale = number_of(dataset, "scale_factor", 1, what);
    packing.offset = number_of(dataset, "add_offset", 0, what);
    packing.stored = meant_by(dataset, element.type, what);
    // A missing value may be given as the number that is meant, or as the one that is stored.
    packing.missing = missing_of(dataset, packing.stored, what);
    if (packing.stored != element.type)
        packing.missing = together(packing.missing, missing_of(dataset, element.type, what));
    return packing;
}

bool is_of_packing(const std::string& attribute) {
    constexpr std::array kRanges = {"valid_min", "valid_max", "valid_range"};  // of stored numbers
    const auto among = [&](const auto& names) { return std::ranges::find(names, attribute) != names.end(); };
    return among(kScaling) || among(kMissing) || among(kRanges);
}

void unpack(const Packing& packing, const std::byte* from, std::int64_t count, double* values, int threads,
            const std::string& what) {
    constexpr std::int64_t kLeastCount = 4096;
    visit_type(packing.stored, [&]<class T>(TypeTag<T>) {
        if constexpr (!requires(T value) { value.imag(); }) {
            const auto* const stored = reinterpret_cast<const T*>(from);
            const std::span missing(packing.missing.as<T>(),
                                    static_cast<std::size_t>(packing.missing.shape().cols));
            const bool plain = packing.scale == 1 && packing.offset == 0;
            std::atomic<std::int64_t> inexact = -1;  // the place of a number that f64 does not hold
            parallel_for(count, kLeastCount, threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                    const bool absent =
                        std::ranges::any_of(missing, [&](T one) { return same_number(one, stored[i]); });
                    values[i] = absent ? std::numeric_limits<double>::quiet_NaN()
                                       : static_cast<double>(stored[i]) * packing.scale + packing.offset;
                    if constexpr (sizeof(T) == 8 && std::is_integral_v<T>) {
                        if (plain && !absent && !holds_exactly(stored[i])) inexact = i;
                    }
                }
            });
            if (inexact >= 0) {
                throw Error(ErrorCode::input,
                            what + ": f64 does not hold " + number_text(stored[inexact]) +
                                ", which is unpacked without a scale; read it without --unpack");
            }
        }
    });
}

}  // namespace gpumat::formats::hdf5
