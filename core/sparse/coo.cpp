#include "core/sparse/coo.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/numbers/exact_sum.hpp"
#include "core/numbers/whole.hpp"
#include "core/numbers/zero.hpp"
#include "core/parallel.hpp"
#include "core/sparse/row_sorter.hpp"

namespace gpumat {
namespace {

std::size_t room_bytes(std::int64_t count, std::size_t each, const std::string& what) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (static_cast<std::uint64_t>(count) > kMost / each)
        throw Error(ErrorCode::memory, what + " passes the memory that can be addressed");
    return static_cast<std::size_t>(count) * each;
}

/// Where a share begins of those into which entries are divided.
std::int64_t begin_of_share(std::int64_t entries, std::int64_t share, std::int64_t shares) {
    return entries / shares * share + std::min(share, entries % shares);
}

/// Entries in the order of their rows, and within a row in the order in which they came.
template <class I, class T>
Csr in_order_of_rows(Coo from, int threads, const std::string& what) {
    const std::int64_t count = from.entries();
    const I* const rows = from.rows_as<I>();
    if (std::is_sorted(rows, rows + count)) {
        Buffer columns = from.take_columns();
        Csr sorted(from.shape(), from.type(), count, std::move(columns), from.take_values(), what);
        std::int64_t* const pointers = sorted.view().pointers;
        std::fill_n(pointers, from.shape().rows + 1, 0);
        for (std::int64_t at = 0; at < count; ++at) ++pointers[std::int64_t{rows[at]} + 1];
        for (std::int64_t i = 0; i < from.shape().rows; ++i) pointers[i + 1] += pointers[i];
        return sorted;
    }
    RowSorter<I, T> sorter(from.shape(), from.type(), count, threads, what);
    const auto each_share = [&](const auto& act) {
        parallel_for(threads, 1, threads, [&](std::int64_t share, std::int64_t) {
            act(share, begin_of_share(count, share, threads), begin_of_share(count, share + 1, threads));
        });
    };
    each_share([&](std::int64_t share, std::int64_t begin, std::int64_t end) {
        auto counter = sorter.counter(share);
        for (std::int64_t at = begin; at < end; ++at) counter.add(rows[at]);
    });
    sorter.find_places();
    const I* const columns = from.columns_as<I>();
    const T* const values = reinterpret_cast<const T*>(from.values());
    each_share([&](std::int64_t share, std::int64_t begin, std::int64_t end) {
        auto putter = sorter.putter(share);
        for (std::int64_t at = begin; at < end; ++at) putter.put(rows[at], columns[at], values[at]);
    });
    from = Coo({}, from.type(), 0, {}, {}, {});
    return sorter.finish(threads);
}

/// Sorts the columns of each row, stably; how many entries have the column of the one before them.
template <class I, class T>
std::int64_t sort_columns_of(const MutableCsrView& matrix, int threads) {
    I* const columns = matrix.columns_as<I>();
    T* const values = matrix.values_as<T>();
    std::atomic<std::int64_t> duplicates = 0;
    constexpr std::int64_t kRowsAtOnce = 256;
    parallel_for(matrix.shape.rows, kRowsAtOnce, threads, [&](std::int64_t begin, std::int64_t end) {
        std::vector<std::pair<I, T>> row;
        std::int64_t same = 0;
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = matrix.pointers[i];
            const std::int64_t last = matrix.pointers[i + 1];
            bool increase = true;
            for (std::int64_t at = first + 1; at < last; ++at) increase &= columns[at - 1] < columns[at];
            if (increase) continue;
            if (!std::is_sorted(columns + first, columns + last)) {
                row.clear();
                for (std::int64_t at = first; at < last; ++at) row.emplace_back(columns[at], values[at]);
                std::stable_sort(row.begin(), row.end(),
                                 [](const auto& a, const auto& b) { return a.first < b.first; });
                for (std::int64_t at = first; at < last; ++at)
                    std::tie(columns[at], values[at]) = row[static_cast<std::size_t>(at - first)];
            }
            for (std::int64_t at = first + 1; at < last; ++at) same += columns[at] == columns[at - 1] ? 1 : 0;
        }
        duplicates += same;
    });
    return duplicates;
}

