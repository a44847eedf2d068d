#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "formats/matrix_market/numbers/exact_sum.hpp"
#include "formats/matrix_market/text/body.hpp"
#include "formats/matrix_market/text/chunks.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// Entries in the order in which they came, in memory that is kept for the next chunk.
template <class T>
class EntryList {
  public:
    void clear() { count_ = 0; }
    [[gnu::always_inline]] void push(const Entry<T>& entry) {
        if (count_ == room_) grow();
        data()[count_++] = entry;
    }
    [[nodiscard]] std::span<const Entry<T>> entries() const {
        return {reinterpret_cast<const Entry<T>*>(memory_.data()), count_};
    }

  private:
    Entry<T>* data() { return reinterpret_cast<Entry<T>*>(memory_.data()); }
    [[gnu::noinline]] void grow() {
        room_ = std::max<std::size_t>(64, 2 * room_);
        Buffer larger(room_ * sizeof(Entry<T>));
        if (count_ != 0) std::memcpy(larger.data(), memory_.data(), count_ * sizeof(Entry<T>));
        memory_ = std::move(larger);
    }

    Buffer memory_;
    std::size_t count_ = 0;
    std::size_t room_ = 0;
};

/// The rows and columns that entries lie in.
struct Bounds {
    std::int64_t top = std::numeric_limits<std::int64_t>::max();
    std::int64_t bottom = -1;
    std::int64_t left = std::numeric_limits<std::int64_t>::max();
    std::int64_t right = -1;

    void add(std::int64_t row, std::int64_t col) {
        top = std::min(top, row);
        bottom = std::max(bottom, row);
        left = std::min(left, col);
        right = std::max(right, col);
    }
    /// Whether entries with these bounds may lie in the block.
    [[nodiscard]] bool meet(const Block& block) const {
        return top < block.row + block.rows && bottom >= block.row && left < block.col + block.cols &&
               right >= block.col;
    }
};

template <class T>
struct CoordinateChunk : Chunk {
    Bounds bounds;  ///< of all entries of the chunk
    /// The elements that each owner of rows has to add, relative to the block.
    std::vector<EntryList<T>> owned;
};

/// Splits the rows of a block among owners, each of which adds its elements in the order of the file.
struct Owners {
    int shift = 63;
    std::size_t count = 1;

