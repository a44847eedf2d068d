#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "formats/matrix_market/numbers/value_store.hpp"
#include "formats/matrix_market/text/body.hpp"
#include "formats/matrix_market/text/chunks.hpp"

namespace gpumat::formats::matrix_market {
namespace {

struct ArrayChunk : Chunk {
    Buffer values;  ///< `count` elements
};

/// Any number of values a line.
template <Field F, class T>
void parse_values(ArrayChunk& chunk, Type type) {
    // A value and the blank after it take two bytes or more.
    const std::size_t most = chunk.text.size() / 2 + 1;
    if (chunk.values.size() < most * sizeof(T)) chunk.values = Buffer(most * sizeof(T));
    T* const values = reinterpret_cast<T*>(chunk.values.data());
    T* value = values;
    const char* p = chunk.text.data();
    const char* const end = p + chunk.text.size();
    std::int64_t lines = 0;
    try {
        while (p != end) {
            for (p = skip_blanks(p); !at_line_end(p); p = skip_blanks(p)) {
                parse_value<F>(p, *value, type);
                ++value;
            }
            p = past_line_end(p);
            ++lines;
        }
    } catch (const Malformed&) {
        chunk.count = value - values;
        throw;
    }
    chunk.count = value - values;
    chunk.lines = lines;
}

/// Value `n` of a well-formed text.
const char* locate_value(std::string_view text, std::int64_t n, Field field) {
    const char* p = text.data();
    const std::int64_t tokens = field == Field::complex ? 2 * n : n;
    const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    for (std::int64_t i = 0;; ++i) {
        while (is_space(*p)) ++p;
        if (i == tokens) return p;
        while (!is_space(*p)) ++p;
    }
}

/// Where the stored values of each column begin.
struct Columns {
    Symmetry symmetry;
    std::int64_t rows;
    bool zeros = false;  ///< of a skew-symmetric matrix, the diagonal is stored too

    [[nodiscard]] std::int64_t first_row(std::int64_t column) const {
        if (symmetry == Symmetry::general) return 0;
        return symmetry == Symmetry::skew_symmetric && !zeros ? column + 1 : column;
    }
    [[nodiscard]] std::int64_t start(std::int64_t column) const {
        if (symmetry == Symmetry::general) return column * rows;
        // The sum of the lengths rows − first_row(c) of the columns before. One of the factors is even.
        const std::int64_t longest = rows - first_row(0);
        const std::int64_t twice = 2 * longest - column + 1;
        return column % 2 == 0 ? column / 2 * twice : twice / 2 * column;
    }
    /// The column that holds the stored value `index`.
    [[nodiscard]] std::int64_t column_of(std::int64_t index) const {
        if (symmetry == Symmetry::general) return index / rows;
        std::int64_t low = 0;  // start(low) <= index < start(high)
        std::int64_t high = rows;
        while (high - low > 1) {
            const std::int64_t middle = low + (high - low) / 2;
            (start(middle) <= index ? low : high) = middle;
        }
        return low;
    }
};

/// Puts values into a block of the matrix.
class Placement {
  public:
    Placement(const FileHeader& header, bool zeros, const Block& block, const MutableMatrixView& out)
        : columns_{header.symmetry, header.shape.rows, zeros}, block_(block), out_(out) {}
    virtual ~Placement() = default;
    Placement(const Placement&) = delete;
    Placement& operator=(const Placement&) = delete;

    /// The stored values [first, last) that the block needs.
    [[nodiscard]] std::pair<std::int64_t, std::int64_t> needed() const {
        if (block_.rows == 0 || block_.cols == 0) return {0, 0};
        if (columns_.symmetry == Symmetry::general) {
            return {columns_.start(block_.col), columns_.start(block_.col + block_.cols)};
        }
        return {columns_.start(std::min(block_.row, block_.col)),
                columns_.start(std::max(block_.row + block_.rows, block_.col + block_.cols))};
    }

    /// Puts `count` values, the first of them stored value `index`. Returns where a value contradicts the
    /// symmetry, or `count`.
    virtual std::int64_t put(const std::byte* values, std::int64_t index, std::int64_t count,
                             MirrorFault& fault) const = 0;

    /// Rows [row, row + length) of `columns` columns from `column` on, `length` values a column.
    virtual void put_columns(const std::byte* values, std::int64_t row, std::int64_t length,
                             std::int64_t column, std::int64_t columns) const = 0;

    /// Where the symmetry stores no diagonal.
    virtual void zero_diagonal() const = 0;

