#pragma once

#include <sys/stat.h>

#include <optional>
#include <span>
#include <string>

namespace gpumat {

/// Call once, from main: SIGINT, SIGTERM, SIGHUP and SIGQUIT then remove the temporary files of every live
/// AtomicOutput before they end the process as usual (a shell sees 128 + n). SIGXFSZ and SIGPIPE are ignored,
/// so that a file-size limit or a closed pipe is an ordinary write error. A signal that the parent made this
/// process ignore (nohup) stays ignored.
void install_signal_cleanup();

/// What becomes of a target that exists.
enum class OutputMode {
    create,   ///< it is an error
    replace,  ///< it is replaced
    extend,   ///< the temporary starts as its copy, so that what is written is added to it
};

/// Throws what making an AtomicOutput of these would throw, as far as that can be known without writing.
void require_output_possible(const std::string& target, OutputMode mode,
                             std::span<const std::string> inputs = {});

/// An output file that readers see whole or not at all: it is written under a temporary name beside the
/// target and renamed over it by commit(). Without commit() the temporary is removed and the target stays
/// as it was.
///
/// A symbolic link is followed first, so that the file it points to is replaced and the link stays. A target
/// that exists and is not a regular file (/dev/full, a FIFO) is `direct`: path() is the target itself, which
/// is never renamed over and never removed.
class AtomicOutput {
  public:
    /// Creates the temporary file. Throws Error{output} where
    ///  - the target is one of `inputs`, through whatever path or link and in every mode,
    ///  - the target exists and the mode is `create`,
    ///  - the target is a directory,
    ///  - the mode is `extend` and another process has locked the target, as HDF5 does with open files
    ///    (unless HDF5_USE_FILE_LOCKING=FALSE, or the file system has no locks),
    ///  - the folder is missing or cannot be written to.
    /// Inputs that do not exist, such as "-", are passed over.
    AtomicOutput(const std::string& target, OutputMode mode, std::span<const std::string> inputs = {});
    AtomicOutput(const AtomicOutput&) = delete;
    AtomicOutput& operator=(const AtomicOutput&) = delete;
    ~AtomicOutput();

    /// Where to write: an empty file that exists, to be truncated and filled; or the target where direct.
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] bool direct() const { return direct_; }
    /// Whether path() starts as a copy of the target.
    [[nodiscard]] bool extends() const { return copied_.has_value(); }

    /// Flushes the file to disk, gives it the target's name and flushes the folder. The writer must have
    /// closed the file. Without `force`, a file that has appeared meanwhile is not replaced. Throws
    /// Error{output}; the target is then as it was, unless the message says that only the folder could not
    /// be flushed. Does nothing where direct.
    void commit();

  private:
    void copy_target();

    std::string target_;  ///< with symbolic links followed
    std::string path_;
    OutputMode mode_;
    bool direct_ = false;
    std::optional<struct stat> copied_;  ///< the target when it was copied
    int lock_ = -1;                      ///< the target, open and locked against others that would extend it
    int slot_ = -1;  ///< in the list that the signal handler removes; -1 once there is nothing to remove
};

}  // namespace gpumat
