#pragma once

#include <set>
#include <string>

namespace gpumat::formats::hdf5 {

/// While it lives, collects the files to which external links, external storage and virtual datasets lead in
/// this thread. One lives at a time.
class OtherFiles {
  public:
    OtherFiles();
    OtherFiles(const OtherFiles&) = delete;
    OtherFiles& operator=(const OtherFiles&) = delete;
    ~OtherFiles();

    /// Adds a file, or what may be one, to those that are being collected, if any.
    static void note(const std::string& path);

    [[nodiscard]] const std::set<std::string>& paths() const { return paths_; }

  private:
    std::set<std::string> paths_;
};

}  // namespace gpumat::formats::hdf5
