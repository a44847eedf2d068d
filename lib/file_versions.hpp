#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "formats/format.hpp"

namespace gpumat {

/// What files are like before they are read, to tell afterwards whether they were written to meanwhile. Who
/// has a file open still reads it when another one replaces it; the pieces of a matrix are opened again and
/// again, and may not be replaced. Only regular files count.
class FileVersions {
  public:
    FileVersions() = default;
    explicit FileVersions(const formats::Reader& reader) { add(reader); }

    /// The files from which it reads.
    void add(const formats::Reader& reader);

    /// Throws Error{input} where one was written to since, or a piece was replaced.
    void require_unchanged() const;

  private:
    struct Version {
        std::string file;
        bool is_piece;
        struct stat status;
    };
    void add(const std::string& file, bool is_piece);

    std::vector<Version> versions_;
};

}  // namespace gpumat
