#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/exact_sum.hpp"
#include "core/parallel.hpp"
#include "core/sparse/coo.hpp"
#include "formats/matrix_market/text/body.hpp"
#include "formats/matrix_market/text/entries.hpp"
#include "formats/matrix_market/text/sides.hpp"

namespace gpumat::formats::matrix_market {
namespace {

// Only parsing and adding know the type of the elements. Placing sees their bits, and is compiled once for
// each size.

template <std::size_t Bytes>
struct BitsOf {
    using type = unsigned __int128;
};
template <>
struct BitsOf<1> {
    using type = std::uint8_t;
};
template <>
struct BitsOf<2> {
    using type = std::uint16_t;
};
template <>
struct BitsOf<4> {
    using type = std::uint32_t;
};
template <>
struct BitsOf<8> {
    using type = std::uint64_t;
};
template <class T>
using Bits = typename BitsOf<sizeof(T)>::type;

/// One of several entries for the same element, with the bits of a wide value.
template <class W>
struct Term {
    std::int64_t element;  ///< in the block, row after row
    W bits;
};

template <class W>
using Terms = std::vector<Term<W>>;

/// Adds terms for the same element and rounds the sum once, to the type that is delivered; false where it is
/// beyond the type's range.
template <class W>
using AddTerms = bool (*)(std::span<const Term<W>> terms, std::byte* to);

template <class T, class W>
bool add_terms(std::span<const Term<W>> terms, std::byte* to) {
    std::vector<Wide<T>> values;
    values.reserve(terms.size());
    for (const Term<W>& term : terms)
        values.push_back(std::bit_cast<Wide<T>>(static_cast<Bits<Wide<T>>>(term.bits)));
    T sum{};
    const bool holds = add_exactly(values, sum);
    std::memcpy(to, &sum, sizeof sum);
    return holds;
}

/// The bits that are 0 in a zero, of either sign.
template <class T>
Bits<T> bits_of_zero() {
    if constexpr (std::integral<T>) {
        return static_cast<Bits<T>>(~Bits<T>{0});
    } else if constexpr (kIsComplex<T>) {
        return ~std::bit_cast<Bits<T>>(T(-0.0, -0.0));
    } else {
        return static_cast<Bits<T>>(~std::bit_cast<Bits<T>>(T(-0.0)));
    }
}

class CoordinateText : public CoordinateBody {
  public:
    CoordinateText(const BodyContext& context, Type wide)
        : context_(context), wide_(context), entry_bytes_(2 * sizeof(std::int64_t) + size_of(wide)) {
        wide_.type = wide;
    }

    [[nodiscard]] std::uint64_t cost_of_text() const override {
        // "1 1 1" and a line feed; what grows has up to twice the room that it needs, and the old one beside
        // it.
        constexpr std::uint64_t kGrowth = 3;
        const std::uint64_t least = 4 + (context_.header.field == Field::pattern   ? 0
                                         : context_.header.field == Field::complex ? 4
                                                                                   : 2);
        const std::uint64_t entries = context_.header.symmetry == Symmetry::general ? 1 : 2;
        return 2 + kGrowth * entries * entry_bytes_ / least;
    }

    void read_entries(const std::function<void(const Entries&)>& take) override {
        const Owners one(context_.header.shape.rows, 1);
        parse_all(context_, Block::whole(context_.header.shape), one,
                  [&](std::span<const CoordinateChunk> chunks) {
                      for (const CoordinateChunk& chunk : chunks) {
                          const EntryList& entries = chunk.owned.front();
                          if (entries.count() == 0) continue;
                          take({context_.type, static_cast<std::int64_t>(entries.count()), entries.data()});
                      }
                  });
    }

  protected:
    using TakeChunks = std::function<void(std::span<const CoordinateChunk>)>;

    [[nodiscard]] const BodyContext& context() const { return context_; }
    /// The same, of the wide type.
    [[nodiscard]] const BodyContext& wide_context() const { return wide_; }

