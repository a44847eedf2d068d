#pragma once

#include <initializer_list>
#include <string>

namespace gpumat {

/// A vendor's library that is loaded when it is first asked for, so that one binary starts where it is
/// missing. It stays loaded to the end: such libraries do not survive being unloaded while the device is in
/// use.
class VendorLibrary {
  public:
    /// Looks for the file that the environment variable `variable` names, else for `files`, in the places of
    /// the loader and in the toolkit's usual folder.
    VendorLibrary(std::string name, const char* variable, std::initializer_list<const char*> files);

    /// Why it cannot be used here, empty where it can.
    [[nodiscard]] const std::string& why_missing() const { return why_missing_; }
    /// The address of its function. Throws Error{unsupported} where the library or the function is missing.
    [[nodiscard]] void* symbol(const char* function) const;

  private:
    std::string name_;
    void* address_ = nullptr;
    std::string why_missing_;
};

}  // namespace gpumat
