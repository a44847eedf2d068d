#pragma once

#include <functional>
#include <span>
#include <string>

#include "formats/format.hpp"

namespace gpumat::formats::hdf5 {

/// Tries to open matrices in one child, one after the other with `try_one`, so that opening them afterwards
/// needs no child of its own for each. What fails there is left for that. The caller holds no Session.
void check_in_one_child(std::span<const AheadCheck> checks,
                        const std::function<void(const AheadCheck&)>& try_one);

/// Whether the matrix was opened in such a child, and its file is what it was then. True once. The caller
/// holds a Session.
bool was_checked(const Reference& reference, const ReadOptions& options);

}  // namespace gpumat::formats::hdf5
