#pragma once

#include <spdlog/sinks/sink.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "cli/terminal/context.hpp"
#include "lib/record/progress.hpp"

// The one line, on a terminal, that shows what is going on.

namespace gpumat::cli {

/// Takes away the line that shows what is going on, on a terminal.
inline constexpr const char* kClearLine = "\r\x1b[K";

/// Whether such a line is wanted: standard error is a terminal that may be coloured, and not to be quiet.
bool shows_progress(const Style& style);

/// Shows the line in the place of the one before it, or takes it away. From any thread.
void show_line(const std::string& text);
void clear_line();

/// Takes the line away for ever: a signal is about to end the process.
void end_lines();

/// Standard error for messages, in colour where that is wanted: takes the line away before each of them. From
/// any thread.
spdlog::sink_ptr message_sink();

/// "writing 1.20 GiB of 4.00 GiB, 1.10 GiB/s, 3 s left": how far a run has come after so many seconds. `last`
/// says what is done to the result: "writing". `rate` is in bytes a second, 0 where it is not known.
std::string describe_progress(const Progress& progress, std::string_view last, double rate, double elapsed_s);

/// While it lives, shows the line from the run's first second on, where one is wanted.
class ProgressLine {
  public:
    /// The progress must live longer.
    ProgressLine(const Progress& progress, std::string_view last, const Context& context);
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;
    ~ProgressLine();

  private:
    void show();
    /// False once the line is no longer wanted.
    bool pause(std::unique_lock<std::mutex>& lock, double seconds);

    const Progress& progress_;
    std::string_view last_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    std::thread showing_;
};

}  // namespace gpumat::cli
