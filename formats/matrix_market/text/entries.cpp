#include "formats/matrix_market/text/entries.hpp"

#include "core/numbers/type.hpp"
#include "formats/matrix_market/text/place.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// Kept apart from the parsers, of which there is one a type.
[[gnu::noinline]] void add_place(std::int64_t i, std::int64_t j, std::uint64_t place,
                                 CoordinateChunk& chunk) {
    chunk.owned.front().push(Entry<std::uint64_t>{i, j, place});
}

/// Adds a number with the other sign.
void append_negated(std::string_view number, std::string& to) {
    if (!number.starts_with('-')) to += '-';
    to += number.substr(number.starts_with('-') || number.starts_with('+') ? 1 : 0);
}

/// The text of the value across the diagonal that `mirror` gives.
void mirror_text(Symmetry symmetry, std::string_view text, std::string& mirrored) {
    mirrored.clear();
    const std::size_t blanks = std::min(text.find_first_of(" \t"), text.size());
    if (symmetry == Symmetry::skew_symmetric)
        append_negated(text.substr(0, blanks), mirrored);
    else
        mirrored += text.substr(0, blanks);
    if (blanks == text.size()) return;
    const std::size_t imaginary = text.find_first_not_of(" \t", blanks);
    mirrored += text.substr(blanks, imaginary - blanks);
    append_negated(text.substr(imaginary), mirrored);
}

template <Field F, class T>
class EntryParser {
  public:
    EntryParser(const BodyContext& context, const Block& block, const Owners& owners, ValueTexts* texts)
        : context_(context), block_(block), owners_(owners), texts_(texts) {}

    void operator()(CoordinateChunk& chunk) const {
        chunk.owned.resize(owners_.count());
        chunk.bounds = {};
        chunk.above = chunk.below = false;
        for (auto& entries : chunk.owned) entries.clear();
        if (texts_ != nullptr) chunk.texts.begin(*texts_);
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
        if (texts_ != nullptr) chunk.texts.end();
    }

  private:
    void parse_entry(const char*& p, CoordinateChunk& chunk) const {
        const Symmetry symmetry = context_.header.symmetry;
        const char* const start = p;
        const auto [i, j] = parse_place(p, context_.header);
        p = skip_blanks(p);
        const char* const token = p;
        T value(1);
        const char* token_end = token;
        if constexpr (F != Field::pattern) {
            parse_value<F>(p, value, context_.type);
            token_end = p;
            p = skip_blanks(p);
        }
        if (!at_line_end(p)) refuse_rest(p);
        chunk.bounds.add(i, j);
        const std::string_view text(token, static_cast<std::size_t>(token_end - token));
        std::uint64_t place = 0;
        if (texts_ == nullptr) {
            add(i, j, value, chunk);
        } else {
            place = chunk.texts.add(&value, text);
            add_place(i, j, place, chunk);
        }
        if (symmetry == Symmetry::general) return;
        if (j > i) read_above(start, i, j, chunk);
        if (j < i) chunk.below = true;
        T mirrored = value;
        MirrorFault fault = i == j ? check_diagonal(symmetry, value) : mirror(symmetry, value, mirrored);
        if (fault == MirrorFault::zero_diagonal && !context_.leniency.strict()) {
            context_.leniency.note(Deviation::zero_diagonal);
            fault = MirrorFault::none;
        }
        if (fault != MirrorFault::none) throw mirror_problem(token, fault, symmetry, context_.type);
        if (i == j) return;
        if (texts_ == nullptr) return add(j, i, mirrored, chunk);
        // The same bits, so that zeros of either sign differ.  NOLINTNEXTLINE
        const bool same = std::memcmp(&mirrored, &value, sizeof value) == 0;
        if (!same) {
            mirror_text(symmetry, text, chunk.mirrored);
            place = chunk.texts.add(&mirrored, chunk.mirrored);
        }
        add_place(j, i, place, chunk);
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

    [[gnu::noinline]] void read_above(const char* at, std::int64_t i, std::int64_t j,
                                      CoordinateChunk& chunk) const {
        if (context_.leniency.strict())
            throw Malformed{at, "row " + std::to_string(i + 1) + ", column " + std::to_string(j + 1),
                            "entries on or below the diagonal only, as the symmetry gives the others"};
        context_.leniency.note(Deviation::upper_triangle);
        chunk.above = true;
    }

    const BodyContext& context_;
    const Block& block_;
    const Owners& owners_;
    ValueTexts* texts_;
};

}  // namespace

Owners::Owners(std::int64_t rows, int threads) {
    if (threads <= 1 || rows <= 1) return;
    const auto most = static_cast<std::uint64_t>(threads) * 4;
    shift_ = 0;
    while ((static_cast<std::uint64_t>(rows - 1) >> shift_) >= most) ++shift_;
    count_ = static_cast<std::size_t>((rows - 1) >> shift_) + 1;
}

ParseEntries entry_parser(const BodyContext& context, const Block& block, const Owners& owners,
                          ValueTexts* texts) {
    return visit_type(context.type, [&]<class T>(TypeTag<T>) {
        return visit_field(context.header.field, [&]<Field F>(FieldTag<F>) -> ParseEntries {
            return EntryParser<F, T>(context, block, owners, texts);
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
