#include "lib/matrices/stored_copy.hpp"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/hash/hash.hpp"
#include "core/memory.hpp"
#include "core/numbers/blocks.hpp"
#include "core/numbers/whole.hpp"
#include "core/stopwatch.hpp"
#include "lib/stored/plain_nan.hpp"

namespace gpumat {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{16} << 20;        ///< small enough for the caches
constexpr std::uint64_t kLargeBlockBytes = std::uint64_t{128} << 20;  ///< where grains do not fit together
constexpr std::uint64_t kBuffers = 2;
constexpr Shape kLeastBlock{32, 32};  ///< smaller ones take longer to begin than to copy

/// What serves both sides.
Shape joint_grain(const Shape& a, const Shape& b, const Shape& whole) {
    return common_grain(clipped_grain(a, whole), clipped_grain(b, whole), whole);
}

/// The grain, so many times that a block is worth beginning.
Shape worthwhile(const Shape& grain, const Shape& whole) {
    const auto times = [](std::int64_t step, std::int64_t least, std::int64_t extent) {
        return std::min(std::max<std::int64_t>(1, extent), round_up(least, step));
    };
    return {times(grain.rows, kLeastBlock.rows, whole.rows), times(grain.cols, kLeastBlock.cols, whole.cols)};
}

/// What source and writer cannot do without. Of a chunk that comes in pieces the writer would keep those that
/// it has, and of many chunks the whole matrix.
Shape required_grain(const BlockSource& source, const formats::Format& format,
                     const formats::WriteOptions& how) {
    using formats::BlockOrder;
    const Shape& whole = source.shape;
    if (whole.rows == 0 || whole.cols == 0) return {};  // it may have any number of rows
    const bool any = format.order == BlockOrder::any && !source.in_order;
    const Shape written = format.order == BlockOrder::row_panels      ? Shape{1, whole.cols}
                          : format.order == BlockOrder::column_panels ? Shape{whole.rows, 1}
                          : format.writing_grain != nullptr ? format.writing_grain(whole, source.type, how)
                                                            : Shape{1, 1};
    const Shape grain = joint_grain(written, source.in_order ? source.grain : Shape{1, 1}, whole);
    return any ? worthwhile(grain, whole) : grain;
}

/// The blocks that serve both sides best within `most` bytes, which hold one of `required`.
Shape choose_block(const BlockSource& source, const Shape& required, std::uint64_t most) {
    const Shape& whole = source.shape;
    if (required == Shape{}) return required;
    const std::uint64_t element = size_of(source.type);
    const std::uint64_t target = source.rereads ? most : std::min(kBlockBytes, most);
    const Shape grain = joint_grain(required, source.grain, whole);
    if (block_bytes(grain, element) <= std::min(most, kLargeBlockBytes))
        return enlarged_grain(grain, whole, element, target);
    // The source does some of its work more than once: as few blocks as the memory allows.
    return enlarged_grain(required, whole, element, most);
}

/// Two buffers that take turns, or one where there is no memory for two.
class BlockWriting {
  public:
    BlockWriting(const BlockSource& source, formats::Writer& writer, bool keeps_nans, const Shape& step,
                 std::size_t buffers, int threads, Progress& progress)
        : source_(source),
          writer_(writer),
          keeps_nans_(keeps_nans),
          threads_(threads),
          progress_(progress),
          given_hash_(source.shape, source.type, threads),
          plain_hash_(source.shape, source.type, threads),
          buffers_(buffers) {
        for (Buffer& buffer : buffers_) buffer = Buffer(dense_bytes(step, source.type, "a block"));
    }

