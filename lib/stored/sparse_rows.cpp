#include "lib/stored/sparse_rows.hpp"

#include "kernels/registry.hpp"

namespace gpumat {

Csr transposed(const CsrView& matrix, int threads) {
    static const Registry registry = Registry::standard();
    Csr result(matrix.shape.transposed(), matrix.type, matrix.entries, "a transpose");
    const Structure sparse = {.inputs = {Storage::csr}, .result = Storage::csr};
    const Problem problem = {.operation = registry.operation("transpose"),
                             .type = matrix.type,
                             .m = matrix.shape.rows,
                             .n = matrix.shape.cols,
                             .structure = sparse,
                             .entries = {matrix.entries},
                             .result_entries = matrix.entries};
    const Device device = {.threads = threads};
    const Operands operands = {.a = operand_of(matrix), .c = operand_of(result.view())};
    prepare_launch(*registry.choose(problem, device).level, problem, operands, device).run({});
    return result;
}

std::int64_t rows_together(const CsrView& matrix) {
    constexpr std::int64_t kEntries = 1 << 16;
    return 1 + matrix.shape.rows / (1 + (matrix.entries + matrix.shape.rows) / kEntries);
}

}  // namespace gpumat
