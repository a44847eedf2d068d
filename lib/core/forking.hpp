#pragma once

#include <shared_mutex>

namespace gpumat {

/// Who forks beside other threads holds it alone, and what no fork may meet shares it: OpenBLAS ends its
/// threads before each fork, and would wait for ever for those that work.
inline std::shared_mutex forking;

}  // namespace gpumat