    /// Parses the entries that lie in the block as the context's type, some chunks at a time. Once all of a
    /// plain file was seen, only the pieces that may hold some.
    void parse_all(const BodyContext& context, const Block& block, const Owners& owners,
                   const TakeChunks& take) {
        const ParseEntries parse = entry_parser(context, block, owners);
        Batches<CoordinateChunk> batches(context, cost_of_text());
        if (!pieces_.empty()) return parse_some(batches, parse, block, take);
        parse_whole(batches, parse, take);
    }

    /// Parses all entries as arrays, of values of the context's type or of those of the texts.
    Coo parse_arrays(ValueTexts* texts) {
        const FileHeader& header = context_.header;
        Coo entries(header.shape, texts == nullptr ? context_.type : texts->value_type(),
                    most_entries(header), context_.name);
        Batches<CoordinateChunk> batches(context_, texts == nullptr ? cost_of_text() : 2 * cost_of_text());
        const auto hashes = texts == nullptr
                                ? std::nullopt
                                : EntryHashes::of(header.shape, context_.type, most_entries(header));
        EntryHashes::Sums sums;
        std::int64_t zeros = 0;
        std::vector<EntryPiece> found;
        const ParseEntries parse = array_parser(context_, texts, hashes ? &*hashes : nullptr);
        parse_whole(batches, parse, [&](std::span<const CoordinateChunk> chunks) {
            found.clear();
            for (const CoordinateChunk& chunk : chunks) {
                found.push_back(chunk.arrays.piece());
                sums.add(chunk.sums);
                zeros += chunk.zeros;
            }
            entries.add(found, context_.threads);
        });
        if (hashes) texts->know({hashes->given(sums), hashes->transposed(sums), zeros});
        return entries;
    }

    /// Calls `act(owner)` for every owner, on all threads.
    void each(const Owners& owners, const std::function<void(std::size_t owner)>& act) const {
        parallel_for(static_cast<std::int64_t>(owners.count()), 1, context_.threads,
                     [&](std::int64_t owner, std::int64_t) { act(static_cast<std::size_t>(owner)); });
    }

    void clear(const MutableMatrixView& out) const {
        const std::size_t element = size_of(context_.type);
        const std::size_t row_bytes = static_cast<std::size_t>(out.shape.cols) * element;
        if (row_bytes == 0) return;
        const std::int64_t grain = 1 + (std::int64_t{1} << 20) / (static_cast<std::int64_t>(row_bytes) + 1);
        parallel_for(out.shape.rows, grain, context_.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                std::memset(out.data + static_cast<std::size_t>(i * out.ld) * element, 0, row_bytes);
        });
    }

    /// Elements that have several entries are few, or the memory has no limit.
    void require_room(std::size_t terms, std::size_t term_bytes) const {
        const std::uint64_t bytes = 3 * terms * term_bytes;  // they grow, and are added up
        if (bytes <= context_.memory) return;
        throw Error(ErrorCode::memory, context_.name + ": adding up entries for the same elements, " +
                                           std::to_string(terms) + " so far, needs more than the " +
                                           format_bytes(context_.memory) + " that the limit leaves for it");
    }

    /// In the type that is delivered, every entry would be rounded before it is added.
    void require_second_reading() const {
        if (context_.source.rereadable()) return;
        throw Error(ErrorCode::input,
                    context_.name + ": found several entries for one element, which can only be added in " +
                        std::string(name_of(context_.type)) +
                        " in a second reading; expected a file, or no --type");
    }

    [[noreturn]] void refuse_sum(std::int64_t row, std::int64_t col) const {
        throw Error(ErrorCode::input, context_.name + ": row " + std::to_string(row + 1) + ", column " +
                                          std::to_string(col + 1) +
                                          ": found entries whose sum passes the range, expected a sum that " +
                                          std::string(name_of(context_.type)) + " can hold");
    }

  private:
    /// A piece of the file, whose entries were seen.
    struct Piece {
        Cursor start;
        Bounds bounds;
    };

