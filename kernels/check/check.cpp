#include "kernels/check/check.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "kernels/operation.hpp"

namespace gpumat {
namespace {

/// A copy's result is its input, m×n; compared bit for bit.
Verification verify_copy(const Problem& problem, const Operands& operands, const VerifyOptions& how) {
    if (how.mode == VerifyMode::none) return {};
    constexpr std::int64_t kRowsTogether = 64;
    const std::size_t row_bytes = static_cast<std::size_t>(problem.n) * size_of(problem.type);
    const auto* in = operands.a.as<std::byte>();
    const auto* out = operands.c.as<std::byte>();
    std::atomic<std::int64_t> wrong{0};
    parallel_for(problem.m, kRowsTogether, how.threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::size_t at = static_cast<std::size_t>(i) * row_bytes;
            if (std::memcmp(in + at, out + at, row_bytes) != 0) ++wrong;
        }
    });
    Verification verification;
    verification.mode = "full";
    verification.verdict = wrong == 0 ? "passed" : "failed";
    verification.mismatches = wrong;
    return verification;
}

/// What a level that only reads leaves: see Level::reads.
Verification verify_read(const Problem& problem, const Operands& operands, const VerifyOptions& how) {
    if (how.mode == VerifyMode::none) return {};
    const std::size_t bytes = static_cast<std::size_t>(problem.m * problem.n) * size_of(problem.type);
    std::uint64_t expected = 0;
    for (std::size_t at = 0; at < bytes; at += sizeof expected) {
        std::uint64_t word = 0;
        std::memcpy(&word, operands.a.as<std::byte>() + at, std::min(sizeof word, bytes - at));
        expected ^= word;
    }
    std::vector<std::byte> result(size_of(result_type(problem)));
    std::memcpy(result.data(), &expected, sizeof expected);
    Verification verification;
    verification.mode = "full";
    verification.mismatches = std::memcmp(result.data(), operands.c.data, result.size()) == 0 ? 0 : 1;
    verification.verdict = verification.mismatches == 0 ? "passed" : "failed";
    return verification;
}

/// With the rounding that follows from the level's arithmetic.
VerifyOptions as_level_rounds(const Level& level, const Problem& problem, VerifyOptions how) {
    if (level.arithmetic != nullptr) how.rounding = Rounding::of(problem.type, level.arithmetic(problem));
    return how;
}

/// A check that needs the result whole.
class WholeResult final : public ResultCheck {
  public:
    WholeResult(const Level& level, const Problem& problem, const Operands& inputs, const VerifyOptions& how)
        : level_(level), problem_(problem), operands_(inputs), how_(how) {}

    [[nodiscard]] bool takes_panels() const override { return how_.mode == VerifyMode::none; }

    void take(std::int64_t, const Operand& result) override {
        // A check that trusted the memory a level may have written to would be none: nothing is written here.
        operands_.c = {const_cast<void*>(result.data), result.rows, result.cols, result.pitch};
        found_ = verify_result(level_, problem_, operands_, how_);
    }

    Verification finish() override { return std::move(found_); }

  private:
    const Level& level_;
    Problem problem_;
    Operands operands_;
    VerifyOptions how_;
    Verification found_;
};

}  // namespace

std::uint64_t verification_bytes(const Problem& problem, VerifyMode mode) {
    const Check& check = *problem.operation->check;
    return check.bytes == nullptr ? 0 : check.bytes(problem, mode);
}

Verification verify_result(const Level& level, const Problem& problem, const Operands& operands,
                           const VerifyOptions& how) {
    if (level.copies) return verify_copy(problem, operands, how);
    if (level.reads) return verify_read(problem, operands, how);
    return problem.operation->check->verify(problem, operands, as_level_rounds(level, problem, how));
}

std::unique_ptr<ResultCheck> begin_check(const Level& level, const Problem& problem, const Operands& inputs,
                                         const VerifyOptions& how) {
    const Check& check = *problem.operation->check;
    if (!level.copies && !level.reads && how.mode != VerifyMode::none && check.panels != nullptr) {
        if (auto begun = check.panels(problem, inputs, as_level_rounds(level, problem, how))) return begun;
    }
    return std::make_unique<WholeResult>(level, problem, inputs, how);
}

}  // namespace gpumat
