#include "formats/hdf5/read/sparse.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "core/sparse/rows_of_columns.hpp"
#include "formats/sparse_block.hpp"

namespace gpumat::formats::hdf5 {
namespace {

Type type_of_indices(const Shape& shape) {
    return has_short_indices(shape) ? Type::i32 : Type::i64;
}

/// The type of the numbers that are stored of a value.
Type type_of_parts(const Sparse& sparse, Type type) {
    if (!sparse.pairs) return type;
    return type == Type::c64 ? Type::f32 : Type::f64;
}

template <class I>
I* numbers_in(Buffer& memory) {
    return reinterpret_cast<I*>(memory.data());
}

template <class I>
std::span<const I> numbers_in(const Buffer& memory, std::int64_t count) {
    return {reinterpret_cast<const I*>(memory.data()), static_cast<std::size_t>(count)};
}

/// What is gone through in its order needs no huge pages, and where a machine gives free ones back to its
/// host they are dear. A hint, which may be refused.
void use_small_pages(Buffer& memory) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    if (memory.size() >= 2 * kHugePage) madvise(memory.data(), memory.size(), MADV_NOHUGEPAGE);
}

/// "FILE:/X/indices[7]"
std::string place_in(const Source& part, std::size_t position) {
    return part.name + "[" + std::to_string(position) + "]";
}

}  // namespace

std::optional<std::int64_t> most_entries(const Source& source) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const auto* sparse = std::get_if<Sparse>(&source.where);
    if (sparse == nullptr) return {};
    if (!sparse->symmetric) return source.entries;
    return source.entries > kMost / 2 ? kMost : 2 * source.entries;
}

SparseReader::SparseReader(const Source& source, const ReadOptions& options, Type type)
    : source_(source),
      sparse_(std::get<Sparse>(source.where)),
      most_entries_(*most_entries(source)),
      options_(options),
      type_(type) {
    if (sparse_.pairs && !is_complex(type))
        throw Error(ErrorCode::input, source.name +
                                          ": its numbers are complex, expected a complex type in place of " +
                                          std::string(name_of(type)));
    const Type index = type_of_indices(source.stored);
    lines_ = open(sparse_.lines, sparse_.compressed ? Type::i64 : index);
    if (sparse_.values == nullptr) return;
    indices_ = open(sparse_.indices, index);
    values_ = open(sparse_.values, type_of_parts(sparse_, type));
}

std::unique_ptr<DenseReader> SparseReader::open(const std::shared_ptr<const Source>& part, Type type) const {
    const Session session;
    return std::make_unique<DenseReader>(*part, options_, type);
}

std::uint64_t SparseReader::open_bytes() const {
    if (rows_ && !options_.memory_limit) return 0;
    return to_csr_bytes(source_.stored, type_, most_entries_);
}

std::uint64_t SparseReader::working_bytes() const {
    std::uint64_t most = 0;
    for (const auto* reader : {&lines_, &indices_, &values_})
        if (*reader) most = std::max(most, (*reader)->open_bytes() + (*reader)->working_bytes());
    return most;
}

void SparseReader::set_spare(std::uint64_t bytes) {
    for (auto* reader : {&lines_, &indices_, &values_})
        if (*reader) (*reader)->set_spare(bytes);
}

void SparseReader::require_bytes(std::uint64_t bytes) const {
    require_memory(
        saturating_add(bytes, working_bytes()), options_.memory_limit,
        source_.name + ": reading a sparse matrix of " + std::to_string(source_.entries) + " entries");
}

Buffer SparseReader::read_part(const Source& part, DenseReader& reader, Type type, std::int64_t room) {
    Buffer numbers(static_cast<std::size_t>(room) * size_of(type));
    use_small_pages(numbers);
    reader.read(Block::whole(part.stored), {type, part.stored, part.stored.cols, numbers.data()});
    return numbers;
}

Buffer SparseReader::read_values(Type type) {
    if (sparse_.values == nullptr) return {};
    const Type part = type_of_parts(sparse_, type);
    const auto wide = type == type_ ? nullptr : open(sparse_.values, part);
    const std::int64_t room = std::max<std::int64_t>(most_entries_, sparse_.one_value ? 1 : 0);
    Buffer values =
        read_part(*sparse_.values, wide ? *wide : *values_, part, sparse_.pairs ? 2 * room : room);
    const std::size_t bytes = size_of(type);
    for (std::int64_t at = 1; sparse_.one_value && at < source_.entries; ++at)
        std::memcpy(values.data() + static_cast<std::size_t>(at) * bytes, values.data(), bytes);
    return values;
}

