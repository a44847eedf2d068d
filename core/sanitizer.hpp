#pragma once

// GCC says so by a macro, Clang by a question.
#if defined(__SANITIZE_ADDRESS__)
#define GPUMAT_ADDRESS_SANITIZER true
#elif defined(__has_feature)
#define GPUMAT_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define GPUMAT_ADDRESS_SANITIZER false
#endif

namespace gpumat {

/// Whether the address sanitizer, whose allocator is another than the C library's, watches this build.
inline constexpr bool kAddressSanitizer = GPUMAT_ADDRESS_SANITIZER;

}  // namespace gpumat
