#include "core/hash/sparse_hash.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/hash/carryless.hpp"
#include "core/hash/crc32.hpp"
#include "core/hash/hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"

// A CRC without its first and last inversion is the remainder of a polynomial, and linear: bytes of zero that
// follow only move it. So the remainder of a matrix is that of its entries, each moved past what is behind
// it.

namespace gpumat {
namespace {

/// Moving past this many bytes moves nothing: x is of that order modulo the polynomial.
constexpr std::uint64_t kOrder = 0xffffffff;

/// `bytes` without whole turns.
std::uint64_t turned(unsigned __int128 bytes) {
    return static_cast<std::uint64_t>(bytes % kOrder);
}

/// Moves remainders past any number of bytes: four bits of the number at a time, by tables for each of the
/// four bytes of a remainder.
class MovePastAny {
  public:
    /// No number is larger than `most`.
    explicit MovePastAny(std::uint64_t most) {
        steps_.resize(static_cast<std::size_t>(std::bit_width(most) + 3) / 4);
        for (std::size_t level = 0; level < steps_.size(); ++level) {
            for (std::uint64_t digit = 1; digit < 16; ++digit)
                fill(steps_[level][digit - 1], digit << 4 * level);
        }
    }

    [[nodiscard]] std::uint32_t operator()(std::uint32_t remainder, std::uint64_t bytes) const {
        for (std::size_t level = 0; bytes != 0; ++level, bytes >>= 4) {
            if ((bytes & 15) == 0) continue;
            const Step& step = steps_[level][(bytes & 15) - 1];
            remainder = step[0][remainder & 0xff] ^ step[1][remainder >> 8 & 0xff] ^
                        step[2][remainder >> 16 & 0xff] ^ step[3][remainder >> 24];
        }
        return remainder;
    }

  private:
    using Step = std::array<std::array<std::uint32_t, 256>, 4>;

    static void fill(Step& step, std::uint64_t bytes) {
        const uLong operation = crc32_combine_gen(static_cast<z_off_t>(bytes));
        for (std::size_t bit = 0; bit < 32; ++bit) {
            const auto moved = static_cast<std::uint32_t>(crc32_combine_op(uLong{1} << bit, 0, operation));
            std::uint32_t* const table = step[bit / 8].data();
            const std::size_t first = std::size_t{1} << bit % 8;
            table[0] = 0;
            for (std::size_t i = 0; i < first; ++i) table[first + i] = table[i] ^ moved;
        }
    }

    std::vector<std::array<Step, 15>> steps_;
};

/// The remainder of so many bytes.
std::uint32_t remainder_of(const std::byte* data, std::size_t bytes) {
    constexpr std::array<std::byte, 16> kZero{};
    return crc32_of(data, bytes, 0) ^ crc32_of(kZero.data(), bytes, 0);
}

/// The remainder of rows [begin, end) of a block, whose first column is column `col` of rows of `cols`, from
/// the start of the first row to the end of the last one: entry by entry.
template <class I>
std::uint32_t remainder_of(const CsrView& block, std::int64_t col, std::int64_t cols, const MovePastAny& move,
                           std::int64_t begin, std::int64_t end) {
    const std::size_t element = size_of(block.type);
    const I* const columns = block.columns_as<I>();
    std::uint32_t remainder = 0;
    const auto place = [&](std::int64_t row, std::int64_t at_col) {
        return static_cast<unsigned __int128>(row - begin) * static_cast<std::uint64_t>(cols) +
               static_cast<std::uint64_t>(at_col);
    };
    unsigned __int128 at = 0;
    for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t n = block.pointers[row]; n < block.pointers[row + 1]; ++n) {
            const unsigned __int128 behind = place(row, col + columns[n]) + 1;
            remainder = move(remainder, turned((behind - at) * element));
            remainder ^= remainder_of(block.values + static_cast<std::size_t>(n) * element, element);
            at = behind;
        }
    }
    return move(remainder, turned((place(end, 0) - at) * element));
}

unsigned __int128 bytes_of_rows(const Shape& shape, Type type, std::int64_t rows) {
    return static_cast<unsigned __int128>(shape.cols) * size_of(type) * static_cast<std::uint64_t>(rows);
}

/// For all moves within a matrix.
MovePastAny moves_within(const Shape& shape, Type type) {
    return MovePastAny(static_cast<std::uint64_t>(
        std::min<unsigned __int128>(bytes_of_rows(shape, type, shape.rows), kOrder)));
}

/// A remainder divided by x.
std::uint32_t divided(std::uint32_t remainder) {
    constexpr std::uint32_t kPolynomial = 0xedb88320;
    return remainder >> 31 == 0 ? remainder << 1 : (remainder ^ kPolynomial) << 1 | 1;
}