/// Starts ascend from 0 to the number of entries.
void SparseReader::check_starts(std::span<const std::int64_t> starts) const {
    const Source& part = *sparse_.lines;
    const auto refuse = [&](std::size_t at, const std::string& expected) {
        throw Error(ErrorCode::input,
                    place_in(part, at) + " is " + std::to_string(starts[at]) + ", expected " + expected);
    };
    if (starts.front() != 0) refuse(0, "0, where the first one starts");
    for (std::size_t at = 1; at < starts.size(); ++at) {
        if (starts[at] < starts[at - 1])
            refuse(at, "at least " + std::to_string(starts[at - 1]) + ", as the one before it");
        if (starts[at] > source_.entries)
            refuse(at, "at most " + std::to_string(source_.entries) + ", the entries that there are");
    }
    if (starts.back() != source_.entries)
        refuse(starts.size() - 1, std::to_string(source_.entries) + ", the entries that there are");
}

template <class I>
void SparseReader::check_range(const Source& part, std::span<const I> indices, bool of_columns) const {
    const std::int64_t extent = of_columns ? source_.stored.cols : source_.stored.rows;
    const auto outside = std::ranges::find_if(indices, [&](I index) {
        return static_cast<std::uint64_t>(std::int64_t{index}) >= static_cast<std::uint64_t>(extent);
    });
    if (outside == indices.end()) return;
    const std::string kind = of_columns ? "column" : "row";
    throw Error(ErrorCode::input,
                place_in(part, static_cast<std::size_t>(outside - indices.begin())) + " is " +
                    std::to_string(*outside) + ", expected " +
                    (extent == 0 ? "no entry, as there is no " + kind
                                 : "a " + kind + " from 0 to " + std::to_string(extent - 1)));
}

/// All are in range; whether they increase in each line.
template <class I>
bool SparseReader::check_indices(const Arrays& arrays) const {
    if (sparse_.indices == nullptr) return true;
    const auto indices = numbers_in<I>(arrays.indices, source_.entries);
    if (!sparse_.compressed) {
        check_range<I>(*sparse_.indices, indices, !sparse_.by_columns);
        check_range<I>(*sparse_.lines, numbers_in<I>(arrays.lines, source_.entries), sparse_.by_columns);
        return false;
    }
    using Unsigned = std::make_unsigned_t<I>;
    const auto starts = numbers_in<std::int64_t>(arrays.starts, length_of(*sparse_.lines));
    const auto lines = std::ssize(starts) - 1;
    const auto extent = static_cast<Unsigned>(sparse_.by_columns ? source_.stored.rows : source_.stored.cols);
    std::atomic<bool> outside = false;
    std::atomic<bool> unordered = false;
    constexpr std::int64_t kEntriesAtOnce = 1 << 16;
    const std::int64_t together = 1 + lines / (1 + (source_.entries + lines) / kEntriesAtOnce);
    parallel_for(lines, together, options_.threads, [&](std::int64_t begin, std::int64_t end) {
        // Without a way out of the loops, which then go many indices at a time.
        bool beyond = false;
        bool falls = false;
        for (std::int64_t line = begin; line < end; ++line) {
            const auto first = static_cast<std::size_t>(starts[static_cast<std::size_t>(line)]);
            const auto last = static_cast<std::size_t>(starts[static_cast<std::size_t>(line) + 1]);
            for (std::size_t at = first; at < last; ++at)
                beyond |= static_cast<Unsigned>(indices[at]) >= extent;
            for (std::size_t at = first + 1; at < last; ++at) falls |= indices[at] <= indices[at - 1];
        }
        if (beyond) outside = true;
        if (falls) unordered = true;
    });
    if (outside) check_range<I>(*sparse_.indices, indices, !sparse_.by_columns);
    return !unordered;
}

SparseReader::Arrays SparseReader::read_arrays(Type type) {
    const Type index = type_of_indices(source_.stored);
    Arrays arrays;
    Buffer& lines = sparse_.compressed ? arrays.starts : arrays.lines;
    lines = read_part(*sparse_.lines, *lines_, sparse_.compressed ? Type::i64 : index,
                      sparse_.compressed ? length_of(*sparse_.lines) : most_entries_);
    if (sparse_.compressed) check_starts(numbers_in<std::int64_t>(arrays.starts, length_of(*sparse_.lines)));
    if (sparse_.indices) arrays.indices = read_part(*sparse_.indices, *indices_, index, most_entries_);
    arrays.in_order =
        visit_index(source_.stored, [&]<class I>(TypeTag<I>) { return check_indices<I>(arrays); });
    arrays.values = read_values(type);
    return arrays;
}

