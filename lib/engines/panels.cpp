#include "lib/engines/panels.hpp"

#include <cstring>
#include <exception>
#include <limits>

#include "core/error.hpp"
#include "core/memory.hpp"

namespace gpumat::engines {
namespace {

constexpr std::int64_t kPanelBytes = std::int64_t{32} << 20;
constexpr std::int64_t kTakenAtOnceBytes = std::int64_t{4} << 20;

/// Copies between rows [first, first + rows) of a matrix and what one rank has of columns [col, col + cols)
/// of them, row after row; the rows that are another's are left out. `panel` has those columns alone.
template <bool kToRank>
std::byte* copy_share(const Layout& layout, int rank, const Block& block, std::byte* panel,
                      std::byte* packed) {
    const std::int64_t element = layout.element();
    const int own_row = layout.row_of(rank);
    const int own_col = layout.col_of(rank);
    for (std::int64_t i = block.row; i < block.row + block.rows; ++i) {
        if (layout.rows().owner(i) != own_row) continue;
        std::byte* const row = panel + (i - block.row) * block.cols * element;
        for (std::int64_t j = block.col; j < block.col + block.cols;) {
            const std::int64_t end = std::min(block.col + block.cols, (j / layout.block + 1) * layout.block);
            if (layout.cols().owner(j) == own_col) {
                const auto bytes = static_cast<std::size_t>((end - j) * element);
                std::byte* const place = row + (j - block.col) * element;
                std::memcpy(kToRank ? packed : place, kToRank ? place : packed, bytes);
                packed += bytes;
            }
            j = end;
        }
    }
    return packed;
}

/// What moves in a round.
class Round {
  public:
    Round(const Layout& layout, const Panels& panels, std::int64_t index)
        : layout_(layout), panels_(panels), first_(index * panels.owners * panels.rows) {}

    [[nodiscard]] bool ended() const { return first_ >= layout_.shape.rows; }

    /// The rows that the rank has as a panel; none where it owns none.
    [[nodiscard]] Block panel_of(int rank) const {
        const std::int64_t begin = std::min(layout_.shape.rows, first_ + rank * panels_.rows);
        const std::int64_t end =
            rank < panels_.owners ? std::min(layout_.shape.rows, begin + panels_.rows) : begin;
        return {begin, 0, end - begin, layout_.shape.cols};
    }

    /// Bytes of the owner's panel that the rank has as blocks.
    [[nodiscard]] int share(int owner, int rank) const {
        const Block panel = panel_of(owner);
        const Turns rows = layout_.rows();
        const int row = layout_.row_of(rank);
        const std::int64_t count = rows.before(panel.row + panel.rows, row) - rows.before(panel.row, row);
        return static_cast<int>(count * layout_.local(rank).cols * layout_.element());
    }

    /// Where the round begins in the rank's blocks, which it meets in their order.
    [[nodiscard]] std::int64_t place(int rank) const {
        return layout_.rows().before(first_, layout_.row_of(rank)) * layout_.local(rank).cols *
               layout_.element();
    }