  protected:
    Columns columns_;
    Block block_;
    const MutableMatrixView& out_;
};

/// The file runs down the columns, memory along the rows: columns that fill a cache line go together.
constexpr std::int64_t columns_together(std::size_t element) {
    return std::max<std::int64_t>(4, 64 / static_cast<std::int64_t>(element));
}

template <class T>
class TypedPlacement final : public Placement {
  public:
    using Placement::Placement;

    std::int64_t put(const std::byte* bytes, std::int64_t index, std::int64_t count,
                     MirrorFault& fault) const override {
        const T* const values = reinterpret_cast<const T*>(bytes);
        if (columns_.symmetry != Symmetry::general) return put_triangle(values, index, count, fault);
        const std::int64_t rows = columns_.rows;
        for (std::int64_t done = 0; done < count;) {
            const std::int64_t j = (index + done) / rows;
            const std::int64_t i = (index + done) % rows;
            const std::int64_t left = count - done;
            const std::int64_t full = i == 0 ? std::min(left / rows, columns_together(sizeof(T))) : 0;
            const std::int64_t columns = std::max<std::int64_t>(1, full);
            const std::int64_t length = full > 0 ? rows : std::min(rows - i, left);
            put_group(values + done, i, length, j, columns);
            done += columns * length;
        }
        return count;
    }

    void put_columns(const std::byte* values, std::int64_t row, std::int64_t length, std::int64_t column,
                     std::int64_t columns) const override {
        put_group(reinterpret_cast<const T*>(values), row, length, column, columns);
    }

    void zero_diagonal() const override {
        const std::int64_t end = std::min(block_.row + block_.rows, block_.col + block_.cols);
        for (std::int64_t d = std::max(block_.row, block_.col); d < end; ++d)
            out_.row<T>(d - block_.row)[d - block_.col] = T{};
    }

  private:
    void put_group(const T* values, std::int64_t row, std::int64_t length, std::int64_t column,
                   std::int64_t columns) const {
        const std::int64_t row_begin = std::max(row, block_.row);
        const std::int64_t row_end = std::min(row + length, block_.row + block_.rows);
        const std::int64_t col_begin = std::max(column, block_.col);
        const std::int64_t col_end = std::min(column + columns, block_.col + block_.cols);
        for (std::int64_t i = row_begin; i < row_end; ++i) {
            const T* from = values + (i - row);
            T* to = out_.row<T>(i - block_.row) - block_.col;
            for (std::int64_t j = col_begin; j < col_end; ++j) to[j] = from[(j - column) * length];
        }
    }

    void put_one(std::int64_t i, std::int64_t j, const T& value) const {
        i -= block_.row;
        j -= block_.col;
        if (i >= 0 && i < block_.rows && j >= 0 && j < block_.cols) out_.row<T>(i)[j] = value;
    }

    std::int64_t put_triangle(const T* values, std::int64_t index, std::int64_t count,
                              MirrorFault& fault) const {
        std::int64_t j = columns_.column_of(index);
        std::int64_t i = columns_.first_row(j) + index - columns_.start(j);
        for (std::int64_t done = 0; done < count; ++done, ++i) {
            if (i == columns_.rows) {
                ++j;
                i = columns_.first_row(j);
            }
            T mirrored = values[done];
            fault = i == j ? check_diagonal(columns_.symmetry, values[done])
                           : mirror(columns_.symmetry, values[done], mirrored);
            if (fault == MirrorFault::zero_diagonal) fault = MirrorFault::none;
            if (fault != MirrorFault::none) return done;
            put_one(i, j, values[done]);
            put_one(j, i, mirrored);
        }
        return count;
    }
};

std::unique_ptr<Placement> placement_of(const BodyContext& context, bool zeros, const Block& block,
                                        const MutableMatrixView& out) {
    return visit_type(context.type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<Placement> {
        return std::make_unique<TypedPlacement<T>>(context.header, zeros, block, out);
    });
}

using ParseChunk = std::function<void(ArrayChunk&)>;

/// Only this is compiled for each field.
ParseChunk parser_of(Field field, Type type) {
    return visit_type(type, [&]<class T>(TypeTag<T>) {
        return visit_field(field, [&]<Field F>(FieldTag<F>) -> ParseChunk {
            if constexpr (F == Field::pattern) {
                __builtin_unreachable();  // refused with the header
            } else {
                return [type](ArrayChunk& chunk) { parse_values<F, T>(chunk, type); };
            }
        });
    });
}

class ArrayBody final : public Body {
  public:
    explicit ArrayBody(const BodyContext& context)
        : context_(context),
          element_(size_of(context.type)),
          index_{{context_.header.body_offset, context_.header.body_line, 0}} {}

