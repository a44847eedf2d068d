#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/hash/crc32.hpp"
#include "formats/npy/npy.hpp"
#include "formats/npz/npz.hpp"
#include "formats/output_file.hpp"

namespace gpumat::formats::npz {
namespace {

constexpr std::uint64_t kMostShort = 0xfffffffe;  ///< of 32 bits; what is larger is said in 64

/// Numbers of a ZIP archive, which are little-endian.
class Fields {
  public:
    template <class T>
    Fields& put(T value) {
        for (std::size_t i = 0; i < sizeof value; ++i)
            bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * i & 0xff);
        return *this;
    }
    Fields& put(const std::string& text) {
        bytes_ += text;
        return *this;
    }
    [[nodiscard]] const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

std::uint32_t shortened(std::uint64_t value) {
    return value > kMostShort ? 0xffffffff : static_cast<std::uint32_t>(value);
}

/// Writes an archive from its start to its end, so that it may go through a pipe. The members are stored as
/// they are: they are written as they come, and libraries take a whole member at once.
class ArchiveFile {
  public:
    explicit ArchiveFile(const WriteTarget& target) : file_(target) {}

    /// Begins a member of so many bytes. The checksum follows it.
    void begin(const std::string& name, std::uint64_t bytes) {
        members_.push_back({name, bytes, at_, 0, 0});
        const bool large = bytes > kMostShort;
        Fields header;
        header.put(std::uint32_t{0x04034b50}).put(version(large)).put(kFlags).put(std::uint16_t{0});
        put_date(header).put(std::uint32_t{0}).put(large ? 0xffffffff : std::uint32_t{0});
        header.put(large ? 0xffffffff : std::uint32_t{0}).put(static_cast<std::uint16_t>(name.size()));
        header.put(static_cast<std::uint16_t>(large ? 20 : 0)).put(name);
        if (large) header.put(kLargeSizes).put(std::uint16_t{16}).put(std::uint64_t{0}).put(std::uint64_t{0});
        put(header.bytes());
    }
    void write(std::span<const std::byte> bytes) {
        Entry& member = members_.back();
        member.crc = crc32_of(bytes.data(), bytes.size(), member.crc);
        member.written += bytes.size();
        file_.write(bytes);
        at_ += bytes.size();
    }
    void write(const std::string& text) { write(std::as_bytes(std::span(text))); }

    void end() {
        const Entry& member = members_.back();
        if (member.written != member.bytes)
            refuse(std::to_string(member.written) + " bytes came for '" + member.name + "', expected " +
                   std::to_string(member.bytes));
        Fields behind;
        behind.put(std::uint32_t{0x08074b50}).put(member.crc);
        if (member.bytes > kMostShort) {
            behind.put(member.bytes).put(member.bytes);
        } else {
            behind.put(static_cast<std::uint32_t>(member.bytes))
                .put(static_cast<std::uint32_t>(member.bytes));
        }
        put(behind.bytes());
    }

    /// Writes what the archive holds.
    void finish() {
        const std::uint64_t start = at_;
        for (const Entry& member : members_) put(in_directory(member));
        const std::uint64_t bytes = at_ - start;
        const auto count = static_cast<std::uint16_t>(members_.size());
        if (start > kMostShort) {
            const std::uint64_t place = at_;
            Fields large;
            large.put(std::uint32_t{0x06064b50}).put(std::uint64_t{44}).put(version(true)).put(version(true));
            large.put(std::uint32_t{0})
                .put(std::uint32_t{0})
                .put(std::uint64_t{count})
                .put(std::uint64_t{count});
            large.put(bytes).put(start);
            large.put(std::uint32_t{0x07064b50}).put(std::uint32_t{0}).put(place).put(std::uint32_t{1});
            put(large.bytes());
        }
        Fields end;
        end.put(std::uint32_t{0x06054b50}).put(std::uint32_t{0}).put(count).put(count);
        end.put(shortened(bytes)).put(shortened(start)).put(std::uint16_t{0});
        put(end.bytes());
    }

    [[noreturn]] void refuse(const std::string& what) const { file_.refuse(what); }

