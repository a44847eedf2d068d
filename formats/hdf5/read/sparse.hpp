#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/numbers/matrix.hpp"
#include "core/sparse/coo.hpp"
#include "formats/hdf5/read/dense_reader.hpp"
#include "formats/hdf5/read/source.hpp"
#include "formats/sparse_arrays.hpp"

namespace gpumat::formats::hdf5 {

/// The entries that a matrix has at most, once symmetry is resolved; nothing where it is not sparse.
std::optional<std::int64_t> most_entries(const Source& source);

/// Reads a sparse matrix of any layout: as sorted rows, or block by block as a dense one, for which it keeps
/// the rows.
class SparseReader {
  public:
    /// `source.where` is a Sparse, whose values become of type `type`. Throws as `open_storage`, and
    /// Error{input} where the type has no imaginary part and complex numbers are stored as their parts.
    SparseReader(const Source& source, const ReadOptions& options, Type type);

    /// See Reader. Throws Error{input} naming array and position for what is no sparse matrix.
    Csr read_sparse(std::int64_t& duplicates);

    /// The same, of what is read some numbers at a time: see Reader.
    [[nodiscard]] std::optional<Lines> lines() const;
    [[nodiscard]] const SparseArrays& arrays();
    [[nodiscard]] std::uint64_t entries_bytes() const;

    /// Fills `out`, of the matrix's type and of the shape of `rect`, which lies in the matrix.
    void read(const Block& rect, const MutableMatrixView& out);

    /// What the rows take that `read` keeps, and reading them: once they are there and no limit counts them,
    /// nothing, because the memory that is free has lost it.
    [[nodiscard]] std::uint64_t open_bytes() const;
    [[nodiscard]] std::uint64_t working_bytes() const;
    void set_spare(std::uint64_t bytes);

  private:
    /// The parts in memory, checked. Those of entries have room for the entries that symmetry adds.
    struct Arrays {
        Buffer starts;  ///< of a compressed matrix
        Buffer lines;   ///< else
        Buffer indices;
        Buffer values;
        bool in_order = false;  ///< the indices increase in each line
    };

    [[nodiscard]] std::unique_ptr<DenseReader> open(const std::shared_ptr<const Source>& part,
                                                    Type type) const;
    /// All numbers of a part, with room for more.
    [[nodiscard]] static Buffer read_part(const Source& part, DenseReader& reader, Type type,
                                          std::int64_t room);
    Buffer read_values(Type type);
    Arrays read_arrays(Type type);
    Coo entries_in(Arrays arrays, Type type) const;

    void check_starts(std::span<const std::int64_t> starts) const;
    template <class I>
    bool check_indices(const Arrays& arrays) const;
    template <class I>
    void check_range(const Source& part, std::span<const I> indices, bool of_columns) const;
    template <class I>
    std::int64_t mirror(Arrays& arrays, std::size_t value_bytes) const;
    void require_bytes(std::uint64_t bytes) const;
    [[nodiscard]] std::int64_t numbers_together() const;
    [[nodiscard]] StoredNumbers numbers_of(const std::shared_ptr<const Source>& part) const;

    const Source& source_;
    const Sparse& sparse_;
    std::int64_t most_entries_;
    ReadOptions options_;
    Type type_;
    std::unique_ptr<DenseReader> lines_;
    std::unique_ptr<DenseReader> indices_;
    std::unique_ptr<DenseReader> values_;
    std::optional<Csr> rows_;             ///< for `read`
    std::optional<SparseArrays> arrays_;  ///< for what is read some numbers at a time
};

}  // namespace gpumat::formats::hdf5
