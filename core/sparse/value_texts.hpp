#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/memory.hpp"
#include "core/sparse/csr.hpp"

// Values of sparse matrices as the text that they were read from, so that they are written as they stood
// there. Rows then have places of texts for values, which every level moves as it moves numbers.

namespace gpumat {

/// The type of places.
inline constexpr Type kPlaceType = Type::u64;

/// Texts of values, each with the number that it stands for. Blocks are made by several threads; all else
/// comes after that.
class ValueTexts {
  public:
    /// Of numbers of this type, in `most` bytes, which one block a thread may pass.
    ValueTexts(Type type, std::uint64_t most) : type_(type), most_(most) {}

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

    /// Characters of the longest text.
    [[nodiscard]] std::size_t longest() const { return longest_; }
    [[nodiscard]] std::string_view text(std::uint64_t place) const {
        const std::byte* const record = at(place) + size_of(type_);
        std::uint32_t length = 0;
        std::memcpy(&length, record, sizeof length);
        return {reinterpret_cast<const char*>(record + sizeof length), length};
    }
    /// Texts lie anywhere in memory: fetches one in time.
    void prefetch(std::uint64_t place) const {
        constexpr std::ptrdiff_t kMostShort = 32;
        const std::byte* const record = at(place);
        __builtin_prefetch(record);
        __builtin_prefetch(record + kMostShort);
    }

    /// Bytes of a record beside its text.
    static std::size_t record_bytes(Type type) { return size_of(type) + sizeof(std::uint32_t); }

    /// The rows with numbers, which go to `values`, in place of places.
    [[nodiscard]] CsrView numbers(const CsrView& places, int threads, Buffer& values) const;

  private:
    friend class TextBlock;

    /// A place has the number of its block above the offset in it. Blocks are of some text, with lines of up
    /// to 64 MiB, and of numbers beside it.
    static constexpr int kOffsetBits = 28;

    [[nodiscard]] const std::byte* at(std::uint64_t place) const {
        const std::uint64_t offset = place & ((std::uint64_t{1} << kOffsetBits) - 1);
        return blocks_[place >> kOffsetBits].data() + offset;
    }

    Type type_;
    std::uint64_t most_;
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
    std::uint64_t add(const void* number, std::string_view text);
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
