#include <optional>
#include <utility>
#include <vector>

#include "lib/run/stages/lane.hpp"
#include "lib/run/transfer.hpp"

namespace gpumat::stages {
namespace {

/// What the device's own copy reaches on memory of the result's size, for the share of it in the record.
double copy_bandwidth_gbps(Gpu& gpu, const DeviceMemory& from, const DeviceMemory& to) {
    if (from.bytes() == 0 || from.bytes() != to.bytes()) return 0;
    const auto copy = [&](Stream) { gpu.copy(to.data(), from.data(), to.bytes()); };
    gpu.time_ms(copy);  // the first one pays for start-up
    return 2 * static_cast<double>(to.bytes()) / gpu.time_ms(copy) / 1e6;
}

/// Three stages: inputs go to the device, the level runs, the result comes back.
class GpuLane final : public Lane {
  public:
    GpuLane(const FlowContext& context, Buffers& buffers, Queues& queues, FlowResult& result,
            ConditionsWatch* watch)
        : context_(context),
          gpu_(*context.plan.lane().gpu),
          buffers_(buffers),
          queues_(queues),
          result_(result),
          level_(context, result),
          watch_(watch) {}

    void start(Stages& stages) override {
        stages.start([this] { upload(); });
        stages.start([this] { download(); });
    }

    void compute() override {
        gpu_.make_current();
        while (auto next = queues_.uploaded.pop()) {
            compute_part(**next);
            queues_.computed.push(std::move(*next));
        }
        if (watch_ != nullptr) watch_->computed();
        queues_.computed.close();
    }

  private:
    /// What the last part had of an input: its place alone, so that the host's buffer is free for the next.
    struct OnDevice {
        std::optional<Block> block;
        std::shared_ptr<DeviceMemory> memory;
    };

    void upload() {
        gpu_.make_current();
        Timeline& timeline = context_.progress.timeline;
        Transfer transfer(gpu_, buffers_.pinned, context_.piece_bytes, context_.options.threads,
                          timeline.host_to_device);
        std::vector<OnDevice> last(context_.options.inputs.size());
        while (auto read = queues_.read.pop()) {
            if (auto* complete = std::get_if<InputsComplete>(&*read)) {
                timeline.host_to_device([&] { transfer.wait_for_uploads(); });
                hand_on(std::move(complete->part), last);
            } else {
                send(std::get<InputPiece>(*read), transfer, last);
            }
        }
        queues_.uploaded.close();
    }

    void send(const InputPiece& piece, Transfer& transfer, std::vector<OnDevice>& last) {
        OnDevice& there = last[piece.role];
        if (there.block != piece.input->block) {
            there.memory.reset();  // it may be the only one
            there.memory = buffers_.device_inputs[piece.role]->get();
            there.block = piece.input->block;
        }
        context_.progress.timeline.host_to_device([&] {
            transfer.upload(static_cast<std::byte*>(there.memory->data()) + piece.first,
                            piece.input->memory->data() + piece.first, piece.bytes);
        });
    }

    void hand_on(PartPointer part, const std::vector<OnDevice>& inputs) {
        part->device_inputs.resize(inputs.size());
        for (std::size_t role = 0; role < inputs.size(); ++role)
            if (part->inputs[role]) part->device_inputs[role] = inputs[role].memory;
        queues_.uploaded.push(std::move(part));
    }

    void compute_part(PartInWork& part) {
        const bool in_place = context_.plan.problem.in_place;
        part.device_result = in_place ? part.device_inputs.front() : buffers_.device_results.get();
        context_.progress.timeline.kernel([&] {
            if (!in_place) gpu_.fill(part.device_result->data(), kUnwritten, bytes_of_result(part.part));
            level_.run(part.part.problem, operands_of(part));
            gpu_.synchronize();
        });
        // The input is no longer needed: the result is copied over it.
        if (context_.is_single() && context_.plan.problem.operation->rate == Rate::bandwidth && !in_place) {
            result_.copy_bandwidth_gbps =
                copy_bandwidth_gbps(gpu_, *part.device_result, *part.device_inputs.front());
        }
        part.device_inputs.clear();
    }

    [[nodiscard]] static Operands operands_of(const PartInWork& part) {
        std::vector<const void*> places(part.device_inputs.size(), nullptr);
        for (std::size_t role = 0; role < places.size(); ++role)
            if (part.device_inputs[role]) places[role] = part.device_inputs[role]->data();
        return operands_at(part.part.problem, places, part.device_result->data());
    }

    void download() {
        gpu_.make_current();
        Transfer transfer(gpu_, buffers_.pinned, context_.piece_bytes, context_.options.threads,
                          context_.progress.timeline.device_to_host);
        while (auto next = queues_.computed.pop()) {
            if (context_.panel_rows >= (*next)->part.result.rows) {
                download_whole(std::move(*next), transfer);
            } else {
                download_in_panels(*next, transfer);
            }
        }
        queues_.to_check.close();
    }

    void download_whole(PartPointer part, Transfer& transfer) {
        part->result = buffers_.results.get();
        context_.progress.timeline.device_to_host([&] {
            transfer.download(part->result->data(), part->device_result->data(), bytes_of_result(part->part));
        });
        part->device_result.reset();
        queues_.to_check.push(ResultWhole{std::move(part)});
    }

    void download_in_panels(const PartPointer& part, Transfer& transfer) {
        const Type type = context_.plan.result_type;
        const std::int64_t cols = part->part.result.cols;
        const std::size_t row_bytes = static_cast<std::size_t>(cols) * size_of(type);
        Timeline& timeline = context_.progress.timeline;
        timeline.device_to_host([&] {
            transfer.download_pieces(
                part->device_result->data(), bytes_of_result(part->part),
                static_cast<std::size_t>(context_.panel_rows) * row_bytes,
                [&](std::size_t first, std::size_t bytes, std::shared_ptr<PinnedMemory> piece) {
                    const MutableMatrixView rows{type,
                                                 {static_cast<std::int64_t>(bytes / row_bytes), cols},
                                                 cols,
                                                 static_cast<std::byte*>(piece->data())};
                    timeline.device_to_host.pause([&] {
                        queues_.to_check.push(ResultPanel{part, static_cast<std::int64_t>(first / row_bytes),
                                                          rows, std::move(piece)});
                    });
                });
        });
    }

    const FlowContext& context_;
    Gpu& gpu_;
    Buffers& buffers_;
    Queues& queues_;
    FlowResult& result_;
    LevelRuns level_;
    ConditionsWatch* watch_;
};

}  // namespace

std::unique_ptr<Lane> gpu_lane(const FlowContext& context, Buffers& buffers, Queues& queues,
                               FlowResult& result, ConditionsWatch* watch) {
    return std::make_unique<GpuLane>(context, buffers, queues, result, watch);
}

}  // namespace gpumat::stages
