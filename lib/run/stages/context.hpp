#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/run/flow.hpp"
#include "lib/run/stage.hpp"
#include "lib/run/stages/messages.hpp"

// What the stages of one flow share: what was decided before the first one starts, the buffers and the
// queues.

namespace gpumat::stages {

/// An element that a level leaves unwritten has these bytes: NaN in every floating type.
inline constexpr int kUnwritten = 0xff;

/// A panel of an input or a result that is hashed, verified and written while it lies in the caches.
inline constexpr std::size_t kPanelBytes = std::size_t{16} << 20;

std::size_t bytes_of_result(const ProblemPart& part);

struct FlowContext {
    Plan& plan;
    const RunOptions& options;
    const Outlet& outlet;
    Progress& progress;
    const Tell& say;
    const Parts& parts;
    VerifyOptions how;
    bool in_turn;             ///< one stage after the other: threads would take longer than the work
    std::int64_t panel_rows;  ///< of the result, verified and written at a time
    std::size_t piece_bytes;  ///< that go to a device and come back at a time

    FlowContext(Plan& planned, const RunOptions& asked, const Outlet& where, Progress& heard,
                const Tell& tells);

    [[nodiscard]] bool is_single() const { return parts.count() == 1; }
    /// In place on a CPU: the level overwrites what was read.
    [[nodiscard]] bool overwrites() const { return plan.problem.in_place && !plan.lane().gpu; }
    [[nodiscard]] bool verifies() const { return options.verify != VerifyMode::none; }
    [[nodiscard]] std::unique_ptr<ResultCheck> check_of(const ProblemPart& part,
                                                        const Operands& operands) const;
    [[nodiscard]] std::uint64_t bytes_of_inputs() const;
    [[nodiscard]] std::uint64_t bytes_of_whole_result() const;

  private:
    [[nodiscard]] std::int64_t rows_of_panels() const;
    [[nodiscard]] std::size_t bytes_of_pieces() const;
};

/// The buffers that the parts use in turn. They outlive the queues, whose items lie in them.
struct Buffers {
    std::vector<std::unique_ptr<Pool<Buffer>>> inputs;  ///< by role
    std::vector<std::unique_ptr<Pool<DeviceMemory>>> device_inputs;
    Pool<Buffer> results;
    Pool<DeviceMemory> device_results;
    Pool<PinnedMemory> pinned;

    explicit Buffers(const FlowContext& context);
    [[nodiscard]] std::vector<Stoppable*> all();
};

/// Pieces of inputs between reading and the device. They lie in the pools' buffers, which bound them.
inline constexpr std::size_t kManyPieces = 1 << 20;

struct Queues {
    Queue<FromReading> read{kManyPieces};
    Queue<PartPointer> uploaded{1};
    Queue<PartPointer> computed{1};
    Queue<ToChecking> to_check{2};
    Queue<ToHashing> to_hash{kManyPieces};
    Queue<Verified> verified{2};
    Queue<bool> drained{kManyPieces};  ///< a word for each HashedSoFar
    Queue<bool> hashed{1};             ///< nothing ever, and closed when all is hashed

    [[nodiscard]] std::vector<Stoppable*> all();
};

}  // namespace gpumat::stages
