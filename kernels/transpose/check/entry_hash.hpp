#pragma once

#include <cstdint>

namespace gpumat::transpose {

/// A permutation of 64 bits in which each bit that goes in decides about half of those that come out
/// (splitmix64, Steele, Lea and Flood 2014).
constexpr std::uint64_t mixed(std::uint64_t bits) {
    bits += 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
}

/// Of a row, whose hash is given, and a column.
constexpr std::uint64_t place_hash(std::uint64_t mixed_row, std::int64_t col) {
    return mixed(mixed_row ^ static_cast<std::uint64_t>(col));
}

/// Of an element's place and bits. The sum of all elements' hashes does not depend on their order.
constexpr std::uint64_t entry_hash(std::uint64_t place, std::uint64_t low) {
    return mixed(place ^ low);
}
constexpr std::uint64_t entry_hash(std::uint64_t place, std::uint64_t low, std::uint64_t high) {
    return mixed(entry_hash(place, low) ^ high);
}

}  // namespace gpumat::transpose