/// Powers for all places of a matrix with about so many entries. Nothing where the processor cannot, or where
/// they would cost more than they save.
std::shared_ptr<const PlacePowers> powers_of_places(const Shape& shape, Type type, std::int64_t entries) {
    if (shape.rows == 0 || shape.cols == 0 || !has_short_indices(shape) || !has_carryless_products())
        return nullptr;
    const auto all = static_cast<std::uint64_t>(shape.rows) * static_cast<std::uint64_t>(shape.cols);
    const std::uint64_t last = std::min(all, kOrder + 1) - 1;  // counts of elements behind are up to this
    const auto shift = static_cast<unsigned>(std::bit_width(last) + 1) / 2;
    if (entries < std::int64_t{2} << shift) return nullptr;
    const MovePastAny move = moves_within(shape, type);
    const std::uint64_t element = size_of(type);
    auto powers = std::make_shared<PlacePowers>();
    powers->shift = shift;
    std::uint32_t power = std::uint32_t{1} << 31;  // x to the 0
    for (std::size_t i = 0; i < std::size_t{1} << shift; ++i, power = move(power, element))
        powers->low.push_back(power);
    power = std::uint32_t{1} << 31;
    const std::size_t bits = kProductBits + 8 * (8 - std::min<std::size_t>(element, 8));
    for (std::size_t bit = 0; bit < bits; ++bit) power = divided(power);
    for (std::uint64_t i = 0; i <= last >> shift; ++i, power = move(power, element << shift))
        powers->high.push_back(power);
    return powers;
}

std::uint32_t remainder_of(const Products& products) {
    return remainder_of(reinterpret_cast<const std::byte*>(&products), sizeof products);
}

/// The products of rows [begin, end) of a block with this place in a matrix. Of numbers wider than eight
/// bytes the halves are added up apart.
std::array<Products, 2> products_of(const PlacePowers& powers, const CsrView& block, std::int64_t row,
                                    std::int64_t col, const Shape& whole, std::int64_t begin,
                                    std::int64_t end) {
    const std::size_t element = size_of(block.type);
    const std::size_t half = std::min<std::size_t>(element, 8);
    std::array<Products, 2> sums{};
    for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = block.pointers[i];
        const std::int64_t count = block.pointers[i + 1] - first;
        if (count == 0) continue;
        const std::int64_t behind = (whole.rows - 1 - row - i) * whole.cols + whole.cols - 1 - col;
        const std::byte* const numbers = block.values + static_cast<std::size_t>(first) * element;
        for (std::size_t offset = 0; offset < element; offset += half)
            add_row_products(powers, static_cast<std::uint64_t>(behind),
                             block.columns_as<std::int32_t>() + first, numbers + offset, half, element, count,
                             sums[offset / half]);
    }
    return sums;
}

/// Some rows of a matrix whose values are texts, with their numbers.
class RowsOfNumbers {
  public:
    RowsOfNumbers(const CsrView& matrix, std::int64_t begin, std::int64_t end, const ValueTexts& texts) {
        const std::int64_t first = matrix.pointers[begin];
        for (std::int64_t row = begin; row <= end; ++row) pointers_.push_back(matrix.pointers[row] - first);
        const std::int64_t entries = pointers_.back();
        numbers_ = Buffer(static_cast<std::size_t>(entries) * size_of(texts.type()));
        texts.to_numbers(matrix.values + static_cast<std::size_t>(first) * size_of(matrix.type), entries,
                         numbers_.data());
        view_ = {.type = texts.type(),
                 .shape = {end - begin, matrix.shape.cols},
                 .entries = entries,
                 .pointers = pointers_.data(),
                 .columns = matrix.columns + static_cast<std::size_t>(first) * index_bytes(matrix.shape),
                 .values = numbers_.data()};
    }
    [[nodiscard]] const CsrView& view() const { return view_; }

  private:
    std::vector<std::int64_t> pointers_;
    Buffer numbers_;
    CsrView view_;
};

/// The hash of a matrix whose entries have this remainder.
std::string text_of(std::uint32_t remainder, const Shape& whole, Type type) {
    // As if bytes of ones were before the first byte.
    const std::uint32_t start =
        moves_within(whole, type)(0xffffffff, turned(bytes_of_rows(whole, type, whole.rows)));
    return hash_text(start ^ remainder ^ 0xffffffff);
}

}  // namespace

