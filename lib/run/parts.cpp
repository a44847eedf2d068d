#include "lib/run/parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"

namespace gpumat {
namespace {

/// What a part costs beside its bytes, as if it were so many bytes more: starting its stages, its launch.
constexpr double kBytesAPart = 4.0 * (1 << 20);
/// The same of a run of elements side by side in a file, that is shorter than it is read or written in.
constexpr double kBytesARun = 2048;

/// What combining parts must save: sums of numbers that are not whole depend on where they are cut, so what
/// need not be combined is not.
constexpr double kCombiningCost = 1.2;

/// Blocks with fewer rows or columns cost more to start than to compute.
constexpr std::int64_t kLeastExtent = 64;

/// Parts whose stages work at the same time: one is read, one computed, one verified and written.
constexpr std::array<std::size_t, 3> kPartsAtOnce = {3, 2, 1};

std::int64_t divided_up(std::int64_t value, std::int64_t by) {
    return by <= 0 ? 1 : std::max<std::int64_t>(1, ceil_div(value, by));
}

double bytes_of(const Shape& shape, Type type) {
    return static_cast<double>(shape.rows) * static_cast<double>(shape.cols) *
           static_cast<double>(size_of(type));
}

/// What the problem is cut along.
Shape cut_shape(const Problem& problem) {
    const Operation& operation = *problem.operation;
    return operation.cut != nullptr ? operation.cut(problem) : operation.result(problem);
}

/// The elements along one axis that reading a block touches, over those that it has.
double overlap(std::int64_t extent, std::int64_t grain, std::int64_t whole) {
    if (grain <= 1 || extent >= whole || extent % grain == 0) return 1;
    return static_cast<double>(extent + grain) / static_cast<double>(extent);
}

/// A choice of the step and what follows from it.
struct Candidate {
    Shape step;
    bool down_first = true;
    std::size_t at_once = 1;
    double cost = std::numeric_limits<double>::infinity();
    double host_bytes = 0;
    double device_bytes = 0;
    BufferCounts buffers;
};

class Cutter {
  public:
    Cutter(const Problem& problem, const std::vector<std::optional<StoredAs>>& inputs, const StoredAs& result,
           const CutLimits& limits)
        : problem_(problem), inputs_(inputs), result_(result), limits_(limits), whole_(cut_shape(problem)) {
        const Block one = part({1, 1}).result;
        cuts_rows_ = part({2, 1}).result.rows != one.rows;
        cuts_cols_ = part({1, 2}).result.cols != one.cols;
    }

    /// The cheapest that fits; of those that do not, the smallest.
    [[nodiscard]] Candidate best(bool& fits) const {
        Candidate best;
        Candidate smallest;
        smallest.host_bytes = smallest.device_bytes = std::numeric_limits<double>::infinity();
        for (const std::int64_t rows : steps(whole_.rows, cuts_rows_ ? result_.grain.rows : 1, true)) {
            for (const std::int64_t cols : steps(whole_.cols, cuts_cols_ ? result_.grain.cols : 1, false)) {
                for (const bool down_first : {true, false})
                    consider({rows, cols}, down_first, best, smallest);
            }
        }
        fits = std::isfinite(best.cost);
        return fits ? best : smallest;
    }

  private:
    /// Steps along an axis of what is cut: doubled, and half as much again, from what is written and read at
    /// a time up to the whole.
    [[nodiscard]] std::vector<std::int64_t> steps(std::int64_t whole, std::int64_t grain,
                                                  bool of_rows) const {
        using formats::BlockOrder;
        if (of_rows ? cuts_rows_ && limits_.order == BlockOrder::column_panels
                    : cuts_cols_ && limits_.order == BlockOrder::row_panels)
            return {whole};
        std::vector<std::int64_t> found;
        const std::int64_t written = std::max<std::int64_t>(1, grain);
        for (std::int64_t base : {written, with_inputs(written, whole, of_rows)}) {
            base = divided_up(kLeastExtent, base) * base;
            for (const std::int64_t first : {base, 3 * base})
                for (std::int64_t step = first; step < whole; step *= 2) found.push_back(step);
        }
        found.push_back(whole);
        return found;
    }

