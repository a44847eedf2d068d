#include "lib/run/sparse/in_parts.hpp"

#include <algorithm>
#include <utility>

#include "core/hash/sparse_hash.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "kernels/check/check.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/run/sparse/inputs.hpp"
#include "lib/run/sparse/result.hpp"
#include "lib/stored/conjugate.hpp"
#include "lib/stored/rows_on_disk.hpp"

namespace gpumat {
namespace {

/// The part of a run that makes the rows of the result from the columns of the input that a range has.
Problem problem_of_range(const Plan& plan, const EntriesOnDisk::Range& range, std::int64_t entries) {
    const Block rows{range.block.col, 0, range.block.cols, plan.result.cols};
    Problem part = plan.problem.operation->part(plan.problem, rows).problem;
    part.entries.front() = entries;
    return part;
}

class SparseParts {
  public:
    SparseParts(const Plan& plan, const RunOptions& options, const Outlet& outlet, Progress& progress,
                SparseCounts& counts)
        : plan_(plan), options_(options), outlet_(outlet), timeline_(progress.timeline), counts_(counts) {}

    FlowResult run() {
        formats::Reader& reader = *plan_.inputs.front().reader;
        std::optional<EntriesOnDisk> entries;
        timeline_.read([&] {
            entries.emplace(reader, true, *plan_.sparse_room);
            reader.require_unchanged();
        });
        const auto ranges = entries->ranges(
            [&](const EntriesOnDisk::Range& range) { return bytes_of_sparse_part(options_, plan_, range); },
            *plan_.sparse_room);
        counts_.parts = std::ssize(ranges);
        for (const EntriesOnDisk::Range& range : ranges) compute(*entries, range);
        entries.reset();
        found_.input_hashes = {input_hash_.text()};
        counts_.result_entries = rows_.entries();
        if (found_.wrong() && !options_.keep_failed) return std::move(found_);
        if (outlet_.open == nullptr) return std::move(found_);
        found_.output_hash = output_hash_.text();
        timeline_.write([&] { write(); });
        found_.written = true;
        return std::move(found_);
    }

  private:
    void compute(const EntriesOnDisk& entries, const EntriesOnDisk::Range& range) {
        sparse::Inputs inputs;
        timeline_.read([&] { inputs.front() = read(entries, range); });
        const Problem problem = problem_of_range(plan_, range, std::get<Csr>(inputs.front()).entries());
        std::optional<sparse::Result> result;
        Operands operands = sparse::operands_of(inputs);
        timeline_.kernel([&] {
            result.emplace(plan_, problem, options_);
            result->add_to(operands);
            time_level(problem, operands);
        });
        Problem counted = problem;
        counted.result_entries = result->entries();
        timeline_.verify([&] {
            merge_part(found_.verification, executor_.verify(*plan_.level, counted, operands),
                       range.block.col, 0);
        });
        timeline_.hash([&] {
            if (plan_.output && !plan_.output->format().keeps_nans) result->make_nans_plain();
            if (plan_.output) output_hash_.add(range.block.col, 0, result->sparse()->view());
        });
        if (outlet_.open != nullptr) timeline_.write([&] { rows_.append(result->sparse()->view()); });
    }

    Csr read(const EntriesOnDisk& entries, const EntriesOnDisk::Range& range) {
        std::int64_t duplicates = 0;
        Csr matrix = entries.read(range, options_.threads, duplicates);
        counts_.duplicates += duplicates;
        counts_.entries.front() += matrix.entries();
        counts_.zeros += explicit_zeros(matrix.view(), options_.threads);
        input_hash_.add(0, range.block.col, std::as_const(matrix).view());
        if (is_conjugated(plan_.problem, 0)) conjugate(sparse::values_of(matrix.view()), options_.threads);
        return matrix;
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

    void write() {
        const auto writer = outlet_.open_sparse(found_, rows_.entries());
        rows_.for_each([&](std::int64_t first, const CsrView& rows) { writer->write(first, rows); });
        writer->finish();
    }

    const Plan& plan_;
    const RunOptions& options_;
    const Outlet& outlet_;
    Timeline& timeline_;
    SparseCounts& counts_;
    Executor executor_{plan_.lane().device,
                       {.mode = options_.verify,
                        .tolerance = options_.tolerance,
                        .threads = options_.threads,
                        .seed = options_.seed}};
    SparseContentHash input_hash_{plan_.inputs.front().header().shape, plan_.problem.type};
    SparseContentHash output_hash_{plan_.result, plan_.result_type};
    RowsOnDisk rows_{"the result"};
    FlowResult found_;
};

}  // namespace

bool can_go_in_parts(const Plan& plan) {
    const Operation& operation = *plan.problem.operation;
    if (plan.inputs.size() != 1 || !plan.result_is_sparse() || plan.lane().gpu) return false;
    if (operation.part == nullptr || operation.result_entries == nullptr) return false;
    if (plan.inputs.front().header().format != "matrix-market") return false;
    return !plan.output || takes_ranges_of_rows(plan.output->format());
}

std::uint64_t bytes_of_sparse_part(const RunOptions& options, const Plan& plan,
                                   const EntriesOnDisk::Range& range) {
    const Problem part = problem_of_range(plan, range, range.entries);
    const Shape shape = range.block.shape();
    const std::uint64_t workspace =
        plan.level->workspace == nullptr ? 0 : plan.level->workspace(part, options.threads);
    const std::uint64_t computing =
        saturating_add(saturating_add(csr_bytes(shape, part.type, range.entries),
                                      csr_bytes(plan.problem.operation->result(part), plan.result_type,
                                                plan.problem.operation->result_entries(part))),
                       std::max(workspace, verification_bytes(part, options.verify)));
    return std::max(to_csr_bytes(shape, part.type, range.entries), computing);
}

FlowResult sparse_flow_in_parts(const Plan& plan, const RunOptions& options, const Outlet& outlet,
                                Progress& progress, SparseCounts& counts) {
    return SparseParts(plan, options, outlet, progress, counts).run();
}

}  // namespace gpumat