    /// Parses all of the file, and keeps what its pieces are.
    void parse_whole(Batches<CoordinateChunk>& batches, const ParseEntries& parse, const TakeChunks& take) {
        std::vector<Piece> pieces;
        bool above = false;
        bool below = false;
        Cursor cursor{context_.header.body_offset, context_.header.body_line, 0};
        while (batches.next(cursor, batches.most_bytes(), parse, locate_entry)) {
            for (const CoordinateChunk& chunk : batches.chunks()) {
                pieces.push_back({chunk.start, chunk.bounds});
                above |= chunk.above;
                below |= chunk.below;
            }
            take(batches.chunks());
        }
        batches.require_all(cursor);
        if (above && below && !std::exchange(one_side_, true)) require_one_side(context_);
        if (context_.source.text_bytes() == 0) return;
        pieces_ = std::move(pieces);
        end_ = cursor.offset;
    }

    void parse_some(Batches<CoordinateChunk>& batches, const ParseEntries& parse, const Block& block,
                    const TakeChunks& take) const {
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

    BodyContext context_;
    BodyContext wide_;
    std::size_t entry_bytes_;    ///< of a wide entry
    std::vector<Piece> pieces_;  ///< of a plain file, once all of it was seen
    bool one_side_ = false;      ///< no pair of elements has entries on both sides of the diagonal
    std::uint64_t end_ = 0;      ///< of the last one
};

/// Places elements with the bits B, and adds with those of wide values, W.
template <class B, class W>
class PlacedText final : public CoordinateText {
  public:
    PlacedText(const BodyContext& context, Type wide, B bits_of_zero, AddTerms<W> add)
        : CoordinateText(context, wide), bits_of_zero_(bits_of_zero), add_(add) {}

    void read(const Block& block, const MutableMatrixView& out) override {
        clear(out);
        const Owners owners(block.rows, context().threads);
        std::vector<Terms<W>> later(owners.count());
        std::vector<std::vector<std::int64_t>> zeros(owners.count());
        parse_all(context(), block, owners, [&](std::span<const CoordinateChunk> chunks) {
            each(owners, [&](std::size_t owner) { put(chunks, owner, out, later[owner], zeros[owner]); });
            std::size_t count = 0;
            for (std::size_t owner = 0; owner < owners.count(); ++owner)
                count += later[owner].size() + zeros[owner].size();
            require_room(count, sizeof(Term<W>));
        });
        each(owners, [&](std::size_t owner) { add_beside_others(out, zeros[owner], later[owner]); });
        if (std::ranges::all_of(later, [](const Terms<W>& terms) { return terms.empty(); })) return;
        if (context().type == wide_context().type) {
            each(owners, [&](std::size_t owner) {
                add_first_terms(out, later[owner]);
                put_sums(later[owner], block, out);
            });
        } else {
            add_again(owners, later, block, out);
        }
    }

    Csr read_sparse(std::int64_t& duplicates) override {
        Merged merged;
        Csr matrix = to_csr(parse_arrays(nullptr), context().threads, context().name, merged);
        duplicates = merged.duplicates;
        if (!merged.unadded.empty()) add_again(merged.unadded, matrix.view());
        return matrix;
    }

    Csr read_as_text(ValueTexts& texts, std::int64_t& duplicates) override {
        texts.convert_by(text_converter(context().type));
        Csr rows = sorted_rows(parse_arrays(&texts), context().threads, context().name, duplicates);
        if (duplicates == 0 && !texts.full()) return rows;
        Csr matrix = with_numbers(rows, texts);
        texts.drop();
        if (duplicates == 0) return matrix;
        rows = {};
        Merged merged;
        merge_duplicates(matrix, context().name, merged);
        if (!merged.unadded.empty()) add_again(merged.unadded, matrix.view());
        return matrix;
    }

  private:
    [[nodiscard]] Csr with_numbers(const Csr& rows, const ValueTexts& texts) const {
        const CsrView places = rows.view();
        const std::size_t bytes = static_cast<std::size_t>(places.entries) * index_bytes(places.shape);
        Buffer columns(bytes);
        if (bytes > 0) std::memcpy(columns.data(), places.columns, bytes);
        const std::size_t from_bytes = size_of(places.type);
        const std::size_t to_bytes = size_of(texts.type());
        Buffer values(static_cast<std::size_t>(places.entries) * to_bytes);
        constexpr std::int64_t kGrain = std::int64_t{1} << 14;
        parallel_for(places.entries, kGrain, context().threads, [&](std::int64_t begin, std::int64_t end) {
            const auto first = static_cast<std::size_t>(begin);
            texts.to_numbers(places.values + first * from_bytes, end - begin,
                             values.data() + first * to_bytes);
        });
        Csr matrix(places.shape, texts.type(), places.entries, std::move(columns), std::move(values),
                   context().name);
        std::copy_n(places.pointers, places.shape.rows + 1, matrix.view().pointers);
        return matrix;
    }

