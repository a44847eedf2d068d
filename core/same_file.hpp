#pragma once

#include <sys/stat.h>

namespace gpumat {

/// Whether two names or descriptors are of one file.
inline bool same_file(const struct stat& x, const struct stat& y) {
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

}  // namespace gpumat
