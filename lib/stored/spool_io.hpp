#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/spool.hpp"

namespace gpumat {

/// Puts bytes behind what the file of a spool has; where they begin. Throws Error{output} naming `what`.
std::uint64_t append_to(Spool& spool, const void* data, std::size_t bytes, const std::string& what);

/// Reads bytes that were put there. Throws Error{output} naming `what`.
void read_from(const Spool& spool, std::uint64_t offset, void* data, std::size_t bytes,
               const std::string& what);

}  // namespace gpumat
