#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/check/result_check.hpp"
#include "kernels/check/stored_matrices.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/level.hpp"

namespace gpumat {

/// How the results of an operation are checked: a field of its row. The functions are in kernels/OP/check.
struct Check {
    /// Checks `operands.c` against the operation's reference. All operands are in host memory.
    Verification (*verify)(const Problem& problem, const Operands& operands,
                           const VerifyOptions& how) = nullptr;
    /// Host memory that the check takes beside the matrices, where that grows with them; null: it does not.
    std::uint64_t (*bytes)(const Problem& problem, VerifyMode mode) = nullptr;
    /// A check that takes the result in panels; null where there is none, or none for this problem and mode.
    std::unique_ptr<ResultCheck> (*panels)(const Problem& problem, const Operands& inputs,
                                           const VerifyOptions& how) = nullptr;
    /// Checks a stored result against the one stored input, whose transpose it is, while `read` gives blocks
    /// of both: whatever their size, and in every mode the same. Null where the check needs more.
    Verification (*side_by_side)(const ReadSideBySide& read, const VerifyOptions& how) = nullptr;
    /// Checks a stored result within `room` bytes, without having any matrix in memory as a whole; nothing
    /// where this problem and mode need another check. Throws Error{memory} where there is not enough. May be
    /// null.
    std::optional<Verification> (*in_blocks)(const Problem& problem, const StoredMatrices& stored,
                                             const VerifyOptions& how, std::uint64_t room) = nullptr;
    /// Whether a result may have more bits than its type, which only a check finds out; null: none has.
    bool (*may_wrap)(const Problem& problem) = nullptr;
    /// Of a result in parts, nothing is kept but what `bytes` says of the parts in work.
    bool bytes_by_part = false;
    /// Results of our levels keep a narrower bound than those of others need to.
    bool narrows = false;
};

/// Host memory that the check of a problem's result takes beside the matrices.
std::uint64_t verification_bytes(const Problem& problem, VerifyMode mode);

/// Checks the result of a level: by the operation's check, with the rounding that follows from the level's
/// arithmetic, or, for a baseline that copies, bit for bit against the input.
Verification verify_result(const Level& level, const Problem& problem, const Operands& operands,
                           const VerifyOptions& how);

/// The same for a result that is still to come: in panels, where the check can. `level` must stay.
std::unique_ptr<ResultCheck> begin_check(const Level& level, const Problem& problem, const Operands& inputs,
                                         const VerifyOptions& how);

}  // namespace gpumat
