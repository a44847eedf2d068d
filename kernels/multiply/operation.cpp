#include "kernels/multiply/operation.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/scalar.hpp"
#include "kernels/multiply/check/verify_multiply.hpp"
#include "kernels/multiply/cpu/levels.hpp"
#include "kernels/multiply/cpu/sparse/columns.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/sparse/levels.hpp"
#include "kernels/tables.hpp"

namespace gpumat {
namespace multiply {
namespace {

enum : std::size_t { kA, kB, kD };

constexpr std::array kRoles = {
    InputRole{.name = "A", .help = "FILE or FILE:/DATASET of A, '-' for standard input"},
    InputRole{.name = "B", .help = "FILE or FILE:/DATASET of B"},
    InputRole{.name = "D", .help = "FILE or FILE:/DATASET of D, as large as the product", .option = "add"}};

void compute_in(const std::string& value, Problem& problem) {
    if (std::ranges::find(kComputeChoices, value) == kComputeChoices.end())
        throw Error(ErrorCode::usage, "--compute takes tf32, bf16 or f16, not '" + value + "'");
    if (problem.type != Type::f32) {
        throw Error(ErrorCode::usage, "--compute " + value + " is for f32, and the elements are " +
                                          std::string(name_of(problem.type)));
    }
    problem.choices["compute"] = value;
}

constexpr auto kResults = std::to_array<std::string_view>({"i32"});

void choose_result(const std::string& value, Problem& problem) {
    if (value != kResults.front())
        throw Error(ErrorCode::usage,
                    "--result is '" + value + "'; expected " + std::string(kResults.front()));
    if (problem.type != Type::i8) {
        throw Error(ErrorCode::usage, "--result i32 is the result of i8 matrices, and these are " +
                                          std::string(name_of(problem.type)) +
                                          "; expected it without --result");
    }
    problem.choices["result"] = value;
}

constexpr std::array kSettings = {
    Setting{
        .name = "transpose-a", .help = "use A transposed", .flag = &Problem::transpose_a, .benched = true},
    Setting{
        .name = "transpose-b", .help = "use B transposed", .flag = &Problem::transpose_b, .benched = true},
    Setting{.name = "conjugate-a",
            .help = "use A conjugated; with --transpose-a its conjugate transpose",
            .conjugates = kA},
    Setting{.name = "conjugate-b", .help = "use B conjugated", .conjugates = kB},
    Setting{.name = "alpha",
            .help = "factor of the product; 're,im' for complex types",
            .factor = &Problem::alpha,
            .fallback = "1"},
    Setting{.name = "beta",
            .help = "factor of the matrix of --add",
            .factor = &Problem::beta,
            .fallback = "1 where --add is given"},
    Setting{.name = "compute",
            .help = "what f32 factors are rounded to before they are multiplied; sums stay f32",
            .choices = kComputeChoices,
            .fallback = "f32 itself",
            .benched = true,
            .of_levels = true,
            .apply = compute_in},
    Setting{.name = "result",
            .help = "type of C where it is another than that of A and B: i32, for i8",
            .choices = kResults,
            .benched = true,
            .apply = choose_result}};

Shape stored(std::int64_t rows, std::int64_t cols, bool transposed) {
    return transposed ? Shape{cols, rows} : Shape{rows, cols};
}

void fit(const ProblemRequest& request, Problem& problem) {
    const GivenInput& a = *request.inputs[kA];
    const GivenInput& b = *request.inputs[kB];
    const auto& d = request.inputs[kD];
    const Shape left = stored(a.shape.rows, a.shape.cols, problem.transpose_a);
    const Shape right = stored(b.shape.rows, b.shape.cols, problem.transpose_b);
    if (left.cols != right.rows) {
        throw Error(ErrorCode::input, "the shapes do not multiply: " + a.described +
                                          (problem.transpose_a ? " (used transposed)" : "") + " and " +
                                          b.described + (problem.transpose_b ? " (used transposed)" : "") +
                                          "; the inner extents are " + std::to_string(left.cols) + " and " +
                                          std::to_string(right.rows) + ", expected equal");
    }
    problem.m = left.rows;
    problem.n = right.cols;
    problem.k = left.cols;
    if (d && problem.choices.contains("result")) {
        throw Error(
            ErrorCode::usage,
            "--add adds a matrix of the type of A and B, and --result i32 makes C of another; expected "
            "one of them");
    }
    if (d && d->shape != Shape{problem.m, problem.n}) {
        throw Error(ErrorCode::input, d->described + ", and the product is " +
                                          to_string(Shape{problem.m, problem.n}) + "; expected equal shapes");
    }
    // A matrix that is named is added; only an explicit β = 0 leaves it out.
    if (d && !request.names("beta")) problem.beta = Scalar::of(1);
    if (!d && !problem.beta.is_zero(problem.type)) {
        throw Error(ErrorCode::usage, "--beta " + request.settings.find("beta")->second +
                                          " scales the matrix of --add, and none is given");
    }
}

std::optional<Shape> input(const Problem& p, std::size_t role) {
    if (role == kA) return stored(p.m, p.k, p.transpose_a);
    if (role == kB) return stored(p.k, p.n, p.transpose_b);
    return p.beta.is_zero(p.type) ? std::nullopt : std::optional(Shape{p.m, p.n});
}

Shape result(const Problem& p) {
    return {p.m, p.n};
}

Type type_of_result(const Problem& p) {
    return p.choices.contains("result") ? Type::i32 : p.type;
}

Problem without_unread(const Problem& problem) {
    Problem read = problem;
    if (problem.alpha.is_zero(problem.type)) read.k = 0;
    return read;
}

/// A matrix that is read: nothing where it is not.
double stored_bytes(const Problem& p, std::size_t role) {
    const auto shape = input(p, role);
    if (!shape) return 0;
    return p.structure.inputs.at(role) == Storage::csr
               ? static_cast<double>(csr_bytes(*shape, p.type, p.entries.at(role)))
               : static_cast<double>(shape->rows) * static_cast<double>(shape->cols) *
                     static_cast<double>(size_of(p.type));
}

/// Of a sparse result once it is counted.
double sparse_bytes(const Problem& p) {
    const Type type = type_of_result(p);
    const double c =
        p.structure.result == Storage::csr
            ? static_cast<double>(csr_bytes({p.m, p.n}, type, p.result_entries))
            : static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(size_of(type));
    const double factors = without_unread(p).k == 0 ? 0 : stored_bytes(p, kA) + stored_bytes(p, kB);
    return factors + stored_bytes(p, kD) + c;
}

double bytes(const Problem& p) {
    if (p.is_sparse()) return sparse_bytes(p);
    const auto rows = static_cast<double>(p.m);
    const auto cols = static_cast<double>(p.n);
    const auto inner = static_cast<double>(without_unread(p).k);
    const double results = p.beta.is_zero(p.type) ? 1 : 2;
    return (rows * inner + inner * cols) * static_cast<double>(size_of(p.type)) +
           results * rows * cols * static_cast<double>(size_of(type_of_result(p)));
}

double flops(const Problem& p) {
    const double per_step = is_complex(p.type) ? 8 : 2;
    const auto entries = [&](std::size_t role) {
        return without_unread(p).k == 0 ? 0.0 : static_cast<double>(p.entries.at(role));
    };
    const Structure& how = p.structure;
    if (how.result == Storage::csr) return 0;  // only the structure of both tells: flops_of_entries
    if (how.inputs[kA] == Storage::csr) return per_step * entries(kA) * static_cast<double>(p.n);
    if (how.inputs[kB] == Storage::csr) return per_step * entries(kB) * static_cast<double>(p.m);
    return per_step * static_cast<double>(p.m) * static_cast<double>(p.n) *
           static_cast<double>(without_unread(p).k);
}

/// Each entry of op(A) meets those of a row of op(B).
double flops_of_entries(const Problem& p, const Operands& operands) {
    if (p.structure.result != Storage::csr || without_unread(p).k == 0) return flops(p);
    const Operand& a = operands.a;
    const Operand& b = operands.b;
    std::vector<std::int64_t> in_row(static_cast<std::size_t>(p.transpose_b ? p.k : 0));
    const cpu::sparse::Columns<false> a_columns(a);
    const cpu::sparse::Columns<false> b_columns(b);
    for (std::int64_t at = 0; p.transpose_b && at < b.entries; ++at)
        ++in_row[static_cast<std::size_t>(b_columns[at])];
    const auto of_b = [&](std::int64_t row) {
        return p.transpose_b ? in_row[static_cast<std::size_t>(row)] : b.pointers[row + 1] - b.pointers[row];
    };
    double products = 0;
    for (std::int64_t i = 0; i < a.rows; ++i)
        for (std::int64_t at = a.pointers[i]; at < a.pointers[i + 1]; ++at)
            products += static_cast<double>(of_b(p.transpose_a ? i : a_columns[at]));
    return (is_complex(p.type) ? 8 : 2) * products;
}

/// Whole rows of op(A) times whole columns of op(B). Sums are never cut, so that each part can be verified,
/// and is rounded once.
ProblemPart part(const Problem& p, const Block& result) {
    Problem smaller = p;
    smaller.m = result.rows;
    smaller.n = result.cols;
    const Block a =
        p.transpose_a ? Block{0, result.row, p.k, result.rows} : Block{result.row, 0, result.rows, p.k};
    const Block b =
        p.transpose_b ? Block{result.col, 0, result.cols, p.k} : Block{0, result.col, p.k, result.cols};
    const auto d = p.beta.is_zero(p.type) ? std::nullopt : std::optional(result);
    return {smaller, {a, b, d}, result};
}

std::vector<Level> levels() {
    return all_levels({gpu::levels(), cpu::levels()});
}

std::vector<Level> sparse_levels() {
    return all_levels({gpu::sparse::levels(), cpu::sparse::levels()});
}

/// The product of two sparse matrices is sparse, unless a dense one is added to it: B is dense then. A sparse
/// one beside a dense one gives a dense product.
Structure structure(const Problem& p, const std::array<Storage, kMostInputs>& stored) {
    constexpr auto csr = Storage::csr;
    constexpr auto dense = Storage::dense;
    const bool adds_dense = input(p, kD) && stored[kD] == dense;
    if (stored[kA] == csr && stored[kB] == csr && !adds_dense) return {{csr, csr, stored[kD]}, csr};
    if (stored[kA] == csr) return {{csr, dense, dense}, dense};
    return {{dense, stored[kB], dense}, dense};
}

std::vector<Preference> preference(const Problem& problem, const Device& device) {
    const bool on_gpu = device.kind == DeviceKind::gpu;
    if (problem.is_sparse())
        return on_gpu ? gpu::sparse::preference(problem, device) : cpu::sparse::preference(problem, device);
    return on_gpu ? gpu::preference(problem, device) : cpu::preference(problem, device);
}

}  // namespace

Reasons result_reasons(const Problem& problem) {
    if (problem.type != Type::i8 || problem.choices.contains("result")) return {};
    return {"products of i8 do not fit into i8; give --result i32 for sums in i32"};
}

}  // namespace multiply

constinit const Operation kMultiply = {
    .name = "multiply",
    .summary = "multiply two stored matrices: C = alpha op(A) op(B) + beta D",
    .examples =
        "  gpumat multiply A.h5 B.h5 -o C.h5\n"
        "  gpumat multiply A.mtx A.mtx --transpose-a -t f32 --level tiled --verify full\n"
        "  gpumat multiply A.h5 B.h5 --transpose-a --conjugate-a -o C.h5\n"
        "  gpumat multiply A.h5 B.h5 --alpha 2 --beta -1 --add D.h5 -o C.h5 --json",
    .verify_example = "gpumat verify multiply A.h5 B.h5 C.h5 --alpha 2 --beta -1 --add D.h5",
    .roles = multiply::kRoles,
    .settings = multiply::kSettings,
    .extents = 3,
    .size_example = "64x64x65536",
    .bench_size = "1024",
    .rate = Rate::arithmetic,
    .yardstick = "vendor",
    .dataset = "/C",
    .fit = multiply::fit,
    .input = multiply::input,
    .result = multiply::result,
    .result_type = multiply::type_of_result,
    .bytes = multiply::bytes,
    .flops = multiply::flops,
    .flops_of_entries = multiply::flops_of_entries,
    .part = multiply::part,
    .as_read = multiply::without_unread,
    .levels = multiply::levels,
    .sparse_levels = multiply::sparse_levels,
    .structure = multiply::structure,
    .preference = multiply::preference,
    .tunable = &multiply::kTunable,
    .check = &multiply::kCheck};

}  // namespace gpumat
