#include "lib/run/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "core/parallel.hpp"

namespace gpumat {

namespace {

/// Pieces of an upload that are on their way: one is copied by the device, one waits for it, one is filled.
constexpr std::size_t kOnTheirWay = 3;

}  // namespace

Transfer::Transfer(Gpu& gpu, Pool<PinnedMemory>& buffers, std::size_t piece_bytes, int threads,
                   StageClock& clock)
    : gpu_(gpu),
      buffers_(buffers),
      piece_bytes_(piece_bytes),
      threads_(threads),
      clock_(clock),
      stream_(gpu.new_stream()) {}

Transfer::~Transfer() {
    try {
        gpu_.synchronize(stream_);
    } catch (...) {  // the call that failed has said so
    }
}

std::shared_ptr<PinnedMemory> Transfer::free_buffer() const {
    return clock_.pause([&] { return buffers_.get(); });
}

void Transfer::copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
    constexpr std::int64_t kGrain = std::int64_t{1} << 20;
    parallel_for(static_cast<std::int64_t>(bytes), kGrain, threads_,
                 [&](std::int64_t begin, std::int64_t end) {
                     std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
                 });
}

void Transfer::upload(void* device, const std::byte* host, std::size_t bytes) {
    for (std::size_t first = 0; first < bytes; first += piece_bytes_) {
        const std::size_t count = std::min(piece_bytes_, bytes - first);
        if (uploads_.size() == kOnTheirWay) {
            gpu_.synchronize(uploads_.front().sent);
            uploads_.pop_front();
        }
        Upload piece{free_buffer(), gpu_.new_event()};
        auto* const pinned = static_cast<std::byte*>(piece.memory->data());
        copy(pinned, host + first, count);
        gpu_.upload_async(static_cast<std::byte*>(device) + first, pinned, count, stream_);
        gpu_.record(piece.sent, stream_);
        uploads_.push_back(std::move(piece));
    }
}

void Transfer::wait_for_uploads() {
    gpu_.synchronize(stream_);
    uploads_.clear();
}

void Transfer::download_pieces(const void* device, std::size_t bytes, std::size_t piece_bytes,
                               const Take& take) {
    struct Piece {
        std::size_t first = 0;
        std::size_t count = 0;
        std::shared_ptr<PinnedMemory> memory;
        Event arrived;
    };
    std::deque<Piece> on_their_way;
    const auto deliver = [&] {
        Piece piece = std::move(on_their_way.front());
        on_their_way.pop_front();
        gpu_.synchronize(piece.arrived);
        take(piece.first, piece.count, std::move(piece.memory));
    };
    for (std::size_t first = 0; first < bytes; first += piece_bytes) {
        Piece piece{first, std::min(piece_bytes, bytes - first), free_buffer(), gpu_.new_event()};
        gpu_.download_async(piece.memory->data(), static_cast<const std::byte*>(device) + first, piece.count,
                            stream_);
        gpu_.record(piece.arrived, stream_);
        on_their_way.push_back(std::move(piece));
        if (on_their_way.size() == 2) deliver();
    }
    while (!on_their_way.empty()) deliver();
}

void Transfer::download(std::byte* host, const void* device, std::size_t bytes) {
    download_pieces(device, bytes, piece_bytes_,
                    [&](std::size_t first, std::size_t count, const std::shared_ptr<PinnedMemory>& piece) {
                        copy(host + first, static_cast<const std::byte*>(piece->data()), count);
                    });
}

}  // namespace gpumat