[[noreturn]] void refuse_sum(const Element& element, Type type, const std::string& what) {
    throw Error(ErrorCode::input, what + ": row " + std::to_string(element.row + 1) + ", column " +
                                      std::to_string(element.col + 1) +
                                      ": found entries whose sum passes the range, expected a sum that " +
                                      std::string(name_of(type)) + " can hold");
}

/// One value of those for an element.
template <class T>
T merged_value(std::span<const T> values, const Element& element, Type type, const std::string& what,
               Merged& merged) {
    if constexpr (std::is_same_v<T, Wide<T>>) {
        std::vector<T> terms;
        std::ranges::copy_if(values, std::back_inserter(terms),
                             [](const T& value) { return !is_zero(value); });
        if (terms.empty()) return values.back();
        if (terms.size() == 1) return terms.front();
        T sum{};
        if (add_exactly(terms, sum)) return sum;
        refuse_sum(element, type, what);
    } else {  // what is zero in the type may not have been zero
        merged.unadded.push_back(element);
        return values.front();
    }
}

/// Makes one entry of those that follow each other in the same column.
template <class I, class T>
void merge(Csr& matrix, const std::string& what, Merged& merged) {
    const MutableCsrView all = matrix.view();
    I* const columns = all.columns_as<I>();
    T* const values = all.values_as<T>();
    std::int64_t to = 0;
    for (std::int64_t i = 0; i < all.shape.rows; ++i) {
        const std::int64_t last = all.pointers[i + 1];
        std::int64_t at = std::exchange(all.pointers[i], to);
        while (at < last) {
            const std::int64_t first = at;
            while (at < last && columns[at] == columns[first]) ++at;
            const std::span<const T> same(values + first, static_cast<std::size_t>(at - first));
            const T value =
                same.size() == 1 ? same[0] : merged_value(same, {i, columns[first]}, all.type, what, merged);
            columns[to] = columns[first];
            values[to++] = value;
        }
    }
    all.pointers[all.shape.rows] = to;
    matrix.shorten(to);
}

/// See add_again. The terms of an element follow each other.
template <class I, class T>
void add_terms(const std::vector<Element>& unadded, const Coo& wide, const MutableCsrView& matrix,
               const std::string& what) {
    using W = Wide<T>;
    const W* const values = reinterpret_cast<const W*>(wide.values());
    std::vector<std::pair<std::ptrdiff_t, W>> terms;
    for (std::int64_t at = 0; at < wide.entries(); ++at) {
        const Element element{wide.rows_as<I>()[at], wide.columns_as<I>()[at]};
        const auto found = std::lower_bound(unadded.begin(), unadded.end(), element);
        if (found != unadded.end() && *found == element)
            terms.emplace_back(found - unadded.begin(), values[at]);
    }
    std::ranges::stable_sort(terms, {}, &std::pair<std::ptrdiff_t, W>::first);
    std::vector<W> same;
    for (std::size_t at = 0; at < terms.size(); ++at) {
        same.push_back(terms[at].second);
        if (at + 1 < terms.size() && terms[at + 1].first == terms[at].first) continue;
        const Element& element = unadded[static_cast<std::size_t>(terms[at].first)];
        T sum{};
        if (!add_exactly(same, sum)) refuse_sum(element, matrix.type, what);
        same.clear();
        const I* const columns = matrix.columns_as<I>();
        const I* const place = std::lower_bound(columns + matrix.pointers[element.row],
                                                columns + matrix.pointers[element.row + 1], element.col);
        matrix.values_as<T>()[place - columns] = sum;
    }
}

}  // namespace

Coo::Coo(const Shape& shape, Type type, std::int64_t entries, Buffer rows, Buffer columns, Buffer values)
    : shape_(shape),
      type_(type),
      room_(entries),
      entries_(entries),
      rows_(std::move(rows)),
      columns_(std::move(columns)),
      values_(std::move(values)) {}

Coo::Coo(const Shape& shape, Type type, std::int64_t room, const std::string& what)
    : shape_(shape),
      type_(type),
      room_(room),
      rows_(room_bytes(room, index_bytes(shape), what)),
      columns_(room_bytes(room, index_bytes(shape), what)),
      values_(room_bytes(room, size_of(type), what)) {}

