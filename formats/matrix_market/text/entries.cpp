#include "formats/matrix_market/text/entries.hpp"

#include <bit>
#include <cstring>

#include "core/numbers/type.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// The long way, for an index of eight digits or more and for what is no index.
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

/// An index from 1 to `most`, delivered from 0.
[[gnu::noinline]] inline std::int64_t parse_index(const char*& p, std::int64_t most, const char* what) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, p, sizeof bytes);
    const std::uint64_t marks = mark_non_digits(bytes);
    if (marks != 0) {
        const auto count = static_cast<unsigned>(std::countr_zero(marks)) / 8;
        const std::uint64_t digits = bytes - 0x3030'3030'3030'3030ULL;
        const auto index = static_cast<std::int64_t>(join_digits((digits << (8 * (7 - count))) << 8));
        if ((p[count] == ' ' || p[count] == '\t') && index >= 1 && index <= most) {
            p += count;
            return index - 1;
        }
    }
    return parse_long_index(p, most, what);
}

/// Row and column, from 0.
struct Place {
    std::int64_t row;
    std::int64_t col;
};

/// Two indices, and the blanks between them. Stops after the second.
[[gnu::always_inline]] inline Place parse_place(const char*& p, const Shape& shape) {
    IndexPair pair;
    if (const char* const end = parse_short_indices(p, pair); end != nullptr) {
        const std::uint64_t row = pair.first - 1;
        const std::uint64_t col = pair.second - 1;
        if (row < static_cast<std::uint64_t>(shape.rows) && col < static_cast<std::uint64_t>(shape.cols)) {
            p = end;
            return {static_cast<std::int64_t>(row), static_cast<std::int64_t>(col)};
        }
    }
    const std::int64_t row = parse_index(p, shape.rows, "a row index");
    p = skip_blanks(p);
    return {row, parse_index(p, shape.cols, "a column index")};
}

template <Field F, class T>
class EntryParser {
  public:
    EntryParser(const BodyContext& context, const Block& block, const Owners& owners)
        : context_(context), block_(block), owners_(owners) {}

    void operator()(CoordinateChunk& chunk) const {
        chunk.owned.resize(owners_.count());
        chunk.bounds = {};
        for (auto& entries : chunk.owned) entries.clear();
        const char* p = chunk.text.data();
        const char* const end = p + chunk.text.size();
        while (p != end) {
            p = skip_blanks(p);
            if (!at_line_end(p)) {
                parse_entry(p, chunk);
                ++chunk.count;
            }
            p = past_line_end(p);
            ++chunk.lines;
        }
    }

  private:
    void parse_entry(const char*& p, CoordinateChunk& chunk) const {
        const Shape& shape = context_.header.shape;
        const Symmetry symmetry = context_.header.symmetry;
        const char* const start = p;
        const auto [i, j] = parse_place(p, shape);
        p = skip_blanks(p);
        const char* const token = p;
        T value(1);
        if constexpr (F != Field::pattern) {
            parse_value<F>(p, value, context_.type);
            p = skip_blanks(p);
        }
        if (!at_line_end(p)) refuse_rest(p);
        chunk.bounds.add(i, j);
        add(i, j, value, chunk);
        if (symmetry == Symmetry::general) return;
        if (j > i) refuse_upper(start, i, j);
        T mirrored = value;
        const MirrorFault fault =
            i == j ? check_diagonal(symmetry, value) : mirror(symmetry, value, mirrored);
        if (fault != MirrorFault::none) throw mirror_problem(token, fault, symmetry, context_.type);
        if (i != j) add(j, i, mirrored, chunk);
    }

    void add(std::int64_t i, std::int64_t j, const T& value, CoordinateChunk& chunk) const {
        i -= block_.row;
        j -= block_.col;
        if (i < 0 || i >= block_.rows || j < 0 || j >= block_.cols) return;
        chunk.owned[owners_.of(i)].push(Entry<T>{i, j, value});
    }

    [[noreturn]] static void refuse_rest(const char* p) {
        const char* end = p;
        while (*end != '\n') ++end;
        throw Malformed{p, quote_token({p, static_cast<std::size_t>(end - p) + 1}), "the end of the line"};
    }

    [[noreturn]] static void refuse_upper(const char* at, std::int64_t i, std::int64_t j) {
        throw Malformed{at, "row " + std::to_string(i + 1) + ", column " + std::to_string(j + 1),
                        "entries on or below the diagonal only, as the symmetry gives the others"};
    }

    const BodyContext& context_;
    const Block& block_;
    const Owners& owners_;
};

}  // namespace

Owners::Owners(std::int64_t rows, int threads) {
    if (threads <= 1 || rows <= 1) return;
    const auto most = static_cast<std::uint64_t>(threads) * 4;
    shift_ = 0;
    while ((static_cast<std::uint64_t>(rows - 1) >> shift_) >= most) ++shift_;
    count_ = static_cast<std::size_t>((rows - 1) >> shift_) + 1;
}

ParseEntries entry_parser(const BodyContext& context, const Block& block, const Owners& owners) {
    return visit_type(context.type, [&]<class T>(TypeTag<T>) {
        return visit_field(context.header.field, [&]<Field F>(FieldTag<F>) -> ParseEntries {
            return EntryParser<F, T>(context, block, owners);
        });
    });
}

/// Blank lines aside, entry `n` is line n of a well-formed text.
const char* locate_entry(std::string_view text, std::int64_t n) {
    const char* p = text.data();
    for (std::int64_t i = 0;;) {
        p = skip_blanks(p);
        if (!at_line_end(p) && i++ == n) return p;
        while (*p != '\n') ++p;
        ++p;
    }
}

}  // namespace gpumat::formats::matrix_market
