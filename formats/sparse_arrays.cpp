#include "formats/sparse_arrays.hpp"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/error.hpp"
#include "core/sparse/rows_of_columns.hpp"

namespace gpumat::formats {
namespace {

[[noreturn]] void refuse_at(const StoredNumbers& numbers, std::int64_t position, std::int64_t found,
                            const std::string& expected) {
    throw Error(ErrorCode::input, numbers.name + "[" + std::to_string(position) + "] is " +
                                      std::to_string(found) + ", expected " + expected);
}

void read_pieces(const SparseArrays& matrix, const StoredNumbers& numbers, std::int64_t first,
                 std::int64_t count, Type type, std::byte* to) {
    for (std::int64_t at = first;
         at < first + count;) {  // up to the ends of chunks, each of which is read once
        const std::int64_t end = std::min(first + count, (at / matrix.together + 1) * matrix.together);
        numbers.read(at, end - at, type, to + static_cast<std::size_t>(at - first) * size_of(type));
        at = end;
    }
}

void check_index(const SparseArrays& matrix, const StoredNumbers& numbers, std::int64_t position,
                 std::int64_t index, bool of_columns) {
    const std::int64_t extent = of_columns ? matrix.shape.cols : matrix.shape.rows;
    if (index >= 0 && index < extent) return;
    const std::string kind = of_columns ? "column" : "row";
    refuse_at(numbers, position, index,
              extent == 0 ? "no entry, as there is no " + kind
                          : "a " + kind + " from 0 to " + std::to_string(extent - 1));
}

/// A start of a line, after the one before it.
void check_start(const SparseArrays& matrix, std::int64_t at, std::int64_t start, std::int64_t before) {
    if (at == 0 && start != 0) refuse_at(matrix.lines, at, start, "0, where the first one starts");
    if (start < before)
        refuse_at(matrix.lines, at, start, "at least " + std::to_string(before) + ", as the one before it");
    const bool last = at + 1 == matrix.lines.count;
    if (start > matrix.entries || (last && start < matrix.entries))
        refuse_at(matrix.lines, at, start,
                  (last ? "" : "at most ") + std::to_string(matrix.entries) + ", the entries that there are");
}

/// Where lines start, for one who goes through them.
class Starts {
  public:
    explicit Starts(const SparseArrays& matrix) : matrix_(matrix) {}

    /// That of a line, of those behind the one that was asked for before or that one. All are looked at.
    std::int64_t of(std::int64_t line) {
        while (line >= first_ + std::ssize(some_)) load(first_ + std::ssize(some_));
        return some_[static_cast<std::size_t>(line - first_)];
    }

  private:
    void load(std::int64_t line) {
        first_ = line;
        some_.resize(static_cast<std::size_t>(std::min(matrix_.together, matrix_.lines.count - line)));
        matrix_.lines.read(line, std::ssize(some_), Type::i64, reinterpret_cast<std::byte*>(some_.data()));
        for (const std::int64_t start : some_) {
            check_start(matrix_, line++, start, before_);
            before_ = start;
        }
    }

    const SparseArrays& matrix_;
    std::vector<std::int64_t> some_;
    std::int64_t first_ = 0;
    std::int64_t before_ = 0;
};

/// The line of each entry, for one who goes through them.
class LinesOfEntries {
  public:
    explicit LinesOfEntries(const SparseArrays& matrix) : matrix_(matrix), starts_(matrix) {}

    /// Those of entries behind those that were asked for before.
    void of(std::int64_t first, std::int64_t count, std::vector<std::int64_t>& lines) {
        lines.resize(static_cast<std::size_t>(count));
        if (!matrix_.compressed) {
            matrix_.lines.read(first, count, Type::i64, reinterpret_cast<std::byte*>(lines.data()));
            for (std::int64_t at = 0; at < count; ++at)
                check_index(matrix_, matrix_.lines, first + at, lines[static_cast<std::size_t>(at)],
                            matrix_.by_columns);
            return;
        }
        for (std::int64_t at = first; at < first + count; ++at) {
            while (end_ <= at) end_ = starts_.of(++line_ + 1);
            lines[static_cast<std::size_t>(at - first)] = line_;
        }
    }

