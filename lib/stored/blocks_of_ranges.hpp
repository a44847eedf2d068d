#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/format.hpp"
#include "lib/stored/sparse_ranges.hpp"

namespace gpumat {

/// A sparse matrix in dense blocks, for who goes through it from the top down beside one that is dense: of
/// ranges of its rows, of which it holds the last.
class BlocksOfRanges final : public formats::Reader {
  public:
    /// As SparseRanges; ranges take no more than `room` bytes. Throws Error{memory} for rows that take more.
    BlocksOfRanges(formats::Reader& reader, std::uint64_t room, int threads);

    /// The least that `room` may be.
    static std::uint64_t least_room(const formats::Reader& reader) {
        return SparseRanges::least_room(reader, formats::Lines::rows);
    }

    [[nodiscard]] const formats::Header& header() const override { return header_; }
    void read(const Block& block, const MutableMatrixView& out) override;
    [[nodiscard]] std::uint64_t open_bytes() const override;
    void require_unchanged() const override { reader_.require_unchanged(); }
    [[nodiscard]] std::vector<std::string> other_files() const override { return reader_.other_files(); }
    [[nodiscard]] const formats::Reader& origin() const override { return reader_.origin(); }

  private:
    void hold(const LineRange& range);

    formats::Reader& reader_;
    std::uint64_t room_;
    int threads_;
    formats::Header header_;
    SparseRanges rows_;
    std::vector<LineRange> ranges_;
    std::int64_t held_ = -1;  ///< the first row of `range_`
    Csr range_;
};

}  // namespace gpumat