    /// The least multiple that is whole grains of the inputs too.
    [[nodiscard]] std::int64_t with_inputs(std::int64_t grain, std::int64_t whole, bool of_rows) const {
        const ProblemPart one = part({1, 1});
        const ProblemPart two = part(of_rows ? Shape{2, 1} : Shape{1, 2});
        for (std::size_t role = 0; role < inputs_.size(); ++role) {
            if (!inputs_[role] || !one.inputs[role]) continue;
            for (const auto& [before, after, edge] :
                 {std::tuple{one.inputs[role]->rows, two.inputs[role]->rows, inputs_[role]->grain.rows},
                  std::tuple{one.inputs[role]->cols, two.inputs[role]->cols, inputs_[role]->grain.cols}}) {
                if (before == after || edge <= 1) continue;
                const std::int64_t factor = edge / std::gcd(grain, edge);
                if (grain > whole / factor) return whole;
                grain *= factor;
            }
        }
        return grain;
    }

    [[nodiscard]] ProblemPart part(const Shape& step) const {
        return problem_.operation->part(problem_, {0, 0, step.rows, step.cols});
    }

    void consider(const Shape& step, bool down_first, Candidate& best, Candidate& smallest) const {
        const ProblemPart first = part(step);
        if (first.shares_result() && !keeps_together(step, down_first)) return;
        for (std::size_t role = 0; role < inputs_.size(); ++role) {
            const auto& stored = inputs_[role];
            if (stored && stored->in_order && first.inputs[role] &&
                first.inputs[role]->shape() != stored->shape)
                return;
        }
        for (const std::size_t at_once : kPartsAtOnce) {
            Candidate found = measured(first, step, down_first, at_once);
            const bool fits =
                found.host_bytes <= static_cast<double>(limits_.host_bytes) &&
                (!limits_.device_bytes || found.device_bytes <= static_cast<double>(*limits_.device_bytes));
            if (fits && found.cost < best.cost) best = found;
            if (size_of_both(found) < size_of_both(smallest)) smallest = std::move(found);
        }
    }

    /// In the memories that there are.
    [[nodiscard]] double size_of_both(const Candidate& one) const {
        return one.host_bytes + (limits_.device_bytes ? one.device_bytes : 0);
    }

    /// Whether parts that share a block of the result follow each other.
    [[nodiscard]] bool keeps_together(const Shape& step, bool down_first) const {
        if (step.rows >= whole_.rows || step.cols >= whole_.cols) return true;
        return down_first ? !cuts_rows_ : !cuts_cols_;
    }

    /// Whether the block of an input differs from one part to the next.
    [[nodiscard]] bool varies(const Shape& step, std::size_t role, bool downwards) const {
        const Block here{0, 0, step.rows, step.cols};
        const Block next =
            downwards ? Block{step.rows, 0, step.rows, step.cols} : Block{0, step.cols, step.rows, step.cols};
        const auto a = problem_.operation->part(problem_, here).inputs[role];
        const auto b = problem_.operation->part(problem_, next).inputs[role];
        return a && (a->row != b->row || a->col != b->col);
    }

    [[nodiscard]] Candidate measured(const ProblemPart& first, const Shape& step, bool down_first,
                                     std::size_t at_once) const {
        const std::int64_t down = divided_up(whole_.rows, step.rows);
        const std::int64_t across = divided_up(whole_.cols, step.cols);
        const auto parts = static_cast<double>(down) * static_cast<double>(across);
        Candidate found{
            .step = step, .down_first = down_first, .at_once = parts == 1 ? 1 : at_once, .cost = 0};
        double varying = 0;
        for (std::size_t role = 0; role < inputs_.size(); ++role) {
            found.buffers.inputs.push_back(0);
            found.buffers.device_inputs.push_back(0);
            if (!inputs_[role] || !first.inputs[role]) continue;
            const Block& block = *first.inputs[role];
            const StoredAs& stored = *inputs_[role];
            const double bytes = bytes_of(block.shape(), problem_.type);
            const bool inner = varies(step, role, down_first);
            const bool outer = varies(step, role, !down_first);
            const std::int64_t inner_count = down_first ? down : across;
            const std::int64_t outer_count = down_first ? across : down;
            const double reads = inner && inner_count > 1 ? parts
                                 : outer                  ? static_cast<double>(outer_count)
                                                          : 1.0;
            const bool resident = !(inner && inner_count > 1);
            found.buffers.inputs[role] = resident ? 1 : found.at_once;
            found.buffers.device_inputs[role] = resident ? 1 : std::min<std::size_t>(2, found.at_once);
            found.host_bytes += bytes * static_cast<double>(found.buffers.inputs[role]);
            found.device_bytes += bytes * static_cast<double>(found.buffers.device_inputs[role]);
            found.cost += reads * cost_of_reading(block, stored);
            if (!resident) varying += bytes;
        }
        const Shape given = problem_.operation->result(first.problem);
        const double result_bytes = bytes_of(given, result_type(first.problem));
        found.buffers.results = std::min<std::size_t>(2, found.at_once);
        found.host_bytes += result_bytes * static_cast<double>(found.buffers.results);
        found.device_bytes += result_bytes * static_cast<double>(found.buffers.results);
        if (first.shares_result())  // what is combined, and what that becomes
            found.host_bytes += result_bytes + bytes_of(first.result.shape(), result_type(problem_));
        if (limits_.verification_bytes)
            found.host_bytes += static_cast<double>(limits_.verification_bytes(first.problem)) *
                                static_cast<double>(found.at_once);
        const bool chunked = result_.grain.elements() > 1;
        if (!chunked && first.result.cols < result_.shape.cols)
            found.cost += parts * static_cast<double>(first.result.rows) * kBytesARun;
        // The first part is read, and the last one written, while nothing else is done.
        found.cost += parts * kBytesAPart + 2 * (varying + result_bytes);
        // Stages that do not overlap take turns.
        if (found.at_once < kPartsAtOnce.front() && parts > 1) found.cost *= found.at_once == 1 ? 2 : 1.2;
        if (first.shares_result()) found.cost *= kCombiningCost;
        return found;
    }