std::uint64_t Coo::bytes(const Shape& shape, Type type, std::int64_t entries) {
    return saturating_add(entry_bytes(shape, type, entries),
                          static_cast<std::uint64_t>(entries) * index_bytes(shape));
}

void Coo::add(const Entries& entries) {
    if (entries.type != type_ || entries.count > room_ - entries_)
        throw std::logic_error("entries of another matrix");
    visit_index(shape_, [&]<class I>(TypeTag<I>) {
        visit_type(type_, [&]<class T>(TypeTag<T>) {
            I* row = reinterpret_cast<I*>(rows_.data()) + entries_;
            I* col = reinterpret_cast<I*>(columns_.data()) + entries_;
            T* value = reinterpret_cast<T*>(values_.data()) + entries_;
            for (const Entry<T>& entry : entries.as<T>()) {
                *row++ = static_cast<I>(entry.row);
                *col++ = static_cast<I>(entry.col);
                *value++ = entry.value;
            }
        });
    });
    entries_ += entries.count;
}

void Coo::add(std::span<const EntryPiece> pieces, int threads) {
    std::vector<std::int64_t> starts;
    for (const EntryPiece& piece : pieces) {
        if (piece.count > room_ - entries_) throw std::logic_error("entries of another matrix");
        starts.push_back(entries_);
        entries_ += piece.count;
    }
    const auto copy = [](Buffer& to, std::int64_t start, const std::byte* from, std::int64_t count,
                         std::size_t each) {
        std::memcpy(to.data() + static_cast<std::size_t>(start) * each, from,
                    static_cast<std::size_t>(count) * each);
    };
    const std::size_t index = index_bytes(shape_);
    parallel_for(static_cast<std::int64_t>(pieces.size()), 1, threads, [&](std::int64_t at, std::int64_t) {
        const EntryPiece& piece = pieces[static_cast<std::size_t>(at)];
        const std::int64_t start = starts[static_cast<std::size_t>(at)];
        if (piece.count == 0) return;
        copy(rows_, start, piece.rows, piece.count, index);
        copy(columns_, start, piece.columns, piece.count, index);
        copy(values_, start, piece.values, piece.count, size_of(type_));
    });
}

Csr sorted_rows(Coo entries, int threads, const std::string& what, std::int64_t& duplicates) {
    return visit_index(entries.shape(), [&]<class I>(TypeTag<I>) {
        return visit_bytes(entries.type(), [&]<class B>(TypeTag<B>) {
            Csr moved = in_order_of_rows<I, B>(std::move(entries), std::max(1, threads), what);
            duplicates = sort_columns_of<I, B>(moved.view(), threads);
            return moved;
        });
    });
}

std::int64_t sort_columns(const MutableCsrView& rows, int threads) {
    return visit_index(rows.shape, [&]<class I>(TypeTag<I>) {
        return visit_bytes(rows.type,
                           [&]<class B>(TypeTag<B>) { return sort_columns_of<I, B>(rows, threads); });
    });
}

void merge_duplicates(Csr& sorted, const std::string& what, Merged& merged) {
    visit_index(sorted.shape(), [&]<class I>(TypeTag<I>) {
        visit_type(sorted.type(), [&]<class T>(TypeTag<T>) { merge<I, T>(sorted, what, merged); });
    });
}

Csr to_csr(Coo entries, int threads, const std::string& what, Merged& merged) {
    Csr sorted = sorted_rows(std::move(entries), threads, what, merged.duplicates);
    if (merged.duplicates > 0) merge_duplicates(sorted, what, merged);
    return sorted;
}

void add_again(const std::vector<Element>& unadded, const Coo& wide, const MutableCsrView& matrix,
               const std::string& what) {
    visit_index(matrix.shape, [&]<class I>(TypeTag<I>) {
        visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
            if constexpr (!std::is_same_v<T, Wide<T>>) add_terms<I, T>(unadded, wide, matrix, what);
        });
    });
}

std::uint64_t to_csr_bytes(const Shape& shape, Type type, std::int64_t entries) {
    return saturating_add(saturating_add(Coo::bytes(shape, type, entries), csr_bytes(shape, type, entries)),
                          row_sorter_bytes(shape, entries));
}

}  // namespace gpumat
