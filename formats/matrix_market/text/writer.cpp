#include <algorithm>
#include <charconv>
#include <complex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "formats/deflate.hpp"
#include "formats/matrix_market/matrix_market.hpp"
#include "formats/matrix_market/numbers/shortest.hpp"
#include "formats/matrix_market/text/header.hpp"
#include "formats/matrix_market/text/value.hpp"
#include "formats/output_file.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// Values that one thread formats at a time, and pieces a thread between two writes, at most.
constexpr std::int64_t kChunkValues = std::int64_t{1} << 15;
constexpr std::int64_t kChunksPerThread = 4;

/// So few values are worth a thread's while, where memory is scarce.
constexpr std::int64_t kLeastValues = 128;

/// "-2.2250738585072014e-308" and a blank or line feed.
constexpr std::size_t kLongestNumber = 25;

template <class T>
char* format_number(char* to, T value) {
    if constexpr (std::integral<T>) {
        return std::to_chars(to, to + kLongestNumber, value).ptr;
    } else if constexpr (std::floating_point<T>) {
        return write_shortest(to, value);
    } else {
        return write_shortest(to, static_cast<float>(value));
    }
}

template <class T>
char* format_number(char* to, const std::complex<T>& value) {
    to = format_number(to, value.real());
    *to++ = ' ';
    return format_number(to, value.imag());
}

const char* field_name(Field field) {
    switch (field) {
        case Field::complex:
            return "complex";
        case Field::unsigned_integer:
            return "unsigned-integer";
        case Field::integer:
            return "integer";
        default:
            return "real";
    }
}

std::string header_text(const Shape& shape, Type type, const WriteOptions& options) {
    std::string text =
        std::string("%%MatrixMarket matrix array ") + field_name(field_of(type)) + " general\n";
    if (natural_type(field_of(type)) != type) text.append(kTypeComment).append(name_of(type)).append("\n");
    for (const auto& [name, value] : options.attributes) {
        std::string comment = name + ": " + value;
        std::ranges::replace(comment, '\r', ' ');
        for (std::size_t at = 0; (at = comment.find('\n', at)) != std::string::npos; at += 3) {
            comment.replace(at, 1, "\n% ");
        }
        text += "% " + comment + "\n";
    }
    return text + std::to_string(shape.rows) + " " + std::to_string(shape.cols) + "\n";
}

constexpr int kGzipLevel = 6;  ///< gzip's own default

