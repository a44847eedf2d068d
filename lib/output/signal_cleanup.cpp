#include "lib/output/signal_cleanup.hpp"

#include <fcntl.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "core/error.hpp"

namespace gpumat {
namespace {

/// One file. The handler may run at any instant and on any thread, so the name is complete before `state`
/// says so, and fixed memory holds it.
struct Slot {
    enum State : int { free, filling, armed };
    std::atomic<int> state{free};
    pid_t owner = 0;  ///< a forked child must not remove its parent's file
    int folder = -1;
    std::array<char, NAME_MAX + 1> name{};
};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may use it");

std::array<Slot, 64> slots;

constexpr unsigned kPatienceSeconds = 2;

// What the handler shares with SignalNotice. A forked child has its parent's values: `notice_owner` tells
// them apart.
std::atomic<pid_t> notice_owner{0};  ///< the process that has a SignalNotice; 0: none
std::atomic<int> notice_signal{0};   ///< the signal that it was told of
std::atomic<int> notice_event{-1};   ///< eventfd of `event_owner`; stays open: a handler may use it any time
pid_t event_owner = 0;
sem_t notice_count;  ///< signals and cancellations: who waits for them needs no descriptor, which may fail

std::mutex naming_mutex;  ///< held while files get names, and from the first signal on

void add_to_event() {
    const std::uint64_t one = 1;
    if (write(notice_event, &one, sizeof one) < 0) return;  // it is readable already
}

// The handlers are async-signal-safe: nothing but alarm, getpid, raise, sem_post, sigaction, unlinkat and
// write.

extern "C" void remove_files_and_die(int signal_number) {
    remove_unfinished_files();
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal_number, &usual, nullptr);
    raise(signal_number);  // is blocked here, and ends the process when this handler returns
}

extern "C" void answer_signal(int signal_number) {
    const int error_number = errno;
    int none = 0;
    // Whose notice ends at this instant sees `notice_signal`, or is seen to be gone.
    if (notice_owner == getpid() && notice_signal.compare_exchange_strong(none, signal_number) &&
        notice_owner == getpid()) {
        alarm(kPatienceSeconds);
        add_to_event();  // before who waits for the count may end the process
        sem_post(&notice_count);
        errno = error_number;
        return;
    }
    remove_files_and_die(signal_number);
}

/// Whoever should have said the last words did not in time; or the alarm is somebody else's.
extern "C" void lose_patience(int signal_number) {
    remove_files_and_die(notice_signal != 0 ? notice_signal.load() : signal_number);
}

}  // namespace

void remove_unfinished_files() {
    const pid_t self = getpid();
    for (const Slot& slot : slots) {
        if (slot.state == Slot::armed && slot.owner == self) unlinkat(slot.folder, slot.name.data(), 0);
    }
}

void install_signal_cleanup() {
    const auto install = [](int signal_number, void (*handler)(int)) {
        struct sigaction present = {};
        sigaction(signal_number, nullptr, &present);
        if (present.sa_handler == SIG_IGN) return;  // as the parent wants it
        struct sigaction action = {};
        action.sa_handler = handler;
        action.sa_flags = SA_RESTART;
        sigaction(signal_number, &action, nullptr);
    };
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU})
        install(signal_number, answer_signal);
    install(SIGALRM, lose_patience);
    for (const int signal_number : {SIGXFSZ, SIGPIPE}) install(signal_number, SIG_IGN);
}

SignalNotice::SignalNotice() {
    if (event_owner != getpid()) {
        const int made = eventfd(0, EFD_CLOEXEC);
        if (made < 0)
            throw Error(ErrorCode::memory, std::string("no descriptor for signals: ") + std::strerror(errno));
        notice_event = made;
        event_owner = getpid();
    }
    sem_init(&notice_count, 0, 0);
    notice_owner = getpid();
}

SignalNotice::~SignalNotice() {
    notice_owner = 0;
    if (notice_signal != 0) end_by_signal(notice_signal);
}

int SignalNotice::descriptor() const {
    return notice_event;
}

int SignalNotice::signal_number() {
    return notice_signal;
}

int SignalNotice::wait() const {
    while (sem_wait(&notice_count) != 0 && errno == EINTR) {
    }
    return notice_signal;
}

void SignalNotice::cancel() const {
    sem_post(&notice_count);
}

NamingFiles::NamingFiles() {
    stop_if_ending();
    lock_ = std::unique_lock(naming_mutex);  // for ever where a signal came at this instant
}

void forbid_naming() {
    naming_mutex.lock();
}

void end_by_signal(int signal_number) {
    remove_files_and_die(signal_number);
    for (;;) pause();
}

void stop_if_ending() {
    while (notice_signal != 0 && notice_owner == getpid()) pause();
}

RemovedOnSignal::RemovedOnSignal(int folder, const std::string& name) : slot_(0) {
    for (; slot_ < slots.size() && name.size() <= NAME_MAX; ++slot_) {
        Slot& slot = slots[slot_];
        int expected = Slot::free;
        if (!slot.state.compare_exchange_strong(expected, Slot::filling)) continue;
        slot.owner = getpid();
        slot.folder = folder;
        std::memcpy(slot.name.data(), name.c_str(), name.size() + 1);
        slot.state = Slot::armed;
        return;
    }
    throw Error(ErrorCode::output, name + ": too many output files at once, or too long a name");
}

RemovedOnSignal::~RemovedOnSignal() {
    slots[slot_].state = Slot::free;
}

}  // namespace gpumat
