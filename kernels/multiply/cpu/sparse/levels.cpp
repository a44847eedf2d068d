#include "kernels/multiply/cpu/sparse/levels.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/numbers/whole.hpp"
#include "core/sparse/csr.hpp"
#include "kernels/common/graphblas.hpp"
#include "kernels/common/vector_width.hpp"
#include "kernels/multiply/cpu/sparse/pieces.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/tiled.hpp"
#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

/// i8 is summed up in i32.
Arithmetic sparse_arithmetic(const Problem& problem) {
    return plain_arithmetic(problem.type == Type::i8 ? Type::i32 : problem.type);
}

Reasons sparse_unsupported(const Problem& problem, const Operands&, const Device&) {
    return result_reasons(problem);
}

Reasons tiled_unsupported(const Problem& problem, const Operands&, const Device&) {
    return vector_reasons(problem, result_reasons(problem));
}

std::uint64_t times(std::int64_t count, std::int64_t more, std::size_t each) {
    const double bytes = static_cast<double>(count) * static_cast<double>(more) * static_cast<double>(each);
    constexpr double kMost = 0x1p62;
    return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

/// What an element is summed up in.
std::size_t sum_bytes(const Problem& p) {
    return std::max(size_of(p.type), sizeof(float));
}

std::uint64_t row_bytes(const Problem& p, int threads) {
    return saturating_add(PlainOperands::bytes(p, threads), times(p.n, threads, sum_bytes(p)));
}

std::uint64_t serial_bytes(const Problem& p, int) {
    return row_bytes(p, 1);
}

/// Rows that are cut are those of A.
std::uint64_t parts_bytes(const Problem& p, int threads) {
    if (p.structure.inputs[0] == Storage::dense)
        return saturating_add(PlainOperands::bytes(p, threads), panels_bytes(p, threads));
    return saturating_add(row_bytes(p, threads), times(most_parts(p.m, p.entries[0]), p.n, sum_bytes(p)));
}

/// A row of C has no more entries than B and D have, and than it has columns. Twice that is held of one, with
/// what sorting takes; a table has up to four times as many places.
std::uint64_t table_bytes(const Problem& p, int threads) {
    const std::size_t each = 4 * (sum_bytes(p) + 2 * sizeof(std::int64_t));
    const std::uint64_t entries =
        saturating_add(static_cast<std::uint64_t>(p.entries[1]), static_cast<std::uint64_t>(p.entries[2]));
    const std::uint64_t most = std::min(entries, static_cast<std::uint64_t>(p.n));
    return saturating_add(PlainOperands::bytes(p, threads),
                          times(static_cast<std::int64_t>(most), threads, each));
}

Reasons vendor_unsupported(const Problem& problem, const Operands&, const Device&) {
    Reasons reasons;
    if (std::string why = graphblas::why_missing(); !why.empty()) reasons.push_back(std::move(why));
    if (!problem.alpha.is_one(problem.type) || !problem.beta.is_zero(problem.type))
        reasons.emplace_back("GraphBLAS multiplies without factors, and adds no matrix");
    return reasons;
}

/// Copies of what is known before the product is.
std::uint64_t vendor_bytes(const Problem& p, int) {
    const auto bytes = [&](const Shape& shape, Storage storage, std::int64_t entries) {
        return storage == Storage::csr ? graphblas::copy_bytes(shape, p.type, entries)
                                       : times(shape.rows, shape.cols, size_of(p.type));
    };
    const std::uint64_t factors =
        saturating_add(bytes(*p.operation->input(p, 0), p.structure.inputs[0], p.entries[0]),
                       bytes(*p.operation->input(p, 1), p.structure.inputs[1], p.entries[1]));
    return saturating_add(factors, bytes({p.m, p.n}, p.structure.result, p.result_entries));
}

std::uint64_t expand_bytes(const Problem& p, int) {
    return table_bytes(p, 1);
}

}  // namespace

