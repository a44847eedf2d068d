#pragma once

#include <variant>

#include "core/numbers/matrix.hpp"
#include "core/sparse/csr.hpp"
#include "lib/run/sparse/flow.hpp"

namespace gpumat::sparse {

/// A matrix in memory; nothing where the problem does not read it.
using Held = std::variant<std::monostate, Matrix, Csr>;

/// All inputs by role, as the level gets them.
using Inputs = std::array<Held, kMostInputs>;

/// The values of compressed rows, as a dense row of them.
MutableMatrixView values_of(const MutableCsrView& matrix);

/// Reads an input whole, as the problem says, and what is to be said of it. Where there are `texts`, its
/// values are places in them, unless they are dropped.
Held read_input(const PlannedInput& input, const Problem& problem, int threads, std::string& hash,
                SparseCounts& counts, ValueTexts* texts = nullptr);

/// Reads all inputs so: their hashes in the order of `planned` (empty of one that is not read), and the
/// counts.
Inputs read_inputs(const std::vector<PlannedInput>& planned, const Problem& problem, int threads,
                   std::vector<std::string>& hashes, SparseCounts& counts, ValueTexts* texts = nullptr);

/// What they are to the level.
Operands operands_of(const Inputs& inputs);

}  // namespace gpumat::sparse
