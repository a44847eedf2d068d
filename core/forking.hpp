#pragma once

#include <pthread.h>

#include <shared_mutex>

#include "core/sanitizer.hpp"

#if defined(__clang__) && GPUMAT_ADDRESS_SANITIZER
// Functions of Clang's sanitizers, which libraries that are loaded later do not see.
namespace __lsan {
[[gnu::weak]] void LockAllocator();
[[gnu::weak]] void UnlockAllocator();
}  // namespace __lsan

namespace gpumat {

/// A lock of the address sanitizer's allocator that another thread holds at a fork would stay locked in the
/// child, which would wait for ever. So whoever forks holds them all, as the C library does with its own, and
/// as later versions of the sanitizer do. (Those where it keeps stacks are too many to hold at each fork.)
inline const int kForksHoldTheAllocator = [] {
    if (__lsan::LockAllocator == nullptr) return 0;
    const auto release = [] { __lsan::UnlockAllocator(); };
    return pthread_atfork([] { __lsan::LockAllocator(); }, release, release);
}();

}  // namespace gpumat
#endif

namespace gpumat {

/// Who forks beside other threads holds it alone, and what no fork may meet shares it: OpenBLAS ends its
/// threads before each fork, and would wait for ever for those that work.
inline std::shared_mutex forking;

}  // namespace gpumat