    Owners(std::int64_t rows, int threads) {
        if (threads <= 1 || rows <= 1) return;
        const auto most = static_cast<std::uint64_t>(threads) * 4;
        shift = 0;
        while ((static_cast<std::uint64_t>(rows - 1) >> shift) >= most) ++shift;
        count = static_cast<std::size_t>((rows - 1) >> shift) + 1;
    }
    [[nodiscard]] std::size_t of(std::int64_t row) const { return static_cast<std::size_t>(row >> shift); }
};

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

    void operator()(CoordinateChunk<T>& chunk) const {
        chunk.owned.resize(owners_.count);
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
    void parse_entry(const char*& p, CoordinateChunk<T>& chunk) const {
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

    void add(std::int64_t i, std::int64_t j, const T& value, CoordinateChunk<T>& chunk) const {
        i -= block_.row;
        j -= block_.col;
        if (i < 0 || i >= block_.rows || j < 0 || j >= block_.cols) return;
        chunk.owned[owners_.of(i)].push({i, j, value});
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

/// The type in which entries for the same element are added: wide enough that the sum is rounded once.
template <class T>
using Wide = std::conditional_t<std::integral<T>, T,
                                std::conditional_t<kIsComplexType<T>, std::complex<double>, double>>;

/// One of several entries for the same element.
template <class T>
struct Term {
    std::int64_t element;  ///< in the block, row after row
    T value;
};

template <class T>
using Terms = std::vector<Term<T>>;

template <class T>
bool is_zero(const T& value) {
    if constexpr (kIsComplexType<T> || std::integral<T>) {
        return value == T(0);
    } else {
        return static_cast<double>(value) == 0;
    }
}

/// The sum of `terms`, rounded once; false where it is beyond the type's range.
template <class T>
bool sum_of(std::span<const Term<Wide<T>>> terms, T& sum) {
    if constexpr (std::integral<T>) {
        __int128 exact = 0;
        for (const auto& term : terms) exact += term.value;
        sum = static_cast<T>(exact);
        return sum == exact;
    } else {
        const auto add = [&]<class Part>(Part& to, auto part_of) {
            ExactSum exact;
            bool finite = true;
            for (const auto& term : terms) {
                exact.add(part_of(term.value));
                finite &= std::isfinite(part_of(term.value));
            }
            to = exact.rounded<Part>();
            return !finite || std::isfinite(static_cast<double>(to));
        };
        if constexpr (kIsComplexType<T>) {
            typename T::value_type parts[2] = {};
            const bool holds = add(parts[0], [](const auto& value) { return value.real(); }) &&
                               add(parts[1], [](const auto& value) { return value.imag(); });
            sum = T(parts[0], parts[1]);
            return holds;
        } else {
            return add(sum, [](double value) { return value; });
        }
    }
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

/// Parses the entries of a chunk that lie in the block.
template <class T>
using ParseChunk = std::function<void(CoordinateChunk<T>&)>;

/// Only this is compiled for each field.
template <class T>
ParseChunk<T> parser_of(const BodyContext& context, const Block& block, const Owners& owners) {
    return visit_field(context.header.field, [&]<Field F>(FieldTag<F>) -> ParseChunk<T> {
        return EntryParser<F, T>(context, block, owners);
    });
}

template <class T>
class CoordinateText final : public CoordinateBody {
  public:
    explicit CoordinateText(const BodyContext& context) : context_(context) {}

    void read(const Block& block, const MutableMatrixView& out) override {
        clear(out);
        const Owners owners(block.rows, context_.threads);
        std::vector<Terms<T>> later(owners.count);
        parse_all<T>(context_, block, owners, [&](std::span<const CoordinateChunk<T>> chunks) {
            each(owners, [&](std::size_t owner) { put(chunks, owner, out, later[owner]); });
            require_room(later);
        });
        if (std::ranges::all_of(later, [](const Terms<T>& terms) { return terms.empty(); })) return;
        if constexpr (std::is_same_v<T, Wide<T>>) {
            each(owners, [&](std::size_t owner) {
                add_first_terms(out, later[owner]);
                put_sums(later[owner], block, out);
            });
        } else {
            add_again(owners, later, block, out);
        }
    }

    [[nodiscard]] std::uint64_t cost_of_text() const override {
        // "1 1 1" and a line feed; what grows has up to twice the room that it needs, and the old one beside
        // it.
        constexpr std::uint64_t kGrowth = 3;
        const std::uint64_t least = 4 + (context_.header.field == Field::pattern   ? 0
                                         : context_.header.field == Field::complex ? 4
                                                                                   : 2);
        const std::uint64_t entries = context_.header.symmetry == Symmetry::general ? 1 : 2;
        return 2 + kGrowth * entries * sizeof(Entry<Wide<T>>) / least;
    }

    void read_entries(const std::function<void(const Entries&)>& take) override {
        const Owners one(context_.header.shape.rows, 1);
        parse_all<T>(context_, Block::whole(context_.header.shape), one,
                     [&](std::span<const CoordinateChunk<T>> chunks) {
                         for (const CoordinateChunk<T>& chunk : chunks) {
                             const std::span<const Entry<T>> entries = chunk.owned.front().entries();
                             if (!entries.empty()) take({context_.type, std::ssize(entries), entries.data()});
                         }
                     });
    }

  private:
    /// A piece of the file, whose entries were seen.
    struct Piece {
        Cursor start;
        Bounds bounds;
    };

    /// Parses the entries that lie in the block as numbers of type V, some chunks at a time. Once all of a
    /// plain file was seen, only the pieces that may hold some.
    template <class V, class Take>
    void parse_all(const BodyContext& context, const Block& block, const Owners& owners, const Take& take) {
        const ParseChunk<V> parse = parser_of<V>(context, block, owners);
        Batches<CoordinateChunk<V>> batches(context, cost_of_text());
        if (!pieces_.empty()) return parse_some(batches, parse, block, take);
        std::vector<Piece> pieces;
        Cursor cursor{context.header.body_offset, context.header.body_line, 0};
        while (batches.next(cursor, batches.most_bytes(), parse, locate_entry)) {
            for (const CoordinateChunk<V>& chunk : batches.chunks())
                pieces.push_back({chunk.start, chunk.bounds});
            take(batches.chunks());
        }
        batches.require_all(cursor);
        if (context.source.text_bytes() == 0) return;
        pieces_ = std::move(pieces);
        end_ = cursor.offset;
    }

    template <class V, class Take>
    void parse_some(Batches<CoordinateChunk<V>>& batches, const ParseChunk<V>& parse, const Block& block,
                    const Take& take) const {
        const auto meets = [&](const Piece& piece) {
            const Block across{block.col, block.row, block.cols, block.rows};
            return piece.bounds.meet(block) ||
                   (context_.header.symmetry != Symmetry::general && piece.bounds.meet(across));
        };
        for (auto first = pieces_.begin(); first != pieces_.end();) {
            first = std::find_if(first, pieces_.end(), meets);
            if (first == pieces_.end()) return;
            const auto last = std::find_if_not(first, pieces_.end(), meets);
            const std::uint64_t end = last == pieces_.end() ? end_ : last->start.offset;
            for (Cursor cursor = first->start; cursor.offset < end;) {
                if (!batches.next(cursor, end - cursor.offset, parse, locate_entry)) return;
                take(batches.chunks());
            }
            first = last;
        }
    }

    /// Calls `act(owner)` for every owner, on all threads.
    template <class Act>
    void each(const Owners& owners, const Act& act) const {
        parallel_for(static_cast<std::int64_t>(owners.count), 1, context_.threads,
                     [&](std::int64_t owner, std::int64_t) { act(static_cast<std::size_t>(owner)); });
    }

    void clear(const MutableMatrixView& out) const {
        const std::size_t row_bytes = static_cast<std::size_t>(out.shape.cols) * sizeof(T);
        if (row_bytes == 0) return;
        const std::int64_t grain = 1 + (std::int64_t{1} << 20) / (static_cast<std::int64_t>(row_bytes) + 1);
        parallel_for(out.shape.rows, grain, context_.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                std::memset(static_cast<void*>(out.row<T>(i)), 0, row_bytes);
            }
        });
    }

    /// Elements that have several entries are few, or the memory has no limit.
    void require_room(const std::vector<Terms<T>>& later) const {
        std::uint64_t count = 0;
        for (const Terms<T>& terms : later) count += terms.size();
        const std::uint64_t bytes = 3 * count * sizeof(Term<Wide<T>>);  // they grow, and are added up
        if (bytes <= context_.memory) return;
        throw Error(ErrorCode::memory, context_.name + ": adding up entries for the same elements, " +
                                           std::to_string(count) + " so far, needs more than the " +
                                           format_bytes(context_.memory) + " that the limit leaves for it");
    }

    /// Puts the entries of one owner in their places. Those that come where another one is go to `later`.
    static void put(std::span<const CoordinateChunk<T>> chunks, std::size_t owner,
                    const MutableMatrixView& out, Terms<T>& later) {
        constexpr std::size_t kAhead = 16;  // entries lie anywhere in the matrix: fetch theirs in time
        for (const CoordinateChunk<T>& chunk : chunks) {
            const std::span<const Entry<T>> entries = chunk.owned[owner].entries();
            for (std::size_t n = 0; n < entries.size(); ++n) {
                const Entry<T>& ahead = entries[std::min(n + kAhead, entries.size() - 1)];
                __builtin_prefetch(&out.row<T>(ahead.row)[ahead.col], 1);
                const Entry<T>& entry = entries[n];
                T& place = out.row<T>(entry.row)[entry.col];
                if (is_zero(place)) {
                    place = entry.value;
                } else if (!is_zero(entry.value)) {
                    later.push_back({entry.row * out.shape.cols + entry.col, entry.value});
                }
            }
        }
    }

    /// Adds to `terms`, for each of their elements, the entry that came first.
    static void add_first_terms(const MutableMatrixView& out, Terms<T>& terms) {
        std::ranges::sort(terms, {}, &Term<T>::element);
        const std::size_t count = terms.size();
        for (std::size_t n = 0; n < count; ++n) {
            const std::int64_t element = terms[n].element;
            if (n > 0 && terms[n - 1].element == element) continue;
            terms.push_back({element, out.row<T>(element / out.shape.cols)[element % out.shape.cols]});
        }
    }

    /// The elements of `later`, from a second reading in a wide type: in this one, every entry would be
    /// rounded before it is added.
    void add_again(const Owners& owners, const std::vector<Terms<T>>& later, const Block& block,
                   const MutableMatrixView& out) {
        if (!context_.source.rereadable()) {
            throw Error(ErrorCode::input,
                        context_.name +
                            ": found several entries for one element, which can only be added in " +
                            std::string(name_of(context_.type)) +
                            " in a second reading; expected a file, or no --type");
        }
        std::vector<std::vector<std::int64_t>> elements(owners.count);
        each(owners, [&](std::size_t owner) {
            for (const Term<T>& term : later[owner]) elements[owner].push_back(term.element);
            std::ranges::sort(elements[owner]);
            elements[owner].erase(std::unique(elements[owner].begin(), elements[owner].end()),
                                  elements[owner].end());
        });
        BodyContext context = context_;
        context.type = kIsComplexType<T> ? Type::c128 : Type::f64;
        std::vector<Terms<Wide<T>>> terms(owners.count);
        parse_all<Wide<T>>(context, block, owners, [&](std::span<const CoordinateChunk<Wide<T>>> chunks) {
            each(owners, [&](std::size_t owner) {
                for (const CoordinateChunk<Wide<T>>& chunk : chunks) {
                    for (const Entry<Wide<T>>& entry : chunk.owned[owner].entries()) {
                        const std::int64_t element = entry.row * out.shape.cols + entry.col;
                        if (std::ranges::binary_search(elements[owner], element))
                            terms[owner].push_back({element, entry.value});
                    }
                }
            });
        });
        each(owners, [&](std::size_t owner) { put_sums(terms[owner], block, out); });
    }

    /// Writes the sum of the terms of each element.
    void put_sums(Terms<Wide<T>>& terms, const Block& block, const MutableMatrixView& out) const {
        std::ranges::sort(terms, {}, &Term<Wide<T>>::element);
        for (auto first = terms.begin(); first != terms.end();) {
            const std::int64_t element = first->element;
            const auto last =
                std::find_if(first, terms.end(), [&](const auto& term) { return term.element != element; });
            const std::int64_t row = element / out.shape.cols;
            const std::int64_t col = element % out.shape.cols;
            if (!sum_of<T>({first, last}, out.row<T>(row)[col])) refuse_sum(row + block.row, col + block.col);
            first = last;
        }
    }

    [[noreturn]] void refuse_sum(std::int64_t row, std::int64_t col) const {
        throw Error(ErrorCode::input, context_.name + ": row " + std::to_string(row + 1) + ", column " +
                                          std::to_string(col + 1) +
                                          ": found entries whose sum passes the range, expected a sum that " +
                                          std::string(name_of(context_.type)) + " can hold");
    }

    BodyContext context_;
    std::vector<Piece> pieces_;  ///< of a plain file, once all of it was seen
    std::uint64_t end_ = 0;      ///< of the last one
};

}  // namespace

std::unique_ptr<CoordinateBody> open_coordinate(const BodyContext& context) {
    return visit_type(context.type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<CoordinateBody> {
        return std::make_unique<CoordinateText<T>>(context);
    });
}

}  // namespace gpumat::formats::matrix_market
