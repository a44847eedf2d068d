#include "formats/matrix_market/text/text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "formats/file_versions.hpp"
#include "formats/matrix_market/stream/byte_stream.hpp"

namespace gpumat::formats::matrix_market {
namespace {

constexpr std::size_t kSlackBytes = 4096;  // a chunk reads this much further for the end of its last line

[[noreturn]] void fail(const std::string& name, const std::string& what) {
    throw Error(ErrorCode::input, name + ": " + what);
}

[[noreturn]] void refuse_long_line(const std::string& name, std::uint64_t offset) {
    fail(name, "found a line of more than " + format_bytes(kLongestLineBytes) + " at byte " +
                   std::to_string(offset) + ", expected shorter lines");
}

/// An open file descriptor; standard input stays open.
class File {
  public:
    explicit File(const std::string& path) : name_(path == "-" ? "standard input" : path) {
        fd_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat status {};
        if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
            const int reason = errno;
            close();
            fail(name_, std::strerror(reason));
        }
        if (S_ISDIR(status.st_mode)) {
            close();
            fail(name_, "is a directory, expected a file");
        }
        if (S_ISREG(status.st_mode)) {
            const off_t here = ::lseek(fd_, 0, SEEK_CUR);
            start_ = here > 0 ? static_cast<std::uint64_t>(here) : 0;
            const auto size = static_cast<std::uint64_t>(status.st_size);
            bytes_ = size > start_ ? size - start_ : 0;
            seekable_ = true;
            versions_.add(fd_, name_, status);
        } else {
            interrupt_ = ::eventfd(0, EFD_CLOEXEC);
            if (interrupt_ < 0) {
                const int reason = errno;
                close();
                fail(name_, std::strerror(reason));
            }
        }
    }
    ~File() { close(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] bool seekable() const { return seekable_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    void require_unchanged() const { versions_.require_unchanged(); }

    /// Up to `count` bytes from `offset`; fewer only at the end of the file.
    std::size_t read_at(std::uint64_t offset, char* to, std::size_t count) const {
        std::size_t done = 0;
        while (done < count) {
            const ssize_t got =
                ::pread(fd_, to + done, count - done, static_cast<off_t>(start_ + offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) fail(name_, std::string("cannot be read: ") + std::strerror(errno));
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    /// The next bytes of a stream, at most `count`; 0 only at its end or after interrupt().
    std::size_t read_next(char* to, std::size_t count) const {
        for (;;) {
            std::array<pollfd, 2> awaited = {pollfd{fd_, POLLIN, 0}, pollfd{interrupt_, POLLIN, 0}};
            const int ready = ::poll(awaited.data(), awaited.size(), -1);
            if (ready < 0 && errno == EINTR) continue;
            if (ready > 0 && awaited[1].revents != 0) return 0;
            const ssize_t got = ::read(fd_, to, count);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) fail(name_, std::string("cannot be read: ") + std::strerror(errno));
            return static_cast<std::size_t>(got);
        }
    }

    /// Ends a read_next() that waits in another thread.
    void interrupt() const {
        if (interrupt_ >= 0) ::eventfd_write(interrupt_, 1);
    }

  private:
    void close() {
        if (fd_ > STDIN_FILENO) ::close(fd_);
        if (interrupt_ >= 0) ::close(interrupt_);
        fd_ = interrupt_ = -1;
    }

    std::string name_;
    int fd_ = -1;
    int interrupt_ = -1;  // of a stream
    bool seekable_ = false;
    std::uint64_t start_ = 0;  // where standard input stood when it was opened
    std::uint64_t bytes_ = 0;
    FileVersions versions_;
};

/// Whether the first line of a text ends with a carriage return and no line feed.
bool ends_first_line_with_return(std::string_view head) {
    const std::size_t end = head.find_first_of("\r\n");
    return end != std::string_view::npos && end + 1 < head.size() && head[end] == '\r' &&
           head[end + 1] != '\n';
}

/// Carriage returns become line feeds. A line feed that follows one stays, as an empty line.
void replace_returns(char* text, std::size_t size) {
    std::replace(text, text + size, '\r', '\n');
}

bool is_gzip(std::string_view head) {
    return head.size() >= 2 && head[0] == '\x1f' && head[1] == '\x8b';
}

/// A plain file: every thread reads its own piece.
class PlainText final : public TextSource {
  public:
    PlainText(std::unique_ptr<File> file, bool lone_returns) : file_(std::move(file)) {
        if (!lone_returns) return;
        std::array<char, kSlackBytes> head{};
        lone_returns_ = ends_first_line_with_return({head.data(), read_at(0, head.data(), head.size())});
    }

    std::uint64_t window(std::uint64_t offset, std::uint64_t want) override {
        return offset + std::min(want, file_->bytes() - std::min(offset, file_->bytes()));
    }

    std::string_view lines(std::uint64_t begin, std::uint64_t end, Buffer& scratch) override {
        // One byte more at the front shows whether a line starts at `begin`.
        const std::uint64_t from = begin == 0 ? 0 : begin - 1;
        std::size_t asked = static_cast<std::size_t>(end - from) + kSlackBytes;
        char* text = reserve(scratch, asked, 0);
        std::size_t size = read_at(from, text, asked);
        const std::size_t first = begin == 0 ? 0 : past_line_feed(text, 0, size);
        if (from + first >= end || first >= size) return {};

        // The last line is the one that holds the byte before `end`.
        std::size_t search = static_cast<std::size_t>(end - from) - 1;
        for (;;) {
            const std::size_t past = search < size ? past_line_feed(text, search, size) : size + 1;
            if (past <= size) return {text + first, past - first};
            if (size < asked) break;  // the end of the file
            if (size - first > kLongestLineBytes + (end - from))
                refuse_long_line(file_->name(), from + first);
            search = size;
            asked = 2 * size;
            text = reserve(scratch, asked, size);
            size += read_at(from + size, text + size, asked - size);
        }
        text[size] = '\n';
        return {text + first, size + 1 - first};
    }

    [[nodiscard]] bool has_lone_returns() const override { return lone_returns_; }
    [[nodiscard]] std::uint64_t text_bytes() const override { return file_->bytes(); }
    [[nodiscard]] std::uint64_t file_bytes() const override { return file_->bytes(); }
    void require_unchanged() const override { file_->require_unchanged(); }

  private:
    std::size_t read_at(std::uint64_t offset, char* to, std::size_t count) const {
        const std::size_t got = file_->read_at(offset, to, count);
        if (lone_returns_) replace_returns(to, got);
        return got;
    }

    /// Room for `count` bytes and padding, with the first `keep` bytes kept.
    static char* reserve(Buffer& scratch, std::size_t count, std::size_t keep) {
        if (scratch.size() < count + kPaddingBytes) {
            Buffer larger(count + kPaddingBytes);
            if (keep != 0) std::memcpy(larger.data(), scratch.data(), keep);
            scratch = std::move(larger);
        }
        return reinterpret_cast<char*>(scratch.data());
    }

    /// The place after the first line feed in [from, size), or size + 1.
    static std::size_t past_line_feed(const char* text, std::size_t from, std::size_t size) {
        const void* feed = std::memchr(text + from, '\n', size - from);
        return feed == nullptr ? size + 1
                               : static_cast<std::size_t>(static_cast<const char*>(feed) - text) + 1;
    }

    std::unique_ptr<File> file_;
    bool lone_returns_ = false;
};

class RawStream final : public ByteStream {
  public:
    explicit RawStream(std::unique_ptr<File> file) : file_(std::move(file)) {}

    /// The first bytes, which read() will return again.
    std::string_view peek() {
        while (head_.size() < 2) {
            std::array<char, 2> more{};
            const std::size_t got = file_->seekable()
                                        ? file_->read_at(head_.size(), more.data(), 2 - head_.size())
                                        : file_->read_next(more.data(), 2 - head_.size());
            if (got == 0) break;
            head_.append(more.data(), got);
        }
        return head_;
    }

    std::size_t read(char* to, std::size_t count) override {
        if (offset_ < head_.size()) {
            const std::size_t got = head_.copy(to, count, static_cast<std::size_t>(offset_));
            offset_ += got;
            return got;
        }
        const std::size_t got =
            file_->seekable() ? file_->read_at(offset_, to, count) : file_->read_next(to, count);
        offset_ += got;
        return got;
    }

    void rewind() override {
        if (!file_->seekable()) {
            fail(file_->name(),
                 "can be read only once and in order, expected a file for reading in blocks or twice");
        }
        offset_ = 0;
    }

    void interrupt() override { file_->interrupt(); }

    [[nodiscard]] const std::string& name() const override { return file_->name(); }
    [[nodiscard]] std::uint64_t file_bytes() const override { return file_->bytes(); }
    [[nodiscard]] bool rereadable() const override { return file_->seekable(); }
    void require_unchanged() const override { file_->require_unchanged(); }
    [[nodiscard]] std::unique_ptr<File> take_file() { return std::move(file_); }

  private:
    std::unique_ptr<File> file_;
    std::string head_;
    std::uint64_t offset_ = 0;
};

/// A window of text that moves along a stream.
class StreamText final : public TextSource {
  public:
    StreamText(std::unique_ptr<ByteStream> stream, std::uint64_t working_bytes, bool lone_returns)
        : stream_(std::move(stream)),
          working_bytes_(working_bytes),
          may_have_lone_returns_(lone_returns),
          text_(kReadBytes + 1 + kPaddingBytes) {}

    std::uint64_t window(std::uint64_t offset, std::uint64_t want) override {
        // One byte more at the front shows lines() whether a line starts at the offset.
        const std::uint64_t keep = offset == 0 ? 0 : offset - 1;
        if (keep < base_) {
            stream_->rewind();
            base_ = 0;
            size_ = 0;
            ended_ = false;
        }
        discard_before(keep);
        const std::size_t from = std::min(static_cast<std::size_t>(offset - base_), size_);
        const std::size_t end = load(from, from + static_cast<std::size_t>(std::max<std::uint64_t>(want, 1)));
        return std::max(offset, base_ + end);
    }

    std::string_view lines(std::uint64_t begin, std::uint64_t end, Buffer&) override {
        const auto to = static_cast<std::size_t>(end - base_);
        const std::size_t first =
            begin == 0 ? 0 : past_line_feed(static_cast<std::size_t>(begin - base_) - 1);
        if (first >= to) return {};
        const std::size_t past = past_line_feed(to - 1);
        return {text_.data() + first, past - first};
    }

    [[nodiscard]] bool rereadable() const override { return stream_->rereadable(); }
    [[nodiscard]] std::uint64_t file_bytes() const override { return stream_->file_bytes(); }
    [[nodiscard]] std::uint64_t working_bytes() const override { return working_bytes_; }
    [[nodiscard]] bool has_lone_returns() const override { return lone_returns_; }
    void require_unchanged() const override { stream_->require_unchanged(); }

  private:
    [[nodiscard]] std::size_t past_line_feed(std::size_t from) const {
        const void* feed = std::memchr(text_.data() + from, '\n', size_ - from);
        return feed == nullptr ? size_
                               : static_cast<std::size_t>(static_cast<const char*>(feed) - text_.data()) + 1;
    }

    /// Moves the window so that it starts at `offset`.
    void discard_before(std::uint64_t offset) {
        while (base_ + size_ < offset) {
            base_ += size_;
            size_ = 0;
            if (ended_) return;
            fill(kReadBytes);
        }
        const auto gone = static_cast<std::size_t>(offset - base_);
        if (gone == 0) return;
        std::memmove(text_.data(), text_.data() + gone, size_ - gone);
        size_ -= gone;
        base_ = offset;
    }

    /// Loads until `want` bytes and a line feed after `searched` bytes are there, or the text ends. Returns
    /// where the last whole line ends.
    std::size_t load(std::size_t searched, std::size_t want) {
        for (;;) {
            while (size_ < want && !ended_) fill(want);
            if (ended_) return size_;
            const void* feed = memrchr(text_.data() + searched, '\n', size_ - searched);
            if (feed != nullptr) {
                return static_cast<std::size_t>(static_cast<const char*>(feed) - text_.data()) + 1;
            }
            if (size_ > kLongestLineBytes) refuse_long_line(stream_->name(), base_);
            searched = size_;
            want = 2 * size_;
        }
    }

    /// Reads once, with room for `want` bytes in the window. The last line gets its line feed.
    void fill(std::size_t want) {
        if (text_.size() < want + 1 + kPaddingBytes) text_.resize(want + 1 + kPaddingBytes);
        const std::size_t got = stream_->read(text_.data() + size_, want - size_);
        if (lone_returns_) replace_returns(text_.data() + size_, got);
        size_ += got;
        if (may_have_lone_returns_ && !lone_returns_ && base_ == 0) {
            lone_returns_ = ends_first_line_with_return({text_.data(), size_});
            if (lone_returns_) replace_returns(text_.data(), size_);
        }
        if (got != 0) {
            last_ = text_[size_ - 1];
            return;
        }
        ended_ = true;
        if (base_ + size_ != 0 && last_ != '\n') text_[size_++] = '\n';
    }

    std::unique_ptr<ByteStream> stream_;
    std::uint64_t working_bytes_;
    bool may_have_lone_returns_;
    bool lone_returns_ = false;
    std::vector<char> text_;
    std::uint64_t base_ = 0;  // offset of text_[0]
    std::size_t size_ = 0;
    char last_ = '\n';
    bool ended_ = false;
};

}  // namespace

std::unique_ptr<TextSource> open_text(const std::string& path, int threads, std::uint64_t ahead_bytes,
                                      bool lone_returns) {
    auto raw = std::make_unique<RawStream>(std::make_unique<File>(path));
    const bool compressed = is_gzip(raw->peek());
    if (!compressed && raw->rereadable()) return std::make_unique<PlainText>(raw->take_file(), lone_returns);
    std::unique_ptr<ByteStream> stream = std::move(raw);
    std::uint64_t working_bytes = kReadBytes;  // in the window, before those that are asked for
    if (compressed) {
        stream = inflated(std::move(stream));
        working_bytes += kReadBytes;
    }
    const auto blocks = static_cast<std::size_t>(std::min(ahead_bytes, kMostAheadBytes) / kReadBytes);
    if (threads > 1 && blocks > 1) {
        stream = read_ahead(std::move(stream), blocks);
        working_bytes += blocks * kReadBytes;
    }
    return std::make_unique<StreamText>(std::move(stream), working_bytes, lone_returns);
}

std::string text_of_head(std::string_view head) {
    if (!is_gzip(head)) return std::string(head);
    z_stream inflater{};
    if (inflateInit2(&inflater, 16 + MAX_WBITS) != Z_OK) return {};
    std::string input(head);
    std::string text(1024, '\0');
    inflater.next_in = reinterpret_cast<Bytef*>(input.data());
    inflater.avail_in = static_cast<uInt>(input.size());
    inflater.next_out = reinterpret_cast<Bytef*>(text.data());
    inflater.avail_out = static_cast<uInt>(text.size());
    const int status = inflate(&inflater, Z_SYNC_FLUSH);
    const std::size_t got = text.size() - inflater.avail_out;
    inflateEnd(&inflater);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) return {};
    text.resize(got);
    return text;
}

}  // namespace gpumat::formats::matrix_market
