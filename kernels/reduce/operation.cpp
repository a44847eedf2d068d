#include "kernels/reduce/operation.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "kernels/reduce/check/verify_reduce.hpp"
#include "kernels/reduce/cpu/levels.hpp"
#include "kernels/reduce/cpu/sparse/levels.hpp"
#include "kernels/reduce/gpu/levels.hpp"
#include "kernels/tables.hpp"

namespace gpumat {
namespace reduce {
namespace {

constexpr std::array kRoles = {
    InputRole{.name = "A", .help = "FILE or FILE:/DATASET, '-' for standard input"}};

// In the order of the enumerations.
constexpr auto kReductions =
    std::to_array<std::string_view>({"sum", "min", "max", "absmax", "norm", "mean", "nan-count"});
constexpr auto kAxes = std::to_array<std::string_view>({"all", "rows", "columns"});

/// The place of what was chosen among the choices; the first one where nothing was.
template <std::size_t SIZE>
std::size_t chosen(const Problem& problem, std::string_view name,
                   const std::array<std::string_view, SIZE>& choices) {
    const auto found = problem.choices.find(name);
    if (found == problem.choices.end()) return 0;
    return static_cast<std::size_t>(std::ranges::find(choices, found->second) - choices.begin());
}

template <std::size_t SIZE>
void choose(Problem& problem, const char* name, const std::array<std::string_view, SIZE>& choices,
            const std::string& value) {
    if (std::ranges::find(choices, value) == choices.end()) {
        std::string known;
        for (const std::string_view choice : choices)
            known += (known.empty() ? "" : ", ") + std::string(choice);
        throw Error(ErrorCode::usage, "--" + std::string(name) + " is '" + value + "'; expected " + known);
    }
    problem.choices[name] = value;
}

constexpr std::array kSettings = {
    Setting{.name = "op",
            .help = "sum, min, max, absmax (largest magnitude), norm (root of the sum of squares), mean, "
                    "nan-count",
            .choices = kReductions,
            .fallback = "sum",
            .benched = true,
            .apply = [](const std::string& value,
                        Problem& problem) { choose(problem, "op", kReductions, value); }},
    Setting{
        .name = "axis",
        .help = "all: one number; rows: one for each row; columns: one for each column",
        .choices = kAxes,
        .fallback = "all",
        .benched = true,
        .apply = [](const std::string& value, Problem& problem) { choose(problem, "axis", kAxes, value); }}};

/// Whether there is an answer for no elements at all.
bool has_neutral(Reduction reduction) {
    return reduction != Reduction::min && reduction != Reduction::max && reduction != Reduction::mean;
}

constexpr std::int64_t kWordBytes = 4;  // what unfinished results are counted in

Shape result(const Problem& problem) {
    const std::int64_t words = problem.unfinished ? total_bytes(problem) / kWordBytes : 1;
    switch (axis_of(problem)) {
        case Axis::rows:
            return {problem.m, words};
        case Axis::columns:
            return {1, problem.n * words};
        default:
            return {1, words};
    }
}

void fit(const ProblemRequest& request, Problem& problem) {
    const GivenInput& a = *request.inputs[0];
    problem.m = a.shape.rows;
    problem.n = a.shape.cols;
    problem.choices.insert({{"op", "sum"}, {"axis", "all"}});  // those given stay
    const Shape results = result(problem);
    const bool empty = problem.m == 0 || problem.n == 0;
    if (empty && results.rows > 0 && results.cols > 0 && !has_neutral(reduction_of(problem))) {
        throw Error(ErrorCode::input, a.described + ", and no elements have no " + problem.choices["op"] +
                                          "; expected at least one");
    }
}

std::optional<Shape> input(const Problem& problem, std::size_t) {
    return Shape{problem.m, problem.n};
}

Type unsigned_of(Type type) {
    constexpr auto kDistance = static_cast<int>(Type::u8) - static_cast<int>(Type::i8);
    return type < Type::u8 ? static_cast<Type>(static_cast<int>(type) + kDistance) : type;
}

Type type_of_result(const Problem& problem) {
    if (problem.unfinished) return Type::u32;
    const Type type = problem.type;
    const Type wide = is_complex(type) ? Type::c128 : Type::f64;
    switch (reduction_of(problem)) {
        case Reduction::sum:
            if (!is_integer(type)) return wide;
            return type < Type::u8 ? Type::i64 : Type::u64;
        case Reduction::mean:
            return wide;
        case Reduction::norm:
            return Type::f64;
        case Reduction::absmax:
            if (is_complex(type)) return Type::f64;
            return is_integer(type) ? unsigned_of(type) : type;
        case Reduction::nan_count:
            return Type::u64;
        default:
            return type;
    }
}

double bytes(const Problem& problem) {
    const Shape results = result(problem);
    const double stored =
        problem.is_sparse()
            ? static_cast<double>(csr_bytes({problem.m, problem.n}, problem.type, problem.entries.front()))
            : static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                  static_cast<double>(size_of(problem.type));
    return stored + static_cast<double>(results.rows) * static_cast<double>(results.cols) *
                        static_cast<double>(size_of(type_of_result(problem)));
}

Shape matrix(const Problem& problem) {
    return {problem.m, problem.n};
}

/// A block of the matrix. It shares its results with those before and after it on the axes that are reduced.
ProblemPart part(const Problem& problem, const Block& block) {
    ProblemPart found = {problem, {block}, block};
    found.problem.m = block.rows;
    found.problem.n = block.cols;
    if (axis_of(problem) != Axis::rows) {
        found.result.row = 0;
        found.result.rows = 1;
        found.is_first = block.row == 0;
        found.is_last = block.row + block.rows == problem.m;
    }
    if (axis_of(problem) != Axis::columns) {
        found.result.col = 0;
        found.result.cols = 1;
        found.is_first = found.is_first && block.col == 0;
        found.is_last = found.is_last && block.col + block.cols == problem.n;
    }
    found.problem.unfinished = found.shares_result();
    return found;
}

std::vector<Level> levels() {
    return all_levels({gpu::levels(), cpu::levels()});
}

std::vector<Level> sparse_levels() {
    return all_levels({cpu::sparse::levels()});
}

/// What is sparse is reduced so, to a dense result.
Structure structure(const Problem&, const std::array<Storage, kMostInputs>& stored) {
    return {.inputs = stored};
}

std::vector<Preference> preference(const Problem& problem, const Device& device) {
    if (problem.is_sparse()) return cpu::sparse::preference();
    if (device.kind == DeviceKind::gpu) return {{"shuffle", "it reads at the speed of the memory"}};
    return {{"vectorized", "it is the fastest on the CPU"}};
}

}  // namespace

Reduction reduction_of(const Problem& problem) {
    return static_cast<Reduction>(chosen(problem, "op", kReductions));
}

Axis axis_of(const Problem& problem) {
    return static_cast<Axis>(chosen(problem, "axis", kAxes));
}

double elements_of(const Problem& problem) {
    const auto rows = static_cast<double>(problem.m);
    const auto cols = static_cast<double>(problem.n);
    switch (axis_of(problem)) {
        case Axis::rows:
            return cols;
        case Axis::columns:
            return rows;
        default:
            return rows * cols;
    }
}

Reasons reduction_reasons(const Problem& problem) {
    const Reduction reduction = reduction_of(problem);
    const bool ordered = reduction == Reduction::min || reduction == Reduction::max;
    if (!ordered || !is_complex(problem.type)) return {};
    return {"complex numbers have no order; absmax compares their magnitudes"};
}

}  // namespace reduce

constinit const Operation kReduce = {
    .name = "reduce",
    .summary = "reduce a stored matrix to a number, or to one for each row or column",
    .examples =
        "  gpumat reduce A.h5 --op norm\n"
        "  gpumat reduce A.h5 --op mean --axis columns -o means.h5\n"
        "  gpumat reduce A.mtx --op nan-count --json",
    .verify_example = "gpumat verify reduce A.h5 sums.h5 --op sum --axis rows",
    .roles = reduce::kRoles,
    .settings = reduce::kSettings,
    .extents = 2,
    .size_example = "1000x3000",
    .bench_size = "8192",
    .rate = Rate::bandwidth,
    .yardstick = "read",
    .dataset = "/R",
    .answers = true,
    .fit = reduce::fit,
    .input = reduce::input,
    .result = reduce::result,
    .result_type = reduce::type_of_result,
    .bytes = reduce::bytes,
    .cut = reduce::matrix,
    .part = reduce::part,
    .combination = &reduce::kCombination,
    .levels = reduce::levels,
    .sparse_levels = reduce::sparse_levels,
    .structure = reduce::structure,
    .preference = reduce::preference,
    .check = &reduce::kCheck};

}  // namespace gpumat