    [[nodiscard]] double cost_of_reading(const Block& block, const StoredAs& stored) const {
        if (stored.rereads) return bytes_of(stored.shape, problem_.type) * 4;
        const bool chunked = stored.grain.elements() > 1;
        const double runs = chunked || block.cols == stored.shape.cols ? 0 : static_cast<double>(block.rows);
        return bytes_of(block.shape(), problem_.type) *
                   overlap(block.rows, stored.grain.rows, stored.shape.rows) *
                   overlap(block.cols, stored.grain.cols, stored.shape.cols) +
               runs * kBytesARun;
    }

    const Problem& problem_;
    const std::vector<std::optional<StoredAs>>& inputs_;
    const StoredAs& result_;
    const CutLimits& limits_;
    Shape whole_;             ///< of what is cut
    bool cuts_rows_ = false;  ///< blocks below each other have other rows of the result
    bool cuts_cols_ = false;
};

}  // namespace

StoredAs stored_as(const formats::Header& header) {
    return {header.shape, header.grain, header.rereads, header.in_order};
}

Parts::Parts(const Problem& problem, const std::vector<std::optional<StoredAs>>& inputs)
    : problem_(problem), whole_{problem, {}, Block::whole(problem.operation->result(problem))} {
    for (const auto& input : inputs) {
        whole_.inputs.push_back(input ? std::optional(Block::whole(input->shape)) : std::nullopt);
        buffers_.inputs.push_back(1);
        buffers_.device_inputs.push_back(1);
    }
}

Parts::Parts(const Problem& problem, const std::vector<std::optional<StoredAs>>& inputs,
             const StoredAs& result, const CutLimits& limits, std::uint64_t fixed_bytes,
             std::uint64_t host_room, const std::string& what)
    : problem_(problem), extent_(cut_shape(problem)) {
    bool fits = false;
    const Candidate best = Cutter(problem, inputs, result, limits).best(fits);
    if (!fits) {
        require_memory(static_cast<std::uint64_t>(best.host_bytes) + fixed_bytes, host_room,
                       what + " in the smallest parts");
        throw Error(ErrorCode::memory, what + " in the smallest parts needs " +
                                           format_need(static_cast<std::uint64_t>(best.device_bytes)) +
                                           " on the device, and " +
                                           format_bytes(limits.device_bytes.value_or(0)) + " may be taken");
    }
    step_ = best.step;
    rows_ = divided_up(extent_.rows, step_.rows);
    cols_ = divided_up(extent_.cols, step_.cols);
    down_first_ = best.down_first;
    buffers_ = best.buffers;
    host_bytes_ = static_cast<std::uint64_t>(best.host_bytes);
    device_bytes_ = limits.device_bytes ? static_cast<std::uint64_t>(best.device_bytes) : 0;
}

ProblemPart Parts::at(std::int64_t index) const {
    if (count() == 1 && !whole_.inputs.empty()) return whole_;
    const std::int64_t inner = down_first_ ? rows_ : cols_;
    const std::int64_t row = (down_first_ ? index % inner : index / inner) * step_.rows;
    const std::int64_t col = (down_first_ ? index / inner : index % inner) * step_.cols;
    return problem_.operation->part(problem_, {row, col, std::min(step_.rows, extent_.rows - row),
                                               std::min(step_.cols, extent_.cols - col)});
}

}  // namespace gpumat
