#include "lib/engines/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <vector>

#include "core/memory.hpp"

namespace gpumat::engines {
namespace {

constexpr std::int64_t kRoundBytes = std::int64_t{2} << 20;        ///< that a rank sends
constexpr std::int64_t kLeastPieceBytes = std::int64_t{64} << 10;  ///< to one rank

/// The rows and columns of a piece, from the input's side: as near to a square as panels let it be.
Shape piece_shape(const Layout& input, const Layout& result) {
    constexpr std::int64_t kWhole = 64;  // pieces begin where cache lines do
    const std::int64_t bytes = std::max(kRoundBytes / input.grid.rows, kLeastPieceBytes);
    const std::int64_t elements = bytes / input.element();
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements))) / kWhole * kWhole;
    Shape piece{std::min(input.block, std::max(kWhole, side)), 0};
    piece.cols = std::min(result.block, std::max<std::int64_t>(1, elements / piece.rows));
    if (piece.cols < result.block) piece.cols = std::max(kWhole, piece.cols / kWhole * kWhole);
    piece.rows = std::min(input.block, std::max(piece.rows, elements / piece.cols / kWhole * kWhole));
    return piece;
}

/// One round: a piece of each tile.
class TileRound {
  public:
    TileRound(const Layout& input, const Layout& result, const Block& piece)
        : input_(input), result_(result), piece_(piece) {}

    /// The block of the input that goes from one rank to another.
    [[nodiscard]] Block between(int from, int to) const {
        const Block rows = input_.panel(from);
        const Block cols = result_.panel(to);
        return {rows.row + piece_.row, cols.row + piece_.col, clipped(rows.rows - piece_.row, piece_.rows),
                clipped(cols.rows - piece_.col, piece_.cols)};
    }
    [[nodiscard]] int bytes(int from, int to) const {
        const Block block = between(from, to);
        return from == to ? 0 : static_cast<int>(block.rows * block.cols * input_.element());
    }

  private:
    static std::int64_t clipped(std::int64_t left, std::int64_t most) {
        return std::clamp<std::int64_t>(left, 0, most);
    }

    const Layout& input_;
    const Layout& result_;
    Block piece_;
};

class TileExchange {
  public:
    TileExchange(Ranks& ranks, const Level& level, const Layout& input, const std::byte* rows,
                 const Layout& result, std::byte* out, int threads)
        : ranks_(ranks),
          level_(level),
          input_(input),
          rows_(rows),
          result_(result),
          out_(out),
          threads_(threads),
          to_send_(static_cast<std::size_t>(ranks.size())),
          to_receive_(to_send_.size()) {
        problem_.operation = level.operation;
        problem_.type = input.type;
        received_ = Buffer(tile_bytes(input, result));
    }

    void run() {
        const Shape piece = piece_shape(input_, result_);
        for (std::int64_t row = 0; row < input_.block; row += piece.rows)
            for (std::int64_t col = 0; col < result_.block; col += piece.cols)
                move({input_, result_, {row, col, piece.rows, piece.cols}});
    }

  private:
    void move(const TileRound& round) {
        const int own = ranks_.rank();
        for (int other = 0; other < ranks_.size(); ++other) {
            const Block block = round.between(own, other);
            const auto bytes = static_cast<int>(block.cols * input_.element());
            to_send_[static_cast<std::size_t>(other)] = {at(block),
                                                         other == own ? 0 : static_cast<int>(block.rows),
                                                         bytes, input_.shape.cols * input_.element()};
            to_receive_[static_cast<std::size_t>(other)] = round.bytes(other, own);
        }
        ranks_.exchange_rows(to_send_, received_.data(), to_receive_);
        const Block here = round.between(own, own);
        turn(here, at(here), input_.shape.cols);
        const std::byte* from = received_.data();
        for (int other = 0; other < ranks_.size(); ++other) {
            if (other == own) continue;
            const Block block = round.between(other, own);
            turn(block, from, block.cols);
            from += block.rows * block.cols * input_.element();
        }
    }

    /// Where the block of the input begins, of which this rank has the rows.
    [[nodiscard]] const std::byte* at(const Block& block) const {
        return rows_ + ((block.row - input_.panel(ranks_.rank()).row) * input_.shape.cols + block.col) *
                           input_.element();
    }

    /// Into the rows of the result, which this rank has.
    void turn(const Block& block, const std::byte* elements, std::int64_t pitch) {
        if (block.rows == 0 || block.cols == 0) return;
        problem_.m = block.rows;
        problem_.n = block.cols;
        std::byte* const to =
            out_ + ((block.col - result_.panel(ranks_.rank()).row) * result_.shape.cols + block.row) *
                       result_.element();
        const Operands operands{
            .a = {.data = elements, .rows = block.rows, .cols = block.cols, .pitch = pitch},
            .c = {.data = to, .rows = block.cols, .cols = block.rows, .pitch = result_.shape.cols}};
        prepare_launch(level_, problem_, operands, {.kind = DeviceKind::cpu, .threads = threads_}).run({});
    }

    Ranks& ranks_;
    const Level& level_;
    const Layout& input_;
    const std::byte* rows_;
    const Layout& result_;
    std::byte* out_;
    int threads_;
    std::vector<StridedRows> to_send_;
    std::vector<int> to_receive_;
    Problem problem_;
    Buffer received_;
};

}  // namespace

std::uint64_t tile_bytes(const Layout& input, const Layout& result) {
    const Shape piece = piece_shape(input, result);
    return static_cast<std::uint64_t>(input.grid.rows - 1) * block_bytes(piece, size_of(input.type));
}

void exchange_tiles(Ranks& ranks, const Level& level, const Layout& input, const std::byte* rows,
                    const Layout& result, std::byte* out, int threads) {
    std::unique_ptr<TileExchange> exchange;
    std::exception_ptr failure;
    try {
        exchange = std::make_unique<TileExchange>(ranks, level, input, rows, result, out, threads);
    } catch (...) {
        failure = std::current_exception();
    }
    const bool any = ranks.any(failure != nullptr);
    if (failure) std::rethrow_exception(failure);
    if (!any) exchange->run();
}

}  // namespace gpumat::engines
