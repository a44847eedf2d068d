#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Remainders by carry-less multiplication, where the processor has it: an entry costs two multiplications,
// and waits for no other.

namespace gpumat {

/// Powers of x that move a number past the elements behind it, which count modulo 2³² − 1: those in steps of
/// `low.size()` elements, and one by one.
struct PlacePowers {
    std::vector<std::uint32_t> low;
    std::vector<std::uint32_t> high;
    unsigned shift = 0;  ///< the binary logarithm of low.size()
};

/// A sum of products that is not yet divided: as the bytes of which it is the message.
struct Products {
    std::uint64_t low = 0;
    std::uint64_t high = 0;

    void add(const Products& others) {
        low ^= others.low;
        high ^= others.high;
    }
};

/// Whether the processor can.
bool has_carryless_products();

/// The bits by which the message is longer than the numbers whose products it is the sum of: of two powers
/// and of eight bytes.
inline constexpr unsigned kProductBits = 2;

/// Adds the products of `count` numbers of `bytes` bytes (1, 2, 4, 8), which lie `stride` bytes apart, with
/// the powers of their places in a row, whose first column has `behind` elements behind it.
void add_row_products(const PlacePowers& powers, std::uint64_t behind, const std::int32_t* columns,
                      const std::byte* numbers, std::size_t bytes, std::size_t stride, std::int64_t count,
                      Products& sum);

/// Entries of a matrix with this shape: their rows, columns and numbers of so many bytes (1, 2, 4, 8).
struct PlacedNumbers {
    std::int64_t rows_of_matrix = 0;
    std::int64_t cols_of_matrix = 0;
    const std::int32_t* rows = nullptr;
    const std::int32_t* columns = nullptr;
    const std::byte* numbers = nullptr;
    std::size_t bytes = 0;
    std::int64_t count = 0;
};

/// Adds the products of numbers with the powers of their places to `given`, and with those of their places in
/// the transpose to `transposed`.
void add_products(const PlacePowers& powers, const PlacedNumbers& entries, Products& given,
                  Products& transposed);

}  // namespace gpumat
