#include "lib/run/catalog.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "formats/registry.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/reduce/check/verify_reduce.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/transpose/check/verify_transpose.hpp"
#include "kernels/transpose/operation.hpp"
#include "lib/run/verify_product_in_blocks.hpp"
#include "lib/stored/side_by_side.hpp"

namespace gpumat {
namespace {

Verification verify_transposed(const Problem& problem, const Operands& operands, const VerifyOptions& how) {
    return verify_transpose(
        {problem.type, {problem.m, problem.n}, operands.a.pitch, operands.a.as<std::byte>()},
        {problem.type, {problem.n, problem.m}, operands.c.pitch, operands.c.as<std::byte>()}, how);
}

bool keeps_nans(const formats::Header& header) {
    return formats::format_named(header.format).keeps_nans;
}

Verification verify_stored_transpose(formats::Reader& input, formats::Reader& result,
                                     const VerifyOptions& asked, std::optional<std::uint64_t> memory_limit,
                                     Progress& progress) {
    Verification all;
    VerifyOptions how = asked;
    how.mode = VerifyMode::full;
    how.any_nan = !keeps_nans(input.header()) || !keeps_nans(result.header());
    read_side_by_side(input, result,
                      {.transposed = true, .memory_limit = memory_limit, .progress = &progress},
                      [&](const Block& block, const MatrixView& a, const MatrixView& at) {
                          merge_part(all, verify_transpose(a, at, how), block.col, block.row);
                      });
    if (all.mode == "none") {  // a matrix without elements
        all.mode = "full";
        all.verdict = "passed";
    }
    return all;
}

/// A copy's result is its input, m×n; compared bit for bit.
Verification verify_copy(const Problem& problem, const Operands& operands, const VerifyOptions& how) {
    if (how.mode == VerifyMode::none) return {};
    constexpr std::int64_t kRowsAtOnce = 64;
    const std::size_t row_bytes = static_cast<std::size_t>(problem.n) * size_of(problem.type);
    const auto* in = operands.a.as<std::byte>();
    const auto* out = operands.c.as<std::byte>();
    std::atomic<std::int64_t> wrong{0};
    parallel_for(problem.m, kRowsAtOnce, how.threads, [&](std::int64_t begin, std::int64_t end) {
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
    WholeResult(const Catalog& catalog, const Level& level, const Problem& problem, const Operands& inputs,
                const VerifyOptions& how)
        : catalog_(catalog), level_(level), problem_(problem), operands_(inputs), how_(how) {}

    [[nodiscard]] bool takes_panels() const override { return how_.mode == VerifyMode::none; }

    void take(std::int64_t, const Operand& result) override {
        // A check that trusted the memory a level may have written to would be none: nothing is written here.
        operands_.c = {const_cast<void*>(result.data), result.rows, result.cols, result.pitch};
        found_ = catalog_.verify(level_, problem_, operands_, how_);
    }

    Verification finish() override { return std::move(found_); }

  private:
    const Catalog& catalog_;
    const Level& level_;
    Problem problem_;
    Operands operands_;
    VerifyOptions how_;
    Verification found_;
};

}  // namespace

std::unique_ptr<ResultCheck> Catalog::begin_check(const Level& level, const Problem& problem,
                                                  const Operands& inputs, const VerifyOptions& how) const {
    const Verifier& verifier_of = verifier(*problem.operation);
    if (!level.copies && !level.reads && how.mode != VerifyMode::none && verifier_of.panels != nullptr) {
        if (auto check = verifier_of.panels(problem, inputs, as_level_rounds(level, problem, how)))
            return check;
    }
    return std::make_unique<WholeResult>(*this, level, problem, inputs, how);
}

Catalog Catalog::standard(Registry registry, std::map<const Operation*, Verifier> more) {
    constexpr auto no_bytes = [](const Problem&, VerifyMode) { return std::uint64_t{0}; };
    more.insert(
        {{&kTranspose, {verify_transposed, no_bytes, verify_stored_transpose, check_transpose_panels}},
         {&kMultiply,
          {verify_multiply, gpumat::verification_bytes, nullptr, check_multiply_panels,
           verify_product_in_blocks}},
         {&kReduce,
          {verify_reduction, reduction_verification_bytes, nullptr, check_reduction_parts, nullptr, true,
           true}}});
    return {std::move(registry), std::move(more)};
}

Verification Catalog::verify(const Level& level, const Problem& problem, const Operands& operands,
                             const VerifyOptions& how) const {
    if (level.copies) return verify_copy(problem, operands, how);
    if (level.reads) return verify_read(problem, operands, how);
    return verifier(*problem.operation).verify(problem, operands, as_level_rounds(level, problem, how));
}

}  // namespace gpumat
