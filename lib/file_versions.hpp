#pragma once

#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

namespace gpumat {

/// What files are like before they are read, to tell afterwards whether they were written to meanwhile. One
/// that is replaced by another of the same name is not: who has it open still reads the old one. Only regular
/// files count.
class FileVersions {
  public:
    FileVersions() = default;
    explicit FileVersions(const std::vector<std::string>& files);

    /// Throws Error{input} where one was written to since.
    void require_unchanged() const;

  private:
    std::vector<std::pair<std::string, struct stat>> files_;
};

}  // namespace gpumat
