#pragma once

#include <functional>
#include <string>

namespace gpumat {

/// How important a message is. `detail` is for who asks for it.
enum class Severity { detail, info, warning, error };

/// Takes what the library has to say while it works; whoever calls it decides how that is shown. May be
/// empty.
using Tell = std::function<void(Severity severity, const std::string& message)>;

/// Nothing is said where nobody listens.
inline void tell(const Tell& listener, Severity severity, const std::string& message) {
    if (listener) listener(severity, message);
}

}  // namespace gpumat
