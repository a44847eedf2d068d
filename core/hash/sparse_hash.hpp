#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/hash/carryless.hpp"
#include "core/sparse/csr.hpp"
#include "core/sparse/value_texts.hpp"

namespace gpumat {

/// The content hash of the dense matrix that has certain entries and is zero elsewhere, without making it, of
/// blocks in any order, each element in one of them. The structure must hold.
class SparseContentHash {
  public:
    SparseContentHash(const Shape& whole, Type type) : whole_(whole), type_(type) {}

    /// Takes a block, whose first element has this place.
    void add(std::int64_t row, std::int64_t col, const CsrView& block, int threads) {
        add(row, col, block, nullptr, threads);
    }
    /// The same of one whose values are `texts` of numbers; how many are zero.
    std::int64_t add(std::int64_t row, std::int64_t col, const CsrView& block, const ValueTexts& texts,
                     int threads) {
        return add(row, col, block, &texts, threads);
    }

    /// Takes what another one has of the same matrix.
    void merge(const SparseContentHash& other);

    /// After all blocks.
    [[nodiscard]] std::string text() const;

  private:
    std::int64_t add(std::int64_t row, std::int64_t col, const CsrView& block, const ValueTexts* texts,
                     int threads);

    Shape whole_;
    Type type_;
    std::uint32_t remainder_ = 0;  ///< of all entries but those in the sums
    /// Of the lower and the upper half of numbers wider than eight bytes, or of numbers.
    std::array<Products, 2> sums_{};
    std::shared_ptr<const PlacePowers> powers_;  ///< once it pays
};

/// The content hashes of a matrix and of its transpose, from its entries in any order, each of which comes
/// once. Its tables are read by several threads at once.
class EntryHashes {
  public:
    /// What some entries add, which add up by `add`.
    struct Sums {
        Products given;
        Products transposed;
        void add(const Sums& others) {
            given.add(others.given);
            transposed.add(others.transposed);
        }
    };

    /// Of a matrix with about so many entries. Nothing where the processor has no carry-less products,
    /// indices are of 64 bits, numbers are wider than eight bytes, or tables would cost more than they save.
    static std::optional<EntryHashes> of(const Shape& shape, Type type, std::int64_t entries);

    /// Adds so many entries, with numbers of the type.
    void add(const std::int32_t* rows, const std::int32_t* columns, const std::byte* numbers,
             std::int64_t count, Sums& sums) const;

    [[nodiscard]] std::string given(const Sums& all) const { return text(all.given); }
    [[nodiscard]] std::string transposed(const Sums& all) const { return text(all.transposed); }

  private:
    EntryHashes(const Shape& shape, Type type) : shape_(shape), type_(type) {}
    [[nodiscard]] std::string text(const Products& products) const;

    Shape shape_;
    Type type_;
    std::shared_ptr<const PlacePowers> powers_;
};

/// The same of a matrix that is there.
std::string content_hash(const CsrView& matrix, int threads);
/// The same of one whose values are `texts` of numbers.
std::string content_hash(const CsrView& matrix, const ValueTexts& texts, int threads);
/// The same of the matrix that the texts were read with, of which they may know it; `zeros` becomes how many
/// of its numbers are zero.
std::string given_hash(const CsrView& matrix, const ValueTexts& texts, int threads, std::int64_t& zeros);

}  // namespace gpumat
