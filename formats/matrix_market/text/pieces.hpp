#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.hpp"
#include "formats/output_file.hpp"

namespace gpumat::formats::matrix_market {

/// So few values are worth a thread's while, where memory is scarce.
inline constexpr std::int64_t kLeastValues = 128;

/// One piece of the output: consecutive values in the order of the file.
struct Piece {
    std::vector<std::byte> values;  ///< gathered, where they lie elsewhere
    std::vector<char> text;
    std::size_t size = 0;               ///< of the text, which may have room for more
    std::vector<std::byte> compressed;  ///< a gzip member, where the file is compressed
};

/// Banner, comments and sizes: "array" or "coordinate", and the last line.
std::string header_text(std::string_view storage, const std::string& sizes, Type type,
                        const WriteOptions& options);

/// Writes values that all threads format, piece by piece; compressed where the name asks for that.
class PieceWriter {
  public:
    /// Makes `text` and `size` of values [begin, end).
    using FormatPiece = std::function<void(std::int64_t begin, std::int64_t end, Piece& piece)>;

    /// A value takes so many bytes while it is formatted and written.
    PieceWriter(const WriteTarget& target, const WriteOptions& options, std::uint64_t value_bytes);

    void write_header(const std::string& text) const;
    void write_values(std::int64_t count, const FormatPiece& format) const;
    [[noreturn]] void refuse(const std::string& what) const { file_.refuse(what); }

  private:
    /// Consecutive pieces; those from `used` on are left over from a longer batch.
    struct Batch {
        std::vector<Piece> pieces;
        std::size_t used = 0;
    };

    void write_all(const Batch& batch) const;
    void write_and_format(const Batch& formatted, Batch& next, const FormatPiece& format, std::int64_t first,
                          std::int64_t last) const;

    OutputFile file_;
    int threads_;
    bool compressed_;
    std::int64_t batch_ = 0;  ///< values between two meetings of the threads
    std::int64_t piece_ = 0;  ///< values that one thread formats at a time
};

}  // namespace gpumat::formats::matrix_market
