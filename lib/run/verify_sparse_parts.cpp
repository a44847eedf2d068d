#include "lib/run/verify_sparse_parts.hpp"

#include <algorithm>
#include <utility>

#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "core/stopwatch.hpp"
#include "kernels/check/check.hpp"
#include "lib/run/sparse/streams.hpp"
#include "lib/run/verify_sparse.hpp"

namespace gpumat {
namespace {

/// The plan of a run that would compute the result, with the inputs as long as it lives.
class PlanOfParts {
  public:
    PlanOfParts(std::vector<PlannedInput>& inputs, const StoredResult& asked, const Level& level,
                const Problem& problem)
        : inputs_(inputs) {
        plan_.inputs = std::move(inputs);
        plan_.problem = problem;
        for (const PlannedInput& input : plan_.inputs)
            if (problem.structure.inputs.at(input.role) == Storage::csr)
                plan_.problem.entries.at(input.role) = *input.header().most_entries;
        plan_.level = &level;
        plan_.lanes.push_back({{DeviceKind::cpu, asked.how.threads, nullptr}, nullptr});
        plan_.result = problem.operation->result(problem);
        plan_.result_type = result_type(problem);
    }
    PlanOfParts(const PlanOfParts&) = delete;
    PlanOfParts& operator=(const PlanOfParts&) = delete;
    ~PlanOfParts() { inputs_ = std::move(plan_.inputs); }

    [[nodiscard]] Plan& plan() { return plan_; }

  private:
    std::vector<PlannedInput>& inputs_;
    Plan plan_;
};

RunOptions options_of(const StoredResult& asked) {
    RunOptions options;
    options.operation = asked.operation;
    options.verify = asked.how.mode;
    options.memory_limit = asked.read.memory_limit;
    options.threads = asked.how.threads;
    return options;
}

/// What reading rows of the result takes beside them.
std::uint64_t bytes_beside_rows(const formats::Reader& result, bool is_sparse) {
    return is_sparse ? saturating_add(result.entries_bytes(),
                                      SparseRanges::least_room(result, formats::Lines::rows))
                     : saturating_add(result.open_bytes(), result.working_bytes());
}

CsrView entries_of(const Operand& operand, Type type) {
    return {type,
            {operand.rows, operand.cols},
            operand.entries,
            operand.pointers,
            static_cast<const std::byte*>(operand.columns),
            operand.as<std::byte>()};
}

class VerificationInParts {
  public:
    VerificationInParts(const Plan& plan, const RunOptions& options, formats::Reader& result,
                        const StoredResult& asked)
        : plan_(plan),
          options_(options),
          result_(result),
          asked_(asked),
          ways_(*sparse::ways_of(plan)),
          streams_(plan, options, ways_, counts_) {
        if (plan.result_is_sparse()) rows_.emplace(result, formats::Lines::rows, *plan.sparse_room);
        if (plan.result_is_kept) whole_ = formats::read_whole(result, {});
    }

    Verification run(StoredVerification& record) {
        const Stopwatch watch;
        const std::vector<LineRange> ranges = cut();
        how_.parts = std::ssize(ranges);
        tell(asked_.read.tell, Severity::detail,
             "verified in " + std::to_string(ranges.size()) + " parts of up to " +
                 format_bytes(*plan_.sparse_room) + ", by ranges of rows");
        for (const LineRange& range : ranges) take(range);
        note(record);
        record.stages_ms.verify = checking_ms_;
        record.stages_ms.read = watch.elapsed_ms() - checking_ms_;
        return std::move(found_);
    }

  private:
    [[nodiscard]] std::int64_t step() const {
        return std::max(streams_.step(), rows_ ? rows_->step() : std::int64_t{1});
    }

    /// Of rows of a sparse result.
    [[nodiscard]] std::uint64_t bytes_of_rows(const LineRange& range) const {
        if (!rows_) return 0;
        return to_csr_bytes(rows_->block(range).shape(), plan_.result_type, rows_->entries_in(range));
    }

    [[nodiscard]] std::vector<LineRange> cut() const {
        const auto bytes = [&](const LineRange& range) {
            return saturating_add(sparse::bytes_of_part(options_, plan_, ways_, streams_.part(range)),
                                  bytes_of_rows(range));
        };
        const auto words = [&](const LineRange& range) {
            const ProblemPart part = streams_.part(range);
            std::int64_t entries = rows_ ? rows_->entries_in(range) : 0;
            for (const PlannedInput& input : plan_.inputs)
                if (sparse::is_streamed(ways_.at(input.role))) entries += part.problem.entries.at(input.role);
            return words_of_range(to_string(result_.header().source), part.result.shape(), entries,
                                  bytes(range), *plan_.sparse_room);
        };
        return cut_lines(sparse::lines_of(plan_), step(), *plan_.sparse_room, bytes, words);
    }

