#pragma once

#include <cstdint>
#include <vector>

#include "core/sparse/csr.hpp"
#include "kernels/reduce/accumulators.hpp"

// What levels for sparse matrices share: what zeros that are not stored add, and the totals of columns.

namespace gpumat::reduce::cpu::sparse {

/// Takes the zeros among so many elements of which so many are stored: as often as it may be, a zero adds
/// what the first one does.
template <class A>
void add_zeros(std::int64_t stored, double elements, const Mirror& mirror, typename A::Total& total) {
    if (static_cast<double>(stored) >= elements) return;
    using Element = typename A::Element;
    const typename PartOf<Element>::Type zero[2] = {};  // both parts of a complex number
    ScalarRun<A> run;
    run.add(element_at<A>(reinterpret_cast<const Element*>(zero), mirror));
    total.take(run);
}

/// A column, as some rows leave it.
template <class A>
struct Column {
    typename A::Total total{};
    ScalarRun<A> run{};
    std::int64_t entries = 0;

    void add(const typename A::Element* from, const Mirror& mirror) {
        run.add(element_at<A>(from, mirror));
        if (++entries % kLongestRun != 0) return;
        total.take(run);
        run = {};
    }
    void take(Column& other) {
        total.take(other.run);
        total.take(other.total);
        entries += other.entries;
    }
};

/// Takes the entries from `begin` up to `end` into the columns, in their order.
template <class A>
void add_to_columns(const Operand& a, std::int64_t begin, std::int64_t end, const Mirror& mirror,
                    Column<A>* columns) {
    visit_index({a.rows, a.cols}, [&]<class I>(TypeTag<I>) {
        const I* const column_of = static_cast<const I*>(a.columns);
        const auto* const values = a.as<typename A::Element>();
        for (std::int64_t at = begin; at < end; ++at) columns[column_of[at]].add(values + at, mirror);
    });
}

template <class A>
void store_column(Column<A>& column, std::int64_t at, const Results& results) {
    column.total.take(column.run);
    add_zeros<A>(column.entries, results.ending.elements, results.ending.mirror, column.total);
    results.store(at, column.total);
}

/// At least as many bytes as any column has.
inline constexpr std::uint64_t kColumnBytes = 112;

}  // namespace gpumat::reduce::cpu::sparse
