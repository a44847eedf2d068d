#include "lib/run/stages/reading.hpp"

#include <algorithm>
#include <optional>

#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "kernels/operation.hpp"
#include "lib/stored/conjugate.hpp"

namespace gpumat::stages {
namespace {

/// Rows that are read at a time: whole chunks, and what the caches hold. All of them where a block costs as
/// much as the whole.
std::int64_t rows_at_a_time(const formats::Header& header, const HeldBlock& held, std::size_t row_bytes) {
    if (header.rereads || header.in_order || row_bytes == 0)
        return std::max<std::int64_t>(1, held.block.rows);
    const std::int64_t grain = std::max<std::int64_t>(1, header.grain.rows);
    return round_down(static_cast<std::int64_t>(kPanelBytes / row_bytes), grain);
}

}  // namespace

Reading::Reading(const FlowContext& context, Buffers& buffers, Queues& queues, Hashing& hashing)
    : context_(context),
      buffers_(buffers),
      queues_(queues),
      hashing_(hashing),
      last_(buffers.inputs.size()),
      seen_(context.plan.inputs.size()) {
    for (const PlannedInput& planned : context.plan.inputs)
        hashes_.emplace_back(planned.header().shape, context.plan.problem.type, context.options.threads);
}

void Reading::run() {
    for (std::int64_t i = 0; i < context_.parts.count(); ++i) {
        PartPointer part = read_part(i);
        if (context_.plan.lane().gpu) {
            queues_.to_check.push(InputsComplete{part});
        } else {
            hashing_.later(HashedSoFar{});
        }
        queues_.read.push(InputsComplete{std::move(part)});
    }
    last_.clear();
    for (const PlannedInput& planned : context_.plan.inputs) planned.reader->require_unchanged();
    queues_.read.close();
}

PartPointer Reading::read_part(std::int64_t index) {
    auto part = std::make_shared<PartInWork>();
    part->part = context_.parts.at(index);
    part->inputs.resize(context_.options.inputs.size());
    for (std::size_t at = 0; at < context_.plan.inputs.size(); ++at) {
        const std::size_t role = context_.plan.inputs[at].role;
        if (const auto& block = part->part.inputs[role]) part->inputs[role] = input(part, at, *block);
    }
    return part;
}

std::shared_ptr<HeldBlock> Reading::input(const PartPointer& part, std::size_t at, const Block& block) {
    const std::size_t role = context_.plan.inputs[at].role;
    std::shared_ptr<HeldBlock>& last = last_[role];
    if (last && last->block == block) return last;
    last.reset();  // its buffer may be the only one
    auto held = std::make_shared<HeldBlock>(
        HeldBlock{buffers_.inputs[role]->get(), block, context_.plan.problem.type});
    context_.progress.timeline.read([&] { read_block(part, at, held); });
    return last = std::move(held);
}

void Reading::read_block(const PartPointer& part, std::size_t at, const std::shared_ptr<HeldBlock>& held) {
    const Block& all = held->block;
    const PlannedInput& planned = context_.plan.inputs[at];
    const formats::Header& header = planned.header();
    const Stopwatch watch;
    const bool conjugates = is_conjugated(context_.plan.problem, planned.role);
    const bool is_new = seen_[at].insert({all.row, all.col}).second;
    const std::size_t row_bytes = static_cast<std::size_t>(all.cols) * size_of(held->type);
    const std::int64_t step = rows_at_a_time(header, *held, row_bytes);
    // At least once, for what may be wrong with the file of a matrix without elements.
    for (std::int64_t row = 0; row == 0 || row < all.rows; row += step) {
        const Block panel{all.row + row, all.col, std::min(step, all.rows - row), all.cols};
        const std::size_t first = static_cast<std::size_t>(row) * row_bytes;
        const std::size_t bytes = static_cast<std::size_t>(panel.rows) * row_bytes;
        const MutableMatrixView view{held->type, panel.shape(), all.cols, held->memory->data() + first};
        planned.reader->read(panel, view);
        if (is_new) hash(at, panel, view, held);
        if (conjugates) conjugate(view, context_.options.threads);
        if (context_.plan.lane().gpu) queues_.read.push(InputPiece{part, planned.role, held, first, bytes});
        if (is_new) context_.progress.bytes_read += bytes;
    }
    if (!context_.is_single()) return;
    tell(context_.say, Severity::detail,
         std::string("read ") + std::string(planned.name) + " = " + to_string(header.source) + " (" +
             to_string(header.shape) + " " + std::string(name_of(held->type)) + ", " + header.storage +
             ") in " + std::to_string(static_cast<int>(watch.elapsed_ms())) + " ms");
}

/// At once where what was read does not stay as it is.
void Reading::hash(std::size_t at, const Block& block, const MatrixView& elements,
                   const std::shared_ptr<HeldBlock>& held) {
    const bool stays =
        !context_.overwrites() && !is_conjugated(context_.plan.problem, context_.plan.inputs[at].role);
    if (!stays) return hashes_[at].add(block, elements);
    hashing_.later(Unhashed{hashes_[at], block, elements, held});
}

std::vector<std::string> Reading::hashes() const {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < hashes_.size(); ++i)
        texts.push_back(seen_[i].empty() ? "" : hashes_[i].text());
    return texts;
}

}  // namespace gpumat::stages
