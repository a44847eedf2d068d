#include "lib/run/ranks/flow.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "kernels/check/check.hpp"
#include "lib/engines/byte_ranges.hpp"
#include "lib/engines/team.hpp"
#include "lib/run/ranks/plan.hpp"

namespace gpumat {
namespace {

using engines::Held;

constexpr std::array kHeldByRole = {Held::a, Held::b, Held::added};
constexpr std::int64_t kMostPanelBytes = std::int64_t{1} << 30;  ///< that is moved at once
constexpr std::int64_t kPanelBytes = std::int64_t{32} << 20;

/// Rows of a panel that rank 0 reads or writes in whole grains; 0 where the matrix must be whole.
std::int64_t panel_rows(const Shape& shape, Type type, std::int64_t grain) {
    const std::int64_t row = std::max<std::int64_t>(1, shape.cols * static_cast<std::int64_t>(size_of(type)));
    const std::int64_t step = std::clamp<std::int64_t>(grain, 1, std::max<std::int64_t>(1, shape.rows));
    const std::int64_t rows = std::max<std::int64_t>(1, kPanelBytes / row / step) * step;
    return rows <= kMostPanelBytes / row ? std::min(rows, std::max<std::int64_t>(1, shape.rows)) : 0;
}

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
        begin_record();
        timeline_.prepare([&] { allocate(); });
        timeline_.read([&] { read(); });
        timeline_.kernel([&] { compute(); });
        if (options_.verify != VerifyMode::none) timeline_.verify([&] { verify(); });
        if (options_.operation->answers && plan_.result.elements() <= kMostAnswered) fetch_answer();
        found_.details = facts_of_ranks(options_, plan_);
        if (writer_ && !(found_.wrong() && !options_.keep_failed)) timeline_.write([&] { write(); });
        end_record();
        return std::move(found_);
    }

  private:
    void begin_record() {
        record_.engine.emplace();
        record_.engine->name = team_.engine().name;
        record_.engine->library = team_.library();
        record_.engine->ranks = team_.grid().size();
        record_.engine->grid = {team_.grid().rows, team_.grid().cols};
        record_.engine->block = team_.block();
        for (const engines::Answer& answer : team_.answers()) {
            const std::string host = answer.host.data();
            auto& hosts = record_.engine->hosts;
            if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
        }
    }

    void end_record() {
        record_.engine->bytes_sent = 0;
        for (const engines::Answer& answer : team_.answers()) {
            record_.engine->bytes_sent += answer.bytes_sent;
            record_.engine->bytes_a_rank = std::max(record_.engine->bytes_a_rank, answer.memory);
        }
    }

    /// What the ranks took for a step of the stage.
    double note(const std::string& stage) {
        const engines::StepTimes times = team_.times();
        auto& stages = record_.engine->stages;
        auto place = std::ranges::find(stages, stage, &RecordedSpread::name);
        if (place == stages.end()) place = stages.insert(stages.end(), {.name = stage});
        place->least_ms += times.least_ms;
        place->median_ms += times.median_ms;
        place->most_ms += times.most_ms;
        return times.most_ms;
    }

    [[nodiscard]] bool is_read(const PlannedInput& input) const {
        return options_.operation->input(plan_.problem, input.role).has_value();
    }

    void allocate() {
        for (const PlannedInput& input : plan_.inputs)
            if (is_read(input))
                team_.allocate(kHeldByRole.at(input.role),
                               team_.layout(input.header().shape, input.header().type));
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
        const Held which = kHeldByRole.at(input.role);
        const bool conjugate = is_conjugated(plan_.problem, input.role);
        if (const auto place = shared_place(input))
            return team_.load(which, engines::place_to_read(*place), conjugate);
        return read_here(input, which, conjugate);
    }