    static std::byte* place_of(const MutableMatrixView& out, std::int64_t row, std::int64_t col) {
        return out.data + static_cast<std::size_t>(row * out.ld + col) * sizeof(B);
    }
    template <class V>
    static Entry<V> entry_at(const std::byte* entries, std::size_t n) {
        Entry<V> entry;
        std::memcpy(&entry, entries + n * sizeof entry, sizeof entry);
        return entry;
    }

    /// Puts the entries of one owner in their places. Those that come where another one is go to `later`, and
    /// the elements of what may be zero only in the type that is delivered to `zeros`.
    void put(std::span<const CoordinateChunk> chunks, std::size_t owner, const MutableMatrixView& out,
             Terms<W>& later, std::vector<std::int64_t>& zeros) const {
        const bool rounds = context().type != wide_context().type;
        constexpr std::size_t kAhead = 16;  // entries lie anywhere in the matrix: fetch theirs in time
        for (const CoordinateChunk& chunk : chunks) {
            const std::byte* const entries = chunk.owned[owner].data();
            const std::size_t count = chunk.owned[owner].count();
            for (std::size_t n = 0; n < count; ++n) {
                const Entry<B> ahead = entry_at<B>(entries, std::min(n + kAhead, count - 1));
                __builtin_prefetch(place_of(out, ahead.row, ahead.col), 1);
                const Entry<B> entry = entry_at<B>(entries, n);
                std::byte* const place = place_of(out, entry.row, entry.col);
                B there;
                std::memcpy(&there, place, sizeof there);
                const bool zero = (entry.value & bits_of_zero_) == 0;
                if (rounds && zero) zeros.push_back(entry.row * out.shape.cols + entry.col);
                if ((there & bits_of_zero_) == 0) {
                    std::memcpy(place, &entry.value, sizeof entry.value);
                } else if (!zero) {
                    later.push_back({entry.row * out.shape.cols + entry.col, entry.value});
                }
            }
        }
    }

    /// Adds to `later` the elements of `zeros` that have another entry.
    void add_beside_others(const MutableMatrixView& out, std::vector<std::int64_t>& zeros,
                           Terms<W>& later) const {
        std::ranges::sort(zeros);
        for (std::size_t n = 0; n < zeros.size(); ++n) {
            const std::byte* const place =
                place_of(out, zeros[n] / out.shape.cols, zeros[n] % out.shape.cols);
            B there;
            std::memcpy(&there, place, sizeof there);
            if ((there & bits_of_zero_) != 0 || (n > 0 && zeros[n] == zeros[n - 1]))
                later.push_back({zeros[n], {}});
        }
    }

    /// Adds to `terms`, for each of their elements, the entry that came first.
    static void add_first_terms(const MutableMatrixView& out, Terms<W>& terms) {
        std::ranges::sort(terms, {}, &Term<W>::element);
        const std::size_t count = terms.size();
        for (std::size_t n = 0; n < count; ++n) {
            const std::int64_t element = terms[n].element;
            if (n > 0 && terms[n - 1].element == element) continue;
            B first;
            std::memcpy(&first, place_of(out, element / out.shape.cols, element % out.shape.cols),
                        sizeof first);
            terms.push_back({element, first});
        }
    }

