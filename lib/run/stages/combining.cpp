#include "lib/run/stages/combining.hpp"

#include <cstring>

namespace gpumat::stages {

bool Combining::take(PartInWork& part) {
    const Plan& plan = context_.plan;
    const Combination& combination = *plan.problem.operation->combination;
    part.inputs.clear();  // for the next parts
    if (part.part.is_first) {
        unfinished_.emplace(bytes_of_result(part.part));
        std::memcpy(unfinished_->data(), part.result->data(), unfinished_->size());
    } else {
        combination.take(part.part.problem, unfinished_->data(), part.result->data());
    }
    if (!part.part.is_last) return false;
    const std::int64_t count = part.part.result.rows * part.part.result.cols;
    part.result = std::make_shared<Buffer>(static_cast<std::size_t>(count) * size_of(plan.result_type));
    combination.finish(plan.problem, unfinished_->data(), count, part.result->data());
    return true;
}

}  // namespace gpumat::stages
