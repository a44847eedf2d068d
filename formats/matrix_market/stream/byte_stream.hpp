#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gpumat::formats::matrix_market {

/// The bytes of a file from front to back.
class ByteStream {
  public:
    ByteStream() = default;
    virtual ~ByteStream() = default;
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;

    /// Up to `count` bytes; 0 only at the end.
    virtual std::size_t read(char* to, std::size_t count) = 0;
    /// Starts again at the front. Throws Error{input} where the file is a pipe.
    virtual void rewind() = 0;
    /// Ends a read() that waits in another thread for more bytes. Nothing is read after that.
    virtual void interrupt() = 0;
    [[nodiscard]] virtual const std::string& name() const = 0;
    [[nodiscard]] virtual std::uint64_t file_bytes() const = 0;
    [[nodiscard]] virtual bool rereadable() const = 0;
    virtual void require_unchanged() const = 0;
};

/// What gzip members, one after another, hold when they are decompressed.
std::unique_ptr<ByteStream> inflated(std::unique_ptr<ByteStream> from);

/// The same bytes, read ahead by a thread of its own as far as so many blocks of kReadBytes go.
std::unique_ptr<ByteStream> read_ahead(std::unique_ptr<ByteStream> from, std::size_t blocks);

}  // namespace gpumat::formats::matrix_market