/// The name asks for compressed text. What goes to standard output is plain.
bool is_compressed(const WriteTarget& target) {
    return target.shown.ends_with(".gz");
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

/// What formatting a value takes: the value, and text of its numbers, perhaps compressed as well. A batch is
/// formatted while the one before it is written.
std::uint64_t bytes_of_value(Type type) {
    return 2 * (size_of(type) + 2 * (is_complex(type) ? 2 : 1) * kLongestNumber);
}

/// One piece of the output: consecutive values in the order of the file.
struct Piece {
    std::vector<std::byte> values;
    std::vector<char> text;
    std::size_t size = 0;               ///< of the text
    std::vector<std::byte> compressed;  ///< a gzip member, where the file is compressed
};

template <class T>
class ArrayWriter final : public Writer {
  public:
    ArrayWriter(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options)
        : file_(target),
          shape_(shape),
          type_(type),
          threads_(std::max(1, options.threads)),
          compressed_(is_compressed(target)) {
        batch_ = kChunkValues * kChunksPerThread * threads_;
        if (options.memory_limit) {
            const std::uint64_t fit = *options.memory_limit / bytes_of_value(type);
            batch_ = std::max<std::int64_t>(
                kLeastValues, static_cast<std::int64_t>(std::min(static_cast<std::uint64_t>(batch_), fit)));
        }
        piece_ = std::clamp(batch_ / threads_, kLeastValues, kChunkValues);
        const std::string header = header_text(shape, type, options);
        std::vector<std::byte> member;
        if (compressed_) Deflater(kGzipLevel).gzip(bytes_of(header), member);
        file_.write(compressed_ ? std::span<const std::byte>(member) : bytes_of(header));
    }

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::column_panels; }

    void write(const Block& block, const MatrixView& in) override {
        if (!block.inside(shape_) || in.shape != block.shape() || in.type != type_ || block.row != 0 ||
            block.rows != shape_.rows || block.col != columns_written_) {
            file_.refuse("a block of " + to_string(block.shape()) + " at column " +
                         std::to_string(block.col) + " came, expected whole columns from column " +
                         std::to_string(columns_written_));
        }
        const std::int64_t values = shape_.rows * block.cols;
        Batch formatted;
        Batch next;
        for (std::int64_t first = 0; first < values; first += batch_) {
            write_and_format(formatted, next, in, first, std::min(values, first + batch_));
            std::swap(formatted, next);
        }
        write_all(formatted);
        columns_written_ += block.cols;
    }

    void finish() override {
        if (columns_written_ != shape_.cols && shape_.elements() != 0) {
            file_.refuse(std::to_string(columns_written_) + " columns came, expected " +
                         std::to_string(shape_.cols));
        }
    }

  private:
    /// Consecutive pieces; those from `used` on are left over from a longer batch.
    struct Batch {
        std::vector<Piece> pieces;
        std::size_t used = 0;
    };

    void write_all(const Batch& batch) const {
        for (std::size_t i = 0; i < batch.used; ++i) {
            const Piece& piece = batch.pieces[i];
            file_.write(compressed_ ? std::span(piece.compressed)
                                    : std::as_bytes(std::span(piece.text).first(piece.size)));
        }
    }

    /// Makes `next` of values [first, last) of the block in the order of its columns. While one thread writes
    /// what was formatted before, the others format.
    void write_and_format(const Batch& formatted, Batch& next, const MatrixView& in, std::int64_t first,
                          std::int64_t last) const {
        const std::int64_t count = (last - first + piece_ - 1) / piece_;
        next.used = static_cast<std::size_t>(count);
        if (next.pieces.size() < next.used) next.pieces.resize(next.used);
        parallel_for(1 + count, 1, threads_, [&](std::int64_t i, std::int64_t) {
            if (i == 0) return write_all(formatted);
            const std::int64_t begin = first + (i - 1) * piece_;
            format(in, begin, std::min(last, begin + piece_), next.pieces[static_cast<std::size_t>(i - 1)]);
        });
    }

    void format(const MatrixView& in, std::int64_t begin, std::int64_t end, Piece& piece) const {
        const auto count = static_cast<std::size_t>(end - begin);
        piece.values.resize(count * sizeof(T));
        T* const values = reinterpret_cast<T*>(piece.values.data());
        gather(in, begin, end, values);
        constexpr std::size_t kNumbers = kIsComplexType<T> ? 2 : 1;
        piece.text.resize(count * kNumbers * kLongestNumber + kNumberRoom);
        char* to = piece.text.data();
        for (std::size_t i = 0; i < count; ++i) {
            to = format_number(to, values[i]);
            *to++ = '\n';
        }
        piece.size = static_cast<std::size_t>(to - piece.text.data());
        if (compressed_)
            Deflater(kGzipLevel).gzip(bytes_of({piece.text.data(), piece.size}), piece.compressed);
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

    OutputFile file_;
    Shape shape_;
    Type type_;
    int threads_;
    bool compressed_;
    std::int64_t batch_ = 0;  ///< values between two meetings of the threads
    std::int64_t piece_ = 0;  ///< values that one thread formats at a time
    std::int64_t columns_written_ = 0;
};

}  // namespace

std::uint64_t writing_bytes(const Shape& shape, Type type, const WriteOptions& /*options*/) {
    const std::int64_t values = shape.rows == 0 || shape.cols == 0 ? 0 : kLeastValues;
    return static_cast<std::uint64_t>(values) * bytes_of_value(type);
}

std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options) {
    if (options.chunk || options.deflate != 0 || options.shuffle || target.append ||
        !target.dataset.empty()) {
        throw Error(ErrorCode::usage, target.shown +
                                          ": a Matrix Market file has no chunks, compression or "
                                          "datasets; write HDF5 for those");
    }
    return visit_type(type, [&]<class T>(TypeTag<T>) -> std::unique_ptr<Writer> {
        return std::make_unique<ArrayWriter<T>>(target, shape, type, options);
    });
}

}  // namespace gpumat::formats::matrix_market