std::span<const Level> levels() {
    constexpr const Operation* op = &kMultiply;
    constexpr auto device = DeviceKind::cpu;
    constexpr auto dense = Storage::dense;
    constexpr auto csr = Storage::csr;
    static constexpr std::array kTypes = {Type::f32,  Type::f64, Type::c64, Type::c128, Type::f16,
                                          Type::bf16, Type::i32, Type::i64, Type::u64,  Type::i8};
    static constexpr std::array kOneSparse = {Structure{{csr, dense, dense}, dense},
                                              Structure{{dense, csr, dense}, dense}};
    static constexpr std::array kFirstSparse = {kOneSparse[0]};
    static constexpr std::array kBothSparse = {Structure{{csr, csr, csr}, csr}};
    static constexpr std::array kAllSparse = {kOneSparse[0], kOneSparse[1], kBothSparse[0]};
    static constexpr std::array kVendorTypes = {Type::f32, Type::f64, Type::c64, Type::c128,
                                                Type::i32, Type::i64, Type::u64};

    static const std::array kLevels = {
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "serial",
              .summary = "one thread adds to a row of C what each entry of the sparse matrix gives to it",
              .removes = "nothing: the plain loop to beat",
              .needs = {.types = kTypes, .structures = kOneSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = sparse_unsupported,
              .workspace = serial_bytes,
              .prepare = prepare_serial},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "rows",
              .summary = "the same, with the rows of C shared out among all threads",
              .removes = "one core's limit on outstanding cache misses",
              .needs = {.types = kTypes, .structures = kOneSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = sparse_unsupported,
              .workspace = row_bytes,
              .prepare = prepare_rows},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "merge",
              .summary = "shares of equally many rows and entries of a sparse A; long rows are cut",
              .removes = "threads that wait for the one with the longest rows",
              .needs = {.types = kTypes, .structures = kFirstSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = sparse_unsupported,
              .workspace = parts_bytes,
              .prepare = prepare_merge},
        Level{.operation = op,
              .device = device,
              .number = 4,
              .name = "tiled",
              .summary = "sums in vector registers, rows of B prefetched, C written around the caches",
              .removes = "a load and a store of a sum for every product, and waiting for rows of B",
              .needs = {.types = kTypes, .structures = kOneSparse},
              .parameters = vector_parameters(),
              .arithmetic = sparse_arithmetic,
              .unsupported = tiled_unsupported,
              .workspace = parts_bytes,
              .prepare = prepare_tiled},
        Level{.operation = op,
              .device = device,
              .number = 1,
              .name = "expand",
              .summary = "one thread writes the products of a row, sorts them by column, and adds up",
              .removes = "nothing: the plain way to beat",
              .needs = {.types = kTypes, .structures = kBothSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = sparse_unsupported,
              .workspace = expand_bytes,
              .prepare = prepare_expand},
        Level{.operation = op,
              .device = device,
              .number = 2,
              .name = "hash",
              .summary = "a table of sums for each row, which is counted first, on all threads",
              .removes = "sorting all products, most of which go into the sums of others",
              .needs = {.types = kTypes, .structures = kBothSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = sparse_unsupported,
              .workspace = table_bytes,
              .prepare = prepare_hash},
        Level{.operation = op,
              .device = device,
              .number = 3,
              .name = "binned",
              .summary = "rows of few products merged, of many by a sum for each column, others in tables",
              .removes = "a search for each product of rows that are short, or nearly full",
              .needs = {.types = kTypes, .structures = kBothSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = sparse_unsupported,
              .workspace = table_bytes,
              .prepare = prepare_binned},
        Level{.operation = op,
              .device = device,
              .role = Role::vendor,
              .name = "vendor",
              .summary = "SuiteSparse:GraphBLAS, loaded at run time",
              .removes = "nothing: what one would call instead",
              .needs = {.types = kVendorTypes, .structures = kAllSparse},
              .arithmetic = sparse_arithmetic,
              .unsupported = vendor_unsupported,
              .workspace = vendor_bytes,
              .prepare = prepare_vendor},
    };
    return kLevels;
}

std::vector<Preference> preference(const Problem& problem, const Device&) {
    if (problem.structure.result == Storage::csr) return {{"binned", "it is the fastest on the CPU"}};
    return {{"tiled", "it is the fastest on the CPU"}};
}

}  // namespace gpumat::multiply::cpu::sparse
