#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gpumat::formats {

/// Undoes HDF5's deflate filter (zlib streams), one after the other, in one thread. Through libdeflate
/// where the build found it, which is twice as fast as zlib on whole buffers, else through zlib.
class Inflater {
  public:
    Inflater();
    ~Inflater();
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    /// Inflates into `to`, at most `most` bytes. Throws Error{input} with `what` where `data` are no whole
    /// stream or inflate to more.
    std::span<const std::byte> inflate(std::span<const std::byte> data, std::vector<std::byte>& to,
                                       std::size_t most, const std::string& what);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Compresses whole buffers, in one thread.
class Deflater {
  public:
    /// `level`: 1 (fast) to 9 (small).
    explicit Deflater(int level);
    ~Deflater();
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;

    /// HDF5's deflate filter, into `to`. False, and `to` is unspecified, where that makes nothing smaller;
    /// the filter is then skipped for the chunk, as HDF5 does.
    bool deflate(std::span<const std::byte> data, std::vector<std::byte>& to);

    /// Makes a gzip member of `data`, less than 4 GiB; members one after the other are a gzip file.
    void gzip(std::span<const std::byte> data, std::vector<std::byte>& to);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gpumat::formats
