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

/// Elements that are compared together: those of either matrix, and where they are.
class MergedElements {
  public:
    MergedElements(const CsrView& x, const CsrView& y, const CompareOptions& options)
        : x_(x), y_(y), options_(options), compare_(x.type, y.type, options.tolerance, options.most_listed) {
        places_.reserve(kTogether);
        x_values_.resize(kTogether * size_of(x.type));
        y_values_.resize(kTogether * size_of(y.type));
    }

    template <class I>
    void add_row(std::int64_t row) {
        merge_row<I>(x_, y_, row, [&](std::int64_t col, std::int64_t at_x, std::int64_t at_y) {
            put(x_, at_x, x_values_);
            put(y_, at_y, y_values_);
            places_.push_back({row, col});
            if (places_.size() == kTogether) compare();
        });
    }

    /// What all rows gave, in their order.
    ElementFindings finish() {
        compare();
        return std::move(found_);
    }

  private:
    static constexpr std::size_t kTogether = 1 << 14;

    void put(const CsrView& matrix, std::int64_t at, std::vector<std::byte>& values) const {
        const std::size_t size = size_of(matrix.type);
        std::byte* const to = values.data() + places_.size() * size;
        if (at < 0)
            std::memset(to, 0, size);
        else
            std::memcpy(to, matrix.values + static_cast<std::size_t>(at) * size, size);
    }

    /// As one row of elements, which then get the places that they have.
    void compare() {
        const auto count = static_cast<std::int64_t>(places_.size());
        ElementFindings some =
            compare_.compare(x_values_.data(), y_values_.data(), {0, 0, 1, count}, 0, count, nullptr);
        for (auto* largest : {&some.largest_absolute, &some.largest_relative, &some.largest_ulps})
            if (*largest) move_to_place(**largest);
        for (Difference& difference : some.first) move_to_place(difference);
        found_.merge(some, options_.most_listed);
        places_.clear();
    }

    void move_to_place(Difference& difference) const {
        const Element& place = places_[static_cast<std::size_t>(difference.col)];
        difference.row = place.row;
        difference.col = place.col;
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
            for (std::int64_t row = begin; row < end; ++row) merged.add_row<I>(row);
        });
        pieces[static_cast<std::size_t>(begin / together)] = merged.finish();
    });
    ElementFindings found;
    for (const ElementFindings& piece : pieces) found.merge(piece, options.most_listed);
    return found;
}

}  // namespace gpumat
