#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "core/descriptor.hpp"
#include "lib/output/signal_cleanup.hpp"

namespace gpumat {

/// A hidden name beside an output NAME: `.NAME.gpumat-N`, with the least N from 1 on that is free. The file
/// is locked (flock, shared, so that HDF5 may read it) as long as its process lives. So a name whose file is
/// not locked was left by a process that was killed. The object removes the name, and so does a signal.
class TemporaryName {
  public:
    TemporaryName() = default;
    /// The name of a file that is there. `folder` outlives the object.
    TemporaryName(int folder, std::string text);
    TemporaryName(TemporaryName&& other) noexcept = default;
    TemporaryName& operator=(TemporaryName&& other) noexcept;
    TemporaryName(const TemporaryName&) = delete;
    TemporaryName& operator=(const TemporaryName&) = delete;
    ~TemporaryName();

    [[nodiscard]] bool empty() const { return removal_ == nullptr; }
    [[nodiscard]] const char* text() const { return text_.c_str(); }

    /// The name is no longer there, or another file's.
    void forget() { removal_.reset(); }

  private:
    int folder_ = -1;
    std::string text_;
    std::unique_ptr<RemovedOnSignal> removal_;
};

struct TemporaryFile {
    Descriptor file;     ///< open for reading and writing
    TemporaryName name;  ///< goes before the file's lock does
    int error_number = 0;
};

/// Makes and locks a new file with a temporary name of the output `output` in the folder. There is no name
/// where `error_number` tells why.
TemporaryFile create_temporary_file(int folder, const std::string& output, mode_t mode);

/// What stood in the way of create_temporary_file, in words.
std::string reason_of_no_temporary_file(const std::string& output, int error_number);

/// Locks `file`, which has no name, and gives it a temporary one. None where the file system cannot.
TemporaryName link_temporary_name(int file, int folder, const std::string& output);

/// Links the open file under this name. Returns errno, or 0.
int link_file(int file, int folder, const std::string& name);

/// Removes the temporary files of `output` that were left by processes that are gone. Nothing happens to
/// files of others, and to any where the file system has no locks.
void remove_left_temporary_files(int folder, const std::string& output);

}  // namespace gpumat
