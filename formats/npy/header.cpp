#include "formats/npy/header.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/error.hpp"
#include "core/text/printable.hpp"

namespace gpumat::formats::npy {
namespace {

/// NumPy's letter and bytes of each type. '|' stands before bytes, which have no order.
constexpr std::array kElements = {
    std::pair{"i1", Type::i8},    std::pair{"i2", Type::i16}, std::pair{"i4", Type::i32},
    std::pair{"i8", Type::i64},   std::pair{"u1", Type::u8},  std::pair{"u2", Type::u16},
    std::pair{"u4", Type::u32},   std::pair{"u8", Type::u64}, std::pair{"f2", Type::f16},
    std::pair{"f4", Type::f32},   std::pair{"f8", Type::f64}, std::pair{"c8", Type::c64},
    std::pair{"c16", Type::c128}, std::pair{"b1", Type::u8}};

/// Parses the dictionary of a header: a literal of Python with the keys 'descr', 'fortran_order' and 'shape',
/// each once and in any order.
class Dictionary {
  public:
    Dictionary(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    void parse(ArrayHeader& header) {
        expect('{');
        bool has_element = false;
        bool has_order = false;
        bool has_shape = false;
        while (!accept('}')) {
            const std::string key = quoted("a key");
            expect(':');
            if (key == "descr" && !std::exchange(has_element, true)) {
                header.element = element();
            } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
                header.fortran = boolean();
            } else if (key == "shape" && !std::exchange(has_shape, true)) {
                header.shape = extents();
            } else {
                refuse("found the key '" + printable(key) +
                       "', expected 'descr', 'fortran_order' and 'shape', each once");
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        if (!has_element || !has_order || !has_shape)
            refuse("a key is missing, expected 'descr', 'fortran_order' and 'shape'");
        skip_blanks();
        if (at_ != text_.size()) refuse("found '" + next() + "' behind the dictionary, expected blanks");
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorCode::input, file_ + ": the header of a NumPy file is damaged at byte " +
                                          std::to_string(at_ + 1) + " of its dictionary: " + what);
    }

    /// The character that comes, as a message shows it.
    [[nodiscard]] std::string next() const {
        return at_ < text_.size() ? printable(text_.substr(at_, 1)) : "the end";
    }

    void skip_blanks() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    }

    bool accept(char what) {
        skip_blanks();
        if (at_ == text_.size() || text_[at_] != what) return false;
        ++at_;
        return true;
    }

    void expect(char what) {
        if (!accept(what)) refuse("found '" + next() + "', expected '" + what + "'");
    }

    std::string quoted(const std::string& what) {
        const char quote = accept('\'') ? '\'' : accept('"') ? '"' : '\0';
        if (quote == '\0') refuse("found '" + next() + "', expected " + what + " in quotes");
        const std::size_t end = text_.find(quote, at_);
        if (end == std::string_view::npos) refuse("a quote has no end");
        std::string inside(text_.substr(at_, end - at_));
        at_ = end + 1;
        return inside;
    }

    /// The element's name. A list of fields is passed over: what it is like is of no interest here.
    std::string element() {
        skip_blanks();
        if (at_ < text_.size() && text_[at_] != '[') return quoted("the type of the elements");
        constexpr std::string_view kFields = "a structure";
        int depth = 0;
        do {
            if (at_ == text_.size()) refuse("a list of fields has no end");
            const char c = text_[at_++];
            if (c == '[') ++depth;
            if (c == ']') --depth;
        } while (depth > 0);
        return std::string(kFields);
    }

    bool boolean() {
        skip_blanks();
        for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {"False", false}}) {
            if (!text_.substr(at_).starts_with(word)) continue;
            at_ += word.size();
            return value;
        }
        refuse("found '" + next() + "', expected True or False");
    }

