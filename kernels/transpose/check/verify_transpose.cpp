#include "kernels/transpose/check/verify_transpose.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/check/elements.hpp"
#include "kernels/check/findings.hpp"
#include "kernels/transpose/check/verify_hashes.hpp"
#include "kernels/transpose/check/verify_sparse.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kBlock = 64;  // two blocks of 16-byte elements are 128 KiB

constexpr std::int64_t kRowsAhead = 4;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Outcome kDiffers = {.ratio = kInfinity, .error = kInfinity, .worst_ratio = kInfinity};

template <class T>
const std::byte* bytes_of(const T& element) {
    return reinterpret_cast<const std::byte*>(&element);
}

/// Whether the parts of two elements are equal bit for bit, or NaN both.
template <class T>
bool same_but_for_nans(const T& x, const T& y) {
    const auto same = [](double a, double b) {
        return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
    };
    return same(as_complex(x).real(), as_complex(y).real()) &&
           same(as_complex(x).imag(), as_complex(y).imag());
}

/// The row of `block` with number `i` in `out` differs from `expected`.
template <class T>
void note_row(const MatrixView& out, const T* expected, std::int64_t i, const Block& block, bool any_nan,
              Findings& found) {
    const T* row = out.row<T>(i);
    for (std::int64_t j = block.col; j < block.col + block.cols; ++j) {
        const T& right = expected[j - block.col];
        if (std::memcmp(bytes_of(row[j]), bytes_of(right), sizeof(T)) == 0) continue;
        if constexpr (!std::is_integral_v<T>)
            if (any_nan && same_but_for_nans(row[j], right)) continue;
        found.note(kDiffers, i, j,
                   [&] { return std::pair(element_text(row[j], out.type), element_text(right, out.type)); });
    }
}

/// Transposes the block's source in memory that stays in the first cache, and compares whole rows.
template <class T>
void compare_block(const MatrixView& in, const MatrixView& out, const Block& block, bool any_nan,
                   Findings& found) {
    constexpr std::int64_t kStep =
        kBlock + 64 / sizeof(T);  // a line more, so that columns share no cache set
    alignas(64) std::array<std::byte, kBlock * kStep * sizeof(T)> memory;
    T* const expected = reinterpret_cast<T*>(memory.data());
    for (std::int64_t j = 0; j < block.cols; ++j) {
        if (j + kRowsAhead < block.cols)
            prefetch_row(in.row<T>(block.col + j + kRowsAhead) + block.row, block.rows);
        const T* from = in.row<T>(block.col + j) + block.row;
        for (std::int64_t i = 0; i < block.rows; ++i)
            std::memcpy(expected + i * kStep + j, from + i, sizeof(T));
    }
    for (std::int64_t i = 0; i < block.rows; ++i) {
        if (i + kRowsAhead < block.rows)
            prefetch_row(out.row<T>(block.row + i + kRowsAhead) + block.col, block.cols);
        const T* row = out.row<T>(block.row + i) + block.col;
        // As bytes: a NaN equals itself, and the zeros differ.
        if (std::memcmp(row, expected + i * kStep, static_cast<std::size_t>(block.cols) * sizeof(T)) != 0)
            note_row(out, expected + i * kStep, block.row + i, block, any_nan, found);
    }
}

/// A strip of a transpose of at most kBlock rows.
template <class T>
void compare_strip(const MatrixView& in, const MatrixView& out, const Block& strip, bool any_nan,
                   Findings& found) {
    const std::int64_t end = strip.col + strip.cols;
    for (std::int64_t col = strip.col; col < end; col += kBlock)
        compare_block<T>(in, out, {strip.row, col, strip.rows, std::min(kBlock, end - col)}, any_nan, found);
}

void require_transposed(const MatrixView& in, const MatrixView& out) {
    if (in.type == out.type && in.shape.transposed() == out.shape) return;
    throw Error(ErrorCode::not_comparable, "cannot compare a transpose: the input is " + to_string(in.shape) +
                                               " " + std::string(name_of(in.type)) +
                                               ", so the output must be " + to_string(in.shape.transposed()) +
                                               " " + std::string(name_of(in.type)) + ", and is " +
                                               to_string(out.shape) + " " + std::string(name_of(out.type)));
}

