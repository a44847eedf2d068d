#include "lib/output/atomic_output.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/same_file.hpp"
#include "core/spool.hpp"
#include "lib/output/file_attributes.hpp"
#include "lib/output/paths.hpp"
#include "lib/output/special_output.hpp"

namespace gpumat {
namespace {

// ---- Paths ----------------------------------------------------------------------------------------------

[[noreturn]] void fail_to_write(const std::string& path, const std::string& what) {
    throw Error(ErrorCode::output, "cannot write " + path + ": " + what);
}

std::string reason(int error_number) {
    return std::error_code(error_number, std::generic_category()).message();
}

/// Whether a file is as it was.
bool same_version(const struct stat& before, const struct stat& now) {
    return same_file(before, now) && before.st_size == now.st_size &&
           before.st_mtim.tv_sec == now.st_mtim.tv_sec && before.st_mtim.tv_nsec == now.st_mtim.tv_nsec;
}

/// The input that is that file, if one is.
std::optional<std::string> input_at(const struct stat& file, std::span<const std::string> inputs) {
    for (const std::string& input : inputs) {
        struct stat other = {};
        if (stat(input.c_str(), &other) == 0 && same_file(file, other)) return input;
    }
    return std::nullopt;
}

/// What there is of the target; nothing where it is new. Throws where it may not be written over.
std::optional<struct stat> require_replaceable(const std::string& target, OutputMode mode,
                                               std::span<const std::string> inputs) {
    struct stat present = {};
    if (stat(target.c_str(), &present) != 0) {
        if (errno != ENOENT) fail_to_write(target, reason(errno));
        return std::nullopt;
    }
    const auto input = input_at(present, inputs);
    if (input && mode != OutputMode::extend)
        fail_to_write(target, "it is the same file as the input " + *input + ", which is never overwritten");
    if (S_ISDIR(present.st_mode)) fail_to_write(target, "it is a directory");
    if (access(target.c_str(), W_OK) != 0) fail_to_write(target, reason(errno));
    return present;
}

/// Those of chattr and of mounts, as bits of STATX_ATTR_…; none where the system does not tell.
std::uint64_t attributes_of(int folder, const char* name) {
    struct statx file = {};
    const bool known = statx(folder, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, 0, &file) == 0;
    return known ? file.stx_attributes : 0;
}

/// Why the system will not let a file be renamed over that of this name, in words. Empty where it may.
std::string lasting_obstacle(int folder, const std::string& name, const struct stat& present) {
    const std::uint64_t own = attributes_of(folder, name.c_str());
    if ((own & STATX_ATTR_MOUNT_ROOT) != 0) return "it is a mount point, and no file can take its place";
    if ((own & STATX_ATTR_APPEND) != 0) return "it is append-only (chattr +a), and cannot be replaced";
    if ((own & STATX_ATTR_IMMUTABLE) != 0) return "it is immutable (chattr +i), and cannot be replaced";
    if ((attributes_of(folder, "") & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE)) != 0)
        return "its folder is append-only or immutable (chattr +a, +i), and no file in it can be replaced";
    struct stat holder = {};
    const uid_t user = geteuid();
    const bool sticky = fstat(folder, &holder) == 0 && (holder.st_mode & S_ISVTX) != 0;
    if (sticky && user != 0 && user != holder.st_uid && user != present.st_uid)
        return "it is another user's file in a sticky folder, where only its owner can replace it";
    return "";
}

/// Whether the user has not turned locks off, as HDF5 has it.
bool locking_wanted() {
    const char* const wanted = std::getenv("HDF5_USE_FILE_LOCKING");
    return wanted == nullptr || (std::strcmp(wanted, "FALSE") != 0 && std::strcmp(wanted, "0") != 0);
}

// ---- Copying --------------------------------------------------------------------------------------------

/// From where `from` is to its end; where the file system can, without moving the bytes. Returns errno, or 0.
int copy_file(int from, int to) {
    constexpr std::size_t kPieceBytes = std::size_t{1} << 30;
    for (;;) {
        const ssize_t copied = copy_file_range(from, nullptr, to, nullptr, kPieceBytes, 0);
        if (copied > 0 || (copied < 0 && errno == EINTR)) continue;
        // Some file systems say that there is nothing to copy where there is: what is left is read.
        const bool unable =
            copied == 0 || errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS;
        return unable ? copy_to_end(from, to) : errno;
    }
}

thread_local GroupedFolderFlushes* grouped_flushes = nullptr;

}  // namespace

GroupedFolderFlushes::GroupedFolderFlushes() {
    grouped_flushes = this;
}

GroupedFolderFlushes::~GroupedFolderFlushes() {
    grouped_flushes = nullptr;
    for (const auto& [place, folder] : folders_) fsync(folder.number());
}