  private:
    struct Entry {
        std::string name;
        std::uint64_t bytes;
        std::uint64_t place;
        std::uint32_t crc;
        std::uint64_t written;
    };

    static constexpr std::uint16_t kFlags = 1 << 3;  ///< the checksum follows
    static constexpr std::uint16_t kLargeSizes = 1;  ///< a field of sizes in 64 bits

    static std::uint16_t version(bool large) { return large ? 45 : 20; }
    /// 1980-01-01: the same matrix becomes the same bytes.
    static Fields& put_date(Fields& header) { return header.put(std::uint16_t{0}).put(std::uint16_t{0x21}); }

    static std::string in_directory(const Entry& member) {
        Fields sizes;
        if (member.bytes > kMostShort) sizes.put(member.bytes).put(member.bytes);
        if (member.place > kMostShort) sizes.put(member.place);
        const bool large = !sizes.bytes().empty();
        Fields entry;
        entry.put(std::uint32_t{0x02014b50}).put(version(large)).put(version(large)).put(kFlags);
        put_date(entry.put(std::uint16_t{0})).put(member.crc).put(shortened(member.bytes));
        entry.put(shortened(member.bytes)).put(static_cast<std::uint16_t>(member.name.size()));
        entry.put(static_cast<std::uint16_t>(large ? sizes.bytes().size() + 4 : 0)).put(std::uint16_t{0});
        entry.put(std::uint16_t{0}).put(std::uint16_t{0}).put(std::uint32_t{0}).put(shortened(member.place));
        entry.put(member.name);
        if (large)
            entry.put(kLargeSizes).put(static_cast<std::uint16_t>(sizes.bytes().size())).put(sizes.bytes());
        return entry.bytes();
    }

    void put(const std::string& bytes) {
        file_.write(std::as_bytes(std::span(bytes)));
        at_ += bytes.size();
    }

    OutputFile file_;
    std::uint64_t at_ = 0;
    std::vector<Entry> members_;
};

class NpzWriter final : public Writer {
  public:
    NpzWriter(const WriteTarget& target, const Shape& shape, Type type)
        : file_(target), shape_(shape), type_(type) {
        const std::string header = npy::header_text(shape, type, target.shown);
        file_.begin("arr_0.npy", header.size() + dense_bytes(shape, type, target.shown));
        file_.write(header);
    }

    [[nodiscard]] BlockOrder order() const override { return BlockOrder::row_panels; }

    void write(const Block& block, const MatrixView& in) override {
        if (block.col != 0 || block.cols != shape_.cols || block.row != rows_written_ || in.type != type_)
            file_.refuse("a block at row " + std::to_string(block.row) +
                         " came, expected whole rows from row " + std::to_string(rows_written_));
        const auto row_bytes = static_cast<std::size_t>(shape_.cols) * size_of(type_);
        const bool gapless = in.ld == shape_.cols;
        const std::int64_t run = gapless ? block.rows : 1;
        for (std::int64_t i = 0; i < block.rows && row_bytes > 0; i += run)
            file_.write({in.data + static_cast<std::size_t>(i * in.ld) * size_of(type_),
                         static_cast<std::size_t>(run) * row_bytes});
        rows_written_ += block.rows;
    }

    void finish() override {
        file_.end();
        file_.finish();
    }

  private:
    ArchiveFile file_;
    Shape shape_;
    Type type_;
    std::int64_t rows_written_ = 0;
};

class SparseNpzWriter final : public SparseWriter {
  public:
    SparseNpzWriter(const WriteTarget& target, const Shape& shape, Type type, std::int64_t entries)
        : target_(target), file_(target), shape_(shape), type_(type), entries_(entries) {
        (void)npy::header_text(shape, type, target.shown);  // which refuses types
    }

    void write(std::int64_t first_row, const CsrView& rows) override {
        if (first_row != 0 || rows.shape != shape_)
            file_.refuse("some rows came, expected all of them at once");
        write_all([&](CsrArray, const auto& take) { take(0, rows); });
    }

