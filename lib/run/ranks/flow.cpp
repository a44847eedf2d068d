#include "lib/run/ranks/flow.hpp"

#include <optional>

#include "core/hash/hash.hpp"
#include "lib/engines/team_files.hpp"
#include "lib/run/ranks/checking.hpp"
#include "lib/run/ranks/plan.hpp"

namespace gpumat {
namespace {

using engines::Held;

class FlowOnRanks {
  public:
    FlowOnRanks(const Plan& plan, const RunOptions& options, const Outlet& outlet, Progress& progress,
                RunRecord& record, const Tell& say)
        : plan_(plan),
          options_(options),
          outlet_(outlet),
          timeline_(progress.timeline),
          record_(record),
          say_(say),
          team_(*options.team) {}

    FlowResult run() {
        if (outlet_.open) timeline_.write([&] { writer_ = outlet_.open(); });
        timeline_.prepare([&] { team_.start(); });
        found_.level = std::string(team_.served().routine);
        record_.engine = engines::record_of(team_);
        timeline_.prepare([&] { allocate(); });
        timeline_.read([&] { read(); });
        timeline_.kernel([&] { compute(); });
        if (options_.verify != VerifyMode::none) timeline_.verify([&] { verify(); });
        if (options_.operation->answers && plan_.result.elements() <= kMostAnswered) fetch_answer();
        found_.details = facts_of_ranks(options_, plan_);
        if (writer_ && !(found_.wrong() && !options_.keep_failed)) timeline_.write([&] { write(); });
        engines::note_effort(team_, *record_.engine);
        return std::move(found_);
    }

  private:
    /// What the ranks took for a step of the stage.
    double note(const std::string& stage) { return engines::note_stage(team_, stage, *record_.engine); }

    [[nodiscard]] bool is_read(const PlannedInput& input) const {
        return options_.operation->input(plan_.problem, input.role).has_value();
    }

    void allocate() {
        for (const PlannedInput& input : plan_.inputs)
            if (is_read(input))
                team_.allocate(held_as(input.role), team_.layout(input.header().shape, input.header().type));
        team_.allocate(Held::c, result_layout());
    }

    [[nodiscard]] engines::Layout result_layout() const {
        return team_.layout(plan_.result, plan_.result_type);
    }

    void read() {
        for (const PlannedInput& input : plan_.inputs) {
            if (!is_read(input)) {
                found_.input_hashes.emplace_back();
                continue;
            }
            found_.input_hashes.push_back(hash_text(read(input)));
            note("read");
            input.reader->require_unchanged();
        }
    }

    std::uint32_t read(const PlannedInput& input) {
        return engines::load_stored(team_, held_as(input.role), *input.reader,
                                    {.conjugate = is_conjugated(plan_.problem, input.role),
                                     .memory_limit = options_.read.memory_limit},
                                    say_);
    }

    void compute() {
        for (int run = 0; run < options_.warmup + options_.repeat; ++run) {
            team_.compute(as_read(plan_.problem));
            const double ms = note("kernel");
            if (run >= options_.warmup) found_.samples_ms.push_back(ms);
        }
    }

    void verify() {
        const VerifyOptions how{.mode = options_.verify,
                                .tolerance = options_.tolerance,
                                .threads = options_.threads,
                                .seed = options_.seed};
        bool by_all = false;
        found_.verification = verify_on_ranks(team_, plan_.problem, plan_.inputs, how, options_.memory_limit,
                                              plan_.host_bytes, by_all);
        if (by_all) note("verify");
    }

    void fetch_answer() {
        found_.few_elements = Matrix(plan_.result, plan_.result_type);
        team_.fetch(Held::c, {0, 0, plan_.result.rows, plan_.result.cols}, found_.few_elements.data());
    }

    void write() {
        found_.output_hash = hash_text(store());
        note("write");
        outlet_.complete(*writer_, found_);
        writer_.reset();
        found_.written = true;
    }

    std::uint32_t store() {
        return engines::store_result(team_, *writer_, result_layout(),
                                     {.shared_path = plan_.output->shared_path(),
                                      .shown = to_string(plan_.output->reference()),
                                      .keeps_nans = plan_.output->format().keeps_nans},
                                     say_);
    }

    const Plan& plan_;
    const RunOptions& options_;
    const Outlet& outlet_;
    Timeline& timeline_;
    RunRecord& record_;
    const Tell& say_;
    engines::Team& team_;
    std::unique_ptr<formats::Writer> writer_;
    FlowResult found_;
};

}  // namespace

FlowResult flow_on_ranks(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                         Progress& progress, RunRecord& record, const Tell& say) {
    return FlowOnRanks(plan, options, outlet, progress, record, say).run();
}

}  // namespace gpumat
