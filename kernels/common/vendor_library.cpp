#include "kernels/common/vendor_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "core/error.hpp"

namespace gpumat {

VendorLibrary::VendorLibrary(std::string name, const char* variable, std::initializer_list<const char*> files)
    : name_(std::move(name)) {
    if (const char* file = std::getenv(variable); file != nullptr) {
        address_ = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (address_ == nullptr)
            why_missing_ = std::string("the file that ") + variable + " names cannot be loaded: " + dlerror();
        return;
    }
    std::string names;
    for (const std::string folder : {"", "/usr/local/cuda/lib64/"}) {
        for (const char* file : files) {
            address_ = dlopen((folder + file).c_str(), RTLD_NOW | RTLD_LOCAL);
            if (address_ != nullptr) return;
            if (folder.empty()) names += (names.empty() ? "" : ", ") + std::string(file);
        }
    }
    why_missing_ =
        name_ + " is not installed (none of " + names + " can be loaded; " + variable + " can name the file)";
}

void* VendorLibrary::symbol(const char* function) const {
    if (address_ == nullptr) throw Error(ErrorCode::unsupported, why_missing_);
    void* address = dlsym(address_, function);
    if (address == nullptr)
        throw Error(ErrorCode::unsupported,
                    "the " + name_ + " found here has no function " + std::string(function));
    return address;
}

}  // namespace gpumat
