#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "formats/matrix_market/matrix_market.hpp"
#include "formats/matrix_market/numbers/packed_text.hpp"
#include "formats/matrix_market/text/number_text.hpp"
#include "formats/matrix_market/text/pieces.hpp"
#include "formats/matrix_market/text/value.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// What formatting a value takes: the value, and text of its numbers, perhaps compressed as well. A batch is
/// formatted while the one before it is written.
std::uint64_t bytes_of_value(Type type) {
    return 2 * (size_of(type) + 2 * (is_complex(type) ? 2 : 1) * kLongestNumber);
}

template <class T>
class ArrayWriter final : public Writer {
  public:
    ArrayWriter(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options)
        : pieces_(target, options, bytes_of_value(type)), shape_(shape), type_(type) {
        pieces_.write_header(header_text(
            "array", std::to_string(shape.rows) + " " + std::to_string(shape.cols), type, options));
    }

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::column_panels; }

    void write(const Block& block, const MatrixView& in) override {
        if (!block.inside(shape_) || in.shape != block.shape() || in.type != type_ || block.row != 0 ||
            block.rows != shape_.rows || block.col != columns_written_) {
            pieces_.refuse("a block of " + to_string(block.shape()) + " at column " +
                           std::to_string(block.col) + " came, expected whole columns from column " +
                           std::to_string(columns_written_));
        }
        pieces_.write_values(shape_.rows * block.cols, [&](std::int64_t begin, std::int64_t end,
                                                           Piece& piece) { format(in, begin, end, piece); });
        columns_written_ += block.cols;
    }

    void finish() override {
        if (columns_written_ != shape_.cols && shape_.elements() != 0) {
            pieces_.refuse(std::to_string(columns_written_) + " columns came, expected " +
                           std::to_string(shape_.cols));
        }
    }

  private:
    static void format(const MatrixView& in, std::int64_t begin, std::int64_t end, Piece& piece) {
        const auto count = static_cast<std::size_t>(end - begin);
        piece.values.resize(count * sizeof(T));
        T* const values = reinterpret_cast<T*>(piece.values.data());
        gather(in, begin, end, values);
        constexpr std::size_t kNumbers = kIsComplex<T> ? 2 : 1;
        piece.text.resize(count * kNumbers * kLongestNumber + kNumberRoom);
        char* to = piece.text.data();
        for (std::size_t i = 0; i < count; ++i) {
            to = format_number(to, values[i]);
            *to++ = '\n';
        }
        piece.size = static_cast<std::size_t>(to - piece.text.data());
    }

    /// Copies values [begin, end) in the order of the columns. Memory runs along the rows: columns that fill
    /// a cache line are copied together.
    static void gather(const MatrixView& in, std::int64_t begin, std::int64_t end, T* to) {
        constexpr std::int64_t kGroup = std::max<std::int64_t>(4, 64 / static_cast<std::int64_t>(sizeof(T)));
        const std::int64_t rows = in.shape.rows;
        while (begin < end) {
            const std::int64_t column = begin / rows;
            const std::int64_t row = begin % rows;
            const std::int64_t full = row == 0 ? std::min((end - begin) / rows, kGroup) : 0;
            const std::int64_t columns = std::max<std::int64_t>(1, full);
            const std::int64_t length = full > 0 ? rows : std::min(rows - row, end - begin);
            for (std::int64_t i = 0; i < length; ++i) {
                const T* from = in.row<T>(row + i) + column;
                for (std::int64_t j = 0; j < columns; ++j) to[j * length + i] = from[j];
            }
            to += columns * length;
            begin += columns * length;
        }
    }

    PieceWriter pieces_;
    Shape shape_;
    Type type_;
    std::int64_t columns_written_ = 0;
};

/// What formatting an entry takes: text of two indices and of the value's numbers, perhaps compressed as
/// well.
std::uint64_t bytes_of_entry(Type type) {
    return 2 * 2 * (2 * kLongestIndex + (is_complex(type) ? 2 : 1) * kLongestNumber);
}

/// Values as numbers in the fewest digits.
template <class T>
class NumberValues {
  public:
    NumberValues(Type type, const WriteOptions& /*options*/) : type_(type) {}