    /// Fills a block while the one before it is written, or in turn: filling may fork.
    void take(const Block& block) {
        const MutableMatrixView view{source_.type, block.shape(), block.cols, buffers_[turn_].data()};
        turn_ = (turn_ + 1) % buffers_.size();
        if (buffers_.size() == 1) finish();
        const Stopwatch watch;
        source_.fill(block, view);
        fill_ms_ += watch.elapsed_ms();
        finish();
        writing_ = std::async(threads_ > 1 ? std::launch::async : std::launch::deferred, [this, block, view] {
            const Stopwatch write_watch;
            given_hash_.add(block, view);
            if (!keeps_nans_) {
                make_nans_plain(view, threads_);
                plain_hash_.add(block, view);
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
    ContentHash given_hash_;
    ContentHash plain_hash_;  ///< of what is left where NaN is not kept
    std::vector<Buffer> buffers_;
    std::size_t turn_ = 0;
    double fill_ms_ = 0;
    double write_ms_ = 0;
    std::future<void> writing_;  ///< goes first: it uses the others
};

}  // namespace

void tell_left_out(const formats::Writer& writer, const Tell& say) {
    for (const std::string& attribute : writer.left_out())
        tell(say, Severity::warning, "the result does not keep the attribute " + attribute);
}

StoredCopy finish_copy(std::unique_ptr<formats::Writer> writer, Destination& destination, const Shape& shape,
                       Type type, const CopyHashes& hashes, const NamingListener& before_naming) {
    writer->finish();
    writer.reset();  // its descriptor may not be used after the file has its name
    const RecordedMatrix output = {.path = destination.reference().path,
                                   .dataset = destination.reference().dataset,
                                   .format = std::string(destination.format().name),
                                   .rows = shape.rows,
                                   .cols = shape.cols,
                                   .type = std::string(name_of(type)),
                                   .bytes = dense_bytes(shape, type, to_string(destination.reference())),
                                   .hash = hashes.written,
                                   .file_bytes = destination.file_bytes()};
    before_naming(output, hashes.given);
    destination.commit();
    return {.output = output, .given_hash = hashes.given};
}

StoredCopy write_blocks(const BlockSource& source, Destination& destination, const formats::WriteOptions& how,
                        Progress& progress, const Tell& say, const NamingListener& before_naming) {
    const formats::Format& format = destination.format();
    const std::uint64_t beside =
        source.bytes +
        (format.writing_bytes == nullptr ? 0 : format.writing_bytes(source.shape, source.type, how));
    const std::string what = to_string(destination.reference());
    const Shape required = required_grain(source, format, how);
    const std::uint64_t least = block_bytes(required, size_of(source.type));
    require_memory(
        saturating_add(beside, least), how.memory_limit,
        what + ": reading and writing in the smallest blocks (" + to_string(required) + " elements)");
    const std::uint64_t all = how.memory_limit ? *how.memory_limit : available_memory_bytes() / 2;
    const std::uint64_t room = std::max(all - std::min(all, beside), least);
    const std::uint64_t buffers =
        std::clamp<std::uint64_t>(room / std::max<std::uint64_t>(1, least), 1, kBuffers);
    // Half of it for the blocks, a quarter for what either side does beside them.
    const std::uint64_t most = std::max(room / 2 / buffers, least);
    formats::WriteOptions writing = how;
    if (how.memory_limit) {
        const std::uint64_t spare = (room - std::min(room, most * buffers)) / 2;
        writing.memory_limit = beside - source.bytes + spare;
        if (source.set_spare) source.set_spare(spare);
    }
    auto writer = destination.create(source.shape, source.type, writing);
    tell_left_out(*writer, say);
    progress.bytes_to_check = dense_bytes(source.shape, source.type, what);
    const Shape step = choose_block(source, required, most);
    BlockWriting writing_blocks(source, *writer, format.keeps_nans, step, buffers, how.threads, progress);
    for_each_block(source.shape, step, [&](const Block& block) { writing_blocks.take(block); });
    writing_blocks.finish();
    if (source.after_all) source.after_all();
    const Stopwatch watch;
    StoredCopy copy =
        finish_copy(std::move(writer), destination, source.shape, source.type,
                    {writing_blocks.given_hash(), writing_blocks.written_hash()}, before_naming);
    copy.fill_ms = writing_blocks.fill_ms();
    copy.write_ms = writing_blocks.write_ms() + watch.elapsed_ms();
    return copy;
}

}  // namespace gpumat
