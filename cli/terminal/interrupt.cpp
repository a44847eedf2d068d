#include "cli/terminal/interrupt.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

namespace gpumat::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

// A signal handler can reach nothing but objects of static storage. Lock-free atomics are safe in one, on
// whichever thread it runs.
std::atomic<const char*> text_for_stdout{""};
std::atomic<const char*> text_for_stderr{""};
std::atomic<bool> in_piece{false};
std::atomic<int> waiting{0};
std::array<struct sigaction, kSignals.size()> before{};

void write_all(int file, const char* text) {
    for (std::size_t left = std::strlen(text); left > 0;) {
        const ssize_t written = write(file, text, left);
        if (written <= 0) return;
        text += written;
        left -= static_cast<std::size_t>(written);
    }
}

/// Ends the output, then lets the signal do what it did before.
void finish(int signal_number) {
    write_all(STDERR_FILENO, text_for_stderr);
    write_all(STDOUT_FILENO, text_for_stdout);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
        if (kSignals[i] == signal_number) sigaction(signal_number, &before[i], nullptr);
    }
    raise(signal_number);
}

void handle(int signal_number) {
    waiting = signal_number;
    if (!in_piece && waiting.exchange(0) != 0) finish(signal_number);
}

}  // namespace

FinishOnInterrupt::FinishOnInterrupt() {
    struct sigaction action {};
    action.sa_handler = handle;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
        sigaction(kSignals[i], nullptr, &before[i]);
        const bool ignored = (before[i].sa_flags & SA_SIGINFO) == 0 && before[i].sa_handler == SIG_IGN;
        if (!ignored) sigaction(kSignals[i], &action, nullptr);
    }
}

FinishOnInterrupt::~FinishOnInterrupt() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
}

void FinishOnInterrupt::set_end(const char* on_stdout, const char* on_stderr) {
    text_for_stdout = on_stdout;
    text_for_stderr = on_stderr;
}

void FinishOnInterrupt::begin_piece() {
    in_piece = true;
}

void FinishOnInterrupt::end_piece() {
    in_piece = false;
    if (const int signal_number = waiting.exchange(0); signal_number != 0) finish(signal_number);
}

}  // namespace gpumat::cli
