#pragma once

#include <string>

#include "core/sparse/csr.hpp"

namespace gpumat {

/// The content hash of the dense matrix that has these entries and is zero elsewhere, without making it. The
/// structure must hold.
std::string content_hash(const CsrView& matrix, int threads);

}  // namespace gpumat