/// Rows of a transpose against columns of its input, bit for bit.
class TransposePanels final : public ResultCheck {
  public:
    TransposePanels(const Problem& problem, const Operands& inputs, const VerifyOptions& how)
        : type_(problem.type), rows_(problem.m), in_(inputs.a), how_(how) {}

    [[nodiscard]] bool takes_panels() const override { return true; }

    void take(std::int64_t first, const Operand& panel) override {
        const MatrixView columns{type_,
                                 {rows_, panel.rows},
                                 in_.pitch,
                                 in_.as<std::byte>() + static_cast<std::size_t>(first) * size_of(type_)};
        const MatrixView rows{type_, {panel.rows, panel.cols}, panel.pitch, panel.as<std::byte>()};
        merge_part(all_, verify_transpose(columns, rows, how_), first, 0);
    }

    Verification finish() override { return std::move(all_); }

  private:
    Type type_;
    std::int64_t rows_;
    Operand in_;
    VerifyOptions how_;
    Verification all_;
};

Verification verify_transposed(const Problem& problem, const Operands& operands, const VerifyOptions& how) {
    if (problem.is_sparse()) return transpose::verify_sparse(problem, operands, how);
    return verify_transpose(
        {problem.type, {problem.m, problem.n}, operands.a.pitch, operands.a.as<std::byte>()},
        {problem.type, {problem.n, problem.m}, operands.c.pitch, operands.c.as<std::byte>()}, how);
}

std::unique_ptr<ResultCheck> begin_panels(const Problem& problem, const Operands& inputs,
                                          const VerifyOptions& how) {
    if (problem.m == 0 || problem.n == 0) return nullptr;
    return std::make_unique<TransposePanels>(problem, inputs, how);
}

Verification verify_side_by_side(const ReadSideBySide& read, const VerifyOptions& asked) {
    Verification all;
    VerifyOptions how = asked;
    how.mode = VerifyMode::full;
    read([&](const Block& block, const MatrixView& a, const MatrixView& at) {
        merge_part(all, verify_transpose(a, at, how), block.col, block.row);
    });
    if (all.mode == "none") {  // a matrix without elements
        all.mode = "full";
        all.verdict = "passed";
    }
    return all;
}

}  // namespace

Verification verify_transpose(const MatrixView& in, const MatrixView& out, const VerifyOptions& options) {
    require_transposed(in, out);
    if (options.mode == VerifyMode::none) return {};
    if (out.shape.rows == 0 || out.shape.cols == 0) return verification_of("full", {});
    Findings all;
    std::mutex mutex;
    // Few rows are cut across as well, so that all threads have some.
    const std::int64_t down = ceil_div(out.shape.rows, kBlock);
    const std::int64_t across_wanted = std::max<std::int64_t>(1, 4 * options.threads / down);
    const std::int64_t width = round_up(ceil_div(out.shape.cols, across_wanted), kBlock);
    const std::int64_t across = ceil_div(out.shape.cols, width);
    parallel_for(down * across, 1, options.threads, [&](std::int64_t piece, std::int64_t) {
        const std::int64_t row = piece / across * kBlock;
        const std::int64_t col = piece % across * width;
        const Block strip{row, col, std::min(kBlock, out.shape.rows - row),
                          std::min(width, out.shape.cols - col)};
        Findings found;
        visit_type(in.type,
                   [&]<class T>(TypeTag<T>) { compare_strip<T>(in, out, strip, options.any_nan, found); });
        const std::lock_guard lock(mutex);
        all.merge(found);
    });
    Verification result = verification_of("full", all);
    result.rows_recomputed = out.shape.rows;
    return result;
}

constinit const Check transpose::kCheck = {.verify = verify_transposed,
                                           .panels = begin_panels,
                                           .side_by_side = verify_side_by_side,
                                           .in_blocks = transpose::verify_hashes};

}  // namespace gpumat
