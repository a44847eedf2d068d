#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "formats/format.hpp"

namespace gpumat::formats {

/// The file, pipe or device that is written from its start to its end.
class OutputFile {
  public:
    explicit OutputFile(const WriteTarget& target) : shown_(target.shown), fd_(target.descriptor) {}

    /// Throws Error{output} naming the file and the system's reason, or Error{closed_pipe} where the reader
    /// of a pipe is gone.
    void write(std::span<const std::byte> bytes) const;

    /// Throws Error{output} naming the file.
    [[noreturn]] void refuse(const std::string& what) const;

  private:
    std::string shown_;
    int fd_;
};

}  // namespace gpumat::formats
