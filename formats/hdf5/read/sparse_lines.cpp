#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "core/numbers/whole.hpp"
#include "formats/hdf5/read/sparse.hpp"

// Sparse matrices of which some numbers are read at a time.

namespace gpumat::formats::hdf5 {
namespace {

/// A dataset of one dimension, as rows or as columns of one element.
Block block_of_numbers(const Source& part, std::int64_t first, std::int64_t count) {
    return part.stored.cols == 1 ? Block{first, 0, count, 1} : Block{0, first, 1, count};
}

void read_elements(const Source& part, DenseReader& reader, std::int64_t first, std::int64_t count, Type type,
                   std::byte* to) {
    const Block block = block_of_numbers(part, first, count);
    reader.read(block, {type, block.shape(), block.cols, to});
}

/// Readers of one array. Each reads for one thread at a time, and is kept for the next one.
class ReadersOfPart {
  public:
    using Open = std::function<std::unique_ptr<DenseReader>(Type)>;

    explicit ReadersOfPart(Open open) : open_(std::move(open)) {}

    [[nodiscard]] std::unique_ptr<DenseReader> take(Type type) {
        {
            const std::lock_guard lock(mutex_);
            if (std::exchange(type_, type) != type) free_.clear();
            if (!free_.empty()) {
                auto reader = std::move(free_.back());
                free_.pop_back();
                return reader;
            }
        }
        auto reader = open_(type);
        reader->set_spare(0);
        return reader;
    }

    void give_back(Type type, std::unique_ptr<DenseReader> reader) {
        const std::lock_guard lock(mutex_);
        if (type == type_) free_.push_back(std::move(reader));
    }

  private:
    Open open_;
    std::mutex mutex_;
    Type type_ = Type::u8;
    std::vector<std::unique_ptr<DenseReader>> free_;
};

}  // namespace

std::optional<Lines> SparseReader::lines() const {
    if (!sparse_.compressed || sparse_.symmetric) return {};
    return sparse_.by_columns ? Lines::columns : Lines::rows;
}

/// Whole chunks, which are decoded anew for each reading.
std::int64_t SparseReader::numbers_together() const {
    std::int64_t chunk = 1;
    for (const auto* part : {&sparse_.lines, &sparse_.indices, &sparse_.values}) {
        const auto* dense = *part == nullptr ? nullptr : std::get_if<Dense>(&(*part)->where);
        if (dense != nullptr && dense->layout == H5D_CHUNKED)
            chunk = std::max(chunk, dense->chunk.rows * dense->chunk.cols);
    }
    return ceil_div(kEntriesTogether, chunk) * chunk;
}

/// For several threads at once.
StoredNumbers SparseReader::numbers_of(const std::shared_ptr<const Source>& part) const {
    if (part == nullptr) return {};
    const auto readers =
        std::make_shared<ReadersOfPart>([this, part](Type type) { return open(part, type); });
    return {part->name, length_of(*part),
            [part, readers](std::int64_t first, std::int64_t count, Type type, std::byte* to) {
                auto reader = readers->take(type);
                read_elements(*part, *reader, first, count, type, to);
                readers->give_back(type, std::move(reader));
            }};
}

const SparseArrays& SparseReader::arrays() {
    if (arrays_) return *arrays_;
    arrays_ = {.name = source_.name,
               .shape = source_.stored,
               .type = type_,
               .entries = source_.entries,
               .compressed = sparse_.compressed,
               .by_columns = sparse_.by_columns,
               .symmetric = sparse_.symmetric,
               .lines = numbers_of(sparse_.lines),
               .indices = numbers_of(sparse_.indices),
               .values = numbers_of(sparse_.values),
               .together = numbers_together(),
               .threads = options_.threads};
    if (sparse_.pairs) {
        arrays_->values.read = [parts = numbers_of(sparse_.values)](std::int64_t first, std::int64_t count,
                                                                    Type type, std::byte* to) {
            parts.read(2 * first, 2 * count, type == Type::c64 ? Type::f32 : Type::f64, to);
        };
    }
    if (sparse_.one_value) {
        arrays_->values.read = [value = arrays_->values.read](std::int64_t, std::int64_t count, Type type,
                                                              std::byte* to) {
            if (count > 0) value(0, 1, type, to);
            for (std::int64_t at = 1; at < count; ++at)
                std::memcpy(to + static_cast<std::size_t>(at) * size_of(type), to, size_of(type));
        };
    }
    return *arrays_;
}

std::uint64_t SparseReader::entries_bytes() const {
    const std::int64_t together = numbers_together();
    std::uint64_t bytes =
        bytes_of_pieces({.type = type_, .symmetric = sparse_.symmetric, .together = together});
    for (const auto* reader : {&lines_, &indices_, &values_})
        if (*reader)
            bytes = saturating_add(
                bytes, saturating_add((*reader)->open_bytes(), (*reader)->working_bytes(2 * together)));
    return bytes;
}

}  // namespace gpumat::formats::hdf5
