#include "lib/verify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/product_check.hpp"
#include "lib/row_check.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kRowsAtOnce = 1 << 15;  // of C: their products with X are at most 25 MB

Operand panel_of_c(const Problem& p, const Operands& operands, std::int64_t first) {
    return rows_of(result_type(p), operands.c, first, std::min(kRowsAtOnce, p.m - first));
}

Verification check_in_full(const Problem& p, const Operands& operands, const VerifyOptions& options) {
    const RowCheck check(p, operands, options);
    Findings found;
    std::string note;
    bool coarse = false;
    for (std::int64_t first = 0; first < p.m; first += kRowsAtOnce) {
        const auto rows = result_rows(result_type(p), panel_of_c(p, operands, first), first);
        std::vector<char> wrong(rows.size());
        const Findings part = check.check(rows, wrong);
        coarse = coarse || check.too_coarse(rows, part, note);
        found.merge(part);
    }
    Verification result = verification_of("full", found);
    if (coarse) result.verdict = "failed";
    result.rows_recomputed = p.m;
    result.note = note;
    if (is_integer(p.type)) return result;
    const double root = found.root_mean_square();
    result.detects =
        Detects{found.tolerance, root > 0 ? found.tolerance / root : std::numeric_limits<double>::infinity()};
    if (found.value_squares > 0) {
        result.rms_error =
            std::sqrt(found.error_squares / found.value_squares) / check.bound().rounding().stored_roundoff();
    }
    return result;
}

Verification check_at_random(const Problem& p, const Operands& operands, const VerifyOptions& options) {
    ProductCheck check(p, operands, options);
    for (std::int64_t first = 0; first < p.m; first += kRowsAtOnce)
        check.take(first, panel_of_c(p, operands, first));
    return check.finish();
}

}  // namespace

bool checks_at_random(const Problem& asked, VerifyMode mode) {
    const Problem problem = as_read(asked);
    if (problem.m == 0 || problem.n == 0) return false;
    return mode == VerifyMode::freivalds ||
           (mode == VerifyMode::automatic && problem.flops() > kFullCheckFlops);
}

std::optional<VerifyMode> verify_mode_from_name(std::string_view name) {
    if (name == "auto") return VerifyMode::automatic;
    if (name == "full") return VerifyMode::full;
    if (name == "freivalds") return VerifyMode::freivalds;
    if (name == "none") return VerifyMode::none;
    return std::nullopt;
}

Verification verify_multiply(const Problem& asked, const Operands& operands, const VerifyOptions& options) {
    if (options.mode == VerifyMode::none) return {};
    const Problem problem = as_read(asked);
    // Without elements there may be any number of rows, and each mode finds the same.
    if (problem.m == 0 || problem.n == 0)
        return verification_of(options.mode == VerifyMode::freivalds ? "freivalds" : "full", {});
    return checks_at_random(problem, options.mode) ? check_at_random(problem, operands, options)
                                                   : check_in_full(problem, operands, options);
}

std::uint64_t verification_bytes(const Problem& asked, VerifyMode mode) {
    const Problem problem = as_read(asked);
    return checks_at_random(problem, mode) ? product_check_bytes(problem, kRowsAtOnce) : 0;
}

}  // namespace gpumat
