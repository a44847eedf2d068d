#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/host.hpp"
#include "core/memory.hpp"
#include "core/numbers/matrix.hpp"
#include "kernels/check/stored_matrices.hpp"
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
    TakeBytes take_bytes = {};
    std::byte* out = nullptr;
    std::optional<Verification>* found = nullptr;
};

/// What each rank has of a command, which all of them were given alike.
struct Own {
    /// Of a matrix that an order says to load; called by the ranks that follow, when they need rows of it.
    std::function<FillPanel(const Order& order)> source = {};
    /// What this rank makes of the rows that it has.
    std::function<std::vector<std::byte>()> share = {};
};

/// How a matrix is loaded.
struct Loading {
    std::int64_t panel_rows = 0;  ///< that are read at a time; 0: bounded panels
    bool conjugate = false;
    bool plain_nans = false;  ///< NaN loses its bits, after they were hashed
    bool transposed = false;  ///< each rank's source gives the transpose of what is stored
    std::optional<std::uint64_t> memory_limit{};  ///< where rank 0 needs the whole matrix
};

/// The ranks of a run. Rank 0 runs the command and leads; the others follow. Each step is done by all, who
/// then answer: where one failed, the leader throws what the first of them says, and may go on, for nobody
/// waits for anybody.
class Team {
  public:
    /// `operation` is null for a command that computes none. Throws Error{unsupported} where the engine
    /// cannot be loaded.
    Team(const Engine& engine, const Served& served, const Operation* operation, std::optional<Grid> grid,
         std::int64_t block, int threads);
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team() = default;

    [[nodiscard]] const Engine& engine() const { return engine_; }
    [[nodiscard]] static bool leads() { return launched().rank == 0; }
    [[nodiscard]] static bool on_several_hosts() { return launched().on_this_host < launched().size; }
    /// By all, before they lead or follow.
    void give(Own own) { own_ = std::move(own); }
    /// As rank 0 says; returns the exit code that it says.
    int follow();
    /// The rows of this rank, where ranks have panels; where they are written, for what shares are made of.
    [[nodiscard]] MutableMatrixView rows_of(Held which);
    [[nodiscard]] Block panel_of(Held which) { return held(which).layout.panel(ranks_.rank()); }

    // What the leader does.

    /// Chooses the grid and the blocks for a result, and for sums of so many terms. Throws Error{usage} where
    /// the grid or the blocks that were asked for are none of these ranks.
    void plan(const Shape& result, std::int64_t inner);
    [[nodiscard]] Layout layout(const Shape& shape, Type type) const;
    [[nodiscard]] const Served& served() const { return served_; }

    /// Starts MPI, the library and the grid, where they have not started.
    void start();
    void allocate(Held which, const Layout& layout);
    /// Each rank its own bytes of the file. Returns the share of the content hash, as all of these do.
    std::uint32_t load(Held which, const FilePlace& place, const Loading& how);
    /// From what `fill` gives at rank 0, for all.
    std::uint32_t load(Held which, const FillPanel& fill, const Loading& how);
    /// From what `fill` gives at rank 0 and their own sources give on the others, each rows of its own: of
    /// the dataset of the file, if any, which has to be the same for all.
    std::uint32_t load_by_all(Held which, const FillPanel& fill, const Loading& how,
                              const FilePlace& place = {}, const std::string& dataset = {});
    /// C of the problem.
    void compute(const Problem& problem);
    std::uint32_t store(const FilePlace& place, bool plain_nans);
    std::uint32_t store(const TakePanel& take, std::int64_t panel_rows, bool plain_nans);
    /// By the operation's check in blocks, in which all ranks work; nothing where this mode needs another
    /// one.
    std::optional<Verification> check(const Problem& problem, const VerifyOptions& how, std::uint64_t room);
    /// Takes what each rank makes of its rows, in the order of ranks.
    void share(const TakeBytes& take);
    /// A rectangle, without gaps.
    void fetch(Held which, const Block& block, std::byte* out);
    /// Ends the others, and MPI, whatever was done. Once.
    void dismiss(int exit_code) noexcept;

    [[nodiscard]] const std::string& library() const { return ranks_.library(); }
    [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }
    /// How long the last step took on the ranks.
    [[nodiscard]] StepTimes times() const;
    [[nodiscard]] std::int64_t block() const { return block_; }
    [[nodiscard]] const Grid& grid() const { return grid_; }
    [[nodiscard]] int threads() const { return threads_; }

  private:
    struct HeldBlocks {
        Layout layout;
        Buffer blocks;
    };

    /// By all: does it and answers.
    void perform(const Order& order, const AtRoot& root);
    void lead(Order order, const AtRoot& root = {});
    std::uint32_t lead_loading(Held which, const Loading& how, Order order, const AtRoot& root);
    void work(const Order& order, const AtRoot& root, Answer& answer);
    void set_up(const Order& order);
    void load(const Order& order, const AtRoot& root, Answer& answer);
    void store(const Order& order, const AtRoot& root, Answer& answer);
    void share(const AtRoot& root);
    void multiply(const Order& order);
    void compute_own_rows(const Order& order);
    std::optional<Verification> check(const Order& order);
    [[nodiscard]] Order order_of(Step step, const Problem& problem) const;
    [[nodiscard]] Problem problem_of(const Order& order) const;
    HeldBlocks& held(Held which) { return held_.at(static_cast<std::size_t>(which)); }
    HeldBlocks& held(std::int32_t which) { return held(static_cast<Held>(which)); }
    [[nodiscard]] Order order(Step step, Held which) const;
    [[nodiscard]] std::uint32_t hash_of_all() const;
    void tell_failure() const;

    const Engine& engine_;
    const Served& served_;
    const Operation* operation_;
    Ranks ranks_;
    std::optional<Grid> asked_grid_;
    std::int64_t asked_block_;
    Grid grid_;
    std::int64_t block_ = 0;
    Own own_;
    HostInfo host_;
    int threads_ = 1;
    bool dismissed_ = false;
    std::array<HeldBlocks, 4> held_;
    std::vector<Answer> answers_;  ///< to the last step, by rank; of the leader
};

}  // namespace gpumat::engines
