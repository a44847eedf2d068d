#include "core/hash/sparse_hash.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/hash/carryless.hpp"
#include "core/hash/crc32.hpp"
#include "core/hash/hash.hpp"
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
            std::array<std::uint32_t, 256>& table = step[bit / 8];
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

/// The same, row by row: numbers are multiplied by the power of x that their column asks for, and divided
/// once a row. Of numbers wider than eight bytes the halves are added up apart.
class RowRemainders {
  public:
    /// Nothing where the processor cannot, or where the powers would cost more than they save.
    static std::optional<RowRemainders> of(const CsrView& matrix, const MovePastAny& move) {
        const auto shift =
            static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(matrix.shape.cols)) + 1) / 2;
        const bool pays = shift <= 14 && matrix.entries >= std::int64_t{2} << shift;
        if (!pays || !has_short_indices(matrix.shape) || !has_carryless_products()) return {};
        return RowRemainders(matrix, move, shift);
    }

    [[nodiscard]] std::uint32_t operator()(std::int64_t begin, std::int64_t end) const {
        const auto row_bytes = static_cast<std::uint64_t>(matrix_.shape.cols) * element_;
        std::uint32_t remainder = 0;
        std::int64_t at = begin;
        for (std::int64_t row = begin; row < end; ++row) {
            if (matrix_.pointers[row] == matrix_.pointers[row + 1]) continue;
            remainder = move_(remainder, turned(static_cast<unsigned __int128>(row_bytes) *
                                                static_cast<std::uint64_t>(row + 1 - at))) ^
                        of_row(row);
            at = row + 1;
        }
        return move_(remainder, turned(static_cast<unsigned __int128>(row_bytes) *
                                       static_cast<std::uint64_t>(end - at)));
    }

  private:
    RowRemainders(const CsrView& matrix, const MovePastAny& move, unsigned shift)
        : matrix_(matrix),
          move_(move),
          element_(size_of(matrix.type)),
          half_(std::min<std::size_t>(element_, 8)) {
        powers_.shift = shift;
        powers_.cols = matrix.shape.cols;
        std::uint32_t power = std::uint32_t{1} << 31;  // x to the 0
        const std::uint64_t step = std::uint64_t{element_} << shift;
        for (std::size_t i = 0; i < std::size_t{1} << shift; ++i, power = move(power, element_))
            powers_.low.push_back(power);
        power = std::uint32_t{1} << 31;
        for (std::size_t bit = 0; bit < kProductBits + 8 * (8 - half_); ++bit) power = divided(power);
        for (std::int64_t i = 0; i <= (powers_.cols - 1) >> shift; ++i, power = move(power, step))
            powers_.high.push_back(power);
    }

    /// Divided by x.
    static std::uint32_t divided(std::uint32_t remainder) {
        constexpr std::uint32_t kPolynomial = 0xedb88320;
        return remainder >> 31 == 0 ? remainder << 1 : (remainder ^ kPolynomial) << 1 | 1;
    }

    [[nodiscard]] std::uint32_t of_row(std::int64_t row) const {
        const std::int64_t first = matrix_.pointers[row];
        const auto products = [&](std::size_t offset) {
            const RowProducts sum =
                row_products(powers_, matrix_.columns_as<std::int32_t>() + first,
                             matrix_.values + static_cast<std::size_t>(first) * element_ + offset, half_,
                             element_, matrix_.pointers[row + 1] - first);
            return remainder_of(reinterpret_cast<const std::byte*>(&sum), sizeof sum);
        };
        return half_ == element_ ? products(0) : move_(products(0), half_) ^ products(half_);
    }

    CsrView matrix_;
    const MovePastAny& move_;
    std::size_t element_;
    std::size_t half_;
    RowPowers powers_;
};

unsigned __int128 bytes_of_rows(const Shape& shape, Type type, std::int64_t rows) {
    return static_cast<unsigned __int128>(shape.cols) * size_of(type) * static_cast<std::uint64_t>(rows);
}

/// For all moves within a matrix.
MovePastAny moves_within(const Shape& shape, Type type) {
    return MovePastAny(static_cast<std::uint64_t>(
        std::min<unsigned __int128>(bytes_of_rows(shape, type, shape.rows), kOrder)));
}

}  // namespace

void SparseContentHash::add(std::int64_t row, std::int64_t col, const CsrView& block, int threads) {
    if (block.shape.rows == 0 || block.shape.cols == 0) return;
    const MovePastAny move = moves_within(whole_, type_);
    const std::int64_t pieces = std::clamp<std::int64_t>(block.entries >> 14, 1, 256);
    const std::int64_t grain = ceil_div(block.shape.rows, pieces);
    std::vector<std::uint32_t> remainders(static_cast<std::size_t>(ceil_div(block.shape.rows, grain)), 0);
    const auto rows = block.shape.cols == whole_.cols ? RowRemainders::of(block, move) : std::nullopt;
    visit_index(block.shape, [&]<class I>(TypeTag<I>) {
        parallel_for(block.shape.rows, grain, threads, [&](std::int64_t begin, std::int64_t end) {
            remainders[static_cast<std::size_t>(begin / grain)] =
                rows ? (*rows)(begin, end) : remainder_of<I>(block, col, whole_.cols, move, begin, end);
        });
    });
    std::uint32_t remainder = 0;
    for (std::size_t piece = 0; piece < remainders.size(); ++piece) {
        const std::int64_t begin = static_cast<std::int64_t>(piece) * grain;
        const std::int64_t count = std::min(grain, block.shape.rows - begin);
        remainder = move(remainder, turned(bytes_of_rows(whole_, type_, count))) ^ remainders[piece];
    }
    const std::int64_t below = whole_.rows - row - block.shape.rows;
    remainder_ ^= move(remainder, turned(bytes_of_rows(whole_, type_, below)));
}

std::string SparseContentHash::text() const {
    // As if bytes of ones were before the first byte.
    const std::uint32_t start =
        moves_within(whole_, type_)(0xffffffff, turned(bytes_of_rows(whole_, type_, whole_.rows)));
    return hash_text(start ^ remainder_ ^ 0xffffffff);
}

std::string content_hash(const CsrView& matrix, int threads) {
    SparseContentHash hash(matrix.shape, matrix.type);
    hash.add(0, 0, matrix, threads);
    return hash.text();
}

}  // namespace gpumat
