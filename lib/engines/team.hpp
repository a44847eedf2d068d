#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/host.hpp"
#include "core/memory.hpp"
#include "core/numbers/matrix.hpp"
#include "lib/engines/orders.hpp"
#include "lib/engines/panels.hpp"
#include "lib/engines/ranks.hpp"

namespace gpumat::engines {

/// The matrices of a product by their place on the ranks.
enum class Held : std::int32_t { a, b, c, added };

/// How long a step took on the ranks.
struct StepTimes {
    double least_ms = 0;
    double median_ms = 0;
    double most_ms = 0;
};

/// What only rank 0 has in a step.
struct AtRoot {
    FillPanel fill = {};
    TakePanel take = {};
    std::byte* out = nullptr;
    std::optional<Verification>* found = nullptr;
};

/// The ranks of a run. Rank 0 runs the command and leads; the others follow. Each step is done by all, who
/// then answer: where one failed, the leader throws what the first of them says, and may go on, for nobody
/// waits for anybody.
class Team {
  public:
    /// Throws Error{unsupported} where the engine cannot be loaded.
    Team(const Engine& engine, const Operation& operation, std::optional<Grid> grid, std::int64_t block,
         int threads);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team() = default;

    [[nodiscard]] const Engine& engine() const { return engine_; }
    [[nodiscard]] static bool leads() { return launched().rank == 0; }
    [[nodiscard]] static bool on_several_hosts() { return launched().on_this_host < launched().size; }
    /// As rank 0 says; returns the exit code that it says.
    int follow();

    // What the leader does.

    /// Chooses the grid and the blocks for a result, and for sums of so many terms. Throws Error{usage} where
    /// the grid or the blocks that were asked for are none of these ranks.
    void plan(const Shape& result, std::int64_t inner);
    [[nodiscard]] Layout layout(const Shape& shape, Type type) const;
    [[nodiscard]] const Served& served() const { return served_; }

    /// Starts MPI, the library and the grid.
    void start();
    void allocate(Held which, const Layout& layout);
    /// From the file, or from what `fill` gives at rank 0, so many rows at a time. Returns the share of the
    /// content hash.
    std::uint32_t load(Held which, const FilePlace& place, bool conjugate);
    std::uint32_t load(Held which, const FillPanel& fill, std::int64_t panel_rows, bool conjugate);
    /// C of the problem.
    void compute(const Problem& problem);
    std::uint32_t store(const FilePlace& place, bool plain_nans);
    std::uint32_t store(const TakePanel& take, std::int64_t panel_rows, bool plain_nans);
    /// By the operation's check in blocks, in which all ranks work; nothing where this mode needs another
    /// one.
    std::optional<Verification> check(const Problem& problem, const VerifyOptions& how, std::uint64_t room);
    /// A rectangle, without gaps.
    void fetch(Held which, const Block& block, std::byte* out);
    /// Ends the others, and MPI, whatever was done. Once.
    void dismiss(int exit_code) noexcept;

    [[nodiscard]] const std::string& library() const { return ranks_.library(); }
    [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }
    /// How long the last step took on the ranks.
    [[nodiscard]] StepTimes times() const;
    [[nodiscard]] std::int64_t block() const { return block_; }
    [[nodiscard]] const Grid& grid() const { return *grid_; }
    [[nodiscard]] int threads() const { return threads_; }

  private:
    struct HeldBlocks {
        Layout layout;
        Buffer blocks;
    };

    /// By all: does it and answers.
    void perform(const Order& order, const AtRoot& root);
    void lead(Order order, const AtRoot& root = {});
    void work(const Order& order, const AtRoot& root, Answer& answer);
    void set_up(const Order& order);
    void load(const Order& order, const AtRoot& root, Answer& answer);
    void store(const Order& order, const AtRoot& root, Answer& answer);
    void multiply(const Order& order);
    void compute_own_rows(const Order& order);
    std::optional<Verification> check(const Order& order);
    [[nodiscard]] Order order_of(Step step, const Problem& problem) const;
    [[nodiscard]] Problem problem_of(const Order& order) const;
    HeldBlocks& held(std::int32_t which) { return held_.at(static_cast<std::size_t>(which)); }
    [[nodiscard]] Order order(Step step, Held which) const;
    [[nodiscard]] std::uint32_t hash_of_all() const;
    void tell_failure() const;

    const Engine& engine_;
    const Operation& operation_;
    const Served& served_;
    Ranks ranks_;
    std::optional<Grid> grid_;
    std::int64_t block_ = 0;
    HostInfo host_;
    int threads_ = 1;
    bool dismissed_ = false;
    std::array<HeldBlocks, 4> held_;
    std::vector<Answer> answers_;  ///< to the last step, by rank; of the leader
};

}  // namespace gpumat::engines
