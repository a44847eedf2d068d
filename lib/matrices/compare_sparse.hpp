#pragma once

#include "core/sparse/csr.hpp"
#include "lib/matrices/compare.hpp"

namespace gpumat {

/// What comparing the dense matrices that have these entries would find: zeros in both, which are most, are
/// equal and add nothing. Both have one shape.
ElementFindings compare_entries(const CsrView& x, const CsrView& y, const CompareOptions& options);

/// What a thread takes for that.
std::uint64_t bytes_of_collected(Type x, Type y);

}  // namespace gpumat
