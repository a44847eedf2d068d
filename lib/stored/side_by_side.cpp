#include "lib/stored/side_by_side.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "formats/registry.hpp"
#include "lib/stored/conjugate.hpp"

namespace gpumat {
namespace {

/// Bytes of both matrices together: small enough for the caches, large enough for all threads.
constexpr std::uint64_t kTargetBytes = std::uint64_t{32} << 20;
/// Where grains do not fit together, those at the edges of a block are read more than once: fewer edges.
constexpr std::uint64_t kMisalignedBytes = std::uint64_t{256} << 20;

/// What one of the two is read by, as a rectangle of X.
struct Side {
    Shape grain;
    bool rereads = false;
    bool required = false;  ///< nothing else can be had
};

Side side_of(const formats::Header& header, bool transposed) {
    const Shape grain =
        clipped_grain(header.in_order && header.rereads ? header.shape : header.grain, header.shape);
    return {transposed ? grain.transposed() : grain, header.rereads, header.in_order};
}

/// Chooses the blocks for two matrices.
class BlockChoice {
  public:
    BlockChoice(const formats::Reader& x, const formats::Reader& y, const SideBySideOptions& options)
        : whole_(x.header().shape),
          x_(side_of(x.header(), false)),
          y_(side_of(y.header(), options.transposed)),
          extra_(clipped_grain(options.grain, whole_)),
          element_bytes_(size_of(x.header().type) + size_of(y.header().type) + options.element_bytes),
          beside_(x.open_bytes() + y.open_bytes() + std::max(x.working_bytes(), y.working_bytes())),
          limit_(options.memory_limit) {
        const std::uint64_t all = limit_ ? *limit_ : available_memory_bytes() / 2;
        most_ = all - std::min(all, beside_);
    }

    /// What blocks of this shape leave of the limit.
    [[nodiscard]] std::uint64_t spare(const Shape& block) const {
        return most_ - std::min(most_, block_bytes(block, element_bytes_));
    }

    [[nodiscard]] Shape block() const {
        const Shape largest{std::max(x_.grain.rows, y_.grain.rows), std::max(x_.grain.cols, y_.grain.cols)};
        const Shape aligned = common_grain(x_.grain, y_.grain, whole_);
        const bool rereads = x_.rereads || y_.rereads;
        if (bytes(aligned) <= std::min(kMisalignedBytes, most_))
            return enlarged(aligned, rereads ? most_ : kTargetBytes);
        if (may_be(largest) && bytes(largest) <= std::min(kMisalignedBytes, most_))
            return enlarged(largest, rereads ? most_ : kMisalignedBytes);
        // One of the two is read anew for each block: as few of them as the memory allows.
        std::array candidates = {aligned, largest, x_.grain, y_.grain};
        std::optional<std::uint64_t> least;
        for (const Shape& grain : candidates) {
            if (!may_be(grain)) continue;
            if (bytes(grain) <= most_) return enlarged(grain, most_);
            least = std::min(least.value_or(bytes(grain)), bytes(grain));
        }
        refuse(least.value_or(bytes(whole_)));
    }

  private:
    /// Whether blocks of multiples of this serve both.
    [[nodiscard]] bool may_be(const Shape& grain) const { return serves(x_, grain) && serves(y_, grain); }

    [[nodiscard]] bool serves(const Side& side, const Shape& grain) const {
        return !side.required || ((grain.rows == whole_.rows || grain.rows % side.grain.rows == 0) &&
                                  (grain.cols == whole_.cols || grain.cols % side.grain.cols == 0));
    }

    /// Bytes of a block of whole multiples; the largest number where it is more.
    [[nodiscard]] std::uint64_t bytes(const Shape& grain) const {
        return block_bytes(common_grain(grain, extra_, whole_), element_bytes_);
    }

    /// As many grains as `target` bytes hold.
    [[nodiscard]] Shape enlarged(const Shape& grain, std::uint64_t target) const {
        return enlarged_grain(common_grain(grain, extra_, whole_), whole_, element_bytes_,
                              std::min(target, most_));
    }

    [[noreturn]] void refuse(std::uint64_t least) const {
        std::uint64_t all = 0;
        if (__builtin_add_overflow(least, beside_, &all)) all = ~std::uint64_t{0};
        require_memory(all, limit_, "comparing " + to_string(whole_) + " elements in the smallest blocks");
        throw Error(ErrorCode::memory, "comparing " + to_string(whole_) +
                                           " elements in the smallest blocks takes " + format_need(all) +
                                           ", more than half of the memory that is available");
    }

    Shape whole_;
    Side x_;
    Side y_;
    Shape extra_;
    std::uint64_t element_bytes_;
    std::uint64_t beside_;  ///< what the readers take
    std::optional<std::uint64_t> limit_;
    std::uint64_t most_ = 0;
};

/// The blocks of X in which both are read; shares what they leave of the limit.
Shape block_shape(formats::Reader& x, formats::Reader& y, const SideBySideOptions& options) {
    const BlockChoice choice(x, y, options);
    const Shape block = choice.block();
    if (options.memory_limit) {  // they take turns, and one may keep what it took
        x.set_spare(choice.spare(block) / 2);
        y.set_spare(choice.spare(block) / 2);
    }
    return block;
}

/// One side's buffer, and the block that was read into it.
class BlockBuffer {
  public:
    BlockBuffer(formats::Reader& reader, const Shape& most)
        : reader_(reader),
          buffer_(dense_bytes(most, reader.header().type, to_string(reader.header().source))) {}

    MutableMatrixView read(const Block& block) {
        const MutableMatrixView view{reader_.header().type, block.shape(), block.cols, buffer_.data()};
        reader_.read(block, view);
        return view;
    }

  private:
    formats::Reader& reader_;
    Buffer buffer_;
};

}  // namespace

void read_side_by_side(formats::Reader& x, formats::Reader& y, const SideBySideOptions& options,
                       const TakeBlocks& take) {
    const Shape whole = x.header().shape;
    const auto of_y = [&](const Block& block) {
        return options.transposed ? Block{block.col, block.row, block.cols, block.rows} : block;
    };
    if (whole.rows == 0 || whole.cols == 0) {  // nothing but what may be wrong with the files
        BlockBuffer(x, {0, 0}).read(Block::whole(whole));
        BlockBuffer(y, {0, 0}).read(of_y(Block::whole(whole)));
        return;
    }
    const std::uint64_t element_bytes = size_of(x.header().type) + size_of(y.header().type);
    if (options.progress != nullptr) options.progress->bytes_to_check = block_bytes(whole, element_bytes);
    const Shape step = block_shape(x, y, options);
    BlockBuffer of_x(x, step);
    BlockBuffer also_of_y(y, step);
    for_each_block(whole, step, [&](const Block& block) {
        const MutableMatrixView x_view = of_x.read(block);
        if (options.conjugate_x) conjugate(x_view, options.threads);
        take(block, x_view, also_of_y.read(of_y(block)));
        if (options.progress != nullptr)
            options.progress->bytes_checked += block_bytes(block.shape(), element_bytes);
    });
}

}  // namespace gpumat
