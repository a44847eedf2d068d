#include "formats/matrix_market/text/value.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// The token at `at`. The text around it ends with a line feed.
std::string quote_at(const char* at) {
    const char* end = at;
    while (*end != '\n') ++end;
    return quote_token({at, static_cast<std::size_t>(end - at) + 1});
}

std::string number_of(Field field) {
    switch (field) {
        case Field::integer:
            return "an integer";
        case Field::unsigned_integer:
            return "an unsigned integer";
        default:
            return "a real number";
    }
}

bool u64_holds(const char* token) {
    Decimal decimal;
    std::uint64_t value = 0;
    return scan(token, decimal) != nullptr && to_value(decimal, value) == Fault::none;
}

}  // namespace

void refuse_value(const char* token, Fault fault, Field field, Type type) {
    const std::string name(name_of(type));
    std::string expected = number_of(field);
    if (fault == Fault::fraction) expected = "an integer, as the type is " + name;
    if (fault == Fault::range) {
        expected = "a value that " + name + " can hold";
        if (type == Type::i64 && u64_holds(token)) expected += " (u64 can: -t u64)";
    }
    throw Malformed{token, quote_at(token), expected};
}

void refuse_imaginary(const char* token, Type type) {
    throw Malformed{token, quote_at(token),
                    "an imaginary part of 0, as the type " + std::string(name_of(type)) + " is not complex"};
}

void refuse_missing_imaginary(const char* at) {
    throw Malformed{at, "the end of the line", "an imaginary part"};
}

Malformed mirror_problem(const char* at, MirrorFault fault, Symmetry symmetry, Type type) {
    if (fault == MirrorFault::range) {
        return {at, quote_at(at), "a value whose negative " + std::string(name_of(type)) + " can hold"};
    }
    if (symmetry == Symmetry::hermitian)
        return {at, quote_at(at), "a diagonal value with an imaginary part of 0"};
    return {at, quote_at(at),
            fault == MirrorFault::zero_diagonal ? "no entry on the diagonal of a skew-symmetric matrix"
                                                : "0 on the diagonal of a skew-symmetric matrix"};
}

}  // namespace gpumat::formats::matrix_market
