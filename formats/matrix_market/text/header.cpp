#include "formats/matrix_market/text/header.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.hpp"

namespace gpumat::formats::matrix_market {
namespace {

constexpr std::string_view kBanner = "%%MatrixMarket";
constexpr std::string_view kHdf5Start = "\x89HDF";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::uint64_t kHeaderWindowBytes = std::uint64_t{64} << 10;

template <class T>
struct Named {
    std::string_view name;
    T value;
};

constexpr std::array kStorages = {Named<Storage>{"array", Storage::array},
                                  Named<Storage>{"coordinate", Storage::coordinate}};
constexpr std::array kFields = {
    Named<Field>{"real", Field::real},       Named<Field>{"double", Field::real},
    Named<Field>{"integer", Field::integer}, Named<Field>{"unsigned-integer", Field::unsigned_integer},
    Named<Field>{"complex", Field::complex}, Named<Field>{"pattern", Field::pattern},
};
constexpr std::array kSymmetries = {
    Named<Symmetry>{"general", Symmetry::general},
    Named<Symmetry>{"symmetric", Symmetry::symmetric},
    Named<Symmetry>{"skew-symmetric", Symmetry::skew_symmetric},
    Named<Symmetry>{"hermitian", Symmetry::hermitian},
};

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

std::string lowered(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), lower);
    return result;
}

/// One line of the header, taken apart token by token.
class Line {
  public:
    /// `before` bytes stand before the text.
    Line(std::string_view text, const std::string& name, std::int64_t number, std::size_t before)
        : text_(text), name_(name), number_(number), before_(before) {
        if (text_.ends_with('\n')) text_.remove_suffix(1);
        if (text_.ends_with('\r')) text_.remove_suffix(1);
    }

    [[nodiscard]] bool is_comment() const { return text_.starts_with('%'); }
    [[nodiscard]] bool is_empty() const { return std::ranges::all_of(text_, is_blank); }

    /// The next token; empty at the end of the line.
    std::string_view next() {
        while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
        token_ = at_;
        while (at_ < text_.size() && !is_blank(text_[at_])) ++at_;
        return text_.substr(token_, at_ - token_);
    }

    /// Refuses the token that next() returned.
    [[noreturn]] void refuse_token(const std::string& expected) const {
        refuse(name_, number_, static_cast<std::int64_t>(before_ + token_) + 1,
               quote_token(text_.substr(token_)), expected);
    }

    void expect_end() {
        if (!next().empty()) refuse_token("the end of the line");
    }

    template <class Table>
    auto choose(const Table& table, const std::string& what) {
        const std::string token = lowered(next());
        for (const auto& row : table) {
            if (token == row.name) return row.value;
        }
        std::string names;
        for (const auto& row : table) names += (names.empty() ? "" : ", ") + std::string(row.name);
        refuse_token(what + " (" + names + ")");
    }

    /// An integer from 0 to 2⁶³ − 1.
    std::int64_t size(const std::string& what) {
        const std::string_view token = next();
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
        if (token.empty() || end != token.data() + token.size() || error != std::errc() || value < 0 ||
            token.front() == '-') {
            refuse_token(what + ", an integer from 0 to 9223372036854775807");
        }
        return value;
    }

  private:
    std::string_view text_;
    const std::string& name_;
    std::int64_t number_;
    std::size_t before_;
    std::size_t at_ = 0;
    std::size_t token_ = 0;
};

/// The first word, with what may stand before it.
void parse_banner_word(Line& line, std::string_view text, Leniency& leniency) {
    const std::string banner = lowered(line.next());
    if (text.starts_with(kByteOrderMark)) {
        line.refuse_token("'%%MatrixMarket' without a byte-order mark before it");
    }
    if (text.starts_with(kHdf5Start)) {
        line.refuse_token(
            "'%%MatrixMarket': HDF5 comes through a pipe with --from hdf5, and is not read compressed");
    }
    const bool blanks = !text.starts_with('%');
    const bool one_percent = banner == lowered(kBanner.substr(1));
    const bool deviates = blanks || one_percent;
    if ((banner != lowered(kBanner) && !one_percent) || (deviates && leniency.strict())) {
        line.refuse_token("'%%MatrixMarket' at the start of the file");
    }
    if (blanks) leniency.note(Deviation::space_before_banner);
    if (one_percent) leniency.note(Deviation::one_percent);
}

