#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "formats/matrix_market/stream/byte_stream.hpp"
#include "formats/matrix_market/text/text.hpp"

namespace gpumat::formats::matrix_market {
namespace {

/// Reads a stream ahead on a thread of its own, so that it is inflated, or waited for, while what came before
/// is parsed. The thread starts behind the first bytes: for a header alone there is none.
class AheadStream final : public ByteStream {
  public:
    AheadStream(std::unique_ptr<ByteStream> from, std::size_t blocks)
        : from_(std::move(from)), blocks_(blocks) {}
    ~AheadStream() override { stop(); }

    std::size_t read(char* to, std::size_t count) override {
        if (!thread_.joinable()) {
            if (direct_ < kReadBytes) {
                const std::size_t got = from_->read(to, std::min(count, kReadBytes));
                direct_ += got;
                return got;
            }
            thread_ = std::thread([this] { read_ahead(); });
        }
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return filled_ != 0 || ended_; });
        if (filled_ == 0) {
            if (failure_) std::rethrow_exception(failure_);
            return 0;
        }
        const Block& block = blocks_[first_];  // the thread leaves it alone until it is given back
        lock.unlock();
        const std::size_t got = std::min(count, block.size - taken_);
        std::memcpy(to, block.bytes.data() + taken_, got);
        taken_ += got;
        if (taken_ == block.size) {
            taken_ = 0;
            lock.lock();
            first_ = (first_ + 1) % blocks_.size();
            --filled_;
            changed_.notify_one();
        }
        return got;
    }

    void rewind() override {
        stop();
        from_->rewind();
        direct_ = first_ = filled_ = taken_ = 0;
        ended_ = stopped_ = false;
        failure_ = nullptr;
    }

    void interrupt() override { from_->interrupt(); }

    [[nodiscard]] const std::string& name() const override { return from_->name(); }
    [[nodiscard]] std::uint64_t file_bytes() const override { return from_->file_bytes(); }
    [[nodiscard]] bool rereadable() const override { return from_->rereadable(); }
    void require_unchanged() const override { from_->require_unchanged(); }

  private:
    struct Block {
        std::vector<char> bytes;
        std::size_t size = 0;
    };

    /// Fills blocks until the stream ends or fails, which becomes known behind the last block.
    void read_ahead() {
        std::unique_lock lock(mutex_);
        while (!ended_) {
            changed_.wait(lock, [this] { return filled_ < blocks_.size() || stopped_; });
            if (stopped_) return;
            Block& block = blocks_[(first_ + filled_) % blocks_.size()];
            lock.unlock();
            std::exception_ptr failure;
            try {
                block.bytes.resize(kReadBytes);
                block.size = from_->read(block.bytes.data(), kReadBytes);
            } catch (...) {
                block.size = 0;
                failure = std::current_exception();
            }
            lock.lock();
            if (block.size != 0) ++filled_;
            ended_ = block.size == 0;
            failure_ = failure;
            changed_.notify_one();
        }
    }

    void stop() {
        if (!thread_.joinable()) return;
        from_->interrupt();  // ends a pipe for good, and means nothing to a file
        {
            const std::lock_guard lock(mutex_);
            stopped_ = true;
            changed_.notify_one();
        }
        thread_.join();
    }

    std::unique_ptr<ByteStream> from_;
    std::size_t direct_ = 0;  // bytes read before the thread was started
    std::thread thread_;
    std::vector<Block> blocks_;
    std::mutex mutex_;                 // guards what follows
    std::condition_variable changed_;  // one side waits at a time: for a full block, or for an empty one
    std::size_t first_ = 0;            // the block that is read next
    std::size_t filled_ = 0;           // blocks from there on that are full
    std::size_t taken_ = 0;            // bytes of the first block that were read; of the reading side alone
    bool ended_ = false;
    bool stopped_ = false;
    std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<ByteStream> read_ahead(std::unique_ptr<ByteStream> from, std::size_t blocks) {
    return std::make_unique<AheadStream>(std::move(from), blocks);
}

}  // namespace gpumat::formats::matrix_market