    void read(const Block& block, const MutableMatrixView& out) override {
        if (!std::exchange(seen_, true)) find_diagonal();
        const auto placement = placement_of(context_, zeros_, block, out);
        const auto [first, last] = placement->needed();
        if (context_.header.symmetry == Symmetry::skew_symmetric) placement->zero_diagonal();
        if (first < last && rereads_text(block)) keep_values();
        if (store_) return read_kept(block, first, last, *placement);

        Batches<ArrayChunk> batches(context_, cost_of_text());
        const ParseChunk parse = parser_of(context_.header.field, context_.type);
        const auto locate = [this](std::string_view text, std::int64_t n) { return locate_in(text, n); };
        Cursor cursor = checkpoint_before(first);
        // The block with the last value also sees to it that nothing follows.
        const bool to_the_end = last == context_.header.entries;
        while (to_the_end || cursor.count < last) {
            if (!batches.next(cursor, bytes_for(cursor, last, batches.most_bytes()), parse, locate)) break;
            put_all(batches, *placement, first, last);
            for (const ArrayChunk& chunk : batches.chunks()) remember(chunk.start);
            remember(cursor);
        }
        if (to_the_end || cursor.count < last) batches.require_all(cursor);
    }

    [[nodiscard]] std::uint64_t cost_of_text() const override {
        return 2 + element_ / (context_.header.field == Field::complex ? 4 : 2);  // a digit and a blank each
    }

  private:
    [[nodiscard]] const char* locate_in(std::string_view text, std::int64_t n) const {
        return locate_value(text, n, context_.header.field);
    }

    /// A skew-symmetric file whose first value is zero may have all of its diagonal: the number of its values
    /// tells. A pipe is taken as the format says.
    void find_diagonal() {
        if (context_.header.symmetry != Symmetry::skew_symmetric || context_.leniency.strict() ||
            !context_.source.rereadable() || !begins_with_zero())
            return;
        BodyContext with_diagonal = context_;
        with_diagonal.header.entries += context_.header.shape.rows;
        try {
            Batches<ArrayChunk> batches(with_diagonal, cost_of_text());
            const ParseChunk parse = parser_of(context_.header.field, context_.type);
            const auto locate = [this](std::string_view text, std::int64_t at) {
                return locate_in(text, at);
            };
            Cursor cursor = index_.front();
            while (batches.next(cursor, batches.most_bytes(), parse, locate)) {
            }
            zeros_ = cursor.count == with_diagonal.header.entries;
        } catch (const Error&) {  // of what is wrong, reading tells
        }
        if (!zeros_) return;
        context_.header.entries = with_diagonal.header.entries;
        context_.leniency.note(Deviation::zero_diagonal);
    }

    [[nodiscard]] bool begins_with_zero() const {
        Buffer scratch;
        for (std::uint64_t at = context_.header.body_offset;;) {
            const std::uint64_t end = context_.source.window(at, kLeastChunkBytes);
            const std::string_view text = context_.source.lines(at, end, scratch);
            const std::size_t first = text.find_first_not_of(" \t\r\n");
            if (first != std::string_view::npos) {  // of a comment or a zero
                return std::string_view("%0.+-").find(text[first]) != std::string_view::npos;
            }
            if (end == at) return false;
            at = end;
        }
    }

    /// Whether the block needs values that lie between those of others.
    [[nodiscard]] bool rereads_text(const Block& block) const {
        const Shape& whole = context_.header.shape;
        if (store_ || cannot_keep_ || !context_.source.rereadable() || block.shape() == whole) return false;
        return block.rows < whole.rows || context_.header.symmetry != Symmetry::general;
    }

    /// Parses the whole text and keeps the values in the order of the file. Where there is no room for them,
    /// the text is parsed again.
    void keep_values() {
        std::optional<ValueStore> store = ValueStore::open(context_.name);
        cannot_keep_ = !store;
        const Block nothing{0, 0, 0, 0};
        const MutableMatrixView nowhere{context_.type, {0, 0}, 0, nullptr};
        const auto placement = placement_of(context_, zeros_, nothing, nowhere);
        Batches<ArrayChunk> batches(context_, cost_of_text());
        const ParseChunk parse = parser_of(context_.header.field, context_.type);
        const auto locate = [this](std::string_view text, std::int64_t n) { return locate_in(text, n); };
        Cursor cursor = index_.front();
        while (!cannot_keep_ && batches.next(cursor, batches.most_bytes(), parse, locate)) {
            // Places nothing, and finds what contradicts the symmetry.
            if (context_.header.symmetry != Symmetry::general)
                put_all(batches, *placement, 0, context_.header.entries);
            for (ArrayChunk& chunk : batches.chunks()) {
                const auto bytes = static_cast<std::size_t>(chunk.count) * element_;
                if (!store->put(static_cast<std::uint64_t>(chunk.start.count) * element_, chunk.values.data(),
                                bytes))
                    cannot_keep_ = true;
            }
        }
        if (cannot_keep_) return;
        batches.require_all(cursor);
        store_ = std::move(store);
    }

