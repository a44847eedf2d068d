// multiply, CPU level `interchanged`: the loops in i, k, j order on one thread.
//
// Since `naive`: the inner loop runs along a row of B and a row of sums, so it reads in order, the
// compiler makes vector instructions of it, and no addition waits for the one before it. Per
// multiply-add it reads one element of B and reads and writes one sum. The row of sums has the type that
// sums have, so f16 and bf16 round once, at the end. Where B is stored transposed, its row is strided and
// this level is no better than `naive` is with a B that is not. What limits it: all of B comes through the
// cache once for every row of A.
//
// Source of the idea: loop interchange, as in every compiler book.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/levels.hpp"

namespace gpumat::multiply::cpu {
namespace {

template <class T>
void multiply(const Problem& p, const Operands& operands, std::vector<Sum<T>>& sums) {
    if (p.n == 0) return;  // B may be nowhere
    const auto* a = operands.a.as<T>();
    const auto* b = operands.b.as<T>();
    auto* c = operands.c.as<Result<T>>();
    const Epilogue<T> finish(p, operands);
    const std::int64_t a_row = p.transpose_a ? 1 : operands.a.pitch;
    const std::int64_t a_step = p.transpose_a ? operands.a.pitch : 1;
    const std::int64_t ldb = operands.b.pitch;
    Sum<T>* row = sums.data();
    for (std::int64_t i = 0; i < p.m; ++i) {
        std::fill(sums.begin(), sums.end(), Sum<T>{});
        for (std::int64_t k = 0; k < p.k; ++k) {
            const auto factor = static_cast<Sum<T>>(a[i * a_row + k * a_step]);
            if (p.transpose_b) {
                const T* column = b + k;
                for (std::int64_t j = 0; j < p.n; ++j) {
                    row[j] = multiply_add(factor, static_cast<Sum<T>>(column[j * ldb]), row[j]);
                }
            } else {
                const T* line = b + k * ldb;
                for (std::int64_t j = 0; j < p.n; ++j) {
                    row[j] = multiply_add(factor, static_cast<Sum<T>>(line[j]), row[j]);
                }
            }
        }
        for (std::int64_t j = 0; j < p.n; ++j) c[i * operands.c.pitch + j] = finish(row[j], i, j);
    }
}

}  // namespace

Launch prepare_interchanged(const Problem& problem, const Operands& operands, const Device&) {
    Launch launch{.level = "interchanged", .run = {}, .details = {}};
    visit_multiply_type(problem.type, [&]<class T>(TypeTag<T>) {
        auto sums = std::make_shared<std::vector<Sum<T>>>(static_cast<std::size_t>(problem.n));
        launch.run = [problem, operands, sums](Stream) { multiply<T>(problem, operands, *sums); };
    });
    return launch;
}

}  // namespace gpumat::multiply::cpu
