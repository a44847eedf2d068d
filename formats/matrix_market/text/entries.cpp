#include "formats/matrix_market/text/entries.hpp"

#include <array>
#include <concepts>

#include "core/numbers/type.hpp"
#include "formats/matrix_market/numbers/packed_text.hpp"
#include "formats/matrix_market/text/place.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// Adds a number with the other sign.
void append_negated(std::string_view number, std::string& to) {
    if (!number.starts_with('-')) to += '-';
    to += number.substr(number.starts_with('-') || number.starts_with('+') ? 1 : 0);
}

/// The text of the value across the diagonal that `mirror` gives, with blanks behind it for who reads more.
std::string_view mirror_text(Symmetry symmetry, std::string_view text, std::string& mirrored) {
    mirrored.clear();
    const std::size_t blanks = std::min(text.find_first_of(" \t"), text.size());
    if (symmetry == Symmetry::skew_symmetric)
        append_negated(text.substr(0, blanks), mirrored);
    else
        mirrored += text.substr(0, blanks);
    if (blanks != text.size()) {
        const std::size_t imaginary = text.find_first_not_of(" \t", blanks);
        mirrored += text.substr(blanks, imaginary - blanks);
        append_negated(text.substr(imaginary), mirrored);
    }
    const std::size_t length = mirrored.size();
    mirrored.append(kUnpackedRoom, ' ');
    return std::string_view(mirrored).substr(0, length);
}

/// As `text_type` says.
template <class T>
constexpr bool kHasWideTexts = !std::integral<T> && !kIsComplex<T>;

/// The bits of the text of a number, which may be read 32 bytes far.
template <class T>
[[gnu::always_inline]] inline TextBits bits_of_text(const T& value, std::string_view text, TextBlock& block) {
    constexpr std::size_t kMost = kHasWideTexts<T> ? kMostPacked : kMostPackedShort;
    TextBits bits;
    if (text.size() <= kMost && pack(text.data(), text.size(), bits)) return bits;
    return block.add(&value, text);
}

template <Field F, class T>
class EntryParser {
  public:
    EntryParser(const BodyContext& context, const Block* block, const Owners* owners, ValueTexts* texts,
                const EntryHashes* hashes)
        : context_(context),
          block_(block),
          owners_(owners),
          texts_(texts),
          hashes_(hashes),
          short_indices_(has_short_indices(context.header.shape)) {}

    void operator()(CoordinateChunk& chunk) const {
        if (owners_ != nullptr) chunk.owned.resize(owners_->count());
        chunk.bounds = {};
        chunk.above = chunk.below = false;
        for (auto& entries : chunk.owned) entries.clear();
        chunk.arrays.clear();
        chunk.sums = {};
        chunk.zeros = 0;
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
        if (hashes_ != nullptr) add_to_sums(chunk);
    }

  private:
    void add_to_sums(CoordinateChunk& chunk) const {
        const EntryPiece entries = chunk.arrays.piece();
        hashes_->add(reinterpret_cast<const std::int32_t*>(entries.rows),
                     reinterpret_cast<const std::int32_t*>(entries.columns), chunk.arrays.numbers(),
                     entries.count, chunk.sums);
    }

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
        deliver(i, j, value, text, chunk);
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
        // The same bits, so that zeros of either sign differ.  NOLINTNEXTLINE
        const bool same = texts_ == nullptr || std::memcmp(&mirrored, &value, sizeof value) == 0;
        deliver(j, i, mirrored, same ? text : mirror_text(symmetry, text, chunk.mirrored), chunk);
    }

    [[gnu::always_inline]] void deliver(std::int64_t i, std::int64_t j, const T& value, std::string_view text,
                                        CoordinateChunk& chunk) const {
        if (owners_ != nullptr) return add(i, j, value, chunk);
        if (texts_ == nullptr) return chunk.arrays.push(short_indices_, i, j, value);
        if (hashes_ != nullptr) chunk.arrays.note(value);
        chunk.zeros += is_zero(value) ? 1 : 0;
        const TextBits bits = bits_of_text(value, text, chunk.texts);
        if constexpr (kHasWideTexts<T>)
            chunk.arrays.push(short_indices_, i, j, bits);
        else
            chunk.arrays.push(short_indices_, i, j, bits.low);
    }

    void add(std::int64_t i, std::int64_t j, const T& value, CoordinateChunk& chunk) const {
        i -= block_->row;
        j -= block_->col;
        if (i < 0 || i >= block_->rows || j < 0 || j >= block_->cols) return;
        chunk.owned[owners_->of(i)].push(Entry<T>{i, j, value});
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
    const Block* block_;    ///< whose entries go to owners
    const Owners* owners_;  ///< none where all entries go to arrays
    ValueTexts* texts_;
    const EntryHashes* hashes_;
    bool short_indices_;
};