    /// Looks at the lines without entries at the end, too.
    void finish() {
        if (!matrix_.compressed) return;
        for (std::int64_t line = line_ + 1; line < matrix_.lines.count; ++line) (void)starts_.of(line);
    }

  private:
    const SparseArrays& matrix_;
    Starts starts_;
    std::int64_t line_ = -1;
    std::int64_t end_ = 0;
};

/// All entries lie on one side of the diagonal: which one, the first says that is not on it.
class OneSide {
  public:
    explicit OneSide(const SparseArrays& matrix) : matrix_(matrix) {}

    void check(std::int64_t position, std::int64_t line, std::int64_t index) {
        if (!below_) below_ = line > index;
        if (*below_ == (line > index)) return;
        refuse_at(matrix_.indices, position, index,
                  "(in line " + std::to_string(line) +
                      ") all entries on the same side of the diagonal, as the matrix is symmetric");
    }

  private:
    const SparseArrays& matrix_;
    std::optional<bool> below_;
};

/// The starts of some lines, and where the last one ends, counted from the first.
std::vector<std::int64_t> starts_of(const SparseArrays& matrix, std::int64_t first, std::int64_t count,
                                    std::int64_t& first_entry) {
    std::vector<std::int64_t> starts(static_cast<std::size_t>(count) + 1);
    read_pieces(matrix, matrix.lines, first, count + 1, Type::i64,
                reinterpret_cast<std::byte*>(starts.data()));
    std::int64_t before = 0;
    for (std::int64_t& start : starts) {
        check_start(matrix, first++, start, before);
        before = start;
    }
    first_entry = starts.front();
    for (std::int64_t& start : starts) start -= first_entry;
    return starts;
}

/// Whether the indices of each line increase. All are in range.
template <class I>
bool in_order(const SparseArrays& matrix, const std::vector<std::int64_t>& starts, std::int64_t first_entry,
              const I* indices) {
    using Unsigned = std::make_unsigned_t<I>;
    const auto extent = static_cast<Unsigned>(matrix.by_columns ? matrix.shape.rows : matrix.shape.cols);
    // Without a way out of the loops, which then go many indices at a time.
    bool beyond = false;
    bool falls = false;
    for (std::size_t line = 0; line + 1 < starts.size(); ++line) {
        const std::int64_t end = starts[line + 1];
        for (std::int64_t at = starts[line]; at < end; ++at)
            beyond |= static_cast<Unsigned>(indices[at]) >= extent;
        for (std::int64_t at = starts[line] + 1; at < end; ++at) falls |= indices[at] <= indices[at - 1];
    }
    for (std::int64_t at = 0; beyond && at < starts.back(); ++at)
        check_index(matrix, matrix.indices, first_entry + at, indices[at], !matrix.by_columns);
    return !falls;
}

}  // namespace

std::uint64_t bytes_of_pieces(const SparseArrays& matrix) {
    const std::uint64_t value = size_of(matrix.type);
    const std::uint64_t entry = sizeof(Entry<double>) - sizeof(double) + std::max<std::uint64_t>(value, 8);
    const std::uint64_t numbers = 3 * sizeof(std::int64_t) + value;
    return static_cast<std::uint64_t>(matrix.together) * (numbers + (matrix.symmetric ? 2 : 1) * entry);
}

void give_entries(const SparseArrays& matrix, const std::function<void(const Entries&)>& take) {
    LinesOfEntries lines_of(matrix);
    OneSide side(matrix);
    std::vector<std::int64_t> lines;
    std::vector<std::int64_t> indices;
    visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        std::vector<T> values;
        std::vector<Entry<T>> some;
        for (std::int64_t first = 0; first < matrix.entries; first += matrix.together) {
            const std::int64_t count = std::min(matrix.together, matrix.entries - first);
            lines_of.of(first, count, lines);
            indices.resize(lines.size());
            values.resize(lines.size());
            matrix.indices.read(first, count, Type::i64, reinterpret_cast<std::byte*>(indices.data()));
            matrix.values.read(first, count, matrix.type, reinterpret_cast<std::byte*>(values.data()));
            some.clear();
            for (std::size_t at = 0; at < lines.size(); ++at) {
                const std::int64_t position = first + static_cast<std::int64_t>(at);
                check_index(matrix, matrix.indices, position, indices[at], !matrix.by_columns);
                Entry<T> entry = {lines[at], indices[at], values[at]};
                if (matrix.by_columns) std::swap(entry.row, entry.col);
                some.push_back(entry);
                if (!matrix.symmetric || entry.row == entry.col) continue;
                side.check(position, lines[at], indices[at]);
                some.push_back({entry.col, entry.row, entry.value});
            }
            take({matrix.type, std::ssize(some), some.data()});
        }
    });
    lines_of.finish();
}

