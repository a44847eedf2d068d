#include <cstring>
#include <shared_mutex>
#include <utility>

#include "core/forking.hpp"
#include "core/parallel.hpp"
#include "lib/run/stages/lane.hpp"

namespace gpumat::stages {
namespace {

class CpuLane final : public Lane {
  public:
    CpuLane(const FlowContext& context, Buffers& buffers, Queues& queues, FlowResult& result)
        : context_(context), buffers_(buffers), queues_(queues), level_(context, result) {}

    void compute() override {
        for (std::int64_t i = 0; i < context_.parts.count(); ++i) {
            std::shared_ptr<Buffer> result = context_.overwrites() ? nullptr : buffers_.results.get();
            if (result) fill_unwritten(*result, context_.parts.at(i));
            auto read = queues_.read.pop();
            if (!read) break;
            queues_.drained.pop();  // the level is timed, and has the processors for itself
            PartPointer part = std::get<InputsComplete>(std::move(*read)).part;
            part->result = std::move(result);
            if (context_.overwrites()) take_over_input(*part);
            context_.progress.timeline.kernel([&] { level_.run(part->part.problem, operands_of(*part)); });
            queues_.to_check.push(ResultWhole{std::move(part)});
        }
        queues_.to_check.close();
    }

  private:
    /// While the part's inputs are read, but not while reading forks.
    void fill_unwritten(Buffer& result, const ProblemPart& part) const {
        constexpr std::int64_t kGrain = std::int64_t{4} << 20;
        const std::shared_lock no_fork(forking);
        parallel_for(static_cast<std::int64_t>(bytes_of_result(part)), kGrain,
                     context_.plan.lane().device.threads, [&](std::int64_t begin, std::int64_t end) {
                         std::memset(result.data() + begin, kUnwritten,
                                     static_cast<std::size_t>(end - begin));
                     });
    }

    /// In place, the result takes over the memory of the only input, of which a copy or the hash is kept.
    void take_over_input(PartInWork& part) const {
        std::shared_ptr<HeldBlock> input = std::exchange(part.inputs.front(), nullptr);
        part.result = input->memory;
        if (!context_.plan.keeps_input) return;
        auto kept = std::make_shared<HeldBlock>(*input);
        kept->memory = std::make_shared<Buffer>(input->bytes());
        std::memcpy(kept->memory->data(), input->memory->data(), input->bytes());
        part.inputs.front() = std::move(kept);
    }

    [[nodiscard]] Operands operands_of(const PartInWork& part) const {
        std::vector<const void*> places(part.inputs.size(), nullptr);
        for (std::size_t role = 0; role < places.size(); ++role)
            if (part.inputs[role]) places[role] = part.inputs[role]->memory->data();
        if (context_.overwrites()) places.front() = part.result->data();
        return operands_at(part.part.problem, places, part.result->data());
    }

    const FlowContext& context_;
    Buffers& buffers_;
    Queues& queues_;
    LevelRuns level_;
};

}  // namespace

std::unique_ptr<Lane> cpu_lane(const FlowContext& context, Buffers& buffers, Queues& queues,
                               FlowResult& result) {
    return std::make_unique<CpuLane>(context, buffers, queues, result);
}

}  // namespace gpumat::stages
