// To be preloaded: makes every file system lack what GPUMAT_FILE_SYSTEM_LACKS names, any of
//   tmpfile    files without names (O_TMPFILE), as NFS lacks them
//   noreplace  renaming without replacing (RENAME_NOREPLACE), as NFS lacks it
//   link       hard links, as many of FUSE lack them
//   rename     renaming
//   lock       locks (flock)
// and memory for matrices from the allocation on that GPUMAT_MEMORY_ENDS_AT counts, from 1.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool lacks(const char* what) {
    const char* const lacking = std::getenv("GPUMAT_FILE_SYSTEM_LACKS");
    return lacking != nullptr && std::strstr(lacking, what) != nullptr;
}

int refuse(int error_number) {
    errno = error_number;
    return -1;
}

/// The function that this library's stands before.
template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// glibc's declarations say noexcept and nonnull for some of them.
extern "C" {

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
    static std::atomic<int> count{0};
    const char* const last = std::getenv("GPUMAT_MEMORY_ENDS_AT");
    if (last != nullptr && ++count >= std::atoi(last)) {
        errno = ENOMEM;
        return nullptr;
    }
    return next<void*(std::size_t, std::size_t)>("aligned_alloc")(alignment, bytes);
}

int openat(int folder, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if ((flags & O_TMPFILE) == O_TMPFILE && lacks("tmpfile")) return refuse(EOPNOTSUPP);
    return next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
    if (flags != 0 && lacks("noreplace")) return refuse(EINVAL);
    return next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder,
                                                                                to, flags);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
    if (lacks("rename")) return refuse(EPERM);
    return next<int(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder, to);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
    if (lacks("link")) return refuse(EROFS);
    return next<int(int, const char*, int, const char*, int)>("linkat")(from_folder, from, to_folder, to,
                                                                        flags);
}

int flock(int descriptor, int operation) noexcept {
    if (lacks("lock")) return refuse(ENOLCK);
    return next<int(int, int)>("flock")(descriptor, operation);
}

}  // extern "C"
