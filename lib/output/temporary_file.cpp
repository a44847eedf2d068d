#include "lib/output/temporary_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include "core/same_file.hpp"

namespace gpumat {
namespace {

constexpr int kMostNames = 1000;  ///< of one output: where a file system has no locks, those left stay
constexpr int kUsualNames = 16;   ///< of which some may be free before one that is taken

std::string temporary_name(const std::string& output, int number) {
    constexpr std::size_t kLongestName = 200;  // short enough for any file system
    return "." + output.substr(0, kLongestName) + ".gpumat-" + std::to_string(number);
}

/// Whether the name, not what it links to, is that of the open file.
bool names(int folder, const std::string& name, int file) {
    struct stat opened = {};
    struct stat named = {};
    return fstat(file, &opened) == 0 && fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           same_file(opened, named);
}

/// Keeps signals from this thread while it lives.
class SignalsHeld {
  public:
    SignalsHeld() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    SignalsHeld(const SignalsHeld&) = delete;
    SignalsHeld& operator=(const SignalsHeld&) = delete;
    ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_{};
};

/// Calls `make(name)`, which returns errno or 0, with one name after the other until one is not taken.
template <class Make>
TemporaryName take_name(int folder, const std::string& output, int& error_number, Make make) {
    const SignalsHeld held;  // none comes between the file and the note to remove it
    for (int number = 1; number <= kMostNames; ++number) {
        const std::string name = temporary_name(output, number);
        error_number = make(name);
        if (error_number == 0) return {folder, name};
        if (error_number != EEXIST) break;
    }
    return {};
}

}  // namespace

TemporaryName::TemporaryName(int folder, std::string text)
    : folder_(folder), text_(std::move(text)), removal_(std::make_unique<RemovedOnSignal>(folder_, text_)) {}

TemporaryName& TemporaryName::operator=(TemporaryName&& other) noexcept {
    std::swap(folder_, other.folder_);
    std::swap(text_, other.text_);
    std::swap(removal_, other.removal_);
    return *this;
}

TemporaryName::~TemporaryName() {
    if (!empty()) unlinkat(folder_, text_.c_str(), 0);
}

TemporaryFile create_temporary_file(int folder, const std::string& output, mode_t mode) {
    TemporaryFile made;
    made.name = take_name(folder, output, made.error_number, [&](const std::string& name) {
        made.file = Descriptor(
            openat(folder, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode));
        if (!made.file.valid()) return errno;
        // Who removes what was left may come before the lock.
        const bool locked = flock(made.file.number(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        return locked && names(folder, name, made.file.number()) ? 0 : EEXIST;
    });
    return made;
}

std::string reason_of_no_temporary_file(const std::string& output, int error_number) {
    if (error_number != EEXIST) return std::error_code(error_number, std::generic_category()).message();
    return "the names " + temporary_name(output, 1) + " to " + temporary_name(output, kMostNames) +
           " are all taken; remove those that no run is using";
}

TemporaryName link_temporary_name(int file, int folder, const std::string& output) {
    flock(file, LOCK_SH | LOCK_NB);
    int error_number = 0;
    return take_name(folder, output, error_number,
                     [&](const std::string& name) { return link_file(file, folder, name); });
}

int link_file(int file, int folder, const std::string& name) {
    const std::string opened = "/proc/self/fd/" + std::to_string(file);
    return linkat(AT_FDCWD, opened.c_str(), folder, name.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

void remove_left_temporary_files(int folder, const std::string& output) {
    for (int number = 1; number <= kMostNames; ++number) {
        const std::string name = temporary_name(output, number);
        const Descriptor left(openat(folder, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!left.valid() && errno == ENOENT && number > kUsualNames) return;
        struct stat file = {};
        if (!left.valid() || fstat(left.number(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
        if (flock(left.number(), LOCK_EX | LOCK_NB) != 0 || !names(folder, name, left.number())) continue;
        unlinkat(folder, name.c_str(), 0);
    }
}

}  // namespace gpumat