ParseEntries parser_of(const BodyContext& context, const Block* block, const Owners* owners,
                       ValueTexts* texts, const EntryHashes* hashes) {
    return visit_type(context.type, [&]<class T>(TypeTag<T>) {
        return visit_field(context.header.field, [&]<Field F>(FieldTag<F>) -> ParseEntries {
            return EntryParser<F, T>(context, block, owners, texts, hashes);
        });
    });
}

/// Numbers of the type T from the values that `array_parser` has made.
template <class T>
void numbers_of_texts(const ValueTexts& texts, const std::byte* values, std::int64_t count,
                      std::byte* numbers) {
    constexpr std::size_t kBytes = kHasWideTexts<T> ? sizeof(TextBits) : sizeof(std::uint64_t);
    // With room for who reads a number to its end and further.
    std::array<char, kUnpackedRoom + kPaddingBytes> text{};
    for (std::int64_t n = 0; n < count; ++n, values += kBytes, numbers += sizeof(T)) {
        TextBits bits{.low = 0, .high = ~std::uint64_t{0}};
        std::memcpy(&bits, values, kBytes);
        if (bits.is_place()) {
            std::memcpy(numbers, texts.number(bits), sizeof(T));
            continue;
        }
        text[unpack(bits, text.data())] = '\n';
        T value{};
        if constexpr (!kIsComplex<T>) {  // whose texts are not packed
            const char* p = text.data();
            parse_number<std::integral<T> ? Field::integer : Field::real>(p, value, texts.type());
        }
        std::memcpy(numbers, &value, sizeof value);
    }
}

}  // namespace

void EntryArrays::grow(std::size_t value_bytes) {
    room_ = std::max<std::size_t>(1024, 2 * room_);
    const auto enlarge = [&](Buffer& buffer, std::size_t each) {
        Buffer larger(room_ * each);
        if (count_ != 0) std::memcpy(larger.data(), buffer.data(), count_ * each);
        buffer = std::move(larger);
    };
    enlarge(rows_, sizeof(std::int64_t));
    enlarge(columns_, sizeof(std::int64_t));
    enlarge(values_, value_bytes);
    enlarge(numbers_, sizeof(std::uint64_t));
}

Owners::Owners(std::int64_t rows, int threads) {
    if (threads <= 1 || rows <= 1) return;
    const auto most = static_cast<std::uint64_t>(threads) * 4;
    shift_ = 0;
    while ((static_cast<std::uint64_t>(rows - 1) >> shift_) >= most) ++shift_;
    count_ = static_cast<std::size_t>((rows - 1) >> shift_) + 1;
}

ParseEntries entry_parser(const BodyContext& context, const Block& block, const Owners& owners) {
    return parser_of(context, &block, &owners, nullptr, nullptr);
}

ParseEntries array_parser(const BodyContext& context, ValueTexts* texts, const EntryHashes* hashes) {
    return parser_of(context, nullptr, nullptr, texts, hashes);
}

ValueTexts::Convert text_converter(Type type) {
    return visit_type(type, []<class T>(TypeTag<T>) -> ValueTexts::Convert { return &numbers_of_texts<T>; });
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
