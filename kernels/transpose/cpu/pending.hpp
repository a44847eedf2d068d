#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/transpose/cpu/streaming.hpp"

namespace gpumat::transpose::cpu {

/// What a thread does bit by bit while it transposes a tile: it writes the runs of the tile before, and
/// prefetches the rows of the tile after. One after the other, transposing, writing and reading would not
/// overlap (README.md).
class Pending {
  public:
    /// Nothing.
    Pending() = default;

    Pending(const Runs& runs, const Rows& rows, VectorWidth width)
        : runs_(runs),
          requests_(rows, runs.count),
          write_(write_for(width, runs, requests_)),
          batch_(runs.count > 0 ? (kBatchBytes + runs.bytes - 1) / runs.bytes : 0),
          batch_bytes_(batch_ * runs.bytes) {}

    /// So many bytes more were staged: does as much of what is to be done.
    void advance(std::int64_t bytes) {
        staged_ += bytes;
        if (staged_ < batch_bytes_ || written_ == runs_.count) return;
        staged_ -= batch_bytes_;
        write_to(std::min(written_ + batch_, runs_.count));
    }

    /// Does what is left.
    void finish() {
        if (written_ < runs_.count) write_to(runs_.count);
        requests_.finish();
    }

  private:
    void write_to(std::int64_t end) {
        write_(runs_, requests_, written_, end);
        written_ = end;
    }

    /// Bytes of runs that are written at once, at least; no less than is staged at once. Less costs calls,
    /// more makes bursts.
    static constexpr std::int64_t kBatchBytes = 1024;

    Runs runs_;
    Requests requests_;
    Write write_ = nullptr;
    std::int64_t batch_ = 0;  ///< runs that are written at once
    std::int64_t batch_bytes_ = 0;
    std::int64_t written_ = 0;  ///< runs
    std::int64_t staged_ = 0;   ///< bytes for which no run was written yet
};

}  // namespace gpumat::transpose::cpu