std::vector<std::int64_t> count_in_lines(const SparseArrays& matrix, std::int64_t step) {
    Starts starts(matrix);
    std::vector<std::int64_t> counts;
    std::int64_t begin = starts.of(0);
    for (std::int64_t line = 1; line < matrix.lines.count; ++line) {
        const std::int64_t end = starts.of(line);
        if (line % step != 0 && line + 1 != matrix.lines.count) continue;
        counts.push_back(end - begin);
        begin = end;
    }
    return counts;
}

Csr lines_in(const SparseArrays& matrix, const Block& block, std::int64_t& duplicates) {
    duplicates = 0;
    const Shape shape = block.shape();
    const std::int64_t first = matrix.by_columns ? block.col : block.row;
    const std::int64_t count = matrix.by_columns ? block.cols : block.rows;
    std::int64_t first_entry = 0;
    std::vector<std::int64_t> starts = starts_of(matrix, first, count, first_entry);
    const std::int64_t entries = starts.back();
    return visit_index(shape, [&]<class I>(TypeTag<I>) {
        const Type index = sizeof(I) == sizeof(std::int32_t) ? Type::i32 : Type::i64;
        const auto read = [&](const StoredNumbers& numbers, Type type) {
            Buffer to(static_cast<std::size_t>(entries) * size_of(type));
            read_pieces(matrix, numbers, first_entry, entries, type, to.data());
            return to;
        };
        const auto coo = [&](Buffer indices, Type type) {
            Buffer lines(static_cast<std::size_t>(entries) * sizeof(I));
            I* const line_of = reinterpret_cast<I*>(lines.data());
            for (std::size_t line = 0; line + 1 < starts.size(); ++line)
                std::fill(line_of + starts[line], line_of + starts[line + 1], static_cast<I>(line));
            if (matrix.by_columns) std::swap(lines, indices);
            return Coo(shape, type, entries, std::move(lines), std::move(indices), read(matrix.values, type));
        };
        Buffer indices = read(matrix.indices, index);
        const bool ordered =
            in_order(matrix, starts, first_entry, reinterpret_cast<const I*>(indices.data()));
        if (ordered && !matrix.by_columns) {
            Csr rows(shape, matrix.type, entries, std::move(indices), read(matrix.values, matrix.type),
                     matrix.name);
            std::ranges::copy(starts, rows.view().pointers);
            return rows;
        }
        if (ordered && entries / 4 >= shape.rows && entries / 4 >= shape.cols) {
            const Buffer values = read(matrix.values, matrix.type);
            const CsrView columns = {matrix.type,   shape.transposed(), entries,
                                     starts.data(), indices.data(),     values.data()};
            return rows_of_columns(columns, matrix.threads, matrix.name);
        }
        Merged merged;
        Csr rows = to_csr(coo(std::move(indices), matrix.type), matrix.threads, matrix.name, merged);
        duplicates = merged.duplicates;
        if (merged.unadded.empty()) return rows;
        const Type wide = is_complex(matrix.type) ? Type::c128 : Type::f64;
        add_again(merged.unadded, coo(read(matrix.indices, index), wide), rows.view(), matrix.name);
        return rows;
    });
}

}  // namespace gpumat::formats
