#pragma once

#include <cstdint>
#include <vector>

#include "kernels/multiply/arithmetic.hpp"
#include "kernels/operand.hpp"

namespace gpumat::multiply::cpu::sparse {

/// A piece of a sparse matrix: whole rows, or some of the entries of one row that has many.
struct Piece {
    std::int64_t begin = 0;  ///< the first row
    std::int64_t end = 0;
    std::int64_t first = 0;  ///< entries
    std::int64_t last = 0;
    std::int64_t part = -1;  ///< of all parts of cut rows; −1 for whole rows
};

/// A row that is cut: its parts follow each other.
struct CutRow {
    std::int64_t row = 0;
    std::int64_t part = 0;
    std::int64_t parts = 0;
};

/// A sparse matrix in pieces of about equally many rows and entries together, which do not depend on the
/// number of threads: neither do the sums, then.
struct Pieces {
    std::vector<Piece> pieces;
    std::vector<CutRow> cut;
    std::int64_t parts = 0;
};

Pieces pieces_of(const Operand& matrix);

/// The most parts of cut rows that a matrix with so many rows and entries has.
std::int64_t most_parts(std::int64_t rows, std::int64_t entries);

/// The sums of the parts of rows that are cut, n of each.
template <class T>
class Parts {
  public:
    Parts(const Pieces& pieces, std::int64_t n)
        : pieces_(pieces), n_(n), sums_(static_cast<std::size_t>(pieces.parts * n)) {}

    [[nodiscard]] Sum<T>* sums(std::int64_t part) { return sums_.data() + part * n_; }

    /// Adds the parts of each row, and calls `finish(row, sums)`.
    template <class Finish>
    void join(const Finish& finish) {
        for (const CutRow& cut : pieces_.cut) {
            Sum<T>* const row = sums(cut.part);
            for (std::int64_t part = cut.part + 1; part < cut.part + cut.parts; ++part) {
                const Sum<T>* const more = sums(part);
                for (std::int64_t j = 0; j < n_; ++j) row[j] += more[j];
            }
            finish(cut.row, row);
        }
    }

  private:
    const Pieces& pieces_;
    std::int64_t n_;
    std::vector<Sum<T>> sums_;
};

}  // namespace gpumat::multiply::cpu::sparse
