// multiply of a dense and a sparse matrix, CPU level `tiled`: panels of rows of C, as high as a cache line of
// sums is long.
//
// Since `rows`: an entry of B is read once for a panel, not once for a row, and the sums of its column in all
// rows of the panel are one cache line, which one vector instruction or a few update. Traffic: all of B for
// each panel, and a line of sums for each of its entries. What limits it: those lines, where the n of them do
// not fit the cache.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/multiply/cpu/sparse/levels.hpp"
#include "kernels/multiply/cpu/sparse/plain_operands.hpp"
#include "kernels/multiply/cpu/sparse/row_sums.hpp"
#include "kernels/multiply/cpu/sparse/tiled.hpp"

namespace gpumat::multiply::cpu::sparse {
namespace {

constexpr std::int64_t kLine = 64;

template <class T>
inline constexpr std::int64_t kPanelRows = kLine / static_cast<std::int64_t>(sizeof(Sum<T>));

/// The sums of each column in all rows of the panel follow each other.
template <bool kShort, class T>
void multiply_panel(const Problem& p, const Operands& operands, std::int64_t first, Sum<T>* sums) {
    constexpr std::int64_t kRows = kPanelRows<T>;
    const std::int64_t rows = std::min(kRows, p.m - first);
    const std::int64_t row = p.transpose_a ? 1 : operands.a.pitch;
    const std::int64_t step = p.transpose_a ? operands.a.pitch : 1;
    const T* const a = operands.a.as<T>() + first * row;
    const T* const values = operands.b.as<T>();
    const Columns<kShort> columns(operands.b);
    std::fill_n(sums, p.n * kRows, Sum<T>{});
    for (std::int64_t k = 0; k < p.k; ++k) {
        Sum<T> factors[kRows] = {};
        for (std::int64_t r = 0; r < rows; ++r) factors[r] = static_cast<Sum<T>>(a[r * row + k * step]);
        for (std::int64_t at = operands.b.pointers[k]; at < operands.b.pointers[k + 1]; ++at) {
            const auto value = static_cast<Sum<T>>(values[at]);
            Sum<T>* const line = sums + columns[at] * kRows;
            for (std::int64_t r = 0; r < kRows; ++r) line[r] = multiply_add(factors[r], value, line[r]);
        }
    }
    const Epilogue<T> finish(p, operands);
    Result<T>* const c = operands.c.as<Result<T>>();
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t j = 0; j < p.n; ++j)
            c[(first + r) * operands.c.pitch + j] = finish(sums[j * kRows + r], first + r, j);
    }
}

}  // namespace

std::uint64_t panels_bytes(const Problem& p, int threads) {
    constexpr double kMost = 0x1p62;
    const double bytes = static_cast<double>(p.n) * static_cast<double>(kLine) * threads;
    return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

Launch prepare_panels(const Problem& problem, const Operands& operands, const Device& device) {
    const auto plain = std::make_shared<PlainOperands>(problem, operands, device);
    return {.level = "tiled",
            .run =
                [plain, threads = device.threads](Stream) {
                    const Problem& p = plain->problem();
                    const Operands& all = plain->make();
                    visit_product(p, [&]<bool kShort, class T>() {
                        constexpr std::int64_t kRows = kPanelRows<T>;
                        const std::int64_t panels = p.m / kRows + (p.m % kRows == 0 ? 0 : 1);
                        const std::int64_t share = std::max<std::int64_t>(1, panels / (8 * threads));
                        parallel_for(panels, share, threads, [&](std::int64_t begin, std::int64_t end) {
                            Buffer sums(static_cast<std::size_t>(p.n * kLine));
                            for (std::int64_t panel = begin; panel < end; ++panel)
                                multiply_panel<kShort, T>(p, all, panel * kRows,
                                                          reinterpret_cast<Sum<T>*>(sums.data()));
                        });
                    });
                },
            .details = {}};
}

}  // namespace gpumat::multiply::cpu::sparse
