#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/sparse/coo.hpp"
#include "core/sparse/csr.hpp"
#include "core/sparse/entries.hpp"

// Sparse matrices that are stored as three arrays, read some numbers at a time.

namespace gpumat::formats {

/// An array, of which any numbers can be read.
struct StoredNumbers {
    std::string name;  ///< "FILE:/X/indices", for messages
    std::int64_t count = 0;
    /// Reads so many from `first` on, as numbers of that type. For several threads at once.
    std::function<void(std::int64_t first, std::int64_t count, Type type, std::byte* to)> read;
};

/// A sparse matrix as it is stored. Nothing of it has been checked but the lengths of the arrays.
struct SparseArrays {
    std::string name;
    Shape shape;
    Type type = Type::f64;
    std::int64_t entries = 0;
    bool compressed = true;  ///< the entries lie line by line
    bool by_columns = false;
    bool symmetric = false;  ///< an entry beside the diagonal is also the one across it
    StoredNumbers lines;     ///< where each line starts, and the last one ends; else the line of each entry
    StoredNumbers indices;   ///< the place of each entry in its line
    StoredNumbers values;
    std::int64_t together = 1;  ///< numbers that are read at a time
    int threads = 1;
};

/// Entries that are worth reading at a time.
inline constexpr std::int64_t kEntriesTogether = 1 << 14;

/// What these functions take beside what they deliver and what the arrays' readers take.
std::uint64_t bytes_of_pieces(const SparseArrays& matrix);

/// See Reader::read_entries, count_entries and read_lines. Throw Error{input} naming array and position for
/// what is no sparse matrix. The last two are for compressed matrices that are not symmetric.
void give_entries(const SparseArrays& matrix, const std::function<void(const Entries&)>& take);
std::vector<std::int64_t> count_in_lines(const SparseArrays& matrix, std::int64_t step);
Csr lines_in(const SparseArrays& matrix, const Block& block, std::int64_t& duplicates);

}  // namespace gpumat::formats
