#include "lib/matrices/stored_statistics.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/hash/sparse_hash.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "lib/matrices/statistics_by_ranges.hpp"
#include "lib/stored/dense_as_sparse.hpp"
#include "lib/stored/read_in_blocks.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kPairBytes = std::uint64_t{32} << 20;  ///< of two blocks: small enough for the caches

/// Reads a matrix in blocks within the memory that there is.
class StatisticsPass {
  public:
    StatisticsPass(formats::Reader& reader, const formats::ReadOptions& options)
        : reader_(reader),
          shape_(reader.header().shape),
          type_(reader.header().type),
          threads_(options.threads),
          found_(BlockStatistics::of(shape_, type_, threads_)) {
        const formats::Header& header = reader.header();
        const std::string name = to_string(header.source);
        const std::uint64_t all = dense_bytes(shape_, type_, name);
        const std::uint64_t beside = reader.open_bytes() + reader.working_bytes();
        const std::uint64_t sums = statistics_bytes(shape_);
        // A stream comes once: its blocks across the diagonal must be there together.
        whole_ = header.in_order && (header.rereads || shape_.rows == shape_.cols);
        const std::uint64_t least = whole_ ? all : std::min(all, 2 * least_for_blocks(header) + sums);
        std::uint64_t needed = least + beside;
        if (is_sparse(header) && !header.in_order && options.memory_limit)
            needed = rereads_often(header, all, *options.memory_limit)
                         ? least_for_ranges(reader)
                         : std::min(needed, least_for_ranges(reader));
        require_memory(needed, options.memory_limit,
                       name + ": the statistics of a " + to_string(shape_) + " matrix of " +
                           std::string(name_of(type_)));
        const std::uint64_t limit =
            options.memory_limit ? *options.memory_limit : available_memory_bytes() / 2;
        most_ = std::max(least, limit - std::min(limit, beside));
        if (all > most_) most_ -= sums;
    }

    StoredStatistics run() {
        bool compared = false;
        const auto take = [&](const Block& block, const MatrixView& view) {
            found_->take(block, view);
            compared = block.shape() == shape_;
            if (compared && found_->may_be_symmetric()) found_->compare(block, view, view);
        };
        const std::string hash = whole_ ? read_at_once(take) : read_in_blocks(reader_, most_, threads_, take);
        if (!compared) compare_across();
        reader_.require_unchanged();
        return {found_->finish(), hash};
    }

  private:
    std::string read_at_once(const TakeBlock& take) {
        Matrix all(shape_, type_, to_string(reader_.header().source));
        const MatrixView view = read(Block::whole(shape_), all);
        take(Block::whole(shape_), view);
        return content_hash(view, threads_);
    }

    MatrixView read(const Block& block, Matrix& memory) {
        const MutableMatrixView view{type_, block.shape(), block.cols, memory.data()};
        reader_.read(block, view);
        return view;
    }

    /// Square blocks on and below the diagonal, as long as they may find symmetry.
    void compare_across() {
        if (!found_->may_be_symmetric()) return;
        const std::uint64_t bytes = std::min(most_, kPairBytes) / 2;
        const auto fit = static_cast<std::int64_t>(
            std::sqrt(static_cast<double>(bytes) / static_cast<double>(size_of(type_))));
        const Shape grain = clipped_grain(reader_.header().grain, shape_);
        const std::int64_t edge = common_grain(grain, grain.transposed(), shape_).rows;
        const std::int64_t step = edge <= fit ? fit / edge * edge : std::max<std::int64_t>(1, fit);
        Matrix here({step, step}, type_, "a block");
        Matrix there({step, step}, type_, "a block");
        for (std::int64_t row = 0; row < shape_.rows; row += step) {
            for (std::int64_t col = 0; col <= row && found_->may_be_symmetric(); col += step) {
                const Block block{row, col, std::min(step, shape_.rows - row),
                                  std::min(step, shape_.cols - col)};
                const MatrixView view = read(block, here);
                const MatrixView across =
                    row == col ? view : read({block.col, block.row, block.cols, block.rows}, there);
                found_->compare(block, view, across);
            }
        }
    }

    formats::Reader& reader_;
    Shape shape_;
    Type type_;
    int threads_;
    std::unique_ptr<BlockStatistics> found_;
    std::uint64_t most_ = 0;  ///< for blocks
    bool whole_ = false;      ///< in one block
};

/// What a sparse matrix takes that stays so.
std::uint64_t bytes_to_stay_sparse(const formats::Reader& reader) {
    const formats::Header& header = reader.header();
    const std::uint64_t held =
        saturating_add(csr_bytes(header.shape, header.type, *header.most_entries),
                       statistics_bytes(header.shape, header.type, *header.most_entries));
    return saturating_add(std::max(formats::sparse_reading_bytes(header), held),
                          reader.open_bytes() + reader.working_bytes());
}

StoredStatistics statistics_of_sparse(formats::Reader& reader, int threads) {
    std::int64_t duplicates = 0;
    const Csr matrix = reader.read_sparse(duplicates);
    reader.require_unchanged();
    return {statistics(matrix.view(), threads), content_hash(matrix.view(), threads)};
}

}  // namespace

StoredStatistics stored_statistics(formats::Reader& reader, const formats::ReadOptions& options) {
    const auto room = [&] { return options.memory_limit.value_or(available_memory_bytes()); };
    if (is_sparse(reader.header())) {
        const bool fits = bytes_to_stay_sparse(reader) <= room();
        if (!fits || reader.lines())
            if (auto found = statistics_by_ranges(reader, options, fits)) return *std::move(found);
        if (fits) return statistics_of_sparse(reader, options.threads);
    }
    return StatisticsPass(reader, options).run();
}

}  // namespace gpumat