std::int64_t SparseContentHash::add(std::int64_t row, std::int64_t col, const CsrView& block,
                                    const ValueTexts* texts, int threads) {
    if (block.shape.rows == 0 || block.shape.cols == 0) return 0;
    std::atomic<std::int64_t> zeros = 0;
    if (powers_ == nullptr) powers_ = powers_of_places(whole_, type_, block.entries);
    const std::int64_t pieces = std::clamp<std::int64_t>(block.entries >> 14, 1, 256);
    const std::int64_t grain = ceil_div(block.shape.rows, pieces);
    const auto count = static_cast<std::size_t>(ceil_div(block.shape.rows, grain));
    std::vector<std::uint32_t> remainders(count, 0);
    std::vector<std::array<Products, 2>> sums(count);
    const auto move = powers_ ? std::nullopt : std::optional(moves_within(whole_, type_));
    const auto take = [&](std::size_t piece, const CsrView& rows, std::int64_t first, std::int64_t begin,
                          std::int64_t end) {
        if (powers_) {
            sums[piece] = products_of(*powers_, rows, row + first, col, whole_, begin, end);
            return;
        }
        remainders[piece] = visit_index(rows.shape, [&]<class I>(TypeTag<I>) {
            return remainder_of<I>(rows, col, whole_.cols, *move, begin, end);
        });
    };
    parallel_for(block.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
        const auto piece = static_cast<std::size_t>(begin / grain);
        if (texts == nullptr) return take(piece, block, 0, begin, end);
        const RowsOfNumbers numbers(block, begin, end, *texts);
        take(piece, numbers.view(), begin, 0, end - begin);
        zeros += explicit_zeros(numbers.view(), 1);
    });
    for (const auto& [lower, upper] : sums) {
        sums_[0].add(lower);
        sums_[1].add(upper);
    }
    if (!move) return zeros;
    std::uint32_t remainder = 0;
    for (std::size_t piece = 0; piece < remainders.size(); ++piece) {
        const std::int64_t begin = static_cast<std::int64_t>(piece) * grain;
        const std::int64_t rows = std::min(grain, block.shape.rows - begin);
        remainder = (*move)(remainder, turned(bytes_of_rows(whole_, type_, rows))) ^ remainders[piece];
    }
    const std::int64_t below = whole_.rows - row - block.shape.rows;
    remainder_ ^= (*move)(remainder, turned(bytes_of_rows(whole_, type_, below)));
    return zeros;
}

void SparseContentHash::merge(const SparseContentHash& other) {
    remainder_ ^= other.remainder_;
    for (std::size_t half = 0; half < sums_.size(); ++half) sums_[half].add(other.sums_[half]);
    if (powers_ == nullptr) powers_ = other.powers_;
}

std::string SparseContentHash::text() const {
    std::uint32_t sums = remainder_of(sums_[0]);
    constexpr std::uint64_t kHalf = 8;
    if (powers_ && size_of(type_) > kHalf)
        sums = moves_within(whole_, type_)(sums, kHalf) ^ remainder_of(sums_[1]);
    return text_of(remainder_ ^ sums, whole_, type_);
}

std::optional<EntryHashes> EntryHashes::of(const Shape& shape, Type type, std::int64_t entries) {
    EntryHashes hashes(shape, type);
    if (size_of(type) <= sizeof(std::uint64_t)) hashes.powers_ = powers_of_places(shape, type, entries);
    return hashes.powers_ ? std::optional(hashes) : std::nullopt;
}

void EntryHashes::add(const std::int32_t* rows, const std::int32_t* columns, const std::byte* numbers,
                      std::int64_t count, Sums& sums) const {
    add_products(*powers_,
                 {.rows_of_matrix = shape_.rows,
                  .cols_of_matrix = shape_.cols,
                  .rows = rows,
                  .columns = columns,
                  .numbers = numbers,
                  .bytes = size_of(type_),
                  .count = count},
                 sums.given, sums.transposed);
}

std::string EntryHashes::text(const Products& products) const {
    return text_of(remainder_of(products), shape_, type_);
}

std::string content_hash(const CsrView& matrix, int threads) {
    SparseContentHash hash(matrix.shape, matrix.type);
    hash.add(0, 0, matrix, threads);
    return hash.text();
}

std::string given_hash(const CsrView& matrix, const ValueTexts& texts, int threads, std::int64_t& zeros) {
    if (const auto& known = texts.content()) {
        zeros = known->zeros;
        return known->hash;
    }
    SparseContentHash hash(matrix.shape, texts.type());
    zeros = hash.add(0, 0, matrix, texts, threads);
    return hash.text();
}

std::string content_hash(const CsrView& matrix, const ValueTexts& texts, int threads) {
    SparseContentHash hash(matrix.shape, texts.type());
    hash.add(0, 0, matrix, texts, threads);
    return hash.text();
}

}  // namespace gpumat