void parse_object(Line& line, Leniency& leniency, FileHeader& header) {
    const std::string object = lowered(line.next());
    header.vector = object == "vector" && !leniency.strict();
    if (header.vector) leniency.note(Deviation::vector_object);
    if (!header.vector && object != "matrix") line.refuse_token("'matrix', the only object that is read");
}

void parse_symmetry(Line& line, Leniency& leniency, FileHeader& header) {
    header.symmetry = line.choose(kSymmetries, "a symmetry");
    if (header.vector && header.symmetry != Symmetry::general)
        line.refuse_token("general, as a vector has no symmetry");
    if (header.symmetry == Symmetry::hermitian && header.field != Field::complex) {
        if (leniency.strict())
            line.refuse_token("a symmetry other than hermitian, as the field is not complex");
        leniency.note(Deviation::real_hermitian);
        header.symmetry = Symmetry::symmetric;
    }
    if (header.symmetry == Symmetry::skew_symmetric && header.field == Field::pattern) {
        line.refuse_token("general or symmetric, as a pattern has no signs");
    }
    if (header.symmetry == Symmetry::skew_symmetric && header.field == Field::unsigned_integer) {
        line.refuse_token("general or symmetric, as unsigned integers have no signs");
    }
}

void parse_banner(Line& line, std::string_view text, Leniency& leniency, FileHeader& header) {
    parse_banner_word(line, text, leniency);
    parse_object(line, leniency, header);
    header.storage = line.choose(kStorages, "a format");
    header.field = line.choose(kFields, "a field");
    if (header.field == Field::pattern && header.storage == Storage::array) {
        line.refuse_token("a field with values, as an array file has no pattern");
    }
    parse_symmetry(line, leniency, header);
    line.expect_end();
}

/// Values that an array file of this shape holds.
std::int64_t array_entries(const FileHeader& header, const std::string& name) {
    (void)dense_bytes(header.shape, natural_type(header.field), name);  // so that nothing below overflows
    const std::int64_t n = header.shape.rows;
    switch (header.symmetry) {
        case Symmetry::general:
            return header.shape.elements();
        case Symmetry::skew_symmetric:
            return n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n;
        case Symmetry::symmetric:
        case Symmetry::hermitian:
            return n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n;
    }
    __builtin_unreachable();
}

void parse_sizes(Line& line, const std::string& name, FileHeader& header) {
    header.shape.rows = line.size("the number of rows");
    header.shape.cols = header.vector ? 1 : line.size("the number of columns");
    if (header.symmetry != Symmetry::general && header.shape.rows != header.shape.cols) {
        line.refuse_token(std::to_string(header.shape.rows) +
                          " columns, as a matrix with symmetry must be square");
    }
    if (header.storage == Storage::coordinate) {
        header.entries = line.size("the number of entries");
        if (header.entries != 0 && (header.shape.rows == 0 || header.shape.cols == 0)) {
            line.refuse_token("0 entries, as the matrix is empty");
        }
    }
    line.expect_end();
    if (header.storage == Storage::array) header.entries = array_entries(header, name);
}

/// Other comments, and a type whose values are not written so, mean nothing.
void parse_comment(std::string_view text, FileHeader& header) {
    if (!text.starts_with(kTypeComment)) return;
    text.remove_prefix(kTypeComment.size());
    const auto type = type_from_name(text.substr(0, text.find_first_of("\r\n")));
    if (type && field_of(*type) == header.field) header.type = type;
}

}  // namespace

