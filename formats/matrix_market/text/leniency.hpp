#pragma once

#include <atomic>
#include <string>

#include "formats/format.hpp"

namespace gpumat::formats::matrix_market {

/// What the format does not allow, and what files have nevertheless. Each has one meaning only.
enum class Deviation {
    byte_order_mark,
    space_before_banner,
    one_percent,
    vector_object,
    real_hermitian,
    lone_returns,
    comments,
    fortran_exponents,
    zero_diagonal,
    upper_triangle
};

/// Whether deviations are read, and who hears of them. Several threads may note some at once.
class Leniency {
  public:
    Leniency(std::string name, const ReadOptions& options)
        : name_(std::move(name)), strict_(options.strict), tell_(options.tell) {}

    [[nodiscard]] bool strict() const { return strict_; }

    /// Tells of each kind once.
    void note(Deviation deviation);

  private:
    std::string name_;
    bool strict_;
    Tell tell_;
    std::atomic<unsigned> noted_ = 0;
};

}  // namespace gpumat::formats::matrix_market
