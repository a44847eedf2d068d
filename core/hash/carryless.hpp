#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Remainders by carry-less multiplication, where the processor has it: an entry costs two multiplications,
// and waits for no other.

namespace gpumat {

/// Powers of x that move an entry of a row past the columns behind it: those behind in steps of `low.size()`
/// columns, and one by one.
struct RowPowers {
    std::vector<std::uint32_t> low;
    std::vector<std::uint32_t> high;
    unsigned shift = 0;  ///< the binary logarithm of low.size()
    std::int64_t cols = 0;
};

/// A sum of products that is not yet divided: as the bytes of which it is the message.
struct RowProducts {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
};

/// Whether the processor can.
bool has_carryless_products();

/// The bits by which the message is longer than the numbers whose products it is the sum of: of two powers
/// and of eight bytes.
inline constexpr unsigned kProductBits = 2;

/// The sum of the products of `count` numbers of `bytes` bytes (1, 2, 4, 8), which lie `stride` bytes apart,
/// with the powers of their columns.
RowProducts row_products(const RowPowers& powers, const std::int32_t* columns, const std::byte* values,
                         std::size_t bytes, std::size_t stride, std::int64_t count);

}  // namespace gpumat
