#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "kernels/operation.hpp"

namespace gpumat {

/// What an input or the result is stored in, as far as the cost of its blocks depends on it.
struct StoredAs {
    Shape shape;
    Shape grain{1, 1};      ///< see formats::Header and formats::Format
    bool rereads = false;   ///< every block costs as much as the whole
    bool in_order = false;  ///< only the whole can be had
};

/// What a header says of it.
StoredAs stored_as(const formats::Header& header);

/// What cutting has to keep to.
struct CutLimits {
    std::uint64_t host_bytes = 0;                 ///< for blocks of the inputs and the result
    std::optional<std::uint64_t> device_bytes{};  ///< the same on a GPU; nothing on a CPU
    formats::BlockOrder order = formats::BlockOrder::any;
    /// What verifying a part takes of the host's memory; empty where nothing is.
    std::function<std::uint64_t(const Problem& part)> verification_bytes{};
};

/// How many buffers of each kind the stages share. One that serves many parts in turn is there once.
struct BufferCounts {
    std::vector<std::size_t> inputs;         ///< by role; in host memory
    std::vector<std::size_t> device_inputs;  ///< by role
    std::size_t results = 1;                 ///< on either side
};

/// A problem cut into parts, each of which gives a block of the result, or its share of one. One part where
/// all fits.
class Parts {
  public:
    /// The whole problem as one part.
    explicit Parts(const Problem& problem, const std::vector<std::optional<StoredAs>>& inputs);

    /// Cuts so that as few bytes as possible are read, chunks are written once, and each part is large enough
    /// to be worth it and small enough that stages overlap. The operation must be one that can be cut, not in
    /// place, and the result not empty. Throws Error{memory} with the least limit that would do, and
    /// `fixed_bytes` count, of `host_room`, where not even the smallest part fits.
    Parts(const Problem& problem, const std::vector<std::optional<StoredAs>>& inputs, const StoredAs& result,
          const CutLimits& limits, std::uint64_t fixed_bytes, std::uint64_t host_room,
          const std::string& what);

    [[nodiscard]] std::int64_t count() const { return rows_ * cols_; }
    [[nodiscard]] ProblemPart at(std::int64_t index) const;
    /// What was chosen for the level, in every part.
    void set_parameters(const Parameters& parameters) {
        problem_.parameters = whole_.problem.parameters = parameters;
    }
    [[nodiscard]] const BufferCounts& buffers() const { return buffers_; }
    [[nodiscard]] std::uint64_t host_bytes() const { return host_bytes_; }
    [[nodiscard]] std::uint64_t device_bytes() const { return device_bytes_; }

  private:
    Problem problem_;
    ProblemPart whole_;
    Shape extent_;            ///< of what is cut
    Shape step_;              ///< of it, but for parts at the edges
    std::int64_t rows_ = 1;   ///< parts from top to bottom
    std::int64_t cols_ = 1;   ///< and from left to right
    bool down_first_ = true;  ///< parts follow each other downwards
    BufferCounts buffers_;
    std::uint64_t host_bytes_ = 0;  ///< of all buffers
    std::uint64_t device_bytes_ = 0;
};

}  // namespace gpumat
