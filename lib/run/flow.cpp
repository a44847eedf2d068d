#include "lib/run/flow.hpp"

#include <utility>
#include <vector>

#include "core/helpers.hpp"
#include "lib/run/stages/checking.hpp"
#include "lib/run/stages/lane.hpp"
#include "lib/run/stages/reading.hpp"
#include "lib/run/stages/writing.hpp"

namespace gpumat {
namespace {

/// Joins the stages. What others use is declared before them: queues after the buffers that their items lie
/// in.
class Flow {
  public:
    Flow(Plan& plan, const RunOptions& options, const Outlet& outlet, ConditionsWatch* watch,
         Progress& progress, const Tell& say)
        : context_(plan, options, outlet, progress, say),
          buffers_(context_),
          hashing_(context_, queues_),
          reading_(context_, buffers_, queues_, hashing_),
          lane_(plan.lane().gpu ? stages::gpu_lane(context_, buffers_, queues_, result_, watch)
                                : stages::cpu_lane(context_, buffers_, queues_, result_)),
          checking_(context_, queues_, hashing_, reading_, result_),
          writing_(context_, queues_, result_),
          watch_(watch) {
        progress.bytes_to_read = context_.bytes_of_inputs();
        progress.bytes_to_check = context_.bytes_of_whole_result();
    }

    FlowResult run() {
        if (writes() && context_.outlet.has_child) writing_.open();
        const KeptThreads kept;
        context_.in_turn ? run_in_turn() : run_at_once();
        return std::move(result_);
    }

  private:
    [[nodiscard]] bool writes() const { return context_.outlet.open != nullptr; }

    /// One stage after the other, each with all that the one before it gave.
    void run_in_turn() {
        if (writes()) writing_.open();
        queues_.hashed.close();
        reading_.run();
        lane_->compute();
        checking_.run();
        if (writes()) writing_.run();
    }

    void run_at_once() {
        if (watch_ != nullptr) watch_->start();
        std::vector<Stoppable*> all = queues_.all();
        for (Stoppable* pool : buffers_.all()) all.push_back(pool);
        Stages stages(std::move(all));
        if (writes()) stages.start([this] { writing_.run(); });
        stages.start([this] { hashing_.run(); });
        stages.start([this] { checking_.run(); });
        stages.start([this] { reading_.run(); });
        lane_->start(stages);
        stages.run_and_join([this] { lane_->compute(); });
    }

    stages::FlowContext context_;
    stages::Buffers buffers_;
    stages::Queues queues_;
    FlowResult result_;
    stages::Hashing hashing_;
    stages::Reading reading_;
    std::unique_ptr<stages::Lane> lane_;
    stages::Checking checking_;
    stages::Writing writing_;
    ConditionsWatch* watch_;
};

}  // namespace

FlowResult flow(Plan& plan, const RunOptions& options, const Outlet& outlet, ConditionsWatch* watch,
                Progress& progress, const Tell& say) {
    Flow one(plan, options, outlet, watch, progress, say);
    return one.run();
}

}  // namespace gpumat
