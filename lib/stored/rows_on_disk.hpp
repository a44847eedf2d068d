#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/sparse/csr.hpp"
#include "core/spool.hpp"
#include "formats/format.hpp"

namespace gpumat {

/// Rows of a sparse matrix in a temporary file without a name, in ranges that follow each other.
class RowsOnDisk {
  public:
    /// `what` is the matrix, for messages.
    explicit RowsOnDisk(std::string what);

    /// Puts rows behind those that there are. Throws Error{output}.
    void append(const CsrView& rows);

    [[nodiscard]] std::int64_t entries() const { return entries_; }

    /// Gives each range, as it came, with the arrays that are wanted.
    void for_each(formats::CsrArray wanted,
                  const std::function<void(std::int64_t first_row, const CsrView& rows)>& take) const;

    /// Gives all to a writer.
    void write_to(formats::SparseWriter& writer) const {
        writer.write_all([this](formats::CsrArray wanted, const auto& take) { for_each(wanted, take); });
    }

  private:
    struct Range {
        Shape shape;
        Type type;
        std::int64_t entries;
        std::uint64_t offset;
    };

    std::string what_;
    Spool file_;
    std::vector<Range> ranges_;
    std::int64_t entries_ = 0;
};

}  // namespace gpumat
