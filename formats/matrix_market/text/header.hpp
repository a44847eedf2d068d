#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/numbers/shape.hpp"
#include "core/numbers/type.hpp"
#include "formats/matrix_market/text/leniency.hpp"
#include "formats/matrix_market/text/text.hpp"

namespace gpumat::formats::matrix_market {

enum class Storage { array, coordinate };
enum class Field { real, integer, unsigned_integer, complex, pattern };
enum class Symmetry { general, symmetric, skew_symmetric, hermitian };

template <Field F>
using FieldTag = std::integral_constant<Field, F>;

/// Calls `function(FieldTag<F>{})` with the field as a constant.
template <class Function>
decltype(auto) visit_field(Field field, Function&& function) {
    switch (field) {
        case Field::real:
            return function(FieldTag<Field::real>{});
        case Field::integer:
            return function(FieldTag<Field::integer>{});
        case Field::unsigned_integer:
            return function(FieldTag<Field::unsigned_integer>{});
        case Field::complex:
            return function(FieldTag<Field::complex>{});
        case Field::pattern:
            return function(FieldTag<Field::pattern>{});
    }
    __builtin_unreachable();
}

/// What stands before the values of a file.
struct FileHeader {
    Storage storage = Storage::array;
    Field field = Field::real;
    Symmetry symmetry = Symmetry::general;
    bool vector = false;         ///< a vector object: one column, and entries have one index
    std::optional<Type> type{};  ///< of whom wrote it, where a comment says so
    Shape shape;
    std::int64_t entries = 0;       ///< values that the file holds: of a triangle only where it is symmetric
    std::uint64_t body_offset = 0;  ///< of the line after the size line
    std::int64_t body_line = 0;     ///< its number, from 1
};

/// Begins the comment that keeps the type of the elements, which the format has no place for: "% gpumat_type:
/// f32".
constexpr std::string_view kTypeComment = "% gpumat_type: ";

/// Reads the header and size lines. Throws Error{input} naming `name`, line and column.
FileHeader parse_header(TextSource& source, const std::string& name, Leniency& leniency);

/// Whether a file that starts with `text` claims to be a Matrix Market file, well-formed or not.
bool looks_like_matrix_market(std::string_view text);

/// The type that holds every value of the field exactly as it is written, as far as one does.
Type natural_type(Field field);

/// The field in which values of the type are written.
Field field_of(Type type);

/// "coordinate, symmetric, 42943 entries".
std::string describe(const FileHeader& header);

/// Throws Error{input} "NAME:LINE:COLUMN: found X, expected Y".
[[noreturn]] void refuse(const std::string& name, std::int64_t line, std::int64_t column,
                         const std::string& found, const std::string& expected);

/// The blank-separated token at the front of `text`, quoted, shortened and with unprintable bytes escaped;
/// or "the end of the line".
std::string quote_token(std::string_view text);

}  // namespace gpumat::formats::matrix_market
