#pragma once

#include <string>
#include <vector>

#include "lib/core/shape.hpp"

namespace gpumat::formats::hdf5 {

/// Which parts of a matrix have been written.
class Coverage {
  public:
    explicit Coverage(const Shape& shape) : shape_(shape) {}

    /// False, and nothing is added, where the block lies outside the matrix or on one added before.
    [[nodiscard]] bool add(const Block& block);

    [[nodiscard]] bool complete() const { return elements_ == shape_.elements(); }

    /// Elements added so far.
    [[nodiscard]] std::int64_t elements() const { return elements_; }

  private:
    Shape shape_;
    std::vector<Block> blocks_;  ///< neighbours that came one after the other are merged
    std::int64_t elements_ = 0;
};

}  // namespace gpumat::formats::hdf5
