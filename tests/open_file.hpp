#pragma once

#include <fcntl.h>

#include <stdexcept>
#include <string>

#include "core/descriptor.hpp"

/// The file at `path`, empty and open for reading and writing; as it is where `kept`.
inline gpumat::Descriptor open_file(const std::string& path, bool kept = false) {
    const int how = kept ? O_RDWR | O_CLOEXEC : O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
    gpumat::Descriptor file(open(path.c_str(), how, 0666));
    if (!file.valid()) throw std::runtime_error("cannot open " + path);
    return file;
}