    void take(const LineRange& range) {
        ProblemPart part = streams_.part(range);
        Operands operands = streams_.read(range, part);
        streams_.count();
        if (part.shares_result()) {
            const Stopwatch watch;
            if (part.is_first) check_ = begin_check(*plan_.level, part.problem, operands, how_);
            check_->add_part(part.problem, operands);
            if (part.is_last) finish(part);
            checking_ms_ += watch.elapsed_ms();
        } else if (rows_) {
            check_sparse(range, part, operands);
        } else {
            check_dense(part, operands);
        }
        streams_.release();
    }

    void finish(const ProblemPart& part) {
        if (whole_.bytes() == 0) whole_ = formats::read_whole(result_, {});
        check_->take(0, operand_of(std::as_const(whole_).view()));
        merge_part(found_, check_->finish(), part.result.row, part.result.col);
    }

    void check_sparse(const LineRange& range, ProblemPart& part, Operands& operands) {
        std::int64_t duplicates = 0;
        Csr rows = rows_->read(range, options_.threads, duplicates);
        sparse_hash_.add(range.first, 0, std::as_const(rows).view(), options_.threads);
        entries_ += rows.entries();
        part.problem.result_entries = rows.entries();
        operands.c = operand_of(rows.view());
        const Stopwatch watch;
        const Check& check = *asked_.operation->check;
        Verification found =
            check.side_by_side == nullptr
                ? check.verify(part.problem, operands, how_)
                : verify_pairs(entries_of(operands.a, plan_.problem.type), std::as_const(rows).view(), asked_,
                               loses_nans(plan_.inputs.front(), result_));
        checking_ms_ += watch.elapsed_ms();
        merge_part(found_, std::move(found), part.result.row, part.result.col);
    }

    void check_dense(const ProblemPart& part, Operands& operands) {
        Matrix block;
        MatrixView rows = std::as_const(whole_).view();
        if (plan_.result_is_kept) {
            rows.shape.rows = part.result.rows;
            rows.data += static_cast<std::size_t>(part.result.row * rows.ld) * size_of(rows.type);
        } else {
            block = Matrix(part.result.shape(), plan_.result_type, "a part");
            result_.read(part.result, block.view());
            rows = std::as_const(block).view();
        }
        dense_hash_.add(part.result, rows);
        // Nothing is written to the result.
        operands.c =
            operand_of(MutableMatrixView{rows.type, rows.shape, rows.ld, const_cast<std::byte*>(rows.data)});
        const Stopwatch watch;
        merge_part(found_, asked_.operation->check->verify(part.problem, operands, how_), part.result.row,
                   part.result.col);
        checking_ms_ += watch.elapsed_ms();
    }

    void note(StoredVerification& record) const {
        record.problem.entries = counts_.entries;
        const std::vector<std::string> hashes = streams_.hashes();
        for (std::size_t i = 0; i < plan_.inputs.size(); ++i) {
            const PlannedInput& input = plan_.inputs[i];
            if (record.problem.structure.inputs.at(input.role) == Storage::csr)
                record.inputs[i] = recorded_sparse(input.header(), counts_.entries.at(input.role));
            record.inputs[i].hash = hashes[i];
        }
        if (!rows_) {
            record.result->hash = check_ ? content_hash(whole_.view(), options_.threads) : dense_hash_.text();
            return;
        }
        record.problem.result_entries = entries_;
        record.result = recorded_sparse(result_.header(), entries_);
        record.result->hash = sparse_hash_.text();
    }

    const Plan& plan_;
    const RunOptions& options_;
    formats::Reader& result_;
    const StoredResult& asked_;
    VerifyOptions how_ = asked_.how;
    SparseCounts counts_;
    sparse::Ways ways_;
    sparse::Streams streams_;
    std::optional<SparseRanges> rows_;    ///< of a sparse result
    Matrix whole_;                        ///< a dense one that is small, or combined
    std::unique_ptr<ResultCheck> check_;  ///< of what is combined
    SparseContentHash sparse_hash_{plan_.result, plan_.result_type};
    ContentHash dense_hash_{plan_.result, plan_.result_type, options_.threads};
    std::int64_t entries_ = 0;
    double checking_ms_ = 0;
    Verification found_;
};

}  // namespace

std::optional<Verification> verify_sparse_in_parts(std::vector<PlannedInput>& inputs, formats::Reader& result,
                                                   const StoredResult& asked, const Level& level,
                                                   StoredVerification& record) {
    PlanOfParts parts(inputs, asked, level, record.problem);
    Plan& plan = parts.plan();
    const RunOptions options = options_of(asked);
    if (!sparse::plan_sparse_parts(options, bytes_beside_rows(result, plan.result_is_sparse()), plan))
        return {};
    const formats::Header& header = result.header();
    const bool by_blocks = plan.result_is_sparse() || plan.result_is_kept;
    if (!by_blocks && (header.rereads || header.in_order)) return {};
    for (const PlannedInput& input : plan.inputs) input.reader->set_spare(0);
    result.set_spare(0);
    return VerificationInParts(plan, options, result, asked).run(record);
}

}  // namespace gpumat
