#include "lib/run/sparse/in_parts.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/numbers/whole.hpp"
#include "kernels/check/check.hpp"
#include "lib/run/sparse/result.hpp"
#include "lib/run/sparse/streams.hpp"
#include "lib/run/stages/combining.hpp"
#include "lib/stored/plain_nan.hpp"
#include "lib/stored/rows_on_disk.hpp"

namespace gpumat {
namespace {

/// A part's result has more entries than there is room for.
struct TooManyEntries {
    std::int64_t entries;
    std::uint64_t bytes;  ///< that the part takes with them
};

class SparseParts {
  public:
    SparseParts(const Plan& plan, const RunOptions& options, const Outlet& outlet, Progress& progress,
                SparseCounts& counts)
        : plan_(plan),
          options_(options),
          outlet_(outlet),
          timeline_(progress.timeline),
          counts_(counts),
          ways_(*sparse::ways_of(plan)),
          room_(*plan.sparse_room) {}

    FlowResult run() {
        if (writes()) timeline_.write([&] { open(); });
        timeline_.read([&] { streams_.emplace(plan_, options_, ways_, counts_); });
        if (plan_.result_is_kept) whole_.emplace(plan_.result, plan_.result_type, "the result");
        counts_.parts = 0;
        for (const LineRange& rows : ranges()) compute(rows);
        for (const PlannedInput& input : plan_.inputs) input.reader->require_unchanged();
        found_.input_hashes = streams_->hashes();
        streams_.reset();
        counts_.result_entries = entries_;
        if (found_.wrong() && !options_.keep_failed) return std::move(found_);
        answer();
        if (!writes()) return std::move(found_);
        if (whole_) take_dense({0, 0, plan_.result.rows, plan_.result.cols}, whole_->view());
        found_.output_hash = plan_.result_is_sparse() ? sparse_hash_.text() : dense_hash_.text();
        timeline_.write([&] { complete(); });
        found_.written = true;
        return std::move(found_);
    }

  private:
    [[nodiscard]] bool writes() const { return outlet_.open != nullptr; }

    void open() {
        if (plan_.result_is_sparse())
            rows_.emplace("the result");
        else
            writer_ = outlet_.open();
    }

    /// Where the result is counted, half of the room beside what a part of one step takes is left for it.
    [[nodiscard]] std::vector<LineRange> ranges() const {
        const bool counted = plan_.result_is_sparse() && plan_.problem.operation->result_entries == nullptr;
        const auto bytes = [&](const LineRange& rows) {
            const std::uint64_t all = sparse::bytes_of_part(options_, plan_, ways_, streams_->part(rows));
            const LineRange least{rows.first, std::min(rows.count, streams_->step())};
            if (!counted) return all;
            return saturating_add(all, all - std::min(all, sparse::bytes_of_part(options_, plan_, ways_,
                                                                                 streams_->part(least))));
        };
        const auto words = [&](const LineRange& rows) {
            const ProblemPart part = streams_->part(rows);
            std::int64_t entries = 0;
            for (const PlannedInput& input : plan_.inputs)
                if (sparse::is_streamed(ways_.at(input.role))) entries += part.problem.entries.at(input.role);
            const PlannedInput& first = plan_.inputs.front();
            return words_of_range(to_string(first.header().source),
                                  part.inputs.at(first.role).value_or(Block{}).shape(), entries, bytes(rows),
                                  room_);
        };
        return cut_lines(sparse::lines_of(plan_), streams_->step(), room_, bytes, words);
    }

    /// Two halves where the result of all does not fit.
    void compute(const LineRange& rows) {
        try {
            compute_at_once(rows);
        } catch (const TooManyEntries& found) {
            const std::int64_t step = streams_->step();
            if (rows.count <= step)
                throw Error(
                    ErrorCode::memory,
                    words_of_range("rows " + std::to_string(rows.first + 1) + " to " +
                                       std::to_string(rows.first + rows.count) + " of the result",
                                   {rows.count, plan_.result.cols}, found.entries, found.bytes, room_));
            const std::int64_t half = ceil_div(ceil_div(rows.count, step), std::int64_t{2}) * step;
            compute({rows.first, half});
            compute({rows.first + half, rows.count - half});
        }
    }

    void compute_at_once(const LineRange& rows) {
        ProblemPart part = streams_->part(rows);
        const std::uint64_t taken = sparse::bytes_of_part(options_, plan_, ways_, part);
        Operands operands;
        timeline_.read([&] { operands = streams_->read(rows, part); });
        const auto require_room = [&](std::int64_t entries) {
            const std::uint64_t bytes =
                saturating_add(taken, entry_bytes(part.result.shape(), plan_.result_type, entries));
            if (bytes > room_) throw TooManyEntries{entries, bytes};
        };
        std::optional<sparse::Result> result;
        timeline_.kernel([&] {
            result.emplace(part.problem, options_.threads, require_room);
            result->add_to(operands);
            time_level(part.problem, operands);
        });
        streams_->count();
        ++counts_.parts;
        part.problem.result_entries = result->entries();
        result->add_to(operands);  // as it is now
        const auto flops_of_entries = plan_.problem.operation->flops_of_entries;
        counts_.flops +=
            flops_of_entries == nullptr ? part.problem.flops() : flops_of_entries(part.problem, operands);
        timeline_.verify([&] { verify(part, operands); });
        streams_->release();
        if (found_.wrong() && !options_.keep_failed) return;
        if (result->sparse() != nullptr) return take_sparse(part.result, *result);
        if (part.shares_result()) return combine(part, *result->dense());
        if (whole_) return keep_rows(part.result, *result->dense());
        if (writes()) take_dense(part.result, result->dense()->view());
    }

