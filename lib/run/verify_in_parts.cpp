#include "lib/run/verify_in_parts.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/hash/hash.hpp"
#include "core/stopwatch.hpp"
#include "kernels/check/check.hpp"
#include "lib/stored/conjugate.hpp"

namespace gpumat {
namespace {

Parts parts_of(const std::vector<PlannedInput>& inputs, const formats::Reader& result, VerifyMode mode,
               const StoredVerification& record, std::uint64_t fixed_bytes, std::uint64_t room) {
    const auto stored = stored_by_role(inputs, record.problem.operation->roles.size());
    const bool bytes_by_part = record.problem.operation->check->bytes_by_part;
    if (bytes_by_part) fixed_bytes -= verification_bytes(record.problem, mode);
    CutLimits limits{.host_bytes = room - std::min(room, fixed_bytes)};
    if (bytes_by_part)
        limits.verification_bytes = [&](const Problem& part) { return verification_bytes(part, mode); };
    if (result.header().in_order) limits.order = formats::BlockOrder::column_panels;  // as text is stored
    return {record.problem, stored, stored_as(result.header()),   limits,
            fixed_bytes,    room,   "verifying this " + record.op};
}

/// Reads blocks of a stored matrix, and keeps the last one. Each block counts once in the hash.
class BlocksOf {
  public:
    BlocksOf(formats::Reader& reader, int threads, bool conjugates)
        : reader_(reader),
          threads_(threads),
          conjugates_(conjugates),
          hash_(reader.header().shape, reader.header().type, threads) {}

    const Matrix& at(const Block& block) {
        if (held_ && held_->first == block) return held_->second;
        held_.reset();  // before there is another
        held_.emplace(block, Matrix(block.shape(), reader_.header().type, "a block"));
        reader_.read(block, held_->second.view());
        if (seen_.emplace(block.row, block.col).second) hash_.add(block, std::as_const(held_->second).view());
        if (conjugates_) conjugate(held_->second.view(), threads_);
        return held_->second;
    }

    [[nodiscard]] std::string hash() const { return seen_.empty() ? "" : hash_.text(); }

  private:
    formats::Reader& reader_;
    int threads_;
    bool conjugates_;
    ContentHash hash_;
    std::set<std::pair<std::int64_t, std::int64_t>> seen_;
    std::optional<std::pair<Block, Matrix>> held_;
};

/// Checks one part after the other.
class PartsCheck {
  public:
    PartsCheck(const Check& check, VerifyOptions how) : kind_(check), how_(how) {}

    void take(const ProblemPart& part, const std::vector<const void*>& inputs, const Matrix& stored) {
        if (!part.shares_result()) {
            merge_part(found_, check(part, inputs, stored), part.result.row, part.result.col);
            blocks_before_ = part.inputs;
            return;
        }
        const Operands operands = operands_at(part.problem, inputs, nullptr);
        if (part.is_first) check_ = kind_.panels(part.problem, operands, how_);
        check_->add_part(part.problem, operands);
        if (part.is_last) merge_part(found_, finish(stored), part.result.row, part.result.col);
    }

    [[nodiscard]] Verification found() && { return std::move(found_); }

  private:
    Verification check(const ProblemPart& part, const std::vector<const void*>& inputs,
                       const Matrix& stored) {
        const std::unique_ptr<ResultCheck> before = std::exchange(
            check_, kind_.panels(part.problem, operands_at(part.problem, inputs, nullptr), how_));
        if (!check_) {
            // Nothing is written to the result.
            auto* const result = const_cast<std::byte*>(stored.data());
            return kind_.verify(part.problem, operands_at(part.problem, inputs, result), how_);
        }
        if (before) {
            std::vector<bool> same;
            for (std::size_t role = 0; role < part.inputs.size(); ++role)
                same.push_back(part.inputs[role] == blocks_before_[role]);
            check_->follow(*before, same);
        }
        return finish(stored);
    }

    Verification finish(const Matrix& stored) {
        check_->take(0, operand_of(stored.view()));
        return check_->finish();
    }

    const Check& kind_;
    VerifyOptions how_;
    std::unique_ptr<ResultCheck> check_;
    std::vector<std::optional<Block>> blocks_before_;
    Verification found_;
};

}  // namespace

Verification verify_in_parts(std::vector<PlannedInput>& inputs, formats::Reader& result,
                             const StoredResult& asked, std::uint64_t fixed_bytes, std::uint64_t room,
                             StoredVerification& record, Progress& progress) {
    const Parts parts = parts_of(inputs, result, asked.how.mode, record, fixed_bytes, room);
    VerifyOptions how = asked.how;
    how.parts = parts.count();
    if (how.mode == VerifyMode::automatic && record.problem.flops() > kFullCheckFlops)
        how.mode = VerifyMode::freivalds;
    std::vector<BlocksOf> stored_inputs;
    for (const PlannedInput& input : inputs)
        stored_inputs.emplace_back(*input.reader, how.threads, is_conjugated(record.problem, input.role));
    BlocksOf stored_result(result, how.threads, false);
    const std::uint64_t taken = fixed_bytes + parts.host_bytes();
    for (const PlannedInput& input : inputs) input.reader->set_spare(room - std::min(room, taken));
    result.set_spare(room - std::min(room, taken));
    PartsCheck check(*asked.operation->check, how);
    double reading_ms = 0;
    double checking_ms = 0;
    for (std::int64_t i = 0; i < parts.count(); ++i) {
        const ProblemPart part = parts.at(i);
        const Stopwatch reading;
        std::vector<const void*> places(part.inputs.size(), nullptr);
        for (std::size_t at = 0; at < inputs.size(); ++at) {
            const std::size_t role = inputs[at].role;
            if (part.inputs[role]) places[role] = stored_inputs[at].at(*part.inputs[role]).data();
        }
        const Matrix& block = stored_result.at(part.result);
        reading_ms += reading.elapsed_ms();
        const Stopwatch checking;
        check.take(part, places, block);
        checking_ms += checking.elapsed_ms();
        progress.bytes_checked += block.bytes();
    }
    for (std::size_t at = 0; at < inputs.size(); ++at) record.inputs[at].hash = stored_inputs[at].hash();
    record.result->hash = stored_result.hash();
    record.stages_ms.read = reading_ms;
    record.stages_ms.verify = checking_ms;
    return std::move(check).found();
}

}  // namespace gpumat
