#include "cli/progress.hpp"

#include <unistd.h>

#include <cstdlib>

namespace gpumat::cli {

bool shows_progress(const Style& style) {
    return !style.quiet && isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace gpumat::cli
