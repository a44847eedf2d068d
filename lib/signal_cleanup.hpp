#pragma once

#include <string>

namespace gpumat {

/// Call once, from main: SIGINT, SIGTERM, SIGHUP and SIGQUIT then remove the files of every live
/// RemovedOnSignal before they end the process as usual (a shell sees 128 + n). SIGXFSZ and SIGPIPE are
/// ignored, so that a file-size limit or a closed pipe is an ordinary write error. A signal that the parent
/// made this process ignore (nohup) stays ignored.
void install_signal_cleanup();

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
