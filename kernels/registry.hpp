#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/level.hpp"

namespace gpumat {

/// What `auto` chose, and why, in a sentence for the log.
struct Choice {
    const Level* level = nullptr;
    std::string reason;
    Problem problem;  ///< the one asked for, with the parameters that were chosen
};

/// The list of levels of every operation and device. Everything that lists, tests or runs levels
/// iterates it; nothing repeats it.
class Registry {
  public:
    /// The levels that ship: GPU levels are listed in every build, and cannot run in one without CUDA.
    static Registry standard();

    explicit Registry(std::vector<Level> levels, std::vector<Level> baselines = {})
        : levels_(std::move(levels)), baselines_(std::move(baselines)) {}

    [[nodiscard]] std::span<const Level> levels() const { return levels_; }
    [[nodiscard]] std::vector<const Level*> levels(Operation operation, DeviceKind device) const;

    /// What a bench runs beside the ladder: plain copies and vendor libraries. They are no rungs: their
    /// number is 0, and neither `find` nor `choose` gives them.
    [[nodiscard]] std::vector<const Level*> baselines(Operation operation, DeviceKind device) const;

    /// The level of that name or number ("tiled", "5"); null where there is none.
    [[nodiscard]] const Level* find(Operation operation, DeviceKind device,
                                    std::string_view name_or_number) const;

    /// The level that `auto` takes for this problem on this device. Always one that can serve it; throws
    /// Error{unsupported} with every level's reasons where none can.
    [[nodiscard]] Choice choose(const Problem& problem, const Device& device) const;

  private:
    std::vector<Level> levels_;
    std::vector<Level> baselines_;
};

}  // namespace gpumat