    /// Adds the elements of `later`, from a second reading in the wide type.
    void add_again(const Owners& owners, const std::vector<Terms<W>>& later, const Block& block,
                   const MutableMatrixView& out) {
        require_second_reading();
        std::vector<std::vector<std::int64_t>> elements(owners.count());
        each(owners, [&](std::size_t owner) {
            for (const Term<W>& term : later[owner]) elements[owner].push_back(term.element);
            std::ranges::sort(elements[owner]);
            elements[owner].erase(std::unique(elements[owner].begin(), elements[owner].end()),
                                  elements[owner].end());
        });
        std::vector<Terms<W>> terms(owners.count());
        parse_all(wide_context(), block, owners, [&](std::span<const CoordinateChunk> chunks) {
            each(owners, [&](std::size_t owner) {
                for (const CoordinateChunk& chunk : chunks) {
                    for (std::size_t n = 0; n < chunk.owned[owner].count(); ++n) {
                        const Entry<W> entry = entry_at<W>(chunk.owned[owner].data(), n);
                        const std::int64_t element = entry.row * out.shape.cols + entry.col;
                        if (std::ranges::binary_search(elements[owner], element))
                            terms[owner].push_back({element, entry.value});
                    }
                }
            });
        });
        each(owners, [&](std::size_t owner) { put_sums(terms[owner], block, out); });
    }

    /// Adds these elements, from a second reading in the wide type.
    void add_again(const std::vector<Element>& elements, const MutableCsrView& matrix) {
        require_second_reading();
        Terms<W> terms;  // their elements are numbered as they are here
        const Block whole = Block::whole(matrix.shape);
        const Owners one(matrix.shape.rows, 1);
        parse_all(wide_context(), whole, one, [&](std::span<const CoordinateChunk> chunks) {
            for (const CoordinateChunk& chunk : chunks) {
                for (std::size_t n = 0; n < chunk.owned.front().count(); ++n) {
                    const Entry<W> entry = entry_at<W>(chunk.owned.front().data(), n);
                    const Element element{entry.row, entry.col};
                    const auto found = std::lower_bound(elements.begin(), elements.end(), element);
                    if (found != elements.end() && *found == element)
                        terms.push_back({found - elements.begin(), entry.value});
                }
            }
            require_room(terms.size(), sizeof(Term<W>));
        });
        std::ranges::stable_sort(terms, {}, &Term<W>::element);
        for (auto first = terms.begin(); first != terms.end();) {
            const std::int64_t number = first->element;
            const auto last =
                std::find_if(first, terms.end(), [&](const auto& term) { return term.element != number; });
            const Element& element = elements[static_cast<std::size_t>(number)];
            if (!add_({first, last}, value_at(matrix, element))) refuse_sum(element.row, element.col);
            first = last;
        }
    }

    /// The value of an element that has an entry.
    static std::byte* value_at(const MutableCsrView& matrix, const Element& element) {
        return visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
            const I* const columns = matrix.columns_as<I>();
            const I* const found =
                std::lower_bound(columns + matrix.pointers[element.row],
                                 columns + matrix.pointers[element.row + 1], static_cast<I>(element.col));
            return matrix.values + static_cast<std::size_t>(found - columns) * sizeof(B);
        });
    }

    /// Writes the sum of the terms of each element.
    void put_sums(Terms<W>& terms, const Block& block, const MutableMatrixView& out) const {
        std::ranges::sort(terms, {}, &Term<W>::element);
        for (auto first = terms.begin(); first != terms.end();) {
            const std::int64_t element = first->element;
            const auto last =
                std::find_if(first, terms.end(), [&](const auto& term) { return term.element != element; });
            const std::int64_t row = element / out.shape.cols;
            const std::int64_t col = element % out.shape.cols;
            if (!add_({first, last}, place_of(out, row, col))) refuse_sum(row + block.row, col + block.col);
            first = last;
        }
    }

    B bits_of_zero_;
    AddTerms<W> add_;
};

}  // namespace

std::int64_t most_entries(const FileHeader& header) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (header.symmetry == Symmetry::general) return header.entries;
    return header.entries > kMost / 2 ? kMost : 2 * header.entries;
}

std::unique_ptr<CoordinateBody> open_coordinate(const BodyContext& context) {
    return visit_type(context.type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<CoordinateBody> {
        using B = Bits<T>;
        using W = std::conditional_t<kIsComplex<T>, Bits<std::complex<double>>, std::uint64_t>;
        static_assert(sizeof(Entry<T>) == sizeof(Entry<B>));
        const Type wide = std::integral<T> ? context.type : kIsComplex<T> ? Type::c128 : Type::f64;
        return std::make_unique<PlacedText<B, W>>(context, wide, bits_of_zero<T>(), &add_terms<T, W>);
    });
}

}  // namespace gpumat::formats::matrix_market
