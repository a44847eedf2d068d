#pragma once

#include <string>

namespace gpumat::cli {

/// Lists what an engine has of each operation, which library it found, or why it cannot run here. Throws
/// Error{usage} where there is none of that name.
void list_engine(const std::string& name, bool json);

}  // namespace gpumat::cli
