#include "kernels/check/result_check.hpp"

#include <algorithm>
#include <utility>

namespace gpumat {
namespace {

bool is_worse(const WorstElement& x, double x_ratio, const WorstElement& y, double y_ratio) {
    if (x_ratio != y_ratio) return x_ratio > y_ratio;
    return x.row != y.row ? x.row < y.row : x.col < y.col;
}

}  // namespace

void merge_part(Verification& all, Verification part, std::int64_t row, std::int64_t col) {
    if (part.worst) {
        part.worst->row += row;
        part.worst->col += col;
    }
    if (all.mode == "none") {
        all = std::move(part);
        return;
    }
    if (part.failed()) all.verdict = "failed";
    if (part.worst &&
        (!all.worst || is_worse(*part.worst, part.expected_ratio, *all.worst, all.expected_ratio)))
        all.worst = std::move(part.worst);
    all.worst_ratio = std::max(all.worst_ratio, part.worst_ratio);
    all.expected_ratio = std::max(all.expected_ratio, part.expected_ratio);
    all.mismatches += part.mismatches;
    all.rows_recomputed += part.rows_recomputed;
    all.wrapped += part.wrapped;
    if (part.rms_error) all.rms_error = std::max(all.rms_error.value_or(0), *part.rms_error);
    if (part.detects && (!all.detects || part.detects->absolute > all.detects->absolute))
        all.detects = part.detects;
    if (all.note.empty()) all.note = std::move(part.note);
}

}  // namespace gpumat
