#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/operation.hpp"

namespace gpumat {

/// What `auto` chose, and why, in a sentence for the log.
struct Choice {
    const Level* level = nullptr;
    std::string reason;
    Problem problem;  ///< the one asked for, with the parameters that were chosen
};

/// The one list of operations and of their levels. Everything that lists, tests or runs levels iterates it;
/// nothing repeats it.
class Registry {
  public:
    /// What ships: GPU levels are listed in every build, and cannot run in one without CUDA.
    static Registry standard();

    /// The operations with their own levels.
    explicit Registry(const std::vector<const Operation*>& operations);
    /// The operations with these levels in place of their own.
    Registry(std::vector<const Operation*> operations, std::vector<Level> levels);

    [[nodiscard]] std::span<const Operation* const> operations() const { return operations_; }
    /// The operation of that name; null where there is none.
    [[nodiscard]] const Operation* operation(std::string_view name) const;
    /// "transpose, multiply", for messages and help.
    [[nodiscard]] std::string operation_names() const;

    /// Every row for dense matrices, whatever its role.
    [[nodiscard]] std::span<const Level> levels() const { return levels_; }

    /// What a run can be asked for: the rungs of the ladder, first rung first, then the vendor's library.
    [[nodiscard]] std::vector<const Level*> levels(const Operation& operation, DeviceKind device) const;
    /// Those of one role, in the order of the table.
    [[nodiscard]] std::vector<const Level*> levels(const Operation& operation, DeviceKind device,
                                                   Role role) const;

    /// The ladders for sparse matrices, first rung first.
    [[nodiscard]] std::vector<const Level*> sparse_levels(const Operation& operation,
                                                          DeviceKind device) const;
    /// The ladder for matrices of the problem's structure.
    [[nodiscard]] std::vector<const Level*> sparse_levels(const Problem& problem, DeviceKind device) const;
    /// The level of that name or number in any of the operation's ladders for sparse matrices, or in the one
    /// for the problem; null where there is none.
    [[nodiscard]] const Level* find_sparse(const Operation& operation, DeviceKind device,
                                           std::string_view name_or_number) const;
    [[nodiscard]] const Level* find_sparse(const Problem& problem, DeviceKind device,
                                           std::string_view name_or_number) const;

    /// The level of `levels(operation, device)` of that name, or the rung of that number ("tiled", "5");
    /// null where there is none.
    [[nodiscard]] const Level* find(const Operation& operation, DeviceKind device,
                                    std::string_view name_or_number) const;

    /// The parameters of all levels of an operation, each name once: what flags are made of.
    [[nodiscard]] std::vector<Parameter> parameters(const Operation& operation) const;

    /// The level that `auto` takes for this problem on this device. Always one that can serve it; throws
    /// Error{unsupported} with every level's reasons where none can.
    [[nodiscard]] Choice choose(const Problem& problem, const Device& device) const;

  private:
    std::vector<const Operation*> operations_;
    std::vector<Level> levels_;
    std::vector<Level> sparse_levels_;
};

}  // namespace gpumat
