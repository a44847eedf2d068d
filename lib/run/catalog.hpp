#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/check/result_check.hpp"
#include "kernels/check/verification.hpp"
#include "kernels/registry.hpp"
#include "lib/record/progress.hpp"

namespace gpumat {

/// Stored inputs and a stored result, which are checked.
struct StoredMatrices {
    std::vector<formats::Reader*> inputs;  ///< by role; null where one is not given
    formats::Reader& result;
    std::uint64_t beside = 0;          ///< bytes that the readers take
    std::vector<std::string>& hashes;  ///< of the inputs, by role, and of the result: what was read
    Progress& progress;
};

/// How the results of an operation are checked.
struct Verifier {
    /// Checks `operands.c` against the operation's reference. All operands are in host memory.
    Verification (*verify)(const Problem& problem, const Operands& operands, const VerifyOptions& how);
    /// Host memory that the check takes beside the matrices, where that grows with them.
    std::uint64_t (*bytes)(const Problem& problem, VerifyMode mode);
    /// Checks a stored result against the one stored input without having either in memory as a whole; null
    /// where the operation's check needs that.
    Verification (*blockwise)(formats::Reader& input, formats::Reader& result, const VerifyOptions& how,
                              std::optional<std::uint64_t> memory_limit, Progress& progress) = nullptr;
    /// A check that takes the result in panels; null where there is none, or none for this problem and mode.
    std::unique_ptr<ResultCheck> (*panels)(const Problem& problem, const Operands& inputs,
                                           const VerifyOptions& how) = nullptr;
    /// Checks a stored result within `room` bytes, without having any matrix in memory as a whole; nothing
    /// where this problem and mode need another check. Throws Error{memory} where there is not enough. May be
    /// null.
    std::optional<Verification> (*in_blocks)(const Problem& problem, const StoredMatrices& stored,
                                             const VerifyOptions& how, std::uint64_t room) = nullptr;
    /// Of a result in parts, nothing is kept but what `bytes` says of the parts in work.
    bool bytes_by_part = false;
    /// Results of our levels keep a narrower bound than those of others need to.
    bool narrows = false;
};

/// What the tool knows: the operations with their ladders, and how the results of each are verified. To add
/// an operation is to add a folder in kernels/, its row in Registry::standard and its verifier here.
class Catalog {
  public:
    /// The standard verifications and those given, with the registry given.
    static Catalog standard(Registry registry = Registry::standard(),
                            std::map<const Operation*, Verifier> more = {});

    Catalog(Registry registry, std::map<const Operation*, Verifier> verifiers)
        : registry_(std::move(registry)), verifiers_(std::move(verifiers)) {}

    [[nodiscard]] const Registry& registry() const { return registry_; }
    [[nodiscard]] const Verifier& verifier(const Operation& operation) const {
        return verifiers_.at(&operation);
    }

    /// Checks the result of a level: by the operation's verifier, with the rounding that follows from the
    /// level's arithmetic, or, for a baseline that copies, bit for bit against the input.
    [[nodiscard]] Verification verify(const Level& level, const Problem& problem, const Operands& operands,
                                      const VerifyOptions& how) const;

    /// The same for a result that is still to come: in panels, where the check can.
    [[nodiscard]] std::unique_ptr<ResultCheck> begin_check(const Level& level, const Problem& problem,
                                                           const Operands& inputs,
                                                           const VerifyOptions& how) const;
    [[nodiscard]] std::uint64_t verification_bytes(const Problem& problem, VerifyMode mode) const {
        return verifier(*problem.operation).bytes(problem, mode);
    }

  private:
    Registry registry_;
    std::map<const Operation*, Verifier> verifiers_;
};

}  // namespace gpumat
