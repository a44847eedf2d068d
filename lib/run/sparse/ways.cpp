#include "lib/run/sparse/ways.hpp"

#include <algorithm>

#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "kernels/check/check.hpp"
#include "lib/output/sparse_output.hpp"
#include "lib/stored/in_earnest.hpp"

namespace gpumat::sparse {
namespace {

Shape extent_of(const Plan& plan) {
    const auto cut = plan.problem.operation->cut;
    return cut == nullptr ? plan.result : cut(plan.problem);
}

bool is_sparse_input(const Plan& plan, std::size_t role) {
    return plan.problem.structure.inputs.at(role) == Storage::csr;
}

/// How the input comes, if a part with one row reads this block of it.
std::optional<Way> way_of(const std::optional<Block>& block, const Shape& whole) {
    if (!block) return Way::unread;
    if (block->shape() == whole) return Way::held;
    if (block->cols == whole.cols) return Way::rows;
    if (block->rows == whole.rows) return Way::columns;
    return {};
}

bool takes_rows_in_order(const Plan& plan) {
    if (!plan.output) return true;
    const formats::Format& format = plan.output->format();
    if (plan.result_is_sparse()) return takes_ranges_of_rows(format, plan.write);
    return plan.result_is_kept || format.order != formats::BlockOrder::column_panels;
}

std::uint64_t held_bytes(const Plan& plan, const PlannedInput& input, std::int64_t entries) {
    const formats::Header& header = input.header();
    return is_sparse_input(plan, input.role)
               ? csr_bytes(header.shape, header.type, entries)
               : dense_bytes(header.shape, header.type, to_string(header.source));
}

bool entries_are_in_earnest(const Plan& plan) {
    std::uint64_t stored = 0;
    std::uint64_t matrices = 0;
    for (const PlannedInput& input : plan.inputs) {
        stored = saturating_add(stored, input.header().file_bytes);
        matrices = saturating_add(matrices, held_bytes(plan, input, plan.problem.entries.at(input.role)));
    }
    return are_in_earnest(stored, matrices);
}

/// Rows of a dense result that the writer keeps until their chunks are whole.
std::uint64_t bytes_of_partial_chunks(const Plan& plan) {
    if (!plan.output || plan.result_is_sparse() || plan.result_is_kept) return 0;
    const auto grain_of = plan.output->format().writing_grain;
    if (grain_of == nullptr) return 0;
    const std::int64_t rows = grain_of(plan.result, plan.result_type, plan.write).rows;
    return rows <= 1 ? 0
                     : dense_bytes({std::min(rows, plan.result.rows), plan.result.cols}, plan.result_type,
                                   "the result");
}

/// What there is beside the parts.
struct BesideParts {
    std::uint64_t held = 0;     ///< inputs, and the result
    std::uint64_t working = 0;  ///< of readers, and of a writer beside them
    std::uint64_t reading = 0;  ///< the most that one reading of a held input takes beside those before it
    std::uint64_t least_room = 0;
};

BesideParts beside_parts(const Plan& plan, const Ways& ways, std::uint64_t writing) {
    BesideParts beside;
    beside.held = bytes_of_partial_chunks(plan);
    if (plan.result_is_kept) beside.held = dense_bytes(plan.result, plan.result_type, "the result");
    for (const PlannedInput& input : plan.inputs) {
        const Way way = ways.at(input.role);
        const formats::Reader& reader = *input.reader;
        if (way == Way::unread) continue;
        const bool sparse = is_sparse_input(plan, input.role);
        if (sparse && is_streamed(way)) {
            beside.working = saturating_add(beside.working, reader.entries_bytes());
            beside.least_room = std::max(beside.least_room, SparseRanges::least_room(reader, lines_of(way)));
            continue;
        }
        beside.working = saturating_add(beside.working, reader.working_bytes());
        if (!sparse || !input.header().sparse_layout)
            beside.working = saturating_add(beside.working, reader.open_bytes());
        if (is_streamed(way)) continue;
        if (sparse)
            beside.reading = std::max(
                beside.reading, saturating_add(beside.held, formats::sparse_reading_bytes(input.header())));
        beside.held =
            saturating_add(beside.held, held_bytes(plan, input, plan.problem.entries.at(input.role)));
    }
    // A sparse result is written once all is read.
    beside.working =
        plan.result_is_sparse() ? std::max(beside.working, writing) : saturating_add(beside.working, writing);
    return beside;
}

/// One row without entries.
ProblemPart least_part(const Plan& plan, const Ways& ways) {
    ProblemPart least = part_of(plan, {0, 1});
    for (const PlannedInput& input : plan.inputs)
        if (is_streamed(ways.at(input.role))) least.problem.entries.at(input.role) = 0;
    return least;
}

}  // namespace

std::int64_t lines_of(const Plan& plan) {
    return extent_of(plan).rows;
}

ProblemPart part_of(const Plan& plan, const LineRange& rows) {
    return plan.problem.operation->part(plan.problem, {rows.first, 0, rows.count, extent_of(plan).cols});
}

std::optional<Ways> ways_of(const Plan& plan) {
    const Operation& operation = *plan.problem.operation;
    if (operation.part == nullptr || plan.problem.in_place || plan.lane().gpu || lines_of(plan) < 2)
        return {};
    const ProblemPart part = part_of(plan, {0, 1});
    if (plan.result_is_sparse() && part.shares_result()) return {};
    Ways ways{};
    bool any_sparse = false;
    for (const PlannedInput& input : plan.inputs) {
        const formats::Header& header = input.header();
        const auto way = way_of(part.inputs.at(input.role), header.shape);
        if (!way) return {};
        ways.at(input.role) = *way;
        const bool sparse = is_sparse_input(plan, input.role);
        any_sparse |= sparse;
        if (is_streamed(*way) && !sparse && (header.rereads || header.in_order)) return {};
    }
    return any_sparse && takes_rows_in_order(plan) ? std::optional(ways) : std::nullopt;
}

std::uint64_t bytes_of_part(const RunOptions& options, const Plan& plan, const Ways& ways,
                            const ProblemPart& part) {
    const Operation& operation = *plan.problem.operation;
    const Problem& problem = part.problem;
    std::uint64_t inputs = 0;
    std::uint64_t reading = 0;  // beside all of them
    for (const PlannedInput& input : plan.inputs) {
        if (!is_streamed(ways.at(input.role))) continue;
        const Shape shape = part.inputs.at(input.role)->shape();
        const std::int64_t entries = problem.entries.at(input.role);
        const bool sparse = is_sparse_input(plan, input.role);
        const std::uint64_t bytes =
            sparse ? csr_bytes(shape, problem.type, entries) : dense_bytes(shape, problem.type, "a part");
        inputs = saturating_add(inputs, bytes);
        if (sparse) reading = std::max(reading, to_csr_bytes(shape, problem.type, entries) - bytes);
    }
    const Shape shape = operation.result(problem);
    const Type type = result_type(problem);
    const std::uint64_t result =
        !plan.result_is_sparse()
            ? dense_bytes(shape, type, "a part")
            : csr_bytes(shape, type,
                        operation.result_entries == nullptr ? 0 : operation.result_entries(problem));
    const std::uint64_t workspace =
        plan.level->workspace == nullptr ? 0 : plan.level->workspace(problem, options.threads);
    return saturating_add(
        inputs,
        std::max(reading,
                 saturating_add(result, std::max(workspace, verification_bytes(problem, options.verify)))));
}

std::optional<std::uint64_t> least_for_parts(const RunOptions& options, const Plan& plan,
                                             std::uint64_t writing) {
    const auto ways = ways_of(plan);
    if (!ways) return {};
    const BesideParts beside = beside_parts(plan, *ways, writing);
    const ProblemPart least = least_part(plan, *ways);
    const std::uint64_t room = std::max(beside.least_room, bytes_of_part(options, plan, *ways, least));
    const std::uint64_t bytes =
        saturating_add(beside.working, std::max(beside.reading, saturating_add(beside.held, room)));
    // With that limit it may be small enough to be kept.
    const std::uint64_t kept = plan.result_is_sparse() || plan.result_is_kept
                                   ? 0
                                   : dense_bytes(plan.result, plan.result_type, "the result");
    return kept <= bytes / 8 ? saturating_add(bytes, kept) : bytes;
}

bool plan_sparse_parts(const RunOptions& options, std::uint64_t writing, Plan& plan) {
    const std::uint64_t all = options.memory_limit.value_or(available_memory_bytes() / 2);
    plan.result_is_kept =
        !plan.result_is_sparse() && dense_bytes(plan.result, plan.result_type, "the result") <= all / 8;
    const auto ways = ways_of(plan);
    if (!ways || !(options.memory_limit || entries_are_in_earnest(plan))) return false;
    const BesideParts beside = beside_parts(plan, *ways, writing);
    const std::uint64_t fixed = saturating_add(beside.held, beside.working);
    if (saturating_add(beside.reading, beside.working) > all || fixed > all) return false;
    const std::uint64_t room = all - fixed;
    const ProblemPart least = least_part(plan, *ways);
    if (room < std::max(beside.least_room, bytes_of_part(options, plan, *ways, least))) return false;
    plan.sparse_room = room;
    plan.working_bytes = writing;
    plan.host_bytes = all;
    return true;
}

bool goes_through_disk(const Plan& plan) {
    const Ways ways = *ways_of(plan);
    return plan.result_is_sparse() || std::ranges::any_of(plan.inputs, [&](const PlannedInput& input) {
               const Way way = ways.at(input.role);
               return is_sparse_input(plan, input.role) && is_streamed(way) &&
                      SparseRanges::through_disk(*input.reader, lines_of(way));
           });
}

std::string describe_parts(const Plan& plan) {
    const Ways ways = *ways_of(plan);
    std::string text = "in parts of up to " + format_bytes(*plan.sparse_room) + ": ";
    for (const PlannedInput& input : plan.inputs) {
        const Way way = ways.at(input.role);
        if (way == Way::unread) continue;
        text += std::string(input.name) + (way == Way::held   ? " as a whole in memory, "
                                           : way == Way::rows ? " by ranges of rows, "
                                                              : " by ranges of columns, ");
        if (is_sparse_input(plan, input.role) && is_streamed(way) &&
            SparseRanges::through_disk(*input.reader, lines_of(way)))
            text += "which a first pass brings into a temporary file, ";
    }
    text += plan.result_is_sparse() ? "the result through a temporary file"
            : plan.result_is_kept   ? "the result as a whole in memory"
                                    : "the result by ranges of rows";
    return text + (goes_through_disk(plan) ? " (in TMPDIR, or /tmp)" : "");
}

}  // namespace gpumat::sparse
