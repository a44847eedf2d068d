#include "lib/matrices/compare_sparse.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/parallel.hpp"
#include "core/sparse/coo.hpp"
#include "lib/stored/sparse_rows.hpp"

namespace gpumat {
namespace {

/// Elements at a time.
constexpr std::int64_t kComparedTogether = 1 << 14;

/// Elements that are compared together: those of either matrix, and where they are.
class MergedElements {
  public:
    MergedElements(const CsrView& x, const CsrView& y, const CompareOptions& options)
        : x_(x), y_(y), options_(options), compare_(x.type, y.type, options.tolerance, options.most_listed) {}

    /// Rows whose entries lie in the same places in both: their values are compared where they are.
    template <class I>
    bool add_alike(std::int64_t begin, std::int64_t end) {
        const std::int64_t first_x = x_.pointers[begin];
        const std::int64_t first_y = y_.pointers[begin];
        const std::int64_t count = x_.pointers[end] - first_x;
        if (count != y_.pointers[end] - first_y) return false;
        bool alike = true;
        for (std::int64_t row = begin; row < end; ++row)
            alike &= x_.pointers[row] - first_x == y_.pointers[row] - first_y;
        const I* const columns = x_.columns_as<I>() + first_x;
        if (!alike || !std::equal(columns, columns + count, y_.columns_as<I>() + first_y)) return false;
        for (std::int64_t at = 0; at < count; at += kComparedTogether) {
            const auto place = [&](std::int64_t entry) {
                const std::int64_t* const after =
                    std::upper_bound(x_.pointers + begin, x_.pointers + end, first_x + at + entry);
                return Element{after - x_.pointers - 1, columns[at + entry]};
            };
            compare(value_at(x_, first_x + at), value_at(y_, first_y + at),
                    std::min<std::int64_t>(kComparedTogether, count - at), place);
        }
        return true;
    }

    /// Others are collected first.
    void prepare_rows() {
        places_.reserve(std::size_t{kComparedTogether});
        x_values_.resize(std::size_t{kComparedTogether} * size_of(x_.type));
        y_values_.resize(std::size_t{kComparedTogether} * size_of(y_.type));
    }

    template <class I>
    void add_row(std::int64_t row) {
        merge_row<I>(x_, y_, row, [&](std::int64_t col, std::int64_t at_x, std::int64_t at_y) {
            put(x_, at_x, x_values_);
            put(y_, at_y, y_values_);
            places_.push_back({row, col});
            if (std::ssize(places_) == kComparedTogether) compare_collected();
        });
    }

    /// What all rows gave, in their order.
    ElementFindings finish() {
        compare_collected();
        return std::move(found_);
    }

  private:
    static const std::byte* value_at(const CsrView& matrix, std::int64_t at) {
        return matrix.values + static_cast<std::size_t>(at) * size_of(matrix.type);
    }

    void put(const CsrView& matrix, std::int64_t at, std::vector<std::byte>& values) const {
        const std::size_t size = size_of(matrix.type);
        std::byte* const to = values.data() + places_.size() * size;
        if (at < 0)
            std::memset(to, 0, size);
        else
            std::memcpy(to, value_at(matrix, at), size);
    }

    /// As one row of elements, which then get the places that they have.
    template <class Place>
    void compare(const std::byte* x_values, const std::byte* y_values, std::int64_t count,
                 const Place& place_of) {
        ElementFindings some = compare_.compare(x_values, y_values, {0, 0, 1, count}, 0, count, nullptr);
        const auto move_to_place = [&](Difference& difference) {
            const Element place = place_of(difference.col);
            difference.row = place.row;
            difference.col = place.col;
        };
        for (auto* largest : {&some.largest_absolute, &some.largest_relative, &some.largest_ulps})
            if (*largest) move_to_place(**largest);
        for (Difference& difference : some.first) move_to_place(difference);
        found_.merge(some, options_.most_listed);
    }

    void compare_collected() {
        compare(x_values_.data(), y_values_.data(), std::ssize(places_),
                [&](std::int64_t at) { return places_[static_cast<std::size_t>(at)]; });
        places_.clear();
    }

    const CsrView& x_;
    const CsrView& y_;
    const CompareOptions& options_;
    ElementComparison compare_;
    std::vector<Element> places_;
    std::vector<std::byte> x_values_;
    std::vector<std::byte> y_values_;
    ElementFindings found_;
};

}  // namespace

ElementFindings compare_entries(const CsrView& x, const CsrView& y, const CompareOptions& options) {
    const std::int64_t together = std::min(rows_together(x), rows_together(y));
    std::vector<ElementFindings> pieces(static_cast<std::size_t>((x.shape.rows + together - 1) / together));
    parallel_for(x.shape.rows, together, options.threads, [&](std::int64_t begin, std::int64_t end) {
        MergedElements merged(x, y, options);
        visit_index(x.shape, [&]<class I>(TypeTag<I>) {
            if (merged.add_alike<I>(begin, end)) return;
            merged.prepare_rows();
            for (std::int64_t row = begin; row < end; ++row) merged.add_row<I>(row);
        });
        pieces[static_cast<std::size_t>(begin / together)] = merged.finish();
    });
    ElementFindings found;
    for (const ElementFindings& piece : pieces) found.merge(piece, options.most_listed);
    return found;
}

std::uint64_t bytes_of_collected(Type x, Type y) {
    return std::uint64_t{kComparedTogether} * (sizeof(Element) + size_of(x) + size_of(y));
}

}  // namespace gpumat
