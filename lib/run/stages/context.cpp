#include "lib/run/stages/context.hpp"

#include <algorithm>
#include <bit>

#include "core/numbers/whole.hpp"
#include "kernels/check/check.hpp"
#include "lib/run/transfer.hpp"

namespace gpumat::stages {
namespace {

/// A panel of a result that lies in host memory as a whole: on many processors larger ones keep all threads
/// at work.
constexpr std::size_t kHostPanelBytes = std::size_t{128} << 20;

/// Rows of the result at a time: a check keeps some numbers of each.
constexpr std::int64_t kPanelRows = 1 << 15;

/// A run on a CPU whose matrices have no more bytes takes longer to start its threads than to do its work in
/// turn.
constexpr std::uint64_t kWorthThreads = std::uint64_t{4} << 20;

/// How parts are verified is decided by what all of them cost.
VerifyMode mode_of_parts(const Plan& plan, const RunOptions& options) {
    const bool large = plan.parts->count() > 1 && plan.problem.flops() > kFullCheckFlops;
    return options.verify == VerifyMode::automatic && large ? VerifyMode::freivalds : options.verify;
}

}  // namespace

std::size_t bytes_of_result(const ProblemPart& part) {
    const Shape shape = part.problem.operation->result(part.problem);
    return static_cast<std::size_t>(shape.elements()) * size_of(result_type(part.problem));
}

FlowContext::FlowContext(Plan& planned, const RunOptions& asked, const Outlet& where, Progress& heard,
                         const Tell& tells)
    : plan(planned),
      options(asked),
      outlet(where),
      progress(heard),
      say(tells),
      parts(*plan.parts),
      how{mode_of_parts(plan, options), options.tolerance, options.threads, options.seed, parts.count()},
      in_turn(!plan.lane().gpu && is_single() &&
              bytes_of_inputs() + bytes_of_whole_result() <= kWorthThreads),
      panel_rows(rows_of_panels()),
      piece_bytes(bytes_of_pieces()) {}

std::unique_ptr<ResultCheck> FlowContext::check_of(const ProblemPart& part, const Operands& operands) const {
    return begin_check(*plan.level, part.problem, operands, how);
}

std::uint64_t FlowContext::bytes_of_inputs() const {
    std::uint64_t bytes = 0;
    for (const PlannedInput& input : plan.inputs)
        bytes += dense_bytes(input.header().shape, plan.problem.type, "an input");
    return bytes;
}

std::uint64_t FlowContext::bytes_of_whole_result() const {
    return dense_bytes(plan.result, plan.result_type, "the result");
}

/// As many as the caches hold, where nothing needs all.
std::int64_t FlowContext::rows_of_panels() const {
    const ProblemPart part = parts.at(0);
    const std::int64_t all = std::max<std::int64_t>(1, part.result.rows);
    const bool may_be_cut =
        (!outlet.open || (outlet.hidden && outlet.order == formats::BlockOrder::any)) && !overwrites();
    if (in_turn || !may_be_cut || !check_of(part, Operands{})->takes_panels()) return all;
    const std::size_t row_bytes = bytes_of_result(part) / static_cast<std::size_t>(all);
    if (row_bytes == 0) return all;  // of no elements
    const std::int64_t wanted = std::min<std::int64_t>(
        kPanelRows, static_cast<std::int64_t>((plan.lane().gpu ? kPanelBytes : kHostPanelBytes) / row_bytes));
    const std::int64_t step = outlet.open ? std::max<std::int64_t>(1, outlet.chunk_rows) : 1;
    return std::min(all, round_down(wanted, step));
}

/// A panel, and little more than the largest matrix has. Few sizes, so that pinned buffers serve other runs
/// of the process.
std::size_t FlowContext::bytes_of_pieces() const {
    const ProblemPart part = parts.at(0);
    std::size_t largest = bytes_of_result(part);
    for (const auto& block : part.inputs)
        if (block) largest = std::max(largest, dense_bytes(block->shape(), plan.problem.type, "an input"));
    const bool in_panels = panel_rows < part.result.rows;  // else it goes through host memory as a whole
    const std::size_t panel = in_panels ? static_cast<std::size_t>(panel_rows * part.result.cols) *
                                              size_of(result_type(part.problem))
                                        : 0;
    return std::max(std::min(kPinnedBytes, std::bit_ceil(largest)), panel);
}

Buffers::Buffers(const FlowContext& context)
    : results(context.parts.buffers().results,
              [bytes = bytes_of_result(context.parts.at(0))] { return Buffer(bytes); }),
      device_results(context.parts.buffers().results,
                     [&gpu = context.plan.lane().gpu, bytes = bytes_of_result(context.parts.at(0))] {
                         return gpu->allocate(bytes);
                     }),
      pinned(kPinnedBuffers, [&gpu = context.plan.lane().gpu, bytes = context.piece_bytes] {
          return gpu->allocate_pinned(bytes);
      }) {
    const ProblemPart first = context.parts.at(0);
    const BufferCounts& counts = context.parts.buffers();
    inputs.resize(first.inputs.size());
    device_inputs.resize(first.inputs.size());
    for (std::size_t role = 0; role < first.inputs.size(); ++role) {
        if (!first.inputs[role]) continue;
        const std::size_t bytes =
            dense_bytes(first.inputs[role]->shape(), context.plan.problem.type, "an input");
        inputs[role] = std::make_unique<Pool<Buffer>>(std::max<std::size_t>(1, counts.inputs[role]),
                                                      [bytes] { return Buffer(bytes); });
        if (context.plan.lane().gpu) {
            device_inputs[role] = std::make_unique<Pool<DeviceMemory>>(
                std::max<std::size_t>(1, counts.device_inputs[role]),
                [&gpu = context.plan.lane().gpu, bytes] { return gpu->allocate(bytes); });
        }
    }
}

std::vector<Stoppable*> Buffers::all() {
    std::vector<Stoppable*> pools = {&results, &device_results, &pinned};
    for (const auto& pool : inputs)
        if (pool) pools.push_back(pool.get());
    for (const auto& pool : device_inputs)
        if (pool) pools.push_back(pool.get());
    return pools;
}

std::vector<Stoppable*> Queues::all() {
    return {&read, &uploaded, &computed, &to_check, &to_hash, &verified, &drained, &hashed};
}

}  // namespace gpumat::stages
