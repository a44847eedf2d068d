#include "lib/run/sparse/flow.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/hash/sparse_hash.hpp"
#include "core/helpers.hpp"
#include "core/memory.hpp"
#include "lib/run/plan/sparse.hpp"
#include "lib/run/sparse/inputs.hpp"
#include "lib/run/sparse/on_device.hpp"
#include "lib/run/sparse/result.hpp"

namespace gpumat {
namespace {

class SparseFlow {
  public:
    SparseFlow(const Plan& plan, const RunOptions& options, const Outlet& outlet, ConditionsWatch* watch,
               Progress& progress, SparseCounts& counts)
        : plan_(plan),
          options_(options),
          outlet_(outlet),
          watch_(watch),
          timeline_(progress.timeline),
          counts_(counts) {}

    FlowResult run() {
        // Its child is made while there is one thread alone.
        if (writes() && !plan_.result_is_sparse()) timeline_.write([&] { writer_ = outlet_.open(); });
        if (watch_ != nullptr) watch_->start();
        timeline_.read([&] { read(); });
        std::optional<KeptThreads> kept(std::in_place);  // not while reading, which forks children too
        compute();
        if (watch_ != nullptr) watch_->computed();
        timeline_.verify([&] { verify(); });
        if (found_.wrong() && !options_.keep_failed) return std::move(found_);
        answer();
        if (!writes()) return std::move(found_);
        timeline_.hash([&] { hash(); });
        kept.reset();  // sparse results are written by a child for each array, which no thread may be beside
        timeline_.write([&] { plan_.result_is_sparse() ? write_sparse() : write_dense(); });
        found_.written = true;
        return std::move(found_);
    }

  private:
    [[nodiscard]] bool writes() const { return outlet_.open != nullptr; }

    void read() {
        const formats::Header& header = plan_.inputs.front().header();
        if (plan_.as_text) {
            // How long the texts of a stream are is not known beforehand.
            const std::uint64_t all = options_.memory_limit.value_or(available_memory_bytes());
            found_.texts = std::make_shared<ValueTexts>(
                header.type, *header.text_bytes + all - std::min(all, plan_.host_bytes));
        }
        inputs_ = sparse::read_inputs(plan_.inputs, plan_.problem, options_.threads, found_.input_hashes,
                                      counts_, found_.texts.get());
        if (found_.texts && found_.texts->dropped()) found_.texts.reset();
        problem_ = plan_.problem;
        problem_.entries = counts_.entries;
        if (found_.texts) problem_.type = found_.texts->value_type();
    }

    void compute() {
        const auto require_room = [this](std::int64_t entries) {
            require_memory_for_counted(options_, plan_, entries);
        };
        timeline_.kernel([&] { result_.emplace(problem_, options_.threads, require_room); });
        if (plan_.lane().gpu) {
            compute_on(*plan_.lane().gpu);
        } else {
            timeline_.kernel([&] { time_level(operands()); });
        }
        counts_.result_entries = problem_.result_entries = result_->entries();
        const auto flops_of_entries = options_.operation->flops_of_entries;
        counts_.flops =
            flops_of_entries == nullptr ? problem_.flops() : flops_of_entries(problem_, operands());
    }

    void compute_on(Gpu& gpu) {
        const Operands host = operands();
        std::optional<sparse::OnDevice> device;
        timeline_.host_to_device([&] { device.emplace(gpu, problem_, host); });
        timeline_.kernel([&] { time_level(device->operands()); });
        timeline_.device_to_host([&] { device->download_to(host.c); });
    }

    void time_level(const Operands& operands) {
        const Launch launch = std::move(executor_.prepare(*plan_.level, problem_, {&operands, 1}).front());
        found_.samples_ms = executor_.time(launch, problem_, options_.warmup, options_.repeat).samples_ms;
        found_.level = launch.level;
        found_.details = launch.details;
        found_.workspace_bytes = launch.workspace_bytes;
    }

    [[nodiscard]] Operands operands() {
        Operands operands = sparse::operands_of(inputs_);
        result_->add_to(operands);
        return operands;
    }

    void verify() { found_.verification = executor_.verify(*plan_.level, problem_, operands()); }

    /// Keeps a result of few elements, where the operation answers.
    void answer() {
        const Matrix* const matrix = result_->dense();
        if (!options_.operation->answers || matrix == nullptr || plan_.result.elements() > kMostAnswered)
            return;
        found_.few_elements = Matrix(plan_.result, plan_.result_type);
        std::memcpy(found_.few_elements.data(), matrix->data(), matrix->bytes());
    }

    void hash() {
        if (found_.texts) {
            found_.output_hash = hash_of_texts(*found_.texts);
            return;
        }
        if (!plan_.output->format().keeps_nans) result_->make_nans_plain();
        found_.output_hash = result_->hash();
    }

    /// What was proven to be the transpose has its hash.
    [[nodiscard]] std::string hash_of_texts(const ValueTexts& texts) const {
        const bool proven = options_.operation->transposes && found_.verification.verdict == "passed";
        if (proven && texts.content()) return texts.content()->transposed_hash;
        return content_hash(result_->sparse()->view(), texts, options_.threads);
    }

    void write_dense() {
        writer_->write({0, 0, plan_.result.rows, plan_.result.cols}, result_->dense()->view());
        outlet_.complete(*writer_, found_);
        writer_.reset();
    }

    void write_sparse() {
        const auto writer = outlet_.open_sparse(found_, result_->entries());
        writer->write(0, result_->sparse()->view());
        writer->finish();
    }

    const Plan& plan_;
    const RunOptions& options_;
    const Outlet& outlet_;
    ConditionsWatch* watch_;
    Timeline& timeline_;
    SparseCounts& counts_;
    Executor executor_{plan_.lane().device,
                       {.mode = options_.verify,
                        .tolerance = options_.tolerance,
                        .threads = options_.threads,
                        .seed = options_.seed}};
    std::unique_ptr<formats::Writer> writer_;
    Problem problem_;
    sparse::Inputs inputs_;
    std::optional<sparse::Result> result_;
    FlowResult found_;
};

}  // namespace

FlowResult sparse_flow(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                       ConditionsWatch* watch, Progress& progress, SparseCounts& counts) {
    return SparseFlow(plan, options, outlet, watch, progress, counts).run();
}

}  // namespace gpumat
