#include "formats/matrix_market/text/leniency.hpp"

#include <string_view>

namespace gpumat::formats::matrix_market {
namespace {

std::string_view words_of(Deviation deviation) {
    switch (deviation) {
        case Deviation::byte_order_mark:
            return "a byte-order mark before the banner";
        case Deviation::space_before_banner:
            return "blanks or empty lines before the banner";
        case Deviation::one_percent:
            return "a banner with one %";
        case Deviation::vector_object:
            return "a vector object, as a matrix of one column";
        case Deviation::real_hermitian:
            return "a hermitian matrix without complex values, which is symmetric";
        case Deviation::lone_returns:
            return "lines that end with a carriage return alone";
        case Deviation::comments:
            return "comments between the values";
        case Deviation::fortran_exponents:
            return "exponents with the letter D";
        case Deviation::zero_diagonal:
            return "zeros on the diagonal of a skew-symmetric matrix";
        case Deviation::upper_triangle:
            return "entries above the diagonal, mirrored as those below it";
    }
    __builtin_unreachable();
}

}  // namespace

void Leniency::note(Deviation deviation) {
    const unsigned bit = 1U << static_cast<unsigned>(deviation);
    if ((noted_.load(std::memory_order_relaxed) & bit) != 0 || (noted_.fetch_or(bit) & bit) != 0) return;
    tell(tell_, Severity::detail,
         name_ + ": has " + std::string(words_of(deviation)) + " (--strict refuses this)");
}

}  // namespace gpumat::formats::matrix_market
