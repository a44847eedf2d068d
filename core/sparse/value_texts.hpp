#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/sparse/csr.hpp"

// Values of sparse matrices as the text that they were read from, so that they are written as they stood
// there. Rows then have the bits of texts for values, which every level moves as it moves numbers: a short
// text itself, or the place of a longer one.

namespace gpumat {

/// The bits of a value that is a text. Where the lowest four are not all set, the format that read the text
/// has packed it into them; else the bits above them are its place.
struct TextBits {
    std::uint64_t low;
    std::uint64_t high;

    [[nodiscard]] bool is_place() const { return (low & 15) == 15; }
};

/// The type of elements that have such bits. Texts of integers are short: they have the lower half alone.
/// Those of complex numbers are longer than what can be packed.
constexpr Type text_type(Type numbers) {
    return is_floating(numbers) ? Type::c128 : Type::u64;
}

/// What is known of a matrix from its numbers.
struct KnownContent {
    std::string hash;             ///< its content hash
    std::string transposed_hash;  ///< that of its transpose
    std::int64_t zeros = 0;
};

/// Texts of values that are not packed, each with the number that it stands for. Blocks are made by several
/// threads; all else comes after that.
class ValueTexts {
  public:
    /// Of numbers of this type, in `most` bytes, which one block a thread may pass.
    ValueTexts(Type type, std::uint64_t most) : type_(type), most_(most) {}

    /// Makes numbers of the type from `count` values, the first of which is at `values`.
    using Convert = void (*)(const ValueTexts& texts, const std::byte* values, std::int64_t count,
                             std::byte* numbers);
    void convert_by(Convert convert) { convert_ = convert; }

    /// What whoever read the numbers found of the matrix, if all of it was easily had then.
    void know(KnownContent content) { content_ = std::move(content); }
    [[nodiscard]] const std::optional<KnownContent>& content() const { return content_; }

    [[nodiscard]] Type type() const { return type_; }
    [[nodiscard]] Type value_type() const { return text_type(type_); }

    /// The number of a block that nobody else has.
    std::uint64_t next_block() { return blocks_made_++; }
    void keep(std::uint64_t block, const std::byte* records, std::size_t bytes, std::size_t longest);
    /// Whether there is no room for more texts: numbers are kept alone then, and the texts are not to be
    /// used.
    [[nodiscard]] bool full() const { return bytes_ > most_; }
    /// Whether values are numbers after all.
    [[nodiscard]] bool dropped() const { return dropped_; }
    void drop() {
        blocks_.clear();
        dropped_ = true;
    }

    /// Characters of the longest text that is not packed.
    [[nodiscard]] std::size_t longest() const { return longest_; }
    [[nodiscard]] std::string_view text(const TextBits& bits) const {
        const std::byte* const record = at(bits) + size_of(type_);
        std::uint32_t length = 0;
        std::memcpy(&length, record, sizeof length);
        return {reinterpret_cast<const char*>(record + sizeof length), length};
    }
    [[nodiscard]] const std::byte* number(const TextBits& bits) const { return at(bits); }
    /// Texts lie anywhere in memory: fetches one in time.
    void prefetch(const TextBits& bits) const {
        constexpr std::ptrdiff_t kMostShort = 32;
        const std::byte* const record = at(bits);
        __builtin_prefetch(record);
        __builtin_prefetch(record + kMostShort);
    }

    /// Bytes of a record beside its text.
    static std::size_t record_bytes(Type type) { return size_of(type) + sizeof(std::uint32_t); }

    /// Makes numbers of `count` values.
    void to_numbers(const std::byte* values, std::int64_t count, std::byte* numbers) const {
        convert_(*this, values, count, numbers);
    }

  private:
    friend class TextBlock;

    /// A place has the number of its block above the offset in it. Blocks are of some text, with lines of up
    /// to 64 MiB, and of numbers beside it.
    static constexpr int kOffsetBits = 28;

    [[nodiscard]] const std::byte* at(const TextBits& bits) const {
        const std::uint64_t place = bits.low >> 4;
        const std::uint64_t offset = place & ((std::uint64_t{1} << kOffsetBits) - 1);
        return blocks_[place >> kOffsetBits].data() + offset;
    }

    Type type_;
    std::uint64_t most_;
    Convert convert_ = nullptr;
    std::optional<KnownContent> content_;
    std::atomic<std::uint64_t> blocks_made_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
    std::size_t longest_ = 0;
    bool dropped_ = false;
    std::vector<Buffer> blocks_;
    std::mutex mutex_;
};

/// One block while it is made, in memory that is kept for the next one.
class TextBlock {
  public:
    void begin(ValueTexts& texts);
    /// Adds a number of the texts' type with the text that it was read from; where it is.
    TextBits add(const void* number, std::string_view text);
    /// Gives the block to the texts.
    void end();

  private:
    ValueTexts* texts_ = nullptr;
    bool numbers_alone_ = false;
    std::uint64_t block_ = 0;
    std::size_t used_ = 0;
    std::size_t longest_ = 0;
    Buffer memory_;
};

}  // namespace gpumat
