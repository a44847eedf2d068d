// transpose of sparse matrices, CPU level `serial`: one thread counts the entries of each column, and then
// puts every entry where the next one of its column belongs.
//
// Traffic: the columns are read twice, the values once, and each entry is written once to a place of its own:
// the row, the value and the next place of the column are a cache line each. What limits it: those misses, on
// one core.
#include "kernels/transpose/cpu/sparse/entries.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"

namespace gpumat::transpose::cpu::sparse {
namespace {

template <class I, class T>
void scatter(const Operand& in, const MutableOperand& out) {
    const I* const columns = static_cast<const I*>(in.columns);
    I* const rows = static_cast<I*>(out.columns);
    std::int64_t* const starts = out.pointers;
    std::fill_n(starts, out.rows + 1, 0);
    for (std::int64_t at = 0; at < in.entries; ++at) ++starts[columns[at]];
    starts[out.rows] = add_up(starts, out.rows, 0);
    for_each_entry(in, 0, in.entries, [&](std::int64_t row, std::int64_t at) {
        const std::int64_t place = starts[columns[at]]++;
        rows[place] = static_cast<I>(row);
        out.as<T>()[place] = in.as<T>()[at];
    });
    if (out.rows > 0) move_back(starts, out.rows, 0);
}

}  // namespace

Launch prepare_serial(const Problem& problem, const Operands& operands, const Device&) {
    return {.level = "serial", .run = [problem, operands](Stream) {
                visit_entries(problem, [&]<class I, class T>(TypeTag<I>, TypeTag<T>) {
                    scatter<I, T>(operands.a, operands.c);
                });
            }};
}

}  // namespace gpumat::transpose::cpu::sparse