    [[nodiscard]] Type stored() const { return type_; }
    [[nodiscard]] std::uint64_t bytes_of_entry() const { return matrix_market::bytes_of_entry(type_); }
    [[nodiscard]] std::size_t room(const CsrView& /*rows*/, std::int64_t begin, std::int64_t end) const {
        constexpr std::size_t kNumbers = kIsComplex<T> ? 2 : 1;
        return static_cast<std::size_t>(end - begin) * kNumbers * kLongestNumber + kNumberRoom;
    }
    [[nodiscard]] char* put(const CsrView& rows, std::int64_t at, char* to) const {
        return format_number(to, rows.values_as<T>()[at]);
    }

  private:
    Type type_;
};

/// Values as they were read, of 8 or of 16 bytes.
template <class Bits>
class TextValues {
  public:
    TextValues(Type type, const WriteOptions& options)
        : texts_(*options.texts),
          bytes_of_entry_(
              std::max<std::uint64_t>(matrix_market::bytes_of_entry(type), 4 * texts_.longest())) {}

    [[nodiscard]] Type stored() const { return texts_.value_type(); }
    [[nodiscard]] std::uint64_t bytes_of_entry() const { return bytes_of_entry_; }
    [[nodiscard]] std::size_t room(const CsrView& rows, std::int64_t begin, std::int64_t end) const {
        constexpr std::int64_t kAhead = 16;
        std::size_t bytes = static_cast<std::size_t>(end - begin) * kUnpackedRoom;
        if (texts_.longest() == 0) return bytes;
        for (std::int64_t at = begin; at < end; ++at) {
            const TextBits ahead = bits_at(rows, std::min(at + kAhead, end - 1));
            if (ahead.is_place()) texts_.prefetch(ahead);
            const TextBits bits = bits_at(rows, at);
            if (bits.is_place()) bytes += texts_.text(bits).size();
        }
        return bytes;
    }
    [[gnu::always_inline]] char* put(const CsrView& rows, std::int64_t at, char* to) const {
        const TextBits bits = bits_at(rows, at);
        if (!bits.is_place()) return to + unpack(bits, to);
        const std::string_view text = texts_.text(bits);
        return std::copy(text.begin(), text.end(), to);
    }

  private:
    static TextBits bits_at(const CsrView& rows, std::int64_t at) {
        TextBits bits{.low = 0, .high = ~std::uint64_t{0}};
        std::memcpy(&bits, rows.values + static_cast<std::size_t>(at) * sizeof(Bits), sizeof(Bits));
        return bits;
    }

    const ValueTexts& texts_;
    std::uint64_t bytes_of_entry_;
};

template <class Values>
class CoordinateWriter final : public SparseWriter {
  public:
    CoordinateWriter(const WriteTarget& target, const Shape& shape, Type type, std::int64_t entries,
                     const WriteOptions& options)
        : values_(type, options),
          pieces_(target, options, values_.bytes_of_entry()),
          shape_(shape),
          entries_(entries) {
        pieces_.write_header(header_text(
            "coordinate",
            std::to_string(shape.rows) + " " + std::to_string(shape.cols) + " " + std::to_string(entries),
            type, options));
    }

    void write(std::int64_t first_row, const CsrView& rows) override {
        if (rows.type != values_.stored() || rows.shape.cols != shape_.cols || first_row != rows_written_ ||
            rows.shape.rows > shape_.rows - first_row) {
            pieces_.refuse("rows of " + to_string(rows.shape) + " at row " + std::to_string(first_row) +
                           " came, expected " + to_string(shape_) + " from row " +
                           std::to_string(rows_written_) + " on");
        }
        pieces_.write_values(rows.entries, [&](std::int64_t begin, std::int64_t end, Piece& piece) {
            piece.size = 0;
            constexpr std::int64_t kTogether = 1024;
            for (; begin < end; begin += kTogether)
                visit_index(rows.shape, [&]<class I>(TypeTag<I>) {
                    format<I>(first_row, rows, begin, std::min(end, begin + kTogether), piece);
                });
        });
        rows_written_ += rows.shape.rows;
        entries_written_ += rows.entries;
    }

