#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "formats/matrix_market/stream/byte_stream.hpp"
#include "formats/matrix_market/text/text.hpp"

namespace gpumat::formats::matrix_market {
namespace {

class GzipStream final : public ByteStream {
  public:
    explicit GzipStream(std::unique_ptr<ByteStream> from) : from_(std::move(from)), input_(kReadBytes) {
        // 16: a gzip header is expected, with a window of up to 2^15 bytes.
        if (inflateInit2(&inflater_, 16 + MAX_WBITS) != Z_OK) {
            throw Error(ErrorCode::memory, from_->name() + ": no memory for decompression");
        }
    }
    ~GzipStream() override { inflateEnd(&inflater_); }

    std::size_t read(char* to, std::size_t count) override {
        inflater_.next_out = reinterpret_cast<Bytef*>(to);
        inflater_.avail_out = static_cast<uInt>(std::min<std::size_t>(count, 1U << 30));
        const uInt asked = inflater_.avail_out;
        while (inflater_.avail_out == asked) {
            const bool more = inflater_.avail_in != 0 || refill();
            if (between_members_) {
                if (!more) return 0;
                start_member();
            }
            // Also without more input: what was taken before can still give bytes, or a fault.
            const int status = inflate(&inflater_, Z_NO_FLUSH);
            if (status == Z_STREAM_END) {
                between_members_ = true;
            } else if (status != Z_OK && status != Z_BUF_ERROR) {
                fail("found damaged gzip data before compressed byte " + std::to_string(consumed()) +
                     (inflater_.msg != nullptr ? std::string(" (") + inflater_.msg + ")" : "") +
                     ", expected a gzip stream");
            } else if (!more && inflater_.avail_out == asked) {
                fail("found the end of the file inside compressed data, expected the end of a gzip member");
            }
        }
        return asked - inflater_.avail_out;
    }

    void rewind() override {
        from_->rewind();
        taken_ = 0;
        inflater_.avail_in = 0;
        inflateReset(&inflater_);
        between_members_ = false;
    }

    void interrupt() override { from_->interrupt(); }

    [[nodiscard]] const std::string& name() const override { return from_->name(); }
    [[nodiscard]] std::uint64_t file_bytes() const override { return from_->file_bytes(); }
    [[nodiscard]] bool rereadable() const override { return from_->rereadable(); }
    void require_unchanged() const override { from_->require_unchanged(); }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw Error(ErrorCode::input, name() + ": " + what);
    }

    bool refill() {
        const std::size_t got = from_->read(input_.data(), input_.size());
        inflater_.next_in = reinterpret_cast<Bytef*>(input_.data());
        inflater_.avail_in = static_cast<uInt>(got);
        taken_ += got;
        return got != 0;
    }

    /// After a member only another member may follow.
    void start_member() {
        if (*inflater_.next_in != 0x1f) {
            fail("found trailing bytes at compressed byte " + std::to_string(consumed()) +
                 ", expected another gzip member or the end of the file");
        }
        inflateReset(&inflater_);
        between_members_ = false;
    }

    [[nodiscard]] std::uint64_t consumed() const { return taken_ - inflater_.avail_in; }

    std::unique_ptr<ByteStream> from_;
    std::vector<char> input_;
    z_stream inflater_{};
    std::uint64_t taken_ = 0;
    bool between_members_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> inflated(std::unique_ptr<ByteStream> from) {
    return std::make_unique<GzipStream>(std::move(from));
}

}  // namespace gpumat::formats::matrix_market
