#include "formats/matrix_market/text/relaxed.hpp"

#include <cstring>

#include "formats/matrix_market/text/text.hpp"
#include "formats/matrix_market/text/value.hpp"

namespace gpumat::formats::matrix_market {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// The D of 1.0D+00. The text goes on behind it.
bool is_fortran_exponent(const char* p, const char* start) {
    if ((*p != 'D' && *p != 'd') || p == start) return false;
    return (is_digit(p[-1]) || p[-1] == '.') && (is_digit(p[1]) || p[1] == '+' || p[1] == '-');
}

}  // namespace

std::string_view relax(std::string_view text, Buffer& memory, Leniency& leniency) {
    if (memory.size() < text.size() + kPaddingBytes) memory = Buffer(text.size() + kPaddingBytes);
    char* const start = reinterpret_cast<char*>(memory.data());
    std::memcpy(start, text.data(), text.size());
    char* const end = start + text.size();  // behind a line feed
    bool changed = false;
    const auto change = [&](Deviation deviation) {
        changed = true;
        leniency.note(deviation);
    };
    for (char* p = start; p != end;) {
        char* const first = p + (skip_blanks(p) - p);
        const bool comment = *first == '%';
        if (comment) change(Deviation::comments);
        for (p = first; *p != '\n'; ++p) {
            if (*p == '\r' && p[1] != '\n') {
                change(Deviation::lone_returns);
                *p = '\n';
                break;
            }
            if (comment && *p != '\r') {
                *p = ' ';
            } else if (is_fortran_exponent(p, start)) {
                change(Deviation::fortran_exponents);
                *p = 'e';
            }
        }
        ++p;
    }
    return changed ? std::string_view(start, text.size()) : text;
}

}  // namespace gpumat::formats::matrix_market
