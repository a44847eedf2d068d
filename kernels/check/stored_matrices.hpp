#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/numbers/blocks.hpp"
#include "core/numbers/matrix.hpp"

// Stored matrices as checks read them that have none in memory as a whole. lib/stored/ makes them of readers
// of files.

namespace gpumat {

/// A stored matrix. What reads throws as the reader of its file does.
class StoredMatrix {
  public:
    virtual ~StoredMatrix() = default;
    StoredMatrix() = default;
    StoredMatrix(const StoredMatrix&) = delete;
    StoredMatrix& operator=(const StoredMatrix&) = delete;

    [[nodiscard]] virtual Shape shape() const = 0;
    [[nodiscard]] virtual Type type() const = 0;
    /// Blocks that are whole multiples of this cost no more than their share of the whole matrix.
    [[nodiscard]] virtual Shape grain() const = 0;
    /// What is read is gone.
    [[nodiscard]] virtual bool comes_once() const = 0;

    virtual void read(const Block& block, const MutableMatrixView& into) = 0;

    /// Reads each element once, block by block, within `room` bytes, which are at least so many.
    virtual void read_in_blocks(std::uint64_t room, const TakeBlock& take) = 0;
    [[nodiscard]] virtual std::uint64_t least_for_blocks() const = 0;
};

using TakeBytes = std::function<void(std::span<const std::byte> bytes)>;

/// Stored inputs and a stored result, which are checked.
struct StoredMatrices {
    std::vector<StoredMatrix*> inputs;  ///< by role; null where one is not given
    StoredMatrix& result;
    std::uint64_t beside = 0;  ///< bytes that reading takes
    /// Where several processes check together: `read_in_blocks` gives each of them blocks of its own, and
    /// this adds, for all, what they made of them. They call it, and `read`, which gives the elements to one
    /// of them, in the same order. Empty: there is one.
    std::function<void(std::span<double> sums)> add_up = {};
    /// Likewise: one of them takes what each of them has, in an order that is always the same.
    std::function<void(std::span<const std::byte> own, const TakeBytes& take)> gather = {};
};

/// Reads an input, and a result that has its elements transposed, at the same time: gives each block of the
/// input, with the elements of both as they lie there.
using ReadSideBySide = std::function<void(const TakeBlocks& take)>;

}  // namespace gpumat
