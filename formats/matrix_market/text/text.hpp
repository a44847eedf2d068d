#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/memory.hpp"

namespace gpumat::formats::matrix_market {

/// Text that one thread parses at a time, which with its values stays in the second-level cache, and what a
/// stream is read by. Tests make them small, so that short files have many.
#ifdef GPUMAT_MATRIX_MARKET_CHUNK_BYTES
constexpr std::uint64_t kChunkBytes = GPUMAT_MATRIX_MARKET_CHUNK_BYTES;
constexpr std::size_t kReadBytes = 4 * GPUMAT_MATRIX_MARKET_CHUNK_BYTES;
#else
constexpr std::uint64_t kChunkBytes = std::uint64_t{512} << 10;
constexpr std::size_t kReadBytes = std::size_t{256} << 10;
#endif

/// The most of a stream that is read ahead: more than inflating gives while a window is parsed.
constexpr std::uint64_t kMostAheadBytes = 32 * kReadBytes;

/// Text returned by TextSource::lines may be read this far past its end.
constexpr std::size_t kPaddingBytes = 64;

/// A line longer than this is refused, so that a compressed stream of one endless line needs no memory.
constexpr std::uint64_t kLongestLineBytes = std::uint64_t{64} << 20;

/// The text of a file, after decompression, addressed by byte offset. A plain file is read wherever asked;
/// a pipe or a compressed file passes through a window that moves forward.
///
/// Every function throws Error{input} naming the file where it cannot be read.
class TextSource {
  public:
    TextSource() = default;
    virtual ~TextSource() = default;
    TextSource(const TextSource&) = delete;
    TextSource& operator=(const TextSource&) = delete;

    /// Makes text from `offset` on available and returns where it ends so far: about
    /// `want` bytes further on, or at the end of the text, and after a whole line
    /// where the text is a stream. Returns `offset` only at the end of the text.
    virtual std::uint64_t window(std::uint64_t offset, std::uint64_t want) = 0;

    /// The whole lines that start in [begin, end), a range inside the window. The text ends with a line
    /// feed, also where the file does not, and may lie in `scratch`. Several threads may ask at once.
    virtual std::string_view lines(std::uint64_t begin, std::uint64_t end, Buffer& scratch) = 0;

    /// Whether the text can be read again from its start, which that of a pipe cannot.
    [[nodiscard]] virtual bool rereadable() const { return true; }

    /// Whether its lines end with a carriage return alone, which it gives as a line feed.
    [[nodiscard]] virtual bool has_lone_returns() const { return false; }

    /// Bytes of the text, or 0 where they are not known beforehand.
    [[nodiscard]] virtual std::uint64_t text_bytes() const { return 0; }

    /// Bytes of memory that it takes beside the text that it gives.
    [[nodiscard]] virtual std::uint64_t working_bytes() const { return 0; }

    /// Throws where the file is not as it was when it was opened.
    virtual void require_unchanged() const = 0;

    /// Bytes of the file as it is stored, or 0 for a stream.
    [[nodiscard]] virtual std::uint64_t file_bytes() const { return 0; }
};

/// Opens a file, plain or gzip-compressed by its content; "-" is standard input. With more than one thread,
/// one of them reads and inflates a stream ahead, as far as `ahead_bytes` go. Where `lone_returns` are read
/// and the first line ends with one, all do.
std::unique_ptr<TextSource> open_text(const std::string& path, int threads,
                                      std::uint64_t ahead_bytes = kMostAheadBytes, bool lone_returns = true);

/// The text at the start of a file whose first bytes are `head`, decompressed where it is compressed.
/// Empty where the compressed data are damaged.
std::string text_of_head(std::string_view head);

}  // namespace gpumat::formats::matrix_market
