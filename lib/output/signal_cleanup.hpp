#pragma once

#include <mutex>
#include <string>

namespace gpumat {

/// Call once, from main: SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGXCPU (a limit of processor time) then remove
/// the files of every live RemovedOnSignal before they end the process as usual (a shell sees 128 + n).
/// SIGXFSZ and SIGPIPE are ignored, so that a file-size limit or a closed pipe is an ordinary write error. A
/// signal that the parent made this process ignore (nohup) stays ignored.
void install_signal_cleanup();

/// While it lives, the first of these signals does not end the process: it is told here, and whoever waits
/// for it says what there is to say and then calls end_by_signal. Meanwhile the process goes on. A second
/// signal ends it at once, and so do two seconds. One at a time; forked children end as if there were none.
class SignalNotice {
  public:
    /// Throws Error{memory} where the system refuses a descriptor.
    SignalNotice();
    SignalNotice(const SignalNotice&) = delete;
    SignalNotice& operator=(const SignalNotice&) = delete;
    ~SignalNotice();  ///< ends the process where a signal came

    /// Readable once a signal came.
    [[nodiscard]] int descriptor() const;
    /// The one that came; 0 where none did.
    [[nodiscard]] static int signal_number();
    /// Waits for a signal, and returns it; or 0 once `cancel` was called.
    [[nodiscard]] int wait() const;
    void cancel() const;
};

/// Files get names while one lives: a signal that a SignalNotice tells of does not end the process meanwhile,
/// and where one came before, this does not return. Short, and not within another one.
class NamingFiles {
  public:
    NamingFiles();

  private:
    std::unique_lock<std::mutex> lock_;
};

/// Lets no more files get names. Once, before the last words.
void forbid_naming();

/// Removes the files, for who ends the process otherwise.
void remove_unfinished_files();

/// Removes the files and ends the process by that signal.
[[noreturn]] void end_by_signal(int signal_number);

/// Does not return where a signal is about to end the process: what fails now may fail because of it.
void stop_if_ending();

/// A name in a folder that a signal must remove, while this object lives. Forked children leave it.
class RemovedOnSignal {
  public:
    /// `folder` is a descriptor that outlives this object. Make the object before the file, so that no
    /// signal can come between. Throws Error{output} where too many live at once, or the name is too long.
    RemovedOnSignal(int folder, const std::string& name);
    RemovedOnSignal(const RemovedOnSignal&) = delete;
    RemovedOnSignal& operator=(const RemovedOnSignal&) = delete;
    ~RemovedOnSignal();

  private:
    std::size_t slot_;
};

}  // namespace gpumat
