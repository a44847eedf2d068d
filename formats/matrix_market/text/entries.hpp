#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/hash/sparse_hash.hpp"
#include "core/memory.hpp"
#include "core/sparse/coo.hpp"
#include "formats/matrix_market/text/body.hpp"
#include "formats/matrix_market/text/chunks.hpp"

namespace gpumat::formats::matrix_market {

/// Entries of one type in the order in which they came, in memory that is kept for the next chunk.
class EntryList {
  public:
    void clear() { count_ = 0; }
    template <class T>
    [[gnu::always_inline]] void push(const Entry<T>& entry) {
        if (count_ == room_) grow(sizeof entry);
        std::memcpy(memory_.data() + count_++ * sizeof entry, &entry, sizeof entry);
    }
    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] const std::byte* data() const { return memory_.data(); }

  private:
    [[gnu::noinline]] void grow(std::size_t entry_bytes) {
        room_ = std::max<std::size_t>(64, 2 * room_);
        Buffer larger(room_ * entry_bytes);
        if (count_ != 0) std::memcpy(larger.data(), memory_.data(), count_ * entry_bytes);
        memory_ = std::move(larger);
    }

    Buffer memory_;
    std::size_t count_ = 0;
    std::size_t room_ = 0;
};

/// Entries in the order in which they came, as the arrays that a Coo has of them, in memory that is kept for
/// the next chunk.
class EntryArrays {
  public:
    void clear() { count_ = 0; }
    template <class V>
    [[gnu::always_inline]] void push(bool short_indices, std::int64_t row, std::int64_t col, const V& value) {
        if (count_ == room_) grow(sizeof value);
        if (short_indices) {
            put(rows_, static_cast<std::int32_t>(row));
            put(columns_, static_cast<std::int32_t>(col));
        } else {
            put(rows_, row);
            put(columns_, col);
        }
        put(values_, value);
        ++count_;
    }
    /// The number of the entry that is pushed next, of up to eight bytes.
    template <class T>
    [[gnu::always_inline]] void note(const T& number) {
        if (count_ == room_) grow(sizeof(TextBits));
        if constexpr (sizeof number <= sizeof(std::uint64_t)) put(numbers_, number);
    }
    [[nodiscard]] const std::byte* numbers() const { return numbers_.data(); }
    [[nodiscard]] EntryPiece piece() const {
        return {static_cast<std::int64_t>(count_), rows_.data(), columns_.data(), values_.data()};
    }

  private:
    template <class V>
    [[gnu::always_inline]] void put(Buffer& to, const V& value) {
        std::memcpy(to.data() + count_ * sizeof value, &value, sizeof value);
    }
    void grow(std::size_t value_bytes);

    Buffer rows_;
    Buffer columns_;
    Buffer values_;
    Buffer numbers_;
    std::size_t count_ = 0;
    std::size_t room_ = 0;
};

/// The rows and columns that entries lie in.
struct Bounds {
    std::int64_t top = std::numeric_limits<std::int64_t>::max();
    std::int64_t bottom = -1;
    std::int64_t left = std::numeric_limits<std::int64_t>::max();
    std::int64_t right = -1;

    void add(std::int64_t row, std::int64_t col) {
        top = std::min(top, row);
        bottom = std::max(bottom, row);
        left = std::min(left, col);
        right = std::max(right, col);
    }
    /// Whether entries with these bounds may lie in the block.
    [[nodiscard]] bool meet(const Block& block) const {
        return top < block.row + block.rows && bottom >= block.row && left < block.col + block.cols &&
               right >= block.col;
    }
};

struct CoordinateChunk : Chunk {
    Bounds bounds;       ///< of all entries of the chunk
    bool above = false;  ///< some are above the diagonal of a matrix with symmetry
    bool below = false;
    /// The elements that each owner of rows has to add, relative to the block.
    std::vector<EntryList> owned;
    EntryArrays arrays;        ///< or all of them
    EntryHashes::Sums sums{};  ///< of their numbers
    std::int64_t zeros = 0;    ///< among them
    TextBlock texts;           ///< of their values, where those are kept
    std::string mirrored;      ///< the text of a value across the diagonal
};

/// Splits the rows of a block among owners, each of which adds its elements in the order of the file.
class Owners {
  public:
    Owners(std::int64_t rows, int threads);

    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] std::size_t of(std::int64_t row) const { return static_cast<std::size_t>(row >> shift_); }

  private:
    int shift_ = 63;
    std::size_t count_ = 1;
};

/// Parses the entries of a chunk, and keeps those that lie in the block.
using ParseEntries = std::function<void(CoordinateChunk&)>;

/// Delivers entries of the context's type to owners. It refers to all that it is made of.
ParseEntries entry_parser(const BodyContext& context, const Block& block, const Owners& owners);

/// Delivers all entries of the matrix as arrays, where there are `texts` with values of their `value_type`,
/// and adds them to the sums of a chunk where there are `hashes`, too.
ParseEntries array_parser(const BodyContext& context, ValueTexts* texts, const EntryHashes* hashes);

/// ValueTexts::Convert of texts with numbers of this type.
ValueTexts::Convert text_converter(Type type);

/// Where entry `n` of the text is, from 0. Blank lines aside, it is line n of a well-formed text.
const char* locate_entry(std::string_view text, std::int64_t n);

}  // namespace gpumat::formats::matrix_market