    void read_kept(const Block& block, std::int64_t first, std::int64_t last,
                   const Placement& placement) const {
        constexpr std::int64_t kValues = 8192;  // that a thread has at a time
        const auto fetch = [&](std::int64_t value, std::int64_t count, std::byte* to) {
            store_->get(static_cast<std::uint64_t>(value) * element_, to,
                        static_cast<std::size_t>(count) * element_);
        };
        if (context_.header.symmetry != Symmetry::general) {
            parallel_for(last - first, kValues, context_.threads, [&](std::int64_t begin, std::int64_t end) {
                Buffer values(static_cast<std::size_t>(end - begin) * element_);
                fetch(first + begin, end - begin, values.data());
                MirrorFault fault = MirrorFault::none;
                placement.put(values.data(), first + begin, end - begin, fault);
            });
            return;
        }
        const std::int64_t columns = columns_together(element_);
        const std::int64_t most_rows = kValues / columns;
        parallel_for(block.cols, columns, context_.threads, [&](std::int64_t begin, std::int64_t end) {
            Buffer values(kValues * element_);
            for (std::int64_t row = block.row; row < block.row + block.rows; row += most_rows) {
                const std::int64_t rows = std::min(most_rows, block.row + block.rows - row);
                for (std::int64_t j = begin; j < end; ++j)
                    fetch((block.col + j) * context_.header.shape.rows + row, rows,
                          values.data() + static_cast<std::size_t>((j - begin) * rows) * element_);
                placement.put_columns(values.data(), row, rows, block.col + begin, end - begin);
            }
        });
    }

    /// About the bytes from `cursor` to value `last`, judged by the values seen so far.
    [[nodiscard]] std::uint64_t bytes_for(const Cursor& cursor, std::int64_t last, std::uint64_t most) const {
        const Cursor& seen = index_.back();
        if (last == context_.header.entries || seen.count == 0) return most;
        const double bytes_per_value =
            static_cast<double>(seen.offset - context_.header.body_offset) / static_cast<double>(seen.count);
        const double bytes = bytes_per_value * static_cast<double>(last - cursor.count) * 1.02;
        const std::uint64_t least = std::min(kLeastChunkBytes, most);
        return bytes < static_cast<double>(most) ? std::max(static_cast<std::uint64_t>(bytes), least) : most;
    }

    [[nodiscard]] Cursor checkpoint_before(std::int64_t value) const {
        const auto after = std::upper_bound(index_.begin(), index_.end(), value,
                                            [](std::int64_t v, const Cursor& c) { return v < c.count; });
        return *std::prev(after);
    }

    void remember(const Cursor& cursor) {
        if (cursor.count > index_.back().count) index_.push_back(cursor);
    }

    void put_all(Batches<ArrayChunk>& batches, const Placement& placement, std::int64_t first,
                 std::int64_t last) {
        const std::span<ArrayChunk> chunks = batches.chunks();
        parallel_for(std::ssize(chunks), 1, context_.threads, [&](std::int64_t at, std::int64_t) {
            ArrayChunk& chunk = chunks[static_cast<std::size_t>(at)];
            const std::int64_t begin = std::max(first, chunk.start.count);
            const std::int64_t end = std::min(last, chunk.start.count + chunk.count);
            if (begin >= end) return;
            MirrorFault fault = MirrorFault::none;
            const std::int64_t skipped = begin - chunk.start.count;
            const std::int64_t put =
                placement.put(chunk.values.data() + static_cast<std::size_t>(skipped) * element_, begin,
                              end - begin, fault);
            if (fault == MirrorFault::none) return;
            const char* const where = locate_value(chunk.text, skipped + put, context_.header.field);
            chunk.problem = mirror_problem(where, fault, context_.header.symmetry, context_.type);
        });
        for (const ArrayChunk& chunk : chunks) {
            if (chunk.problem) refuse_in(context_.name, chunk, *chunk.problem);
        }
    }

    BodyContext context_;
    std::size_t element_;  // its bytes
    bool seen_ = false;
    bool zeros_ = false;               // the diagonal of a skew-symmetric matrix is stored
    std::optional<ValueStore> store_;  // of all values, in the order of the file
    bool cannot_keep_ = false;
    std::vector<Cursor> index_;  // in the order of the file; the first is the start of the body
};

}  // namespace

std::unique_ptr<Body> open_array(const BodyContext& context) {
    return std::make_unique<ArrayBody>(context);
}

}  // namespace gpumat::formats::matrix_market
