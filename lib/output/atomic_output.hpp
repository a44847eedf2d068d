#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "lib/output/temporary_file.hpp"

namespace gpumat {

/// What becomes of a target that exists.
enum class OutputMode {
    create,   ///< it is an error
    replace,  ///< it is replaced
    extend,   ///< the output starts as its copy, so that what is written is added to it
};

enum class OutputPurpose {
    write,
    share,     ///< to write, by processes on other machines too: under a temporary name
    rehearse,  ///< to find what stands in the way; nothing of the target's content is copied
};

/// A target is locked by another process: it may be free later.
class LockedOutput : public Error {
  public:
    using Error::Error;
};

/// While one lives, the folders of outputs that this thread commits are flushed to disk at its end, each
/// once, and not one by one. A folder that cannot be flushed then is passed over: the outputs have their
/// names.
class GroupedFolderFlushes {
  public:
    GroupedFolderFlushes();
    GroupedFolderFlushes(const GroupedFolderFlushes&) = delete;
    GroupedFolderFlushes& operator=(const GroupedFolderFlushes&) = delete;
    ~GroupedFolderFlushes();

    /// Takes a folder where one lives in this thread; false where none does.
    static bool take(Descriptor& folder);

  private:
    std::map<std::pair<dev_t, ino_t>, Descriptor> folders_;
};

/// An output file that readers see whole or not at all: it has no name, or a temporary one beside the
/// target, until commit() gives it the target's. Without commit() it is gone and the target as it was. It
/// has one descriptor from its creation on, and is never opened again by its name.
///
/// Where the file system can (O_TMPFILE) the file has no name at all, so that a process that is killed
/// leaves none. Elsewhere it is called `.NAME.gpumat-N` and locked (flock): the next run to the same target
/// removes those whose processes are gone.
///
/// A file that is replaced gives its mode, owner, access control list and extended attributes to the new one.
/// A symbolic link is followed first, so that the file it points to is replaced and the link stays. A target
/// that exists and is not a regular file (/dev/full, a FIFO) is `direct`: the descriptor is that of the
/// target itself, which is never renamed over and never removed.
class AtomicOutput {
  public:
    /// Opens the file. Throws Error{output} where
    ///  - the target is one of `inputs`, through whatever path or link, but for the mode `extend`,
    ///  - the target exists and the mode is `create`,
    ///  - the target is a directory, or the system will not let it be replaced: a mount point, append-only or
    ///    immutable, another user's in a sticky folder,
    ///  - the mode is `extend` and another process has locked the target, as HDF5 does with open files
    ///    (unless HDF5_USE_FILE_LOCKING=FALSE, or the file system has no locks): LockedOutput, or it cannot
    ///    be read,
    ///  - the folder is missing, cannot be written to, or cannot rename files.
    /// Inputs that do not exist, such as "-", are passed over.
    AtomicOutput(const std::string& target, OutputMode mode, std::span<const std::string> inputs = {},
                 OutputPurpose purpose = OutputPurpose::write);
    AtomicOutput(AtomicOutput&&) noexcept = default;
    AtomicOutput(const AtomicOutput&) = delete;
    AtomicOutput& operator=(AtomicOutput&&) = delete;
    AtomicOutput& operator=(const AtomicOutput&) = delete;
    ~AtomicOutput() = default;  // what has no name is gone with its descriptor

    /// Where to write: a file that is empty, or a copy of the target where the output extends it; open for
    /// reading and writing, at its start. The target itself where direct (for writing only; -1 in a
    /// rehearsal, because opening a FIFO waits for its reader), and where an extension is rehearsed (for
    /// reading only). Belongs to this object.
    [[nodiscard]] int descriptor() const { return file_.number(); }
    /// A path by which other programs of this user open the same file, while this object lives.
    [[nodiscard]] std::string path() const;
    /// The temporary name, by which processes on other machines open it; path() where the file has none.
    [[nodiscard]] std::string shared_path() const;
    [[nodiscard]] bool direct() const { return direct_; }
    /// Whether the file starts as a copy of the target.
    [[nodiscard]] bool extends() const { return extends_; }
    /// Whether that is read too. Who reads it has the file as it was.
    [[nodiscard]] bool extends_input() const { return extends_ && is_input_; }
    /// What of the file that is replaced the new one cannot keep, in words; for a warning before computing.
    [[nodiscard]] const std::vector<std::string>& not_kept() const { return not_kept_; }

    /// Flushes the file to disk, gives it the target's name and flushes the folder. Without `force`, a file
    /// that has appeared meanwhile is not replaced; but for file systems that have neither RENAME_NOREPLACE
    /// nor hard links, where one that appears in the last instant is. Throws Error{output}; the target is
    /// then as it was, unless the message says that only the folder could not be flushed. Does nothing where
    /// direct or done before.
    void commit();

  private:
    void open_direct(OutputPurpose purpose);
    void open_beside(OutputPurpose purpose);
    void create_file(mode_t mode, OutputPurpose purpose);
    void require_renaming();
    void lock_target();
    void copy_target() const;
    void become_named();
    void require_own_name() const;
    void restore_special_bits() const;
    [[nodiscard]] int give_name();
    [[nodiscard]] int rename_to_new() const;
    void flush_folder() const;
    [[noreturn]] void fail(const std::string& what) const;

    std::string target_;  ///< with symbolic links followed
    std::string name_in_folder_;
    OutputMode mode_;
    bool direct_ = false;
    bool extends_ = false;
    bool is_input_ = false;
    bool committed_ = false;
    std::optional<struct stat> present_;  ///< what the target was at the start
    Descriptor folder_;                   ///< of the target
    Descriptor source_;                   ///< the target, locked against others that would extend it
    Descriptor file_;
    TemporaryName name_;  ///< none where the file has no name; goes before the file's lock does
    std::vector<std::string> not_kept_;
    mode_t mode_kept_ = 0;  ///< of the file that is replaced
};

}  // namespace gpumat
