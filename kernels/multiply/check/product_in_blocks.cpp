#include "kernels/multiply/check/product_in_blocks.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "kernels/multiply/check/product_check.hpp"

namespace gpumat {
namespace {

enum : std::size_t { kA, kB, kD };

using Factor = BlockProductCheck::Factor;

/// Lines of a stored matrix: rows, or columns where it is used transposed.
struct Lines {
    std::span<const std::int64_t> numbers;  ///< in order
    bool are_columns = false;
    std::int64_t first = 0;  ///< of their elements
    std::int64_t count = 0;
};

/// Reads lines one below the other, in blocks of at most `room` bytes that hold whole grains across the
/// lines.
Matrix read_lines(StoredMatrix& stored, const Lines& lines, std::uint64_t room) {
    const Type type = stored.type();
    const Shape shape = stored.shape();
    const auto element = static_cast<std::int64_t>(size_of(type));
    const Shape grain = clipped_grain(stored.grain(), shape);
    const std::int64_t extent = lines.are_columns ? shape.cols : shape.rows;
    const std::int64_t most = std::max<std::int64_t>(1, static_cast<std::int64_t>(room) / element);
    const std::int64_t across = lines.are_columns ? grain.cols : grain.rows;
    const std::int64_t strip = across <= most ? across : 1;
    const std::int64_t step =
        std::clamp<std::int64_t>(most / strip, 1, std::max<std::int64_t>(1, lines.count));
    Matrix found({std::ssize(lines.numbers), lines.count}, type, "rows that are compared");
    Buffer memory(static_cast<std::size_t>(std::min(strip, extent) * step * element));
    for (std::size_t begin = 0; begin < lines.numbers.size();) {
        const std::int64_t top = lines.numbers[begin] / strip * strip;
        const std::int64_t height = std::min(strip, extent - top);
        std::size_t end = begin;
        while (end < lines.numbers.size() && lines.numbers[end] < top + height) ++end;
        for (std::int64_t at = 0; at < lines.count; at += step) {
            const std::int64_t width = std::min(step, lines.count - at);
            const Block block = lines.are_columns ? Block{lines.first + at, top, width, height}
                                                  : Block{top, lines.first + at, height, width};
            stored.read(block, {type, block.shape(), block.cols, memory.data()});
            for (std::size_t i = begin; i < end; ++i) {
                std::byte* to = found.data() + (static_cast<std::int64_t>(i) * lines.count + at) * element;
                const std::int64_t line = lines.numbers[i] - top;
                if (!lines.are_columns) {
                    std::memcpy(to, memory.data() + line * width * element,
                                static_cast<std::size_t>(width * element));
                    continue;
                }
                for (std::int64_t k = 0; k < width; ++k)
                    std::memcpy(to + k * element, memory.data() + (k * height + line) * element,
                                static_cast<std::size_t>(element));
            }
        }
        begin = end;
    }
    return found;
}

class ProductInBlocks {
  public:
    ProductInBlocks(const Problem& asked, const StoredMatrices& stored, const VerifyOptions& how,
                    std::uint64_t room)
        : problem_(as_read(asked)), stored_(stored), room_(room), check_(asked, how) {}

    Verification run() {
        pass(kB, Factor::b);
        add_up(Factor::b);
        pass(kA, Factor::a);
        if (adds()) pass(kD, Factor::d);
        add_up(Factor::a);
        stored_.result.read_in_blocks(
            room_, [&](const Block& block, const MatrixView& c) { check_.take(Factor::c, block, c); });
        add_up(Factor::c);
        compare();
        return check_.finish();
    }

    /// Bytes of a row of A and a column of B, of a row and a column of grains, and of the same of C and D.
    static std::uint64_t least(const Problem& problem, const StoredMatrices& stored) {
        std::uint64_t blocks = stored.result.least_for_blocks();
        for (const StoredMatrix* input : stored.inputs)
            if (input != nullptr) blocks = std::max(blocks, input->least_for_blocks());
        const auto line = static_cast<std::uint64_t>(as_read(problem).k) * size_of(problem.type);
        return std::max(blocks, kShares * std::max<std::uint64_t>(line, size_of(problem.type)));
    }

