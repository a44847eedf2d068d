#include "lib/engines/tiles.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>

#include "core/memory.hpp"

namespace gpumat::engines {
namespace {

constexpr std::int64_t kPiecesBytes = std::int64_t{4} << 20;       ///< of a piece for each rank
constexpr std::int64_t kLeastPieceBytes = std::int64_t{64} << 10;  ///< to one rank

/// The rows and columns of a piece, from the input's side: as near to a square as panels let it be.
Shape piece_shape(const Layout& input, const Layout& result) {
    constexpr std::int64_t kWhole = 64;  // pieces begin where cache lines do
    const std::int64_t bytes = std::max(kPiecesBytes / input.grid.rows, kLeastPieceBytes);
    const std::int64_t elements = bytes / input.element();
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements))) / kWhole * kWhole;
    Shape piece{std::min(input.block, std::max(kWhole, side)), 0};
    piece.cols = std::min(result.block, std::max<std::int64_t>(1, elements / piece.rows));
    if (piece.cols < result.block) piece.cols = std::max(kWhole, piece.cols / kWhole * kWhole);
    piece.rows = std::min(input.block, std::max(piece.rows, elements / piece.cols / kWhole * kWhole));
    return piece;
}

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
          piece_(piece_shape(input, result)),
          across_(pieces_of(result.block, piece_.cols)),
          received_(tile_bytes(input, result)) {
        problem_.operation = level.operation;
        problem_.type = input.type;
    }

    void run() {
        const int own = ranks_.rank();
        const int pieces = pieces_of(input_.block, piece_.rows) * across_;
        const auto take = [&](int from, int piece, const std::byte* bytes) {
            const Block block = between(from, own, piece);
            turn(block, bytes, block.cols);
        };
        ranks_.exchange_pieces(
            {.count = pieces,
             .to_send = [&](int to, int piece) { return rows_of(between(own, to, piece)); },
             .bytes_to_receive =
                 [&](int from, int piece) {
                     const Block block = between(from, own, piece);
                     return static_cast<int>(block.rows * block.cols * input_.element());
                 },
             .take = take},
            received_.data(), piece_.elements() * input_.element());
        for (int piece = 0; piece < pieces; ++piece) {
            const Block here = between(own, own, piece);
            turn(here, at(here), input_.shape.cols);
        }
    }

  private:
    static int pieces_of(std::int64_t extent, std::int64_t step) {
        return step > 0 ? static_cast<int>((extent + step - 1) / step) : 0;
    }
    static std::int64_t clipped(std::int64_t left, std::int64_t most) {
        return std::clamp<std::int64_t>(left, 0, most);
    }

    /// The block of the input that goes from one rank to another as that piece; may be empty.
    [[nodiscard]] Block between(int from, int to, int piece) const {
        const Block rows = input_.panel(from);
        const Block cols = result_.panel(to);
        const std::int64_t row = piece / across_ * piece_.rows;
        const std::int64_t col = piece % across_ * piece_.cols;
        return {rows.row + row, cols.row + col, clipped(rows.rows - row, piece_.rows),
                clipped(cols.rows - col, piece_.cols)};
    }

    [[nodiscard]] StridedRows rows_of(const Block& block) const {
        return {at(block), static_cast<int>(block.rows), static_cast<int>(block.cols * input_.element()),
                input_.shape.cols * input_.element()};
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
    Shape piece_;
    int across_;  ///< pieces beside each other
    Problem problem_;
    Buffer received_;
};

}  // namespace

std::uint64_t tile_bytes(const Layout& input, const Layout& result) {
    const Shape piece = piece_shape(input, result);
    return static_cast<std::uint64_t>(PieceExchange::kUnderWay * input.grid.rows) *
           block_bytes(piece, size_of(input.type));
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
