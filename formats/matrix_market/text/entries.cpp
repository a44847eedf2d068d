#include "formats/matrix_market/text/entries.hpp"

#include "core/numbers/type.hpp"
#include "formats/matrix_market/text/place.hpp"

namespace gpumat::formats::matrix_market {
namespace {

template <Field F, class T>
class EntryParser {
  public:
    EntryParser(const BodyContext& context, const Block& block, const Owners& owners)
        : context_(context), block_(block), owners_(owners) {}

    void operator()(CoordinateChunk& chunk) const {
        chunk.owned.resize(owners_.count());
        chunk.bounds = {};
        chunk.above = chunk.below = false;
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
        const Symmetry symmetry = context_.header.symmetry;
        const char* const start = p;
        const auto [i, j] = parse_place(p, context_.header);
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
        if (j > i) read_above(start, i, j, chunk);
        if (j < i) chunk.below = true;
        T mirrored = value;
        MirrorFault fault = i == j ? check_diagonal(symmetry, value) : mirror(symmetry, value, mirrored);
        if (fault == MirrorFault::zero_diagonal && !context_.leniency.strict()) {
            context_.leniency.note(Deviation::zero_diagonal);
            fault = MirrorFault::none;
        }
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
