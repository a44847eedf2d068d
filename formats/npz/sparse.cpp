#include "formats/npz/sparse.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/sparse/coo.hpp"
#include "core/sparse/rows_of_columns.hpp"
#include "core/text/printable.hpp"
#include "formats/kept_stream.hpp"
#include "formats/npy/npy.hpp"
#include "formats/sparse_arrays.hpp"
#include "formats/sparse_block.hpp"

namespace gpumat::formats::npz {
namespace {

const Member& member_named(const Archive& archive, const char* name) {
    if (const Member* member = archive.find(name)) return *member;
    refuse(archive.path(), std::string("is a sparse matrix of SciPy without the array '") + name + "'");
}

/// The numbers of an array of one dimension, of that type, in memory.
Buffer numbers_of(const Archive& archive, const Member& member, Type type, const ReadOptions& options) {
    const KeptStream kept(archive.name_of(member), archive.unpack(member, options.memory_limit));
    ReadOptions how = options;
    how.type = type;
    how.as_column = true;
    return kept.named([&] {
        const auto reader = npy::open({kept.path, ""}, how);
        const Shape shape = reader->header().shape;
        Buffer numbers(static_cast<std::size_t>(shape.elements()) * size_of(type));
        reader->read(Block::whole(shape), {type, shape, shape.cols, numbers.data()});
        return numbers;
    });
}

/// The same some at a time, for one thread after the other: from a file without a name, into which the array
/// is unpacked once.
StoredNumbers numbers_on_disk(const std::shared_ptr<const Archive>& archive, const Member& member,
                              const ReadOptions& options) {
    struct OnDisk {
        std::mutex mutex;
        std::shared_ptr<const KeptStream> kept;
        std::unique_ptr<Reader> reader;
    };
    const auto disk = std::make_shared<OnDisk>();
    const auto read = [archive, &member, options, disk](std::int64_t first, std::int64_t count, Type type,
                                                        std::byte* to) {
        const std::lock_guard lock(disk->mutex);
        if (!disk->kept)
            disk->kept =
                std::make_shared<const KeptStream>(archive->name_of(member), archive->unpack(member, 0));
        disk->kept->named([&] {
            if (!disk->reader || disk->reader->header().type != type) {
                ReadOptions how = options;
                how.type = type;
                how.as_column = true;
                disk->reader = npy::open({disk->kept->path, ""}, how);
            }
            disk->reader->read({first, 0, count, 1}, {type, {count, 1}, 1, to});
        });
    };
    return {archive->name_of(member), member.header.shape.front(), read};
}

template <class I>
std::span<const I> numbers_in(const Buffer& memory) {
    return {reinterpret_cast<const I*>(memory.data()), memory.size() / sizeof(I)};
}

/// "csr". NumPy stores text as bytes, or as four bytes a letter.
std::string format_of(const Archive& archive) {
    constexpr std::uint64_t kMostBytes = 4096;
    const Member& member = member_named(archive, "format");
    if (member.bytes > kMostBytes) refuse(archive.name_of(member), "expected the name of a format");
    const Spool spool = archive.unpack(member, {});
    std::string text(static_cast<std::size_t>(member.bytes), '\0');
    if (pread(spool.file.number(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        refuse(archive.name_of(member), "cannot be read");
    text.erase(0, static_cast<std::size_t>(member.header.offset));
    std::erase(text, '\0');
    return text;
}

/// A matrix of SciPy: which arrays are its parts.
struct Parts {
    std::string kind;  ///< "csr"
    Shape shape;
    std::int64_t entries = 0;
    const Member* lines = nullptr;  ///< where each line starts, or the row of each entry
    const Member* indices = nullptr;
    const Member* values = nullptr;

    [[nodiscard]] bool compressed() const { return kind != "coo"; }
    [[nodiscard]] bool by_columns() const { return kind == "csc"; }
    [[nodiscard]] bool is_read() const { return kind == "csr" || kind == "csc" || kind == "coo"; }
};

std::int64_t length_of(const Archive& archive, const Member& member, bool of_integers) {
    const npy::ArrayHeader& array = member.header;
    if (array.shape.size() != 1 || !array.type || (of_integers && !is_integer(*array.type)))
        refuse(archive.name_of(member), "holds elements of NumPy's type '" + printable(array.element) +
                                            "' in " + std::to_string(array.shape.size()) +
                                            " dimensions, expected " +
                                            (of_integers ? "integers" : "numbers") + " in one");
    npy::require_size(array, member.bytes - array.offset, archive.name_of(member));
    return array.shape.front();
}

Parts parts_of(const Archive& archive, const ReadOptions& options) {
    Parts parts;
    parts.kind = format_of(archive);
    const Member& shape = member_named(archive, "shape");
    if (length_of(archive, shape, true) != 2) refuse(archive.name_of(shape), "expected two extents");
    const Buffer extents = numbers_of(archive, shape, Type::i64, options);
    parts.shape = {numbers_in<std::int64_t>(extents)[0], numbers_in<std::int64_t>(extents)[1]};
    if (parts.shape.rows < 0 || parts.shape.cols < 0)
        refuse(archive.name_of(shape), "is " + to_string(parts.shape) + ", expected extents from 0 on");
    parts.values = &member_named(archive, "data");
    if (!parts.is_read()) return parts;
    parts.lines = &member_named(archive, parts.compressed() ? "indptr" : "row");
    parts.indices = &member_named(archive, parts.compressed() ? "indices" : "col");
    parts.entries = length_of(archive, *parts.values, false);
    const auto require_length = [&](const Member& member, std::int64_t expected) {
        const std::int64_t found = length_of(archive, member, true);
        if (found != expected)
            refuse(archive.name_of(member), "has " + std::to_string(found) + " numbers, expected " +
                                                std::to_string(expected) + " for a " + parts.kind +
                                                " matrix of " + to_string(parts.shape) + " with " +
                                                std::to_string(parts.entries) + " entries");
    };
    require_length(*parts.indices, parts.entries);
    const std::int64_t lines = parts.by_columns() ? parts.shape.cols : parts.shape.rows;
    require_length(*parts.lines, parts.compressed() ? static_cast<std::int64_t>(saturating_add(
                                                          static_cast<std::uint64_t>(lines), 1))
                                                    : parts.entries);
    return parts;
}

Header header_of(const Archive& archive, const Parts& parts) {
    Header header;
    header.format = "npz";
    header.source = {archive.path(), ""};
    header.shape = parts.shape;
    header.type = parts.values->header.type.value_or(Type::f64);
    header.file_bytes = archive.bytes();
    header.stored_entries = parts.entries;
    std::string kind = printable(parts.kind);
    if (!parts.is_read()) {
        header.storage = kind + " (SciPy)";
        header.unread = "is a sparse matrix in SciPy's format '" + kind +
                        "', expected csr, csc or coo; scipy.sparse.save_npz(FILE, A.tocsr()) writes one";
        return header;
    }
    for (char& letter : kind) letter = static_cast<char>(letter - 'a' + 'A');
    header.storage = kind + " (SciPy), " + std::to_string(parts.entries) + " entries";
    header.most_entries = parts.entries;
    header.sparse_layout = SparseLayout::anndata;  // of the same arrays
    return header;
}

class SparseNpzReader final : public Reader {
  public:
    SparseNpzReader(std::shared_ptr<const Archive> archive, const ReadOptions& options)
        : archive_(std::move(archive)),
          options_(options),
          parts_(parts_of(*archive_, options)),
          header_(header_of(*archive_, parts_)) {
        if (!header_.unread.empty()) refuse(archive_->path(), header_.unread);
        header_.type = options.type.value_or(header_.type);
    }

    [[nodiscard]] const Header& header() const override { return header_; }
    void require_unchanged() const override { archive_->require_unchanged(); }

    [[nodiscard]] std::uint64_t open_bytes() const override {
        return rows_ && !options_.memory_limit ? 0 : sparse_reading_bytes(header_);
    }
    /// An array as it is unpacked, and the starts of lines.
    [[nodiscard]] std::uint64_t working_bytes() const override {
        const std::uint64_t starts =
            parts_.compressed()
                ? static_cast<std::uint64_t>(parts_.lines->header.shape.front()) * sizeof(std::int64_t)
                : 0;
        return saturating_add(starts,
                              std::max({parts_.lines->bytes, parts_.indices->bytes, parts_.values->bytes}));
    }

    [[nodiscard]] std::optional<Lines> lines() const override {
        if (!parts_.compressed()) return {};
        return parts_.by_columns() ? Lines::columns : Lines::rows;
    }
    void read_entries(const std::function<void(const Entries&)>& take) override {
        give_entries(arrays(), take);
    }
    std::vector<std::int64_t> count_entries(std::int64_t step) override {
        return parts_.compressed() ? count_in_lines(arrays(), step) : Reader::count_entries(step);
    }
    Csr read_lines(const Block& block, std::int64_t& duplicates) override {
        return parts_.compressed() ? lines_in(arrays(), block, duplicates)
                                   : Reader::read_lines(block, duplicates);
    }
    /// Numbers as they are stored, converted, and unpacked.
    [[nodiscard]] std::uint64_t entries_bytes() const override {
        constexpr std::uint64_t kUnpacking = std::uint64_t{1} << 20;
        return kUnpacking + 2 * bytes_of_pieces({.type = header_.type, .together = kEntriesTogether});
    }

    void read(const Block& block, const MutableMatrixView& out) override {
        if (block.rows == 0 || block.cols == 0) return;  // `out` may point nowhere
        std::int64_t duplicates = 0;
        if (!rows_) rows_ = read_sparse(duplicates);
        put_block(std::as_const(*rows_).view(), block, out);
    }

    Csr read_sparse(std::int64_t& duplicates) override {
        duplicates = 0;
        const std::string& name = archive_->path();
        require_memory(saturating_add(sparse_reading_bytes(header_), working_bytes()), options_.memory_limit,
                       name + ": reading a sparse matrix of " + std::to_string(parts_.entries) + " entries");
        Arrays arrays = read_arrays(header_.type);
        if (arrays.in_order) return rows_in_order(std::move(arrays));
        if (parts_.compressed())
            tell(options_.tell, Severity::detail, name + ": its indices are not in order, and are sorted");
        Merged merged;
        Csr rows = to_csr(entries_in(std::move(arrays), header_.type), options_.threads, name, merged);
        duplicates = merged.duplicates;
        if (!merged.unadded.empty()) {
            const Type wide = is_complex(header_.type) ? Type::c128 : Type::f64;
            require_memory(saturating_add(csr_bytes(header_.shape, header_.type, rows.entries()),
                                          Coo::bytes(header_.shape, wide, parts_.entries)),
                           options_.memory_limit, name + ": adding entries for the same elements");
            add_again(merged.unadded, entries_in(read_arrays(wide), wide), rows.view(), name);
        }
        return rows;
    }

  private:
    [[nodiscard]] const SparseArrays& arrays() {
        if (!arrays_)
            arrays_ = {.name = archive_->path(),
                       .shape = header_.shape,
                       .type = header_.type,
                       .entries = parts_.entries,
                       .compressed = parts_.compressed(),
                       .by_columns = parts_.by_columns(),
                       .lines = numbers_on_disk(archive_, *parts_.lines, options_),
                       .indices = numbers_on_disk(archive_, *parts_.indices, options_),
                       .values = numbers_on_disk(archive_, *parts_.values, options_),
                       .together = kEntriesTogether,
                       .threads = options_.threads};
        return *arrays_;
    }

    struct Arrays {
        Buffer lines;
        Buffer indices;
        Buffer values;
        bool in_order = false;  ///< the indices increase in each line
    };

    Arrays read_arrays(Type type) const {
        const Type index = has_short_indices(header_.shape) ? Type::i32 : Type::i64;
        Arrays arrays;
        arrays.lines =
            numbers_of(*archive_, *parts_.lines, parts_.compressed() ? Type::i64 : index, options_);
        arrays.indices = numbers_of(*archive_, *parts_.indices, index, options_);
        visit_index(header_.shape, [&]<class I>(TypeTag<I>) {
            if (parts_.compressed()) check_starts(numbers_in<std::int64_t>(arrays.lines));
            if (!parts_.compressed()) check_range<I>(*parts_.lines, arrays.lines, false);
            check_range<I>(*parts_.indices, arrays.indices, !parts_.by_columns());
        });
        arrays.values = numbers_of(*archive_, *parts_.values, type, options_);
        archive_->require_unchanged();
        arrays.in_order = parts_.compressed() && !structure_fault(lines_of(arrays), options_.threads);
        return arrays;
    }

    /// As the rows of the matrix, or of its transpose.
    [[nodiscard]] CsrView lines_of(const Arrays& arrays) const {
        return {header_.type,          parts_.by_columns() ? header_.shape.transposed() : header_.shape,
                parts_.entries,        numbers_in<std::int64_t>(arrays.lines).data(),
                arrays.indices.data(), arrays.values.data()};
    }

    [[nodiscard]] Csr rows_in_order(Arrays arrays) const {
        const std::string& name = archive_->path();
        if (parts_.by_columns()) return rows_of_columns(lines_of(arrays), options_.threads, name);
        Csr rows(header_.shape, header_.type, parts_.entries, std::move(arrays.indices),
                 std::move(arrays.values), name);
        std::memcpy(rows.view().pointers, arrays.lines.data(), arrays.lines.size());
        return rows;
    }

    [[nodiscard]] Coo entries_in(Arrays arrays, Type type) const {
        return visit_index(header_.shape, [&]<class I>(TypeTag<I>) {
            if (parts_.compressed()) {
                const Buffer starts =
                    std::exchange(arrays.lines, Buffer(static_cast<std::size_t>(parts_.entries) * sizeof(I)));
                const auto at = numbers_in<std::int64_t>(starts);
                I* const lines = reinterpret_cast<I*>(arrays.lines.data());
                for (std::size_t line = 0; line + 1 < at.size(); ++line)
                    std::fill(lines + at[line], lines + at[line + 1], static_cast<I>(line));
            }
            if (parts_.by_columns()) std::swap(arrays.lines, arrays.indices);
            return Coo(header_.shape, type, parts_.entries, std::move(arrays.lines),
                       std::move(arrays.indices), std::move(arrays.values));
        });
    }

    /// Starts ascend from 0 to the number of entries.
    void check_starts(std::span<const std::int64_t> starts) const {
        for (std::size_t at = 0; at < starts.size(); ++at) {
            const std::int64_t least = at == 0 ? 0 : starts[at - 1];
            const std::int64_t most = at == 0 && starts.size() > 1 ? 0 : parts_.entries;
            const bool last = at + 1 == starts.size();
            if (starts[at] >= least && starts[at] <= most && (!last || starts[at] == parts_.entries))
                continue;
            refuse_number(*parts_.lines, at, starts[at],
                          last ? std::to_string(parts_.entries) + ", the entries that there are"
                               : "a start from " + std::to_string(least) + " to " + std::to_string(most));
        }
    }

    template <class I>
    void check_range(const Member& member, const Buffer& memory, bool of_columns) const {
        const std::int64_t extent = of_columns ? header_.shape.cols : header_.shape.rows;
        const auto indices = numbers_in<I>(memory);
        const auto outside =
            std::ranges::find_if(indices, [&](I index) { return index < 0 || index >= extent; });
        if (outside == indices.end()) return;
        refuse_number(member, static_cast<std::size_t>(outside - indices.begin()), *outside,
                      std::string("a ") + (of_columns ? "column" : "row") + " from 0 to below " +
                          std::to_string(extent));
    }

    [[noreturn]] void refuse_number(const Member& member, std::size_t position, std::int64_t found,
                                    const std::string& expected) const {
        throw Error(ErrorCode::input, archive_->name_of(member) + "[" + std::to_string(position) + "] is " +
                                          std::to_string(found) + ", expected " + expected);
    }

    std::shared_ptr<const Archive> archive_;
    ReadOptions options_;
    Parts parts_;
    Header header_;
    std::optional<Csr> rows_;             ///< for `read`
    std::optional<SparseArrays> arrays_;  ///< for what is read some numbers at a time
};

}  // namespace

bool is_sparse(const Archive& archive) {
    return archive.find("format") != nullptr && archive.find("shape") != nullptr &&
           archive.find("data") != nullptr;
}

Header describe_sparse(const Archive& archive, const ReadOptions& options) {
    return header_of(archive, parts_of(archive, options));
}

std::unique_ptr<Reader> open_sparse(std::shared_ptr<const Archive> archive, const ReadOptions& options) {
    return std::make_unique<SparseNpzReader>(std::move(archive), options);
}

}  // namespace gpumat::formats::npz
