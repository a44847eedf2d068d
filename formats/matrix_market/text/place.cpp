#include "formats/matrix_market/text/place.hpp"

#include <string>

#include "formats/matrix_market/numbers/digits.hpp"
#include "formats/matrix_market/text/header.hpp"

namespace gpumat::formats::matrix_market {

std::int64_t parse_long_index(const char*& p, std::int64_t most, const char* what) {
    const char* const token = p;
    while (*p == '0') ++p;
    std::uint64_t index = 0;
    const char* const digits = p;
    p = take_digits(p, index);
    const bool ended = p != token && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r');
    if (!ended || p - digits > 19 || index == 0 || index > static_cast<std::uint64_t>(most)) {
        const char* end = token;
        while (*end != '\n') ++end;
        throw Malformed{token, quote_token({token, static_cast<std::size_t>(end - token) + 1}),
                        std::string(what) + " from 1 to " + std::to_string(most)};
    }
    return static_cast<std::int64_t>(index) - 1;
}

}  // namespace gpumat::formats::matrix_market
