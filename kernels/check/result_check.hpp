#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/check/verification.hpp"
#include "kernels/problem.hpp"

namespace gpumat {

/// The check of one result, which may come in panels of rows while others are computed or written.
class ResultCheck {
  public:
    virtual ~ResultCheck() = default;
    ResultCheck() = default;
    ResultCheck(const ResultCheck&) = delete;
    ResultCheck& operator=(const ResultCheck&) = delete;

    /// Before all else, where the result is combined of parts: each of them, in order. The inputs are not
    /// needed afterwards.
    virtual void add_part(const Problem& /*part*/, const Operands& /*inputs*/) {}

    /// Before all else, where the part before this one had the same blocks of some inputs: may take over what
    /// its check made of them.
    virtual void follow(const ResultCheck& /*before*/, const std::vector<bool>& /*same_by_role*/) {}

    /// Whether the result may come in panels; else it must come whole.
    [[nodiscard]] virtual bool takes_panels() const = 0;

    /// What needs only the inputs. Panels of so many rows will follow.
    virtual void prepare(std::int64_t /*panel_rows*/) {}

    /// Rows of the result from `first` on, in host memory; in any order. Not needed afterwards.
    virtual void take(std::int64_t first, const Operand& panel) = 0;

    /// After all rows.
    [[nodiscard]] virtual Verification finish() = 0;
};

/// Adds what was found in a part of the result, whose first element has this place, to what was found in
/// others. The worst element of all is kept, of equal ones the first.
void merge_part(Verification& all, Verification part, std::int64_t row, std::int64_t col);

}  // namespace gpumat