bool GroupedFolderFlushes::take(Descriptor& folder) {
    struct stat status = {};
    if (grouped_flushes == nullptr || fstat(folder.number(), &status) != 0) return false;
    grouped_flushes->folders_.try_emplace({status.st_dev, status.st_ino}, std::move(folder));
    return true;
}

AtomicOutput::AtomicOutput(const std::string& target, OutputMode mode, std::span<const std::string> inputs,
                           OutputPurpose purpose)
    : target_(target), mode_(mode), present_(require_replaceable(target, mode, inputs)) {
    is_input_ = present_ && input_at(*present_, inputs);
    if (present_ && !S_ISREG(present_->st_mode)) {
        open_direct(purpose);
    } else {
        open_beside(purpose);
    }
}

std::string AtomicOutput::path() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor());
}

std::string AtomicOutput::shared_path() const {
    if (name_.empty()) return path();
    return std::filesystem::absolute(folder_of(target_)) / name_.text();
}

void AtomicOutput::fail(const std::string& what) const {
    fail_to_write(target_, what);
}

void AtomicOutput::open_direct(OutputPurpose purpose) {
    direct_ = true;
    if (purpose == OutputPurpose::rehearse) return;
    file_ = open_special_output(target_, *present_, "cannot write " + target_);
}

void AtomicOutput::open_beside(OutputPurpose purpose) {
    const std::string shown = std::exchange(target_, follow_links(target_));
    name_in_folder_ = name_in_folder(target_);
    if (name_in_folder_.empty()) fail_to_write(shown, "there is no such directory");
    folder_ = Descriptor(open(folder_of(target_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (folder_.valid() && present_) {
        const std::string obstacle = lasting_obstacle(folder_.number(), name_in_folder_, *present_);
        if (!obstacle.empty()) fail(obstacle);
    }
    if (folder_.valid() && purpose != OutputPurpose::rehearse)
        remove_left_temporary_files(folder_.number(), name_in_folder_);
    constexpr mode_t kOwnerOnly = 0600;  // until it has the mode of the file that it replaces
    create_file(present_ ? kOwnerOnly : 0666, purpose);
    // After all that would keep it from being replaced.
    if (present_ && mode_ == OutputMode::create) fail_to_write(shown, "it exists; --force replaces it");
    if (present_) {
        not_kept_ = copy_file_attributes(target_, *present_, file_.number());
        if (struct stat now = {}; fstat(file_.number(), &now) == 0) mode_kept_ = now.st_mode & 07777;
    }
    if (!present_ || mode_ != OutputMode::extend) return;
    extends_ = true;
    lock_target();
    if (purpose == OutputPurpose::rehearse) {
        std::swap(file_, source_);
    } else {
        copy_target();
    }
}

void AtomicOutput::create_file(mode_t mode, OutputPurpose purpose) {
    const auto failed = [&](int error_number) {
        fail("cannot create a file in the folder " + folder_of(target_) + ": " +
             reason_of_no_temporary_file(name_in_folder_, error_number));
    };
    if (!folder_.valid()) failed(errno);
    if (purpose != OutputPurpose::share)
        file_ = Descriptor(openat(folder_.number(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
    if (file_.valid()) return;
    const NamingFiles naming;
    TemporaryFile made = create_temporary_file(folder_.number(), name_in_folder_, mode);
    if (made.error_number != 0) failed(made.error_number);
    file_ = std::move(made.file);
    name_ = std::move(made.name);
    require_renaming();
}

/// Renames the file over a second one of ours, as commit() will.
void AtomicOutput::require_renaming() {
    TemporaryFile second = create_temporary_file(folder_.number(), name_in_folder_, 0600);
    int error_number = second.error_number;
    if (error_number == 0 &&
        renameat(folder_.number(), name_.text(), folder_.number(), second.name.text()) != 0) {
        error_number = errno;
    }
    if (error_number != 0)
        fail("cannot rename a file in the folder " + folder_of(target_) + ": " +
             reason_of_no_temporary_file(name_in_folder_, error_number));
    name_.forget();
    name_ = std::move(second.name);
}

/// As HDF5 locks the files that it writes. One that is read too has a lock of its reader, beside which there
/// is none like that: a lock that others may read keeps away who writes with HDF5, and one of the other kind
/// that Linux has, who adds to what he reads as this run does.
void AtomicOutput::lock_target() {
    source_ = Descriptor(open(target_.c_str(), (is_input_ ? O_RDWR : O_RDONLY) | O_CLOEXEC));
    if (!source_.valid()) fail("it cannot be read to add to it: " + reason(errno));
    if (!locking_wanted()) return;
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    const bool others_write =
        (flock(source_.number(), (is_input_ ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
        (is_input_ && fcntl(source_.number(), F_OFD_SETLK, &whole) != 0 &&
         (errno == EAGAIN || errno == EACCES));
    if (!others_write) return;
    throw LockedOutput(ErrorCode::output,
                       "cannot write " + target_ +
                           ": another process has the file open, and what that writes would be lost "
                           "(HDF5_USE_FILE_LOCKING=FALSE in the environment turns locking off)");
}

void AtomicOutput::copy_target() const {
    const int error_number = copy_file(source_.number(), file_.number());
    if (error_number != 0) fail("it cannot be copied to add to it: " + reason(error_number));
    lseek(file_.number(), 0, SEEK_SET);
}

void AtomicOutput::commit() {
    if (direct_ || committed_) return;
    restore_special_bits();
    if (fsync(file_.number()) != 0) fail(reason(errno));
    if (struct stat now = {};
        extends_ && (stat(target_.c_str(), &now) != 0 || !same_version(*present_, now))) {
        fail("it changed while this run went on");
    }
    const NamingFiles naming;
    const int error_number = give_name();
    if (error_number == EEXIST) fail("it appeared while this run went on");
    if (error_number != 0) fail(reason(error_number));
    committed_ = true;
    name_.forget();
    flock(file_.number(), LOCK_UN);
    source_ = {};
    flush_folder();
}

/// Those that run a file as its owner or group: the system takes them away where a user writes into it.
void AtomicOutput::restore_special_bits() const {
    if ((mode_kept_ & (S_ISUID | S_ISGID)) != 0 && fchmod(file_.number(), mode_kept_) != 0)
        fail("its mode cannot be kept: " + reason(errno));
}

/// Returns errno, or 0.
int AtomicOutput::give_name() {
    if (name_.empty() && !present_) {
        const int failed = link_file(file_.number(), folder_.number(), name_in_folder_);
        if (failed == 0 || (failed == EEXIST && mode_ == OutputMode::create)) return failed;
    }
    if (name_.empty())  // rename replaces, link does not
        name_ = link_temporary_name(file_.number(), folder_.number(), name_in_folder_);
    if (name_.empty()) become_named();
    require_own_name();
    if (mode_ == OutputMode::create) return rename_to_new();
    return renameat(folder_.number(), name_.text(), folder_.number(), name_in_folder_.c_str()) == 0 ? 0
                                                                                                    : errno;
}

/// Copies a file without a name into one that has a temporary one, where the file system has no links.
void AtomicOutput::become_named() {
    TemporaryFile made = create_temporary_file(folder_.number(), name_in_folder_, 0600);
    if (made.error_number != 0) fail(reason_of_no_temporary_file(name_in_folder_, made.error_number));
    const Descriptor unnamed = std::exchange(file_, std::move(made.file));
    name_ = std::move(made.name);
    lseek(unnamed.number(), 0, SEEK_SET);
    int error_number = copy_file(unnamed.number(), file_.number());
    struct stat attributes = {};
    if (error_number == 0 && fstat(unnamed.number(), &attributes) != 0) error_number = errno;
    if (error_number != 0) fail(reason(error_number));
    copy_file_attributes("/proc/self/fd/" + std::to_string(unnamed.number()), attributes, file_.number());
    if (fsync(file_.number()) != 0) fail(reason(errno));
}

void AtomicOutput::require_own_name() const {
    struct stat opened = {};
    struct stat named = {};
    const bool own = fstat(file_.number(), &opened) == 0 &&
                     fstatat(folder_.number(), name_.text(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                     same_file(opened, named);
    if (!own)
        fail(std::string("its temporary file ") + name_.text() + " was taken away while this run went on");
}

/// Renames without replacing. Returns errno, or 0.
int AtomicOutput::rename_to_new() const {
    const int folder = folder_.number();
    const char* const from = name_.text();
    const char* const to = name_in_folder_.c_str();
    if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno == EEXIST) return EEXIST;
    // The file system does not know the flag (NFS); a hard link does not replace either.
    if (linkat(folder, from, folder, to, 0) == 0) {
        unlinkat(folder, from, 0);
        return 0;
    }
    if (errno == EEXIST) return EEXIST;
    // It has neither (FUSE). What appears between the two lines is replaced.
    if (faccessat(folder, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
    return renameat(folder, from, folder, to) == 0 ? 0 : errno;
}

void AtomicOutput::flush_folder() const {
    Descriptor folder(openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.valid() && GroupedFolderFlushes::take(folder)) return;
    if (folder.valid() && fsync(folder.number()) == 0) return;
    // A folder may be closed to reading, and a file system may not flush folders.
    if (errno == EACCES || errno == EINVAL) return;
    throw Error(ErrorCode::output,
                target_ + " is written, but its folder could not be flushed to disk: " + reason(errno));
}

}  // namespace gpumat
