#include <algorithm>
#include <cstring>

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

/// One reader for each type as which the numbers are read.
StoredNumbers SparseReader::numbers_of(const std::shared_ptr<const Source>& part) const {
    if (part == nullptr) return {};
    auto reader = std::make_shared<std::pair<Type, std::unique_ptr<DenseReader>>>();
    return {part->name, length_of(*part),
            [this, part, reader](std::int64_t first, std::int64_t count, Type type, std::byte* to) {
                if (reader->second == nullptr || reader->first != type) {
                    *reader = {type, open(part, type)};
                    reader->second->set_spare(0);
                }
                read_elements(*part, *reader->second, first, count, type, to);
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
