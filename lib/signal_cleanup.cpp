#include "lib/signal_cleanup.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>

#include "lib/core/error.hpp"

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

/// Async-signal-safe: nothing but unlinkat, getpid, sigaction and raise.
extern "C" void remove_files_and_die(int signal_number) {
    const pid_t self = getpid();
    for (const Slot& slot : slots) {
        if (slot.state == Slot::armed && slot.owner == self) unlinkat(slot.folder, slot.name.data(), 0);
    }
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal_number, &usual, nullptr);
    raise(signal_number);  // is blocked here, and ends the process when this handler returns
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
        install(signal_number, remove_files_and_die);
    }
    for (const int signal_number : {SIGXFSZ, SIGPIPE}) install(signal_number, SIG_IGN);
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
