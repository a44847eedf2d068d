#include "lib/atomic_output.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>

#include "lib/core/error.hpp"

namespace gpumat {
namespace {

// ---- Temporary files that a signal must remove ----------------------------------------------------------

/// One temporary file. The handler may run at any instant and on any thread, so the path is complete before
/// `state` says so, and fixed memory holds it.
struct Slot {
    enum State : int { free, filling, armed };
    std::atomic<int> state{free};
    pid_t owner = 0;  ///< a forked child must not remove its parent's file
    std::array<char, PATH_MAX> path{};
};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");

std::array<Slot, 64> slots;

/// Arms the removal of `path`; the slot's number.
int arm(const std::string& path) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
        int expected = Slot::free;
        if (path.size() >= PATH_MAX || !slots[i].state.compare_exchange_strong(expected, Slot::filling))
            continue;
        slots[i].owner = getpid();
        std::memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
        slots[i].state = Slot::armed;
        return static_cast<int>(i);
    }
    throw Error(ErrorCode::output, path + ": too many output files at once, or too long a name");
}

void disarm(int slot) {
    if (slot >= 0) slots[static_cast<std::size_t>(slot)].state = Slot::free;
}

/// Async-signal-safe: nothing but unlink, getpid, sigaction and raise.
extern "C" void remove_temporaries_and_die(int signal_number) {
    const pid_t self = getpid();
    for (const Slot& slot : slots) {
        if (slot.state == Slot::armed && slot.owner == self) unlink(slot.path.data());
    }
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal_number, &usual, nullptr);
    raise(signal_number);  // is blocked here, and ends the process when this handler returns
}

// ---- Paths ----------------------------------------------------------------------------------------------

[[noreturn]] void fail(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::output, "cannot write " + path + ": " + what);
}

