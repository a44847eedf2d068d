#pragma once

#include <shared_mutex>

#include "core/sanitizer.hpp"

namespace gpumat {

/// Who forks beside other threads holds it alone, and what no fork may meet shares it: OpenBLAS ends its
/// threads before each fork, and would wait for ever for those that work.
inline std::shared_mutex forking;

/// Whether a child may be forked while other threads allocate memory. The allocator of the address sanitizer
/// does not bear it: a lock that another thread holds at the fork stays locked in the child, which then waits
/// for ever.
inline constexpr bool kForksBesideThreads = !kAddressSanitizer;

}  // namespace gpumat