    std::uint32_t read_here(const PlannedInput& input, Held which, bool conjugate) {
        const formats::Header& header = input.header();
        const Shape& shape = header.shape;
        if (team_.grid().size() > 1)
            tell(say_, Severity::info,
                 describe(input) + " (" + header.storage + "): is read by rank 0 for all");
        std::int64_t rows = header.rereads ? 0 : panel_rows(shape, header.type, header.grain.rows);
        Matrix whole;
        if (rows == 0) {
            whole = formats::read_whole(*input.reader, options_.read);
            rows = panel_rows(shape, header.type, 1);
        }
        const engines::FillPanel fill = [&](std::int64_t first, const MutableMatrixView& panel) {
            if (whole.bytes() > 0)
                std::memcpy(
                    panel.data,
                    whole.data() + first * shape.cols * static_cast<std::int64_t>(size_of(header.type)),
                    static_cast<std::size_t>(panel.shape.elements()) * size_of(header.type));
            else
                input.reader->read({first, 0, panel.shape.rows, panel.shape.cols}, panel);
        };
        return team_.load(which, fill, rows, conjugate);
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
        const std::uint64_t room =
            options_.memory_limit
                ? *options_.memory_limit - std::min(*options_.memory_limit, plan_.host_bytes)
                : available_memory_bytes() / (2 * static_cast<std::uint64_t>(team_.grid().size()));
        auto checked = team_.check(plan_.problem, how, room);
        if (checked) note("verify");
        found_.verification = checked ? *std::move(checked) : verify_whole(how, room);
    }

    /// Small products, and others where that was asked for: all at rank 0.
    Verification verify_whole(const VerifyOptions& how, std::uint64_t room) {
        std::uint64_t bytes = verification_bytes(plan_.problem, how.mode);
        for (const PlannedInput& input : plan_.inputs)
            bytes += block_bytes(input.header().shape, size_of(input.header().type));
        bytes += block_bytes(plan_.result, size_of(plan_.result_type));
        require_memory(bytes, room, "verifying this product in full at rank 0");
        std::vector<Matrix> matrices;
        std::vector<const void*> places(options_.inputs.size());
        const auto whole = [&](Held which, const Shape& shape, Type type) -> std::byte* {
            Matrix& own = matrices.emplace_back(shape, type);
            team_.fetch(which, {0, 0, shape.rows, shape.cols}, own.data());
            return own.data();
        };
        for (const PlannedInput& input : plan_.inputs)
            if (is_read(input))
                places[input.role] =
                    whole(kHeldByRole.at(input.role), input.header().shape, input.header().type);
        const Operands operands =
            operands_at(plan_.problem, places, whole(Held::c, plan_.result, plan_.result_type));
        return options_.operation->check->verify(plan_.problem, operands, how);
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
        const bool plain_nans = !plan_.output->format().keeps_nans;
        const std::string path = plan_.output->shared_path();
        const auto offset = path.empty() ? std::nullopt : writer_->hand_over();
        const auto row_bytes = plan_.result.cols * static_cast<std::int64_t>(size_of(plan_.result_type));
        if (offset && row_bytes * plan_.result.rows > 0)
            return team_.store(
                engines::place_to_write(path, plan_.output->reference().path, *offset, row_bytes),
                plain_nans);
        return store_here(plain_nans);
    }

    std::uint32_t store_here(bool plain_nans) {
        if (team_.grid().size() > 1 && plan_.result.elements() > 0)
            tell(say_, Severity::info,
                 to_string(plan_.output->reference()) + ": is written by rank 0 for all");
        const Shape& shape = plan_.result;
        std::int64_t rows = writer_->order() == formats::BlockOrder::column_panels
                                ? 0
                                : panel_rows(shape, plan_.result_type, writer_->grain().rows);
        Matrix whole;
        if (rows == 0) {
            whole = Matrix(shape, plan_.result_type, "the result, which is written as a whole");
            rows = panel_rows(shape, plan_.result_type, 1);
        }
        const engines::TakePanel take = [&](std::int64_t first, const MutableMatrixView& panel) {
            if (whole.bytes() > 0)
                std::memcpy(
                    whole.data() + first * shape.cols * static_cast<std::int64_t>(size_of(panel.type)),
                    panel.data, static_cast<std::size_t>(panel.shape.elements()) * size_of(panel.type));
            else if (shape.elements() > 0)
                writer_->write({first, 0, panel.shape.rows, panel.shape.cols}, panel);
        };
        const std::uint32_t hash = team_.store(take, rows, plain_nans);
        if (whole.bytes() > 0) writer_->write({0, 0, shape.rows, shape.cols}, whole.view());
        if (shape.elements() == 0)
            writer_->write({0, 0, shape.rows, shape.cols}, Matrix(shape, plan_.result_type).view());
        return hash;
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