    void time_level(const Problem& problem, const Operands& operands) {
        const Launch launch = std::move(executor_.prepare(*plan_.level, problem, {&operands, 1}).front());
        const Timing timing = executor_.time(launch, problem, options_.warmup, options_.repeat);
        found_.samples_ms.resize(timing.samples_ms.size());
        for (std::size_t at = 0; at < timing.samples_ms.size(); ++at)
            found_.samples_ms[at] += timing.samples_ms[at];
        found_.level = launch.level;
        found_.details = launch.details;
    }

    /// What is combined is verified when all of it is there.
    void verify(const ProblemPart& part, const Operands& operands) {
        if (options_.verify == VerifyMode::none) return;
        if (!part.shares_result()) {
            merge_part(found_.verification, executor_.verify(*plan_.level, part.problem, operands),
                       part.result.row, part.result.col);
            return;
        }
        if (part.is_first) check_ = begin_check(*plan_.level, part.problem, operands, how());
        check_->add_part(part.problem, operands);
    }

    void combine(const ProblemPart& part, const Matrix& results) {
        if (!combining_.take(part, results.data(), results.bytes())) return;
        const Buffer finished = combining_.finish(part);
        std::memcpy(whole_->data(), finished.data(), finished.size());
        if (check_ == nullptr) return;
        timeline_.verify([&] {
            check_->take(0, operand_of(std::as_const(*whole_).view()));
            merge_part(found_.verification, check_->finish(), part.result.row, part.result.col);
        });
    }

    void keep_rows(const Block& block, const Matrix& rows) {
        const std::size_t row_bytes =
            static_cast<std::size_t>(plan_.result.cols) * size_of(plan_.result_type);
        if (rows.bytes() == 0) return;
        std::memcpy(whole_->data() + static_cast<std::size_t>(block.row) * row_bytes, rows.data(),
                    rows.bytes());
    }

    void take_sparse(const Block& block, sparse::Result& result) {
        entries_ += result.entries();
        if (!writes()) return;
        timeline_.hash([&] {
            if (!plan_.output->format().keeps_nans) result.make_nans_plain();
            sparse_hash_.add(block.row, 0, result.sparse()->view(), options_.threads);
        });
        timeline_.write([&] { rows_->append(result.sparse()->view()); });
    }

    void take_dense(const Block& block, const MutableMatrixView& rows) {
        timeline_.hash([&] {
            if (!plan_.output->format().keeps_nans) make_nans_plain(rows, options_.threads);
            dense_hash_.add(block, rows);
        });
        timeline_.write([&] { writer_->write(block, rows); });
    }

    /// Keeps a result of few elements, where the operation answers.
    void answer() {
        if (!options_.operation->answers || !whole_ || plan_.result.elements() > kMostAnswered) return;
        found_.few_elements = Matrix(plan_.result, plan_.result_type);
        std::memcpy(found_.few_elements.data(), whole_->data(), whole_->bytes());
    }

    void complete() {
        if (writer_) {
            outlet_.complete(*writer_, found_);
            writer_.reset();
            return;
        }
        const auto writer = outlet_.open_sparse(found_, entries_);
        rows_->write_to(*writer);
        writer->finish();
    }

    [[nodiscard]] VerifyOptions how() const {
        return {.mode = options_.verify,
                .tolerance = options_.tolerance,
                .threads = options_.threads,
                .seed = options_.seed};
    }

    const Plan& plan_;
    const RunOptions& options_;
    const Outlet& outlet_;
    Timeline& timeline_;
    SparseCounts& counts_;
    sparse::Ways ways_;
    std::uint64_t room_;
    Executor executor_{plan_.lane().device, how()};
    std::optional<sparse::Streams> streams_;
    stages::Combining combining_{plan_};
    std::unique_ptr<ResultCheck> check_;  ///< of what is combined
    std::optional<Matrix> whole_;         ///< a dense result that is kept
    std::unique_ptr<formats::Writer> writer_;
    SparseContentHash sparse_hash_{plan_.result, plan_.result_type};
    ContentHash dense_hash_{plan_.result, plan_.result_type, options_.threads};
    std::optional<RowsOnDisk> rows_;  ///< of a sparse result
    std::int64_t entries_ = 0;        ///< of it
    FlowResult found_;
};

}  // namespace

FlowResult sparse_flow_in_parts(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                                Progress& progress, SparseCounts& counts) {
    return SparseParts(plan, options, outlet, progress, counts).run();
}

}  // namespace gpumat
