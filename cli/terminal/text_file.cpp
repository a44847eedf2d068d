#include "cli/terminal/text_file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/memory.hpp"

namespace gpumat::cli {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{1} << 30;
constexpr int kWriterPatienceMs = 2000;

/// Reads to the end of a file that may be a pipe, a terminal or a device.
class TextReading {
  public:
    TextReading(std::string shown, int descriptor) : shown_(std::move(shown)), descriptor_(descriptor) {}

    std::string all() {
        std::vector<char> piece(std::size_t{1} << 20);
        for (;;) {
            const ssize_t got = read(descriptor_, piece.data(), piece.size());
            if (got > 0) {
                take({piece.data(), static_cast<std::size_t>(got)});
            } else if (got == 0) {
                if (!waits_for_writer()) return std::move(text_);
            } else if (errno == EAGAIN) {
                wait(-1);
            } else if (errno != EINTR) {
                refuse(std::string("cannot be read: ") + std::strerror(errno));
            }
        }
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorCode::input, shown_ + ": " + what);
    }

    /// A device or a file of something else would go on for long before anybody finds that it is no text.
    void take(std::string_view piece) {
        if (const std::size_t zero = piece.find('\0'); zero != std::string_view::npos) {
            text_ += piece.substr(0, zero);
            shown_ += ":" + std::to_string(1 + std::ranges::count(text_, '\n'));
            refuse("holds the byte \\x00; expected text");
        }
        if (text_.size() + piece.size() > kMostTextBytes)
            refuse("is larger than a text can be (" + format_bytes(kMostTextBytes) + ")");
        require_memory(text_.size() + piece.size(), {}, shown_);
        text_ += piece;
    }

    /// Whether at what seems to be the end of a pipe somebody may still come to write into it.
    bool waits_for_writer() {
        struct stat status = {};
        const bool may_come = text_.empty() && !waited_ && fstat(descriptor_, &status) == 0 &&
                              S_ISFIFO(status.st_mode) && descriptor_ != STDIN_FILENO;
        waited_ = true;
        return may_come && wait(kWriterPatienceMs);
    }

    bool wait(int patience_ms) const {
        pollfd polled = {descriptor_, POLLIN, 0};
        return poll(&polled, 1, patience_ms) != 0;
    }

    std::string shown_;
    int descriptor_;
    std::string text_;
    bool waited_ = false;
};

}  // namespace

std::string text_of_file(const std::string& path) {
    if (path == "-") return TextReading("standard input", STDIN_FILENO).all();
    // Opening a pipe does not wait for who writes into it.
    const Descriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file.valid()) throw Error(ErrorCode::input, path + ": cannot be read: " + std::strerror(errno));
    return TextReading(path, file.number()).all();
}

}  // namespace gpumat::cli