    void write_all(const GiveRows& give) override {
        // SciPy takes both kinds of indices in one type only without a copy.
        if (has_short_indices(shape_) && entries_ <= kMostShortIndices) {
            put_indices<std::int32_t>(Type::i32, give);
        } else {
            put_indices<std::int64_t>(Type::i64, give);
        }
        put("format.npy", npy::header_text_of("|S3", "()"), {reinterpret_cast<const std::byte*>("csr"), 3});
        const std::array<std::int64_t, 2> extents = {shape_.rows, shape_.cols};
        begin("shape.npy", Type::i64, std::ssize(extents));
        write_as<std::int64_t>(extents.data(), extents.size());
        file_.end();
        begin("data.npy", type_, entries_);
        give(CsrArray::values, [&](std::int64_t, const CsrView& rows) {
            if (rows.type != type_)
                file_.refuse("rows of " + std::string(name_of(rows.type)) + " came, expected " +
                             std::string(name_of(type_)));
            if (rows.entries > 0)
                file_.write({rows.values, static_cast<std::size_t>(rows.entries) * size_of(type_)});
        });
        file_.end();
        complete_ = true;
    }

    void finish() override {
        if (!complete_) file_.refuse("no rows came, expected " + std::to_string(shape_.rows));
        file_.finish();
    }

  private:
    void put(const std::string& name, const std::string& header, std::span<const std::byte> bytes) {
        file_.begin(name, header.size() + bytes.size());
        file_.write(header);
        file_.write(bytes);
        file_.end();
    }

    void begin(const std::string& name, Type type, std::int64_t count) {
        const std::string header = npy::header_text(count, type, target_.shown);
        file_.begin(name, header.size() + static_cast<std::size_t>(count) * size_of(type));
        file_.write(header);
    }

    /// Numbers as numbers of another type, which can hold them.
    template <class To, class From>
    void write_as(const From* first, std::size_t count, To more = 0) {
        constexpr std::size_t kAtOnce = std::size_t{1} << 16;
        std::vector<To> some;
        for (std::size_t at = 0; at < count; at += some.size()) {
            const std::size_t end = std::min(count, at + kAtOnce);
            some.clear();
            for (std::size_t i = at; i < end; ++i) some.push_back(static_cast<To>(first[i]) + more);
            file_.write(std::as_bytes(std::span(some)));
        }
    }

    template <class To>
    void put_indices(Type type, const GiveRows& give) {
        begin("indices.npy", type, entries_);
        give(CsrArray::columns, [&](std::int64_t, const CsrView& rows) {
            visit_index(rows.shape, [&]<class I>(TypeTag<I>) {
                write_as<To>(rows.columns_as<I>(), static_cast<std::size_t>(rows.entries));
            });
        });
        file_.end();
        begin("indptr.npy", type, shape_.rows + 1);
        To before = 0;
        write_as<To>(&before, 1);
        give(CsrArray::pointers, [&](std::int64_t, const CsrView& rows) {
            write_as<To>(rows.pointers + 1, static_cast<std::size_t>(rows.shape.rows), before);
            before = static_cast<To>(before + rows.entries);
        });
        file_.end();
    }

    WriteTarget target_;
    ArchiveFile file_;
    Shape shape_;
    Type type_;
    std::int64_t entries_;
    bool complete_ = false;
};

}  // namespace

void require_writable(const WriteTarget& target, const Shape& shape, Type type, const WriteOptions& options) {
    npy::require_writable(target, shape, type, options);
}

std::unique_ptr<Writer> create(const WriteTarget& target, const Shape& shape, Type type,
                               const WriteOptions& options) {
    require_writable(target, shape, type, options);
    return std::make_unique<NpzWriter>(target, shape, type);
}

std::unique_ptr<SparseWriter> create_sparse(const WriteTarget& target, const Shape& shape, Type type,
                                            std::int64_t entries, const WriteOptions& options) {
    require_writable(target, shape, type, options);
    return std::make_unique<SparseNpzWriter>(target, shape, type, entries);
}

std::uint64_t sparse_writing_bytes(const Shape&, Type, std::int64_t, const WriteOptions&) {
    return std::uint64_t{1} << 20;  // indices of another type, some at a time
}

}  // namespace gpumat::formats::npz