  private:
    const Layout& layout_;
    const Panels& panels_;
    std::int64_t first_;
};

/// One rank's blocks are the matrix, row after row: nothing is moved.
bool has_rows(const Layout& layout) {
    return layout.grid.size() == 1;
}

/// The buffers of an owner.
struct Moving {
    Buffer panel;
    Buffer packed;
    std::vector<int> to_panel;   ///< bytes between this rank's panel and each rank's blocks
    std::vector<int> to_blocks;  ///< bytes between each owner's panel and this rank's blocks
};

/// Has the buffers, or nobody moves anything.
Moving begin_moving(Ranks& ranks, const Layout& layout, const Panels& panels) {
    const std::int64_t row = layout.shape.cols * layout.element();
    if (row > std::numeric_limits<int>::max() / 2)
        throw Error(ErrorCode::unsupported,
                    "a row of " + format_bytes(static_cast<std::uint64_t>(row)) +
                        " is too long for a message between ranks, which has less than 1 GiB");
    Moving moving;
    std::exception_ptr failure;
    try {
        const auto bytes =
            static_cast<std::size_t>(ranks.rank() < panels.owners ? moving_bytes(layout, panels) / 2 : 0);
        moving.panel = Buffer(bytes);
        moving.packed = Buffer(bytes);
        moving.to_panel.resize(static_cast<std::size_t>(ranks.size()));
        moving.to_blocks.resize(static_cast<std::size_t>(ranks.size()));
    } catch (...) {
        failure = std::current_exception();
    }
    if (ranks.any(failure != nullptr) && !failure) moving.to_panel.clear();
    if (failure) std::rethrow_exception(failure);
    return moving;
}

void measure(Ranks& ranks, const Round& round, Moving& moving) {
    for (int other = 0; other < ranks.size(); ++other) {
        moving.to_panel[static_cast<std::size_t>(other)] = round.share(ranks.rank(), other);
        moving.to_blocks[static_cast<std::size_t>(other)] = round.share(other, ranks.rank());
    }
}

}  // namespace

Panels panels_for(const Layout& layout, int owners) {
    const std::int64_t row = std::max<std::int64_t>(1, layout.shape.cols * layout.element());
    const std::int64_t even = (layout.shape.rows + owners - 1) / owners;
    return {owners, std::max<std::int64_t>(1, std::min(even, kPanelBytes / row))};
}

std::uint64_t moving_bytes(const Layout& layout, const Panels& panels) {
    if (has_rows(layout)) return 0;
    return 2 * static_cast<std::uint64_t>(panels.rows * layout.shape.cols * layout.element());
}

void spread(Ranks& ranks, const Layout& layout, const Panels& panels, const FillPanel& fill,
            std::byte* blocks) {
    Moving moving = begin_moving(ranks, layout, panels);
    if (moving.to_panel.empty()) return;
    std::exception_ptr failure;
    for (std::int64_t index = 0;; ++index) {
        const Round round(layout, panels, index);
        if (round.ended()) break;
        const Block panel = round.panel_of(ranks.rank());
        std::byte* const at = has_rows(layout) ? blocks + round.place(0) : moving.panel.data();
        try {
            if (panel.rows > 0 && !failure) fill(panel.row, {layout.type, panel.shape(), panel.cols, at});
        } catch (...) {
            failure = std::current_exception();
        }
        if (has_rows(layout)) continue;
        measure(ranks, round, moving);
        std::byte* to = moving.packed.data();
        for (int rank = 0; rank < ranks.size() && panel.rows > 0; ++rank)
            to = copy_share<true>(layout, rank, panel, moving.panel.data(), to);
        ranks.exchange(moving.packed.data(), moving.to_panel, blocks + round.place(ranks.rank()),
                       moving.to_blocks);
    }
    if (failure) std::rethrow_exception(failure);
}

void collect(Ranks& ranks, const Layout& layout, const Panels& panels, std::byte* blocks,
             const TakePanel& take) {
    Moving moving = begin_moving(ranks, layout, panels);
    if (moving.to_panel.empty()) return;
    std::exception_ptr failure;
    for (std::int64_t index = 0;; ++index) {
        const Round round(layout, panels, index);
        if (round.ended()) break;
        const Block panel = round.panel_of(ranks.rank());
        std::byte* at = blocks + round.place(ranks.rank());
        if (!has_rows(layout)) {
            measure(ranks, round, moving);
            ranks.exchange(at, moving.to_blocks, moving.packed.data(), moving.to_panel);
            at = moving.panel.data();
        }
        if (panel.rows == 0 || failure) continue;
        std::byte* from = moving.packed.data();
        for (int rank = 0; rank < ranks.size() && !has_rows(layout); ++rank)
            from = copy_share<false>(layout, rank, panel, at, from);
        try {
            take(panel.row, {layout.type, panel.shape(), panel.cols, at});
        } catch (...) {
            failure = std::current_exception();
        }
    }
    if (failure) std::rethrow_exception(failure);
}

void each_piece(const Layout& layout, int rank, std::byte* blocks, const TakePanel& take) {
    const Block panel = layout.panel(rank);
    const std::int64_t row = panel.cols * layout.element();
    const std::int64_t step = std::max<std::int64_t>(1, kTakenAtOnceBytes / std::max<std::int64_t>(1, row));
    for (std::int64_t i = 0; i < panel.rows; i += step)
        take(panel.row + i,
             {layout.type, {std::min(step, panel.rows - i), panel.cols}, panel.cols, blocks + i * row});
}

std::int64_t rows_at_once(const Layout& layout, const Block& block) {
    return std::max<std::int64_t>(1, kPanelBytes / std::max<std::int64_t>(1, block.cols * layout.element()));
}

void fetch(Ranks& ranks, const Layout& layout, const Block& block, const std::byte* blocks, std::byte* out) {
    const std::int64_t element = layout.element();
    const auto share = [&](int rank) -> Block {
        const int row = layout.row_of(rank);
        const int col = layout.col_of(rank);
        const std::int64_t top = layout.rows().before(block.row, row);
        const std::int64_t left = layout.cols().before(block.col, col);
        return {top, left, layout.rows().before(block.row + block.rows, row) - top,
                layout.cols().before(block.col + block.cols, col) - left};
    };
    const Block own = share(ranks.rank());
    const std::int64_t local_cols = layout.local(ranks.rank()).cols;
    Buffer packed(has_rows(layout) ? 0 : static_cast<std::size_t>(own.rows * own.cols * element));
    std::byte* const to = has_rows(layout) ? out : packed.data();
    for (std::int64_t i = 0; i < own.rows; ++i)
        std::memcpy(to + i * own.cols * element, blocks + ((own.row + i) * local_cols + own.col) * element,
                    static_cast<std::size_t>(own.cols * element));
    if (has_rows(layout)) return;
    std::vector<int> sent(static_cast<std::size_t>(ranks.size()));
    std::vector<int> received(sent.size());
    sent[0] = static_cast<int>(packed.size());
    for (int rank = 0; rank < ranks.size() && ranks.rank() == 0; ++rank) {
        const Block theirs = share(rank);
        received[static_cast<std::size_t>(rank)] = static_cast<int>(theirs.rows * theirs.cols * element);
    }
    Buffer all(ranks.rank() == 0 ? static_cast<std::size_t>(block.rows * block.cols * element) : 0);
    ranks.exchange(packed.data(), sent, all.data(), received);
    std::byte* from = all.data();
    for (int rank = 0; rank < ranks.size() && ranks.rank() == 0; ++rank)
        from = copy_share<false>(layout, rank, block, out, from);
}

}  // namespace gpumat::engines