std::string reason(int error_number) {
    return std::error_code(error_number, std::generic_category()).message();
}

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_in_folder(const std::string& path) {
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

/// The file that a chain of symbolic links ends at, which need not exist.
std::string follow_links(const std::string& target) {
    constexpr int kMostLinks = 40;  // as the kernel
    std::string path = target;
    for (int i = 0; i < kMostLinks; ++i) {
        std::array<char, PATH_MAX> link{};
        const ssize_t length = readlink(path.c_str(), link.data(), link.size());
        if (length < 0) return path;  // not a link
        const std::string to(link.data(), static_cast<std::size_t>(length));
        path = to.starts_with('/') ? to : folder_of(path).append("/").append(to);
    }
    fail(target, reason(ELOOP));
}

bool same_file(const struct stat& x, const struct stat& y) {
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// Whether a file is as it was.
bool same_version(const struct stat& before, const struct stat& now) {
    return same_file(before, now) && before.st_size == now.st_size &&
           before.st_mtim.tv_sec == now.st_mtim.tv_sec && before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

/// A hidden name beside `target`, short enough for any file system.
std::string temporary_name(const std::string& target) {
    constexpr std::size_t kLongestName = 200;
    std::random_device random;
    std::array<char, 48> suffix{};
    std::snprintf(suffix.data(), suffix.size(), ".gpumat-%ld-%08x", static_cast<long>(getpid()), random());
    return folder_of(target) + "/." + name_in_folder(target).substr(0, kLongestName) + suffix.data();
}

/// What there is of the target; nothing where it is new. Throws where it may not be written over.
std::optional<struct stat> require_replaceable(const std::string& target, OutputMode mode,
                                               std::span<const std::string> inputs) {
    struct stat present = {};
    if (stat(target.c_str(), &present) != 0) {
        if (errno != ENOENT) fail(target, reason(errno));
        return std::nullopt;
    }
    for (const std::string& input : inputs) {
        struct stat other = {};
        if (stat(input.c_str(), &other) != 0 || !same_file(present, other)) continue;
        fail(target, "it is the same file as the input " + input + ", which is never overwritten");
    }
    if (S_ISDIR(present.st_mode)) fail(target, "it is a directory");
    if (access(target.c_str(), W_OK) != 0) fail(target, reason(errno));
    if (S_ISREG(present.st_mode) && mode == OutputMode::create)
        fail(target, "it exists; --force replaces it");
    return present;
}

/// The file that will get the name, with links followed.
std::string resolve(const std::string& target) {
    std::string path = follow_links(target);
    if (name_in_folder(path).empty()) fail(target, "there is no such directory");
    return path;
}

[[noreturn]] void fail_in_folder(const std::string& target, const std::string& folder, int error_number) {
    fail(target, "cannot create a file in the folder " + folder + ": " + reason(error_number));
}

/// Locks a file as HDF5 locks those that it writes. Returns what to close to unlock it, or -1 where locking
/// is turned off. Throws where another process has the file open.
int lock(const std::string& target) {
    const char* const wanted = std::getenv("HDF5_USE_FILE_LOCKING");
    if (wanted != nullptr && (std::strcmp(wanted, "FALSE") == 0 || std::strcmp(wanted, "0") == 0)) return -1;
    const int descriptor = open(target.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(target, reason(errno));
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return descriptor;
    close(descriptor);
    fail(target,
         "another process has the file open, and what that writes would be lost "
         "(HDF5_USE_FILE_LOCKING=FALSE in the environment turns locking off)");
}

/// Flushes a file, or a folder with its names, to disk. Returns errno, or 0.
int flush(const std::string& path, int flags) {
    const int descriptor = open(path.c_str(), flags | O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    const int error_number = fsync(descriptor) == 0 ? 0 : errno;
    close(descriptor);
    return error_number;
}

/// Renames without replacing. Returns errno, or 0.
int rename_to_new(const std::string& from, const std::string& to) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    // The file system (NFS) does not know the flag; a hard link does not replace either.
    if (link(from.c_str(), to.c_str()) != 0) return errno;
    unlink(from.c_str());
    return 0;
}

}  // namespace

void install_signal_cleanup() {
    const auto install = [](int signal_number, void (*handler)(int)) {
        struct sigaction present = {};
        sigaction(signal_number, nullptr, &present);
        if (present.sa_handler == SIG_IGN) return;  // as the parent wants it
        struct sigaction action = {};
        action.sa_handler = handler;
        sigaction(signal_number, &action, nullptr);
    };
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        install(signal_number, remove_temporaries_and_die);
    }
    for (const int signal_number : {SIGXFSZ, SIGPIPE}) install(signal_number, SIG_IGN);
}

void require_output_possible(const std::string& target, OutputMode mode,
                             std::span<const std::string> inputs) {
    const auto present = require_replaceable(target, mode, inputs);
    if (present && !S_ISREG(present->st_mode)) return;
    const std::string folder = folder_of(resolve(target));
    if (access(folder.c_str(), W_OK | X_OK) != 0) fail_in_folder(target, folder, errno);
    if (!present || mode != OutputMode::extend) return;
    if (const int descriptor = lock(target); descriptor >= 0) close(descriptor);
}

AtomicOutput::AtomicOutput(const std::string& target, OutputMode mode, std::span<const std::string> inputs)
    : target_(target), mode_(mode) {
    const auto present = require_replaceable(target, mode, inputs);
    if (present && !S_ISREG(present->st_mode)) {
        direct_ = true;
        path_ = target;
        return;
    }
    target_ = resolve(target);
    path_ = temporary_name(target_);
    slot_ = arm(path_);  // before the file is there, so that no signal can come between
    const int descriptor = open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        const int error_number = errno;
        disarm(slot_);
        fail_in_folder(target, folder_of(target_), error_number);
    }
    if (present) fchmod(descriptor, present->st_mode & 0777);
    close(descriptor);
    if (present && mode == OutputMode::extend) {
        copied_ = present;
        try {
            lock_ = lock(target_);
            copy_target();
        } catch (...) {  // the destructor of a half-made object does not run
            unlink(path_.c_str());
            disarm(slot_);
            if (lock_ >= 0) close(lock_);
            throw;
        }
    }
}

void AtomicOutput::copy_target() {
    std::error_code failure;
    std::filesystem::copy_file(target_, path_, std::filesystem::copy_options::overwrite_existing, failure);
    if (failure) fail(target_, "it cannot be copied to add to it: " + failure.message());
}

AtomicOutput::~AtomicOutput() {
    if (lock_ >= 0) close(lock_);
    if (slot_ < 0) return;
    unlink(path_.c_str());
    disarm(slot_);
}

void AtomicOutput::commit() {
    if (slot_ < 0) return;
    if (const int error_number = flush(path_, 0); error_number != 0) fail(target_, reason(error_number));
    if (struct stat now = {}; copied_ && (stat(target_.c_str(), &now) != 0 || !same_version(*copied_, now))) {
        fail(target_, "it changed while this run went on");
    }
    const int renamed = mode_ != OutputMode::create
                            ? (rename(path_.c_str(), target_.c_str()) == 0 ? 0 : errno)
                            : rename_to_new(path_, target_);
    if (renamed == EEXIST) fail(target_, "it appeared while this run went on; --force replaces it");
    if (renamed != 0) fail(target_, reason(renamed));
    disarm(slot_);
    slot_ = -1;
    const int flushed = flush(folder_of(target_), O_DIRECTORY);
    // A folder may be closed to reading, and a file system may not flush folders.
    if (flushed != 0 && flushed != EACCES && flushed != EINVAL) {
        throw Error(ErrorCode::output,
                    target_ + " is written, but its folder could not be flushed to disk: " + reason(flushed));
    }
}

}  // namespace gpumat
