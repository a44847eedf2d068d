#include "cli/terminal/last_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <exception>
#include <utility>

#include "cli/terminal/progress.hpp"

namespace gpumat::cli {

LastWords::LastWords(bool wanted, std::function<void(int)> say) : say_(std::move(say)) {
    if (!wanted) return;
    try {
        notice_.emplace();
        listening_ = std::thread([this] { listen(); });
        // A process is forked soon: no lock of memory or a sanitizer may be held by a thread that starts.
        listens_.wait();
    } catch (const std::exception&) {
        notice_.reset();
    }
}

LastWords::~LastWords() {
    if (!listening_.joinable()) return;
    notice_->cancel();
    listening_.join();
}

void LastWords::listen() {
    listens_.count_down();
    const int signal_number = notice_->wait();
    if (signal_number == 0) return;
    forbid_naming();
    end_lines();
    const std::lock_guard lock(mutex_);
    try {
        if (!settled_) say_(signal_number);
    } catch (...) {  // it cannot be said
    }
    end_by_signal(signal_number);
}

void LastWords::settle(const std::function<void()>& say) {
    const std::lock_guard lock(mutex_);
    settled_ = true;
    say();
}

void LastWords::settle_failure(const std::function<void()>& say) {
    stop_if_ending();
    try {
        settle(say);
    } catch (...) {
        report_failure();
    }
}

bool wants_last_words(const std::string& log, const Context& context) {
    return !log.empty() || (!context.is_job && (context.style.json || shows_progress(context.style)));
}

int exit_code_of_signal(int signal_number) {
    return 128 + signal_number;
}

std::string describe_signal(int signal_number) {
    const char* const name = sigabbrev_np(signal_number);
    return name == nullptr ? fmt::format("ended by signal {}", signal_number)
                           : fmt::format("ended by signal {} (SIG{})", signal_number, name);
}

}  // namespace gpumat::cli
