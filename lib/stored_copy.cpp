#include "lib/stored_copy.hpp"

#include <algorithm>
#include <array>
#include <future>

#include "lib/blocks.hpp"
#include "lib/core/error.hpp"
#include "lib/core/forking.hpp"
#include "lib/core/memory.hpp"
#include "lib/plain_nan.hpp"
#include "lib/stopwatch.hpp"
#include "lib/streamed_hash.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 20;        ///< small enough for the caches
constexpr std::uint64_t kLargeBlockBytes = std::uint64_t{128} << 20;  ///< where grains do not fit together
constexpr int kBuffers = 2;
constexpr Shape kLeastBlock{32, 32};  ///< smaller ones take longer to begin than to copy

/// What serves both sides.
Shape joint_grain(const Shape& a, const Shape& b, const Shape& whole) {
    return common_grain(clipped_grain(a, whole), clipped_grain(b, whole), whole);
}

/// What source and writer cannot do without.
Shape required_grain(const BlockSource& source, formats::BlockOrder order) {
    const Shape& whole = source.shape;
    const Shape written = order == formats::BlockOrder::row_panels      ? Shape{1, whole.cols}
                          : order == formats::BlockOrder::column_panels ? Shape{whole.rows, 1}
                          : source.in_order                             ? Shape{1, 1}
                                                                        : kLeastBlock;
    return joint_grain(written, source.in_order ? source.grain : Shape{1, 1}, whole);
}

/// The blocks that serve both sides best within `most` bytes, which hold one of `required`.
Shape choose_block(const BlockSource& source, const formats::Writer& writer, const Shape& required,
                   std::uint64_t most) {
    const Shape& whole = source.shape;
    const std::uint64_t element = size_of(source.type);
    const std::uint64_t target = source.rereads ? most : std::min(kBlockBytes, most);
    const Shape written = joint_grain(required, writer.grain(), whole);
    for (const Shape& grain :
         {joint_grain(written, source.grain, whole), joint_grain(required, source.grain, whole), written}) {
        if (block_bytes(grain, element) <= std::min(most, kLargeBlockBytes))
            return enlarged_grain(grain, whole, element, target);
    }
    // One of the two does some of its work more than once: as few blocks as the memory allows.
    return enlarged_grain(required, whole, element, most);
}

/// Two buffers that take turns.
class BlockWriting {
  public:
    BlockWriting(const BlockSource& source, formats::Writer& writer, bool keeps_nans, const Shape& step,
                 int threads, Progress& progress)
        : source_(source),
          writer_(writer),
          keeps_nans_(keeps_nans),
          threads_(threads),
          progress_(progress),
          given_hash_(source.shape, source.type),
          plain_hash_(source.shape, source.type) {
        for (Buffer& buffer : buffers_) buffer = Buffer(dense_bytes(step, source.type, "a block"));
    }

    /// Fills a block while the one before it is written, or in turn: filling may fork.
    void take(const Block& block) {
        const MutableMatrixView view{source_.type, block.shape(), block.cols, buffers_[turn_].data()};
        turn_ = 1 - turn_;
        const Stopwatch watch;
        source_.fill(block, view);
        fill_ms_ += watch.elapsed_ms();
        finish();
        const bool beside = threads_ > 1 && kForksBesideThreads;
        writing_ = std::async(beside ? std::launch::async : std::launch::deferred, [this, block, view] {
            const Stopwatch write_watch;
            given_hash_.take(block, view, threads_);
            if (!keeps_nans_) {
                make_nans_plain(view, threads_);
                plain_hash_.take(block, view, threads_);
            }
            writer_.write(block, view);
            write_ms_ += write_watch.elapsed_ms();
            progress_.bytes_checked += block_bytes(block.shape(), size_of(source_.type));
        });
    }

    void finish() {
        if (writing_.valid()) writing_.get();
    }

    [[nodiscard]] std::string given_hash() const { return given_hash_.text(); }
    [[nodiscard]] std::string written_hash() const {
        return (keeps_nans_ ? given_hash_ : plain_hash_).text();
    }
    [[nodiscard]] double fill_ms() const { return fill_ms_; }
    [[nodiscard]] double write_ms() const { return write_ms_; }

  private:
    const BlockSource& source_;
    formats::Writer& writer_;
    bool keeps_nans_;
    int threads_;
    Progress& progress_;
    StreamedHash given_hash_;
    StreamedHash plain_hash_;  ///< of what is left where NaN is not kept
    std::array<Buffer, kBuffers> buffers_;
    std::size_t turn_ = 0;
    double fill_ms_ = 0;
    double write_ms_ = 0;
    std::future<void> writing_;  ///< goes first: it uses the others
};

}  // namespace

StoredCopy write_blocks(const BlockSource& source, Destination& destination, const formats::WriteOptions& how,
                        Progress& progress, const Tell& say) {
    const formats::Format& format = destination.format();
    const std::uint64_t beside =
        source.bytes +
        (format.writing_bytes == nullptr ? 0 : format.writing_bytes(source.shape, source.type, how));
    const std::string what = to_string(destination.reference());
    const Shape required = required_grain(source, format.order);
    const std::uint64_t least = block_bytes(required, kBuffers * size_of(source.type));
    require_memory(
        least > ~beside ? ~std::uint64_t{0} : beside + least, how.memory_limit,
        what + ": reading and writing in the smallest blocks (" + to_string(required) + " elements)");
    const std::uint64_t all = how.memory_limit ? *how.memory_limit : available_memory_bytes() / 2;
    formats::WriteOptions writing = how;
    const std::uint64_t blocks = std::max((all - std::min(all, beside)) / 2, least);
    if (how.memory_limit) writing.memory_limit = *how.memory_limit - source.bytes - blocks;
    auto writer = destination.create(source.shape, source.type, writing);
    for (const std::string& attribute : writer->left_out())
        tell(say, Severity::warning, "the result does not keep the attribute " + attribute);
    progress.bytes_to_check = dense_bytes(source.shape, source.type, what);
    const Shape step = choose_block(source, *writer, required, blocks / kBuffers);
    BlockWriting writing_blocks(source, *writer, format.keeps_nans, step, how.threads, progress);
    for_each_block(source.shape, step, [&](const Block& block) { writing_blocks.take(block); });
    writing_blocks.finish();
    if (source.after_all) source.after_all();
    const Stopwatch watch;
    writer->finish();
    writer.reset();  // its descriptor may not be used after the file has its name
    destination.commit();
    return {RecordedMatrix{.path = destination.reference().path,
                           .dataset = destination.reference().dataset,
                           .format = std::string(format.name),
                           .rows = source.shape.rows,
                           .cols = source.shape.cols,
                           .type = std::string(name_of(source.type)),
                           .bytes = dense_bytes(source.shape, source.type, what),
                           .hash = writing_blocks.written_hash()},
            writing_blocks.given_hash(), writing_blocks.fill_ms(),
            writing_blocks.write_ms() + watch.elapsed_ms()};
}

}  // namespace gpumat
