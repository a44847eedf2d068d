#include "lib/run/stages/checking.hpp"

#include <algorithm>
#include <utility>

#include "kernels/check/check.hpp"
#include "lib/run/stages/hash_check.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat::stages {

void Checking::run() {
    if (context_.outlet.open)
        output_hash_.emplace(context_.plan.result, context_.plan.result_type, context_.options.threads);
    while (const auto next = queues_.to_check.pop())
        std::visit([this](const auto& each) { take(each); }, *next);
    queues_.to_hash.close();
    queues_.hashed.pop();
    finish_all();
}

/// All is read, computed and verified; now it can be said where the result comes from.
void Checking::finish_all() {
    result_.input_hashes = reading_.hashes();
    if (writes()) result_.output_hash = output_hash_->text();
    queues_.verified.close();
}

bool Checking::writes() const {
    return context_.outlet.open && !(result_.wrong() && !context_.options.keep_failed);
}

void Checking::take(const InputsComplete& news) {
    PartInWork& part = *news.part;
    if (!part.check) begin(part);
    if (part.check->takes_panels() && context_.verifies())
        context_.progress.timeline.verify([&] { part.check->prepare(context_.panel_rows); });
}

void Checking::take(const ResultWhole& whole) {
    PartInWork& part = *whole.part;
    if (!part.check) begin(part);
    if (part.part.shares_result() && !combine(part)) return;
    const Type type = context_.plan.result_type;
    const Block& block = part.part.result;
    const std::size_t row_bytes = static_cast<std::size_t>(block.cols) * size_of(type);
    const std::int64_t step = context_.panel_rows;
    for (std::int64_t row = 0; row == 0 || row < block.rows; row += step) {
        take(ResultPanel{.part = whole.part,
                         .first = row,
                         .rows = {type,
                                  {std::min(step, block.rows - row), block.cols},
                                  block.cols,
                                  part.result->data() + static_cast<std::size_t>(row) * row_bytes},
                         .memory = part.result});
    }
}

/// Whether the part has the result of all that it shares it with.
bool Checking::combine(PartInWork& part) {
    part.inputs.clear();  // for the next parts
    if (!combining_.take(part.part, part.result->data(), bytes_of_result(part.part))) return false;
    part.result = std::make_shared<Buffer>(combining_.finish(part.part));
    return true;
}

void Checking::take(const ResultPanel& panel) {
    PartInWork& part = *panel.part;
    if (!part.check) begin(part);
    const Plan& plan = context_.plan;
    const Block& of = part.part.result;
    const Block block{of.row + panel.first, of.col, panel.rows.shape.rows, of.cols};
    if (context_.verifies() || context_.overwrites()) {
        context_.progress.timeline.verify([&] { part.check->take(panel.first, operand_of(panel.rows)); });
    }
    if (panel.first + block.rows >= of.rows) finish(part);
    if (plan.problem.operation->answers && plan.result.elements() <= kMostAnswered)
        keep_answer(block, panel.rows);
    context_.progress.bytes_checked +=
        static_cast<std::uint64_t>(block.rows * block.cols) * size_of(plan.result_type);
    if (!writes()) return;
    if (!plan.output->format().keeps_nans) make_nans_plain(panel.rows, context_.options.threads);
    hashing_.later(Unhashed{*output_hash_, block, panel.rows, panel.memory});
    queues_.verified.push({block, panel.rows, panel.memory});
}

void Checking::keep_answer(const Block& block, const MatrixView& elements) {
    const Plan& plan = context_.plan;
    if (result_.few_elements.bytes() == 0) result_.few_elements = Matrix(plan.result, plan.result_type);
    const std::size_t element = size_of(plan.result_type);
    for (std::int64_t row = 0; row < block.rows; ++row) {
        const auto from = static_cast<std::size_t>(row * elements.ld) * element;
        const auto to = static_cast<std::size_t>((block.row + row) * plan.result.cols + block.col) * element;
        std::copy_n(static_cast<const std::byte*>(elements.data) + from,
                    static_cast<std::size_t>(block.cols) * element, result_.few_elements.data() + to);
    }
}

void Checking::begin(PartInWork& part) {
    const Plan& plan = context_.plan;
    if (context_.overwrites() && !plan.keeps_input) {
        // The input was read and hashed before it was overwritten.
        if (context_.verifies()) {
            part.check = std::make_unique<HashCheck>(reading_.hashes().front(), plan.problem.type,
                                                     context_.options.threads);
            return;
        }
        VerifyOptions none = context_.how;
        none.mode = VerifyMode::none;
        part.check = begin_check(*plan.level, part.part.problem, {}, none);
        return;
    }
    Problem problem = part.part.problem;
    problem.in_place = false;  // the check has both
    const PartInWork& read_only = part;
    std::vector<const void*> places(read_only.inputs.size(), nullptr);
    for (std::size_t role = 0; role < places.size(); ++role)
        if (read_only.inputs[role]) places[role] = read_only.inputs[role]->memory->data();
    const Operands inputs = operands_at(problem, places, nullptr);
    if (part.part.is_first) begin_block(part.part, inputs);
    part.check = check_;
    if (part.part.shares_result() && context_.verifies())
        context_.progress.timeline.verify([&] { part.check->add_part(part.part.problem, inputs); });
}

void Checking::begin_block(const ProblemPart& part, const Operands& inputs) {
    const std::shared_ptr<ResultCheck> before = std::exchange(check_, context_.check_of(part, inputs));
    const auto inputs_before = std::exchange(inputs_, part.inputs);
    if (!before) return;
    std::vector<bool> same;
    for (std::size_t role = 0; role < part.inputs.size(); ++role)
        same.push_back(part.inputs[role] == inputs_before[role]);
    context_.progress.timeline.verify([&] { check_->follow(*before, same); });
}

void Checking::finish(PartInWork& part) {
    if (context_.verifies()) {
        context_.progress.timeline.verify([&] {
            merge_part(result_.verification, part.check->finish(), part.part.result.row,
                       part.part.result.col);
        });
    }
    part.inputs.clear();  // for the next parts
}

}  // namespace gpumat::stages
