#pragma once

#include <cstdint>
#include <span>

#include "core/memory.hpp"
#include "core/numbers/matrix.hpp"
#include "formats/hdf5/read/source.hpp"

namespace gpumat::formats::hdf5 {

/// The whole of a sparse matrix in compressed columns, in memory.
class SparseMatrix {
  public:
    /// Reads and checks it; its values become of type `type`. Throws Error{memory} where it passes the memory
    /// limit, Error{input} for what is no compressed matrix.
    SparseMatrix(const Source& source, Type type, const ReadOptions& options);

    /// Fills `out`, of the matrix's type and of the shape of `rect`, which lies in the matrix.
    void read(const Block& rect, const MutableMatrixView& out) const;

    /// The memory that it takes, where a limit counts it: without one, the memory that is free has lost it
    /// already.
    [[nodiscard]] std::uint64_t open_bytes() const { return limited_ ? bytes_ : 0; }

  private:
    void check() const;
    [[noreturn]] void malformed(const std::string& why) const;

    const Source& source_;
    std::int64_t element_bytes_;
    std::uint64_t bytes_;  ///< of what follows
    bool limited_;
    Buffer start_memory_;
    Buffer row_memory_;
    Buffer values_;
    std::span<const std::int64_t> starts_;
    std::span<const std::int64_t> rows_;
};

}  // namespace gpumat::formats::hdf5
