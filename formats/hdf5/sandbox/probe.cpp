#include "formats/hdf5/sandbox/probe.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/forking.hpp"
#include "core/memory.hpp"
#include "formats/hdf5/file/library.hpp"

namespace gpumat::formats::hdf5 {
namespace {

// What describing a file may take: in a file of a million datasets, some 300 MB, about 20 s.
constexpr std::uint64_t kLeastSeconds = 5;
constexpr std::uint64_t kBytesASecond = std::uint64_t{4}
                                        << 20;  ///< of file and result, each worth a second more
constexpr std::uint64_t kLeastMemoryBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMemoryPerFileByte = 256;
constexpr std::uint64_t kMemoryPerResultByte = 4;  ///< filters keep a chunk before and after them

constexpr char kDone = 'd';   ///< the child's last word, followed by what `task` told
constexpr char kError = 'e';  ///< the same, followed by the code and the message

/// The bytes that the file really takes, which holes in it do not.
std::uint64_t taken_bytes_of(const std::string& path) {
    constexpr std::uint64_t kBlockBytes = 512;
    struct stat status {};
    return stat(path.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes : 0;
}

/// What the child may take.
struct Bounds {
    std::uint64_t seconds = 0;       ///< of processor time
    std::uint64_t memory_bytes = 0;  ///< beyond what the parent has
};

Bounds bounds_for(std::uint64_t file_bytes, std::uint64_t result_bytes, double more_seconds) {
    const std::uint64_t more_memory = std::min(
        kMemoryPerFileByte * file_bytes + kMemoryPerResultByte * result_bytes, available_memory_bytes());
    const std::uint64_t seconds = kLeastSeconds + (file_bytes + result_bytes) / kBytesASecond +
                                  static_cast<std::uint64_t>(std::min<double>(more_seconds, kMostSeconds));
    return {std::min(seconds, kMostSeconds), kLeastMemoryBytes + more_memory};
}

/// The address space that this process uses.
std::uint64_t address_space_bytes() {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Lowers the limit that was `before`; one that is lower already stays.
void limit(decltype(RLIMIT_CPU) resource, rlimit before, std::uint64_t most) {
    before.rlim_cur = std::min<rlim_t>(before.rlim_cur, most);
    setrlimit(resource, &before);
}

/// What the parent knows of a child that is gone: in memory that both share.
struct Note {
    std::uint64_t seconds = 0;                ///< of processor time that it may take
    std::array<char, 4096 - 8> reading = {};  ///< the end of a text says "…" where it is longer
};

/// The bounds of the child that this process is, and the limits that it was born with.
struct OwnBounds {
    Bounds bounds;
    Note* note = nullptr;
    std::uint64_t address_space = 0;
    rlimit time{};
    rlimit memory{};
};
std::optional<OwnBounds> own;  // none where this is no child

void apply(const OwnBounds& child) {
    limit(RLIMIT_CPU, child.time, child.bounds.seconds);
    child.note->seconds = std::min<std::uint64_t>(child.bounds.seconds, child.time.rlim_cur);
    limit(RLIMIT_AS, child.memory, child.address_space + child.bounds.memory_bytes);
}

/// What the child does: nothing that it has inherited may act twice, so it resets every signal handler and
/// ends without running exit handlers.
[[noreturn]] void run_child(int to_parent, Descriptor socket, pid_t parent, const Bounds& bounds, Note& note,
                            const sigset_t& signals, const std::function<std::string(Conversation&)>& task) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction present {};
        const bool ignored = sigaction(number, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
        if (!ignored || number == SIGXCPU) std::signal(number, SIG_DFL);
    }
    pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    limit(RLIMIT_CORE, {0, RLIM_INFINITY}, 0);
    own = OwnBounds{bounds, &note, address_space_bytes(), {}, {}};
    getrlimit(RLIMIT_CPU, &own->time);
    getrlimit(RLIMIT_AS, &own->memory);
    apply(*own);
    std::string last_word(1, kDone);
    try {
        Conversation conversation(std::move(socket));
        last_word += task(conversation);
    } catch (const Error& error) {
        last_word = std::string{kError, static_cast<char>(error.code())} + error.what();
    } catch (...) {  // no memory within the limit; the parent says so
        _exit(0);
    }
    _exit(write_all(to_parent, last_word) == 0 ? 0 : 1);
}

std::string read_all(int descriptor) {
    std::string text;
    std::array<char, 4096> piece{};
    for (;;) {
        const ssize_t count = read(descriptor, piece.data(), piece.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return text;
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
}

/// How a child ended that did not come to its last word.
std::string how_it_ended(int status, const rusage& used, const Note& note) {
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const auto seconds =
        static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec +
                                   (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000000);
    if (signal == SIGXCPU || (signal == SIGKILL && seconds >= note.seconds)) {
        return "HDF5 was still reading it after " + std::to_string(seconds) +
               " s of processor time, and was stopped; expected an end within " +
               std::to_string(note.seconds) + " s, the bound for a file that holds as much";
    }
    if (signal == SIGKILL) return "the process in which it was tried was killed, as where memory runs out";
    const auto failed = [](const std::string& how) {
        return "the HDF5 library fails on this file (" + how + "); the file is damaged";
    };
    if (signal != 0) return failed(std::string("it crashes: ") + strsignal(signal));
    if (WEXITSTATUS(status) == 0) return failed("it takes too much memory");
    return failed("it ends with status " + std::to_string(WEXITSTATUS(status)));
}

[[noreturn]] void cannot_start(const std::string& shown) {
    throw Error(ErrorCode::memory,
                shown + ": no process can be started to try the file in: " + std::strerror(errno));
}

/// The stack of a thread that starts a child is the child's.
void require_stack(const std::string& shown) {
    constexpr std::size_t kLeastBytes = std::size_t{256} << 10;  // HDF5 takes 64 KiB to open a dataset
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    std::size_t bytes = kLeastBytes;
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    if (bytes >= kLeastBytes) return;
    throw Error(ErrorCode::memory, shown + ": the stack may take " + format_bytes(bytes) +
                                       ", and the process in which the file is tried needs " +
                                       format_bytes(kLeastBytes) + " (ulimit -s)");
}

}  // namespace

bool Conversation::send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
}

bool Conversation::receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = recv(socket_.number(), bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

Child::Child(const std::string& path, std::string shown, ErrorCode code,
             const std::function<std::string(Conversation&)>& task, std::uint64_t result_bytes,
             double more_seconds)
    : shown_(std::move(shown)), code_(code), note_(sizeof(Note)) {
    require_stack(shown_);
    const Bounds bounds = bounds_for(taken_bytes_of(path), result_bytes, more_seconds);
    Note& note = *new (note_.data()) Note{bounds.seconds};
    std::array<int, 2> pipe{};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) cannot_start(shown_);
    last_word_ = Descriptor(pipe[0]);
    const Descriptor to_parent(pipe[1]);
    std::array<int, 2> sockets{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) cannot_start(shown_);
    conversation_ = Conversation(Descriptor(sockets[0]));
    Descriptor of_child(sockets[1]);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    start_library();  // once, in place of once here and once in each child
    std::unique_lock alone(forking);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // until the child has no handlers any more
    const pid_t parent = getpid();
    number_ = fork();
    if (number_ == 0) {
        alone.unlock();
        conversation_ = Conversation(Descriptor());  // so that the child sees when the parent's end is closed
        run_child(to_parent.number(), std::move(of_child), parent, bounds, note, before, task);
    }
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    if (number_ < 0) cannot_start(shown_);
}

Child::~Child() {
    if (number_ <= 0) return;
    kill(number_, SIGKILL);
    while (waitpid(number_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

std::string Child::finish() {
    conversation_ = Conversation(Descriptor());  // one that still waits for a word hears that none comes
    const std::string last_word = read_all(last_word_.number());
    int status = 0;
    rusage used{};
    while (wait4(number_, &status, 0, &used) < 0 && errno == EINTR) {
    }
    number_ = -1;
    const bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !last_word.empty();
    if (finished && last_word[0] == kDone) return last_word.substr(1);
    if (finished && last_word.size() > 2 && last_word[0] == kError)
        throw Error(static_cast<ErrorCode>(last_word[1]), last_word.substr(2));
    const Note& note = *std::launder(reinterpret_cast<const Note*>(note_.data()));
    const std::string reading = note.reading.data();
    throw Error(code_, (reading.empty() ? shown_ : reading) + ": " + how_it_ended(status, used, note));
}

std::string ask_child(const std::string& path, const std::string& shown, ErrorCode code,
                      const std::function<std::string()>& task, std::uint64_t result_bytes,
                      double more_seconds) {
    return Child(
               path, shown, code, [&](Conversation&) { return task(); }, result_bytes, more_seconds)
        .finish();
}

void try_in_child(const std::string& path, const std::string& shown, ErrorCode code,
                  const std::function<void()>& task, std::uint64_t result_bytes, double more_seconds) {
    const auto silent = [&] {
        task();
        return std::string();
    };
    ask_child(path, shown, code, silent, result_bytes, more_seconds);
}

void now_reading(const std::string& what) {
    constexpr std::string_view kMore = "…";
    if (!own) return;
    auto& reading = own->note->reading;
    const bool fits = what.size() < reading.size();
    const std::size_t bytes = fits ? what.size() : reading.size() - 1 - kMore.size();
    char* const end = std::copy_n(what.data(), bytes, reading.data());
    *std::copy(kMore.begin(), fits ? kMore.begin() : kMore.end(), end) = '\0';
}

void extend_bounds(double seconds, std::uint64_t memory_bytes) {
    if (!own) return;
    const auto more = static_cast<std::uint64_t>(std::min<double>(std::ceil(seconds), kMostSeconds));
    own->bounds.seconds = std::min(own->bounds.seconds + more, kMostSeconds);
    own->bounds.memory_bytes += memory_bytes;
    apply(*own);
}

}  // namespace gpumat::formats::hdf5