/// Adds the entries across the diagonal; how many there are then. All that are stored lie on one side of it.
template <class I>
std::int64_t SparseReader::mirror(Arrays& arrays, std::size_t value_bytes) const {
    I* const lines = numbers_in<I>(arrays.lines);
    I* const indices = numbers_in<I>(arrays.indices);
    std::int64_t count = source_.entries;
    bool below = false;
    for (std::int64_t at = 0; at < source_.entries; ++at) {
        if (lines[at] == indices[at]) continue;
        if (count == source_.entries) below = lines[at] > indices[at];
        if (below != (lines[at] > indices[at]))
            throw Error(ErrorCode::input,
                        place_in(*sparse_.indices, static_cast<std::size_t>(at)) + " is " +
                            std::to_string(indices[at]) + " in line " + std::to_string(lines[at]) +
                            ", expected all entries on the same side of the diagonal, as the "
                            "matrix is symmetric");
        lines[count] = indices[at];
        indices[count] = lines[at];
        std::memcpy(arrays.values.data() + static_cast<std::size_t>(count) * value_bytes,
                    arrays.values.data() + static_cast<std::size_t>(at) * value_bytes, value_bytes);
        ++count;
    }
    return count;
}

Coo SparseReader::entries_in(Arrays arrays, Type type) const {
    return visit_index(source_.stored, [&]<class I>(TypeTag<I>) {
        if (sparse_.compressed) {
            arrays.lines = Buffer(static_cast<std::size_t>(most_entries_) * sizeof(I));
            const auto starts = numbers_in<std::int64_t>(arrays.starts, length_of(*sparse_.lines));
            I* const lines = numbers_in<I>(arrays.lines);
            for (std::size_t line = 0; line + 1 < starts.size(); ++line)
                std::fill(lines + starts[line], lines + starts[line + 1], static_cast<I>(line));
            arrays.starts = Buffer();
        }
        const std::int64_t count = sparse_.symmetric ? mirror<I>(arrays, size_of(type)) : source_.entries;
        if (sparse_.by_columns) std::swap(arrays.lines, arrays.indices);
        return Coo(source_.stored, type, count, std::move(arrays.lines), std::move(arrays.indices),
                   std::move(arrays.values));
    });
}

Csr SparseReader::read_sparse(std::int64_t& duplicates) {
    duplicates = 0;
    const std::uint64_t starts = sparse_.compressed ? csr_bytes({length_of(*sparse_.lines), 0}, type_, 0) : 0;
    require_bytes(saturating_add(to_csr_bytes(source_.stored, type_, most_entries_), starts));
    Arrays arrays = read_arrays(type_);
    if (arrays.in_order && !sparse_.by_columns && !sparse_.symmetric) {
        Csr rows(source_.stored, type_, source_.entries, std::move(arrays.indices), std::move(arrays.values),
                 source_.name);
        std::memcpy(rows.view().pointers, arrays.starts.data(), arrays.starts.size());
        return rows;
    }
    // What that takes beside its result has been counted as the lines of entries.
    const bool few_lines =
        source_.entries / 4 >= source_.stored.rows && source_.entries / 4 >= source_.stored.cols;
    if (arrays.in_order && !sparse_.symmetric && few_lines) {
        const CsrView columns = {type_,
                                 source_.stored.transposed(),
                                 source_.entries,
                                 reinterpret_cast<const std::int64_t*>(arrays.starts.data()),
                                 arrays.indices.data(),
                                 arrays.values.data()};
        return rows_of_columns(columns, options_.threads, source_.name);
    }
    if (!arrays.in_order && sparse_.compressed)
        tell(options_.tell, Severity::detail,
             source_.name + ": its indices are not in order, and are sorted");
    Merged merged;
    Csr rows = to_csr(entries_in(std::move(arrays), type_), options_.threads, source_.name, merged);
    duplicates = merged.duplicates;
    if (!merged.unadded.empty()) {
        const Type wide = is_complex(type_) ? Type::c128 : Type::f64;
        require_bytes(saturating_add(csr_bytes(source_.stored, type_, rows.entries()),
                                     Coo::bytes(source_.stored, wide, most_entries_)));
        add_again(merged.unadded, entries_in(read_arrays(wide), wide), rows.view(), source_.name);
    }
    return rows;
}

void SparseReader::read(const Block& rect, const MutableMatrixView& out) {
    if (rect.rows == 0 || rect.cols == 0) return;  // `out` may point nowhere
    std::int64_t duplicates = 0;
    if (!rows_) rows_ = read_sparse(duplicates);
    put_block(std::as_const(*rows_).view(), rect, out);
}

}  // namespace gpumat::formats::hdf5
