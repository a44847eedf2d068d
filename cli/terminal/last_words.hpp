#pragma once

#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cli/terminal/context.hpp"
#include "lib/output/signal_cleanup.hpp"

namespace gpumat::cli {

/// While it lives, a signal or a limit that ends the process is told of first: in the record, and where else
/// a result was expected. A thread of its own says it, because a signal handler may do next to nothing.
class LastWords {
  public:
    /// Where they are not wanted, or the system gives no thread for it, signals end the process without a
    /// word.
    LastWords(bool wanted, std::function<void(int signal_number)> say);
    LastWords(const LastWords&) = delete;
    LastWords& operator=(const LastWords&) = delete;
    ~LastWords();

    /// The work has ended by itself, and `say` tells of it: nothing else will.
    void settle(const std::function<void()>& say);

    /// The same of work that has failed. Where that is due to a signal, the signal is what is told of, and
    /// this does not return; and where `say` fails, that is only reported: the error of the work is the one
    /// to end with.
    void settle_failure(const std::function<void()>& say);

  private:
    void listen();

    std::optional<SignalNotice> notice_;
    std::function<void(int)> say_;
    std::mutex mutex_;
    bool settled_ = false;
    std::latch listens_{1};
    std::thread listening_;
};

/// Whether anybody would hear them: a log, who reads the JSON, or who sees the line of progress. What a job
/// of a batch prints is heard by nobody once it is ended.
bool wants_last_words(const std::string& log, const Context& context);

/// 128 + n, as a shell shows it.
int exit_code_of_signal(int signal_number);

/// "ended by signal 15 (SIGTERM)".
std::string describe_signal(int signal_number);

}  // namespace gpumat::cli