    void finish() override {
        if (rows_written_ == shape_.rows && entries_written_ == entries_) return;
        pieces_.refuse(std::to_string(entries_written_) + " entries of " + std::to_string(rows_written_) +
                       " rows came, expected " + std::to_string(entries_) + " of " +
                       std::to_string(shape_.rows));
    }

  private:
    /// Adds entries to a piece.
    template <class I>
    void format(std::int64_t first_row, const CsrView& rows, std::int64_t begin, std::int64_t end,
                Piece& piece) const {
        constexpr std::size_t kIndexRoom = 24;                   // one with a blank, to copy
        constexpr std::size_t kIndices = 2 * kLongestIndex + 3;  // with what stands between
        const std::size_t room =
            static_cast<std::size_t>(end - begin) * kIndices + kIndexRoom + values_.room(rows, begin, end);
        if (piece.text.size() - piece.size < room)
            piece.text.resize(std::max(piece.size + room, 2 * piece.text.size()));
        char* to = piece.text.data() + piece.size;
        const std::int64_t* const pointers = rows.pointers;
        const I* const columns = rows.columns_as<I>();
        std::int64_t row = std::upper_bound(pointers, pointers + rows.shape.rows + 1, begin) - pointers - 1;
        for (std::int64_t at = begin; at < end; ++row) {
            const std::int64_t last = std::min(end, pointers[row + 1]);
            std::array<char, kIndexRoom> index{};
            char* const index_end = format_index(index.data(), first_row + row + 1);
            *index_end = ' ';
            const std::size_t index_length = static_cast<std::size_t>(index_end - index.data()) + 1;
            for (; at < last; ++at) {
                std::memcpy(to, index.data(), kIndexRoom);
                to = format_index(to + index_length, columns[at] + std::int64_t{1});
                *to++ = ' ';
                to = values_.put(rows, at, to);
                *to++ = '\n';
            }
        }
        piece.size = static_cast<std::size_t>(to - piece.text.data());
    }

    Values values_;
    PieceWriter pieces_;
    Shape shape_;
    std::int64_t entries_;
    std::int64_t rows_written_ = 0;
    std::int64_t entries_written_ = 0;
};

/// Refuses what is for HDF5.
void require_plain(const WriteTarget& target, const WriteOptions& options) {
    if (!options.chunk && options.deflate == 0 && !options.shuffle && !options.sparse_layout &&
        !target.append && target.dataset.empty())
        return;
    throw Error(ErrorCode::usage, target.shown +
                                      ": a Matrix Market file has no chunks, compression or "
                                      "datasets; write HDF5 for those");
}

template <class Bits>
std::unique_ptr<SparseWriter> make_text_writer(const WriteTarget& target, const Shape& shape, Type type,
                                               std::int64_t entries, const WriteOptions& options) {
    return std::make_unique<CoordinateWriter<TextValues<Bits>>>(target, shape, type, entries, options);
}

}  // namespace

std::uint64_t writing_bytes(const Shape& shape, Type type, const WriteOptions& /*options*/) {
    const std::int64_t values = shape.rows == 0 || shape.cols == 0 ? 0 : kLeastValues;
    return static_cast<std::uint64_t>(values) * bytes_of_value(type);
}

std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options) {
    require_plain(target, options);
    return visit_type(type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<Writer> {
        return std::make_unique<ArrayWriter<T>>(target, shape, type, options);
    });
}

std::uint64_t sparse_writing_bytes(const Shape& /*shape*/, Type type, std::int64_t /*entries*/,
                                   const WriteOptions& /*options*/) {
    return static_cast<std::uint64_t>(kLeastValues) * bytes_of_entry(type);
}

std::unique_ptr<SparseWriter> create_sparse(const WriteTarget& target, const Shape& shape, Type type,
                                            std::int64_t entries, const WriteOptions& options) {
    require_plain(target, options);
    if (options.texts != nullptr)
        return options.texts->value_type() == Type::u64
                   ? make_text_writer<std::uint64_t>(target, shape, type, entries, options)
                   : make_text_writer<TextBits>(target, shape, type, entries, options);
    return visit_type(type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<SparseWriter> {
        return std::make_unique<CoordinateWriter<NumberValues<T>>>(target, shape, type, entries, options);
    });
}

}  // namespace gpumat::formats::matrix_market
