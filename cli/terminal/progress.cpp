#include "cli/terminal/progress.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <system_error>
#include <utility>

#include "core/memory.hpp"

namespace gpumat::cli {
namespace {

constexpr double kFirstShownS = 1;
constexpr double kShownEveryS = 0.2;
constexpr std::size_t kRateOver = 10;  ///< times that it is shown

std::mutex line_mutex;  // of standard error
bool line_shown = false;
bool lines_ended = false;

void clear_shown_line() {
    if (std::exchange(line_shown, false)) std::fputs(kClearLine, stderr);
}

using ColouredSink = spdlog::sinks::stderr_color_sink_st;
class MessageSink final : public ColouredSink {
  public:
    void log(const spdlog::details::log_msg& message) override {
        const std::lock_guard lock(line_mutex);
        clear_shown_line();
        ColouredSink::log(message);
    }
};

/// What a line of the terminal holds beside the cursor: a longer one would wrap, and could not be taken away.
std::size_t columns_left() {
    winsize size = {};
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1U : std::string::npos;
}

std::uint64_t bytes_done(const Progress& progress) {
    return progress.bytes_read + progress.bytes_checked;
}

}  // namespace

bool shows_progress(const Style& style) {
    return !style.quiet && isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

void show_line(const std::string& text) {
    const std::lock_guard lock(line_mutex);
    if (lines_ended) return;
    std::fputs((kClearLine + text.substr(0, columns_left())).c_str(), stderr);
    std::fflush(stderr);
    line_shown = true;
}

void clear_line() {
    const std::lock_guard lock(line_mutex);
    clear_shown_line();
}

void end_lines() {
    const std::lock_guard lock(line_mutex);
    clear_shown_line();
    lines_ended = true;
}

spdlog::sink_ptr message_sink() {
    return std::make_shared<MessageSink>();
}

std::string describe_progress(const Progress& progress, std::string_view last, double rate,
                              double elapsed_s) {
    const std::uint64_t to_read = progress.bytes_to_read;
    const std::uint64_t read = progress.bytes_read;
    const std::uint64_t to_check = progress.bytes_to_check;
    const std::uint64_t checked = progress.bytes_checked;
    if (to_check == 0) return "opening";
    if (checked >= to_check) return "finishing";
    const bool reads = read < to_read;
    if (!reads && to_read > 0 && checked == 0) return fmt::format("computing, {:.0f} s", elapsed_s);
    std::string text =
        fmt::format("{} {} of {}", reads ? "reading" : last, format_bytes(reads ? read : checked),
                    format_bytes(reads ? to_read : to_check));
    if (rate > 0) text += ", " + format_bytes(static_cast<std::uint64_t>(rate)) + "/s";
    const double share = static_cast<double>(read + checked) / static_cast<double>(to_read + to_check);
    if (share > 0) text += fmt::format(", {:.0f} s left", elapsed_s * (1 - share) / share);
    return text;
}

ProgressLine::ProgressLine(const Progress& progress, std::string_view last, const Context& context)
    : progress_(progress), last_(last) {
    if (context.is_job || !shows_progress(context.style)) return;
    try {
        showing_ = std::thread([this] { show(); });
    } catch (const std::system_error&) {  // no thread: no line
    }
}

ProgressLine::~ProgressLine() {
    if (!showing_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_all();
    showing_.join();
    clear_line();
}

bool ProgressLine::pause(std::unique_lock<std::mutex>& lock, double seconds) {
    return !changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_; });
}

void ProgressLine::show() {
    std::unique_lock lock(mutex_);
    std::deque<std::pair<double, std::uint64_t>> past;  // seconds and bytes, for the rate
    for (double wait_s = kFirstShownS; pause(lock, wait_s); wait_s = kShownEveryS) {
        const double now_s = progress_.timeline.elapsed_ms() / 1e3;
        const std::uint64_t bytes = bytes_done(progress_);
        if (past.empty()) past.emplace_back(0, 0);
        past.emplace_back(now_s, bytes);
        if (past.size() > kRateOver) past.pop_front();
        const auto& [before_s, bytes_before] = past.front();
        const double rate = static_cast<double>(bytes - bytes_before) / (now_s - before_s);
        show_line(describe_progress(progress_, last_, rate, now_s));
    }
}

}  // namespace gpumat::cli
