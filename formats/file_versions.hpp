#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace gpumat::formats {

/// What files are like before they are read, to tell afterwards whether what was read is of one version of
/// them. Their times tell, of which that of the last change cannot be set back: it also moves where a file is
/// only moved, replaced or linked. Nothing tells of what is written through a mapping that another process
/// has written through before. Only regular files count.
class FileVersions {
  public:
    /// The file behind a descriptor, which stays open. Whatever becomes of its name, it is read to the end.
    void add(int descriptor, const std::string& name);

    /// The same where it was `before`, when it had not been opened yet.
    void add(int descriptor, const std::string& name, const struct stat& before);

    /// A piece of a matrix, which is opened by its name again and again, and may not be replaced.
    void add_piece(const std::string& path);

    /// Throws Error{input} where one is not as it was.
    void require_unchanged() const;

  private:
    struct Version {
        int descriptor;  ///< -1 of a piece
        std::string name;
        struct stat before;
    };

    std::vector<Version> versions_;
};

}  // namespace gpumat::formats