FileHeader parse_header(TextSource& source, const std::string& name, Leniency& leniency) {
    FileHeader header;
    Buffer scratch;
    std::uint64_t offset = 0;
    std::int64_t number = 0;
    bool banner_seen = false;
    for (;;) {
        const std::uint64_t end = source.window(offset, kHeaderWindowBytes);
        std::string_view text = source.lines(offset, end, scratch);
        if (source.has_lone_returns()) leniency.note(Deviation::lone_returns);
        if (text.empty()) break;
        while (!text.empty()) {
            std::string_view line_text = text.substr(0, text.find('\n') + 1);
            text.remove_prefix(line_text.size());
            offset += line_text.size();
            const bool marked = ++number == 1 && !leniency.strict() && line_text.starts_with(kByteOrderMark);
            const std::size_t before = marked ? kByteOrderMark.size() : 0;
            line_text.remove_prefix(before);
            if (marked) leniency.note(Deviation::byte_order_mark);
            Line line(line_text, name, number, before);
            if (!banner_seen && line.is_empty() && !leniency.strict()) {
                leniency.note(Deviation::space_before_banner);
            } else if (!banner_seen) {
                parse_banner(line, line_text, leniency, header);
                banner_seen = true;
            } else if (line.is_comment()) {
                parse_comment(line_text, header);
            } else if (!line.is_empty()) {
                parse_sizes(line, name, header);
                header.body_offset = offset;
                header.body_line = number + 1;
                return header;
            }
        }
    }
    refuse(name, number + 1, 1, "the end of the file",
           banner_seen ? "a line with the sizes" : "'%%MatrixMarket'");
}

bool looks_like_matrix_market(std::string_view text) {
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    while (!text.empty() && (is_blank(text.front()) || text.front() == '\r' || text.front() == '\n')) {
        text.remove_prefix(1);
    }
    return text.starts_with('%') &&
           lowered(text.substr(0, text.find('\n'))).find("matrixmarket") != std::string::npos;
}

Field field_of(Type type) {
    if (is_complex(type)) return Field::complex;
    if (is_floating(type)) return Field::real;
    return type >= Type::u8 && type <= Type::u64 ? Field::unsigned_integer : Field::integer;
}

Type natural_type(Field field) {
    switch (field) {
        case Field::real:
            return Type::f64;
        case Field::integer:
        case Field::pattern:
            return Type::i64;
        case Field::unsigned_integer:
            return Type::u64;
        case Field::complex:
            return Type::c128;
    }
    __builtin_unreachable();
}

std::string describe(const FileHeader& header) {
    const auto name = [](const auto& table, auto value) {
        return std::string(std::ranges::find(table, value, [](const auto& row) { return row.value; })->name);
    };
    return name(kStorages, header.storage) + ", " + name(kFields, header.field) + ", " +
           name(kSymmetries, header.symmetry) + ", " + std::to_string(header.entries) +
           (header.storage == Storage::array ? " values" : " entries");
}

void refuse(const std::string& name, std::int64_t line, std::int64_t column, const std::string& found,
            const std::string& expected) {
    throw Error(ErrorCode::input, name + ":" + std::to_string(line) + ":" + std::to_string(column) +
                                      ": found " + found + ", expected " + expected);
}

std::string quote_token(std::string_view text) {
    constexpr std::size_t kLongest = 40;
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string quoted;
    std::size_t taken = 0;
    if (text.substr(0, text.find('\n')).ends_with('\r')) text = text.substr(0, text.find('\n') - 1);
    for (const char c : text) {
        if (is_blank(c) || c == '\n') break;
        if (++taken > kLongest) break;
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f || byte >= 0x80) {
            quoted += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
        } else {
            quoted += c;
        }
    }
    if (quoted.empty()) return "the end of the line";
    return "'" + quoted + "'" + (taken > kLongest ? " …" : "");
}

}  // namespace gpumat::formats::matrix_market
