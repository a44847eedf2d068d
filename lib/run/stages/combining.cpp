#include "lib/run/stages/combining.hpp"

#include <cstring>

namespace gpumat::stages {

bool Combining::take(const ProblemPart& part, const void* results, std::size_t bytes) {
    if (part.is_first) {
        unfinished_.emplace(bytes);
        std::memcpy(unfinished_->data(), results, bytes);
    } else {
        plan_.problem.operation->combination->take(part.problem, unfinished_->data(), results);
    }
    return part.is_last;
}

Buffer Combining::finish(const ProblemPart& last) const {
    const std::int64_t count = last.result.rows * last.result.cols;
    Buffer finished(static_cast<std::size_t>(count) * size_of(plan_.result_type));
    plan_.problem.operation->combination->finish(plan_.problem, unfinished_->data(), count, finished.data());
    return finished;
}

}  // namespace gpumat::stages