    std::vector<std::int64_t> extents() {
        constexpr std::size_t kMostDimensions = 64;  // of NumPy
        std::vector<std::int64_t> found;
        expect('(');
        while (!accept(')')) {
            skip_blanks();
            std::int64_t extent = 0;
            const auto [end, error] =
                std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
            if (error != std::errc{} || extent < 0)
                refuse("found '" + next() + "', expected an extent from 0 to 9223372036854775807");
            at_ = static_cast<std::size_t>(end - text_.data());
            accept('L');  // as Python 2 wrote long numbers
            found.push_back(extent);
            if (found.size() > kMostDimensions) refuse("found more than 64 dimensions");
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return found;
    }

    std::string_view text_;
    const std::string& file_;
    std::size_t at_ = 0;
};

std::uint64_t little_endian(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
}

}  // namespace

ArrayHeader parse_header(std::string_view start, const std::string& file) {
    constexpr std::size_t kVersionBytes = 2;
    const auto refuse = [&](const std::string& what) { throw Error(ErrorCode::input, file + ": " + what); };
    std::size_t at = kMagic.size();
    if (start.size() < at + kVersionBytes) refuse("the file ends within the first bytes of a NumPy file");
    const int major = static_cast<unsigned char>(start[at]);
    const int minor = static_cast<unsigned char>(start[at + 1]);
    if (major < 1 || major > 3 || minor != 0)
        refuse("is a NumPy file of version " + std::to_string(major) + "." + std::to_string(minor) +
               ", expected 1.0, 2.0 or 3.0");
    at += kVersionBytes;
    const std::size_t length_bytes = major == 1 ? 2 : 4;
    if (start.size() < at + length_bytes) refuse("the file ends within the header of a NumPy file");
    const std::uint64_t length = little_endian(start.substr(at, length_bytes));
    at += length_bytes;
    if (length > start.size() - at) {
        refuse("the header of a NumPy file says that it has " + std::to_string(length) + " bytes, and " +
               (start.size() < kMostHeaderBytes
                    ? "the file has only " + std::to_string(start.size() - at)
                    : "more than " + std::to_string(kMostHeaderBytes) + " are not read"));
    }
    ArrayHeader header;
    Dictionary(start.substr(at, length), file).parse(header);
    header.offset = at + length;
    const std::string_view element = header.element;
    const bool ordered =
        element.size() > 1 && std::string_view("<>|=").find(element[0]) != std::string_view::npos;
    const auto* const known = std::ranges::find(kElements, ordered ? element.substr(1) : element,
                                                [](const auto& row) { return std::string_view(row.first); });
    if (known != kElements.end()) {
        header.type = known->second;
        header.swapped = element[0] == '>' && size_of(known->second) > 1;
    }
    return header;
}

namespace {

std::string element_text(Type type, const std::string& file) {
    const auto* const known = std::ranges::find(kElements, type, [](const auto& row) { return row.second; });
    if (known == kElements.end())
        throw Error(ErrorCode::usage, file + ": NumPy has no " + std::string(name_of(type)) +
                                          "; another type is asked for with -t, and HDF5 holds this one");
    return (size_of(type) == 1 ? "|" : "<") + std::string(known->first);
}

}  // namespace

std::string header_text_of(const std::string& element, const std::string& extents) {
    constexpr std::size_t kAlignment = 64;  // of the first element, as NumPy has it
    constexpr std::size_t kBefore = 10;
    std::string text = "{'descr': '" + element + "', 'fortran_order': False, 'shape': " + extents + ", }";
    const std::size_t used = kBefore + text.size() + 1;
    text.append((kAlignment - used % kAlignment) % kAlignment, ' ').append("\n");
    std::string header(kMagic);
    header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
    return header + text;
}

std::string header_text(const Shape& shape, Type type, const std::string& file) {
    return header_text_of(element_text(type, file),
                          "(" + std::to_string(shape.rows) + ", " + std::to_string(shape.cols) + ")");
}

std::string header_text(std::int64_t length, Type type, const std::string& file) {
    return header_text_of(element_text(type, file), "(" + std::to_string(length) + ",)");
}

}  // namespace gpumat::formats::npy
