#include "formats/output_file.hpp"

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/error.hpp"

namespace gpumat::formats {
namespace {

/// Turns the signals of a closed pipe and of a passed file-size limit into errno while it lives: they are
/// held back for this thread, and one that came is taken away.
class HeldSignals {
  public:
    HeldSignals() {
        sigemptyset(&held_);
        sigaddset(&held_, SIGPIPE);
        sigaddset(&held_, SIGXFSZ);
        sigset_t pending;
        sigpending(&pending);
        for (const int signal : {SIGPIPE, SIGXFSZ}) {
            if (sigismember(&pending, signal) == 1) sigdelset(&held_, signal);  // one of the caller's own
        }
        pthread_sigmask(SIG_BLOCK, &held_, &before_);
    }
    ~HeldSignals() {
        const timespec at_once{};
        while (sigtimedwait(&held_, nullptr, &at_once) > 0) {
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;

  private:
    sigset_t held_{};
    sigset_t before_{};
};

}  // namespace

void OutputFile::write(std::span<const std::byte> bytes) const {
    const HeldSignals held;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const int reason = write_all(fd_, text);
    if (reason == 0) return;
    throw Error(reason == EPIPE ? ErrorCode::closed_pipe : ErrorCode::output,
                shown_ + ": cannot be written: " + std::strerror(reason));
}

void OutputFile::refuse(const std::string& what) const {
    throw Error(ErrorCode::output, shown_ + ": " + what);
}

}  // namespace gpumat::formats
