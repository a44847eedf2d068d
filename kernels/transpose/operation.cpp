#include "kernels/transpose/operation.hpp"

#include <array>

#include "core/error.hpp"
#include "kernels/tables.hpp"
#include "kernels/transpose/check/verify_transpose.hpp"
#include "kernels/transpose/cpu/baselines.hpp"
#include "kernels/transpose/cpu/levels.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"
#include "kernels/transpose/gpu/baselines.hpp"
#include "kernels/transpose/gpu/levels.hpp"
#include "kernels/transpose/gpu/sparse/levels.hpp"

namespace gpumat {
namespace transpose {
namespace {

constexpr std::array kRoles = {
    InputRole{.name = "A", .help = "FILE or FILE:/DATASET, '-' for standard input"}};

constexpr std::array kSettings = {
    Setting{.name = "in-place",
            .help = "square matrices: transpose in the memory of the input, half of it",
            .flag = &Problem::in_place,
            .benched = true,
            .stored = false},
    Setting{.name = "conjugate",
            .help = "the conjugate transpose; real matrices are their own conjugates",
            .conjugates = 0}};

void fit(const ProblemRequest& request, Problem& problem) {
    if (problem.in_place && is_conjugated(problem, 0))
        throw Error(ErrorCode::usage,
                    "--in-place moves elements and changes none; expected it without --conjugate");
    problem.m = request.inputs[0]->shape.rows;
    problem.n = request.inputs[0]->shape.cols;
}

std::optional<Shape> input(const Problem& problem, std::size_t) {
    return Shape{problem.m, problem.n};
}

Shape result(const Problem& problem) {
    return {problem.n, problem.m};
}

double bytes(const Problem& problem) {
    if (problem.is_sparse()) {
        const std::int64_t entries = problem.entries.front();
        return 2 * static_cast<double>(entry_bytes({problem.m, problem.n}, problem.type, entries)) +
               8 * (static_cast<double>(problem.m) + static_cast<double>(problem.n) + 2);
    }
    return 2 * static_cast<double>(problem.m) * static_cast<double>(problem.n) *
           static_cast<double>(size_of(problem.type));
}

ProblemPart part(const Problem& problem, const Block& result) {
    Problem smaller = problem;
    smaller.m = result.cols;
    smaller.n = result.rows;
    return {smaller, {Block{result.col, result.row, result.cols, result.rows}}, result};
}

std::vector<Level> levels() {
    return all_levels({gpu::levels(), cpu::levels(), gpu::baselines(), cpu::baselines()});
}

std::vector<Level> sparse_levels() {
    return all_levels({gpu::sparse::levels(), cpu::sparse::levels()});
}

Structure structure(const Problem&, const std::array<Storage, kMostInputs>& stored) {
    return {stored, stored.front()};
}

std::int64_t result_entries(const Problem& problem) {
    return problem.entries.front();
}

std::vector<Preference> preference(const Problem& problem, const Device& device) {
    const bool on_gpu = device.kind == DeviceKind::gpu;
    if (problem.is_sparse())
        return on_gpu ? gpu::sparse::preference(problem, device) : cpu::sparse::preference(problem, device);
    return on_gpu ? gpu::preference(problem, device) : cpu::preference(problem, device);
}

}  // namespace
}  // namespace transpose

constinit const Operation kTranspose = {
    .name = "transpose",
    .summary = "transpose a stored matrix",
    .examples =
        "  gpumat transpose A.h5 -o At.h5\n"
        "  gpumat transpose A.h5:/run1/A -o At.mtx --level padded --log runs.jsonl\n"
        "  gpumat transpose A.h5 --conjugate -o Ah.h5\n"
        "  zcat A.mtx.gz | gpumat transpose - -o - | head",
    .verify_example = "gpumat verify transpose A.h5 At.h5 --json",
    .roles = transpose::kRoles,
    .settings = transpose::kSettings,
    .extents = 2,
    .size_example = "1000x3000",
    .bench_size = "4096",
    .rate = Rate::bandwidth,
    .yardstick = "copy",
    .keeps_attributes = true,
    .transposes = true,
    .fit = transpose::fit,
    .input = transpose::input,
    .result = transpose::result,
    .bytes = transpose::bytes,
    .part = transpose::part,
    .levels = transpose::levels,
    .sparse_levels = transpose::sparse_levels,
    .structure = transpose::structure,
    .result_entries = transpose::result_entries,
    .preference = transpose::preference,
    .tunable = &transpose::kTunable,
    .check = &transpose::kCheck};

}  // namespace gpumat