  private:
    /// Of the room, while rows are compared: rows of A; columns of B; what they are read in; rows of C and D.
    static constexpr std::uint64_t kShares = 4;
    /// Of B that comes from other processes at a time: all of them make room for what one of them gets.
    static constexpr std::uint64_t kPartOfB = std::uint64_t{64} << 20;

    [[nodiscard]] bool adds() const { return !problem_.beta.is_zero(problem_.type); }

    void pass(std::size_t role, Factor factor) {
        stored_.inputs[role]->read_in_blocks(room_, [&](const Block& block, const MatrixView& elements) {
            if (factor == Factor::d || problem_.k > 0) check_.take(factor, block, elements);
        });
    }

    /// With what other processes have, where there are some.
    void add_up(Factor factor) {
        if (!stored_.add_up) return;
        for (const std::span<double> sums : check_.sums(factor)) stored_.add_up(sums);
    }

    void compare() {
        const std::vector<std::int64_t> rows = check_.rows_to_compare();
        const std::uint64_t share = room_ / kShares;
        const auto element = static_cast<std::uint64_t>(size_of(problem_.type));
        const std::uint64_t line =
            std::max<std::uint64_t>(1, static_cast<std::uint64_t>(problem_.k)) * element;
        const auto at_once =
            static_cast<std::size_t>(std::clamp<std::uint64_t>(share / line, 1, rows.size()));
        // Of C and D there are as many columns, of the same rows, and as many again of D.
        const std::uint64_t of_b = stored_.add_up ? std::min(share, kPartOfB) : share;
        const std::uint64_t most = std::min(of_b / line, share / (2 * element * at_once));
        const auto columns = static_cast<std::int64_t>(
            std::clamp<std::uint64_t>(most, 1, static_cast<std::uint64_t>(problem_.n)));
        for (std::size_t first = 0; first < rows.size(); first += at_once) {
            const auto some = std::span(rows).subspan(first, std::min(at_once, rows.size() - first));
            const Matrix a = problem_.k == 0 ? Matrix({std::ssize(some), 0}, problem_.type)
                                             : read_lines(*stored_.inputs[kA],
                                                          {some, problem_.transpose_a, 0, problem_.k}, share);
            for (std::int64_t col = 0; col < problem_.n; col += columns)
                compare_columns(some, a, {0, col, problem_.k, std::min(columns, problem_.n - col)}, share);
        }
    }

    /// `of_b`: columns of op(B).
    void compare_columns(std::span<const std::int64_t> rows, const Matrix& a, const Block& of_b,
                         std::uint64_t share) {
        const Block block = problem_.transpose_b ? Block{of_b.col, of_b.row, of_b.cols, of_b.rows} : of_b;
        Matrix b(block.shape(), problem_.type, "columns that are compared");
        if (problem_.k > 0) stored_.inputs[kB]->read(block, b.view());
        const Lines lines{rows, false, of_b.col, of_b.cols};
        const Matrix c = read_lines(stored_.result, lines, share);
        const Matrix d = adds() ? read_lines(*stored_.inputs[kD], lines, share) : Matrix();
        Problem part = problem_;
        part.m = std::ssize(rows);
        part.n = of_b.cols;
        part.transpose_a = false;
        const std::vector<const void*> places = {a.data(), b.data(), adds() ? d.data() : nullptr};
        check_.compare(rows, of_b.col, part, operands_at(part, places, nullptr), operand_of(c.view()));
    }

    Problem problem_;
    const StoredMatrices& stored_;
    std::uint64_t room_;
    BlockProductCheck check_;
};

}  // namespace

std::optional<Verification> verify_product_in_blocks(const Problem& problem, const StoredMatrices& stored,
                                                     const VerifyOptions& how, std::uint64_t room) {
    const auto comes_once = [](const StoredMatrix* matrix) {
        return matrix != nullptr && matrix->comes_once();
    };
    if (!checks_at_random(problem, how.mode) || comes_once(&stored.result) ||
        std::ranges::any_of(stored.inputs, comes_once))
        return {};
    const std::uint64_t of_check = block_product_check_bytes(problem);
    const std::uint64_t least = ProductInBlocks::least(problem, stored);
    const std::uint64_t needed = stored.beside + of_check + least;
    require_memory(needed, room, "verifying this multiply block by block");
    return ProductInBlocks(problem, stored, how, room - stored.beside - of_check).run();
}

}  // namespace gpumat
