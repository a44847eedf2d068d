#include "kernels/transpose/cpu/streaming.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/common/intrinsics.hpp"
#include "kernels/common/vector.hpp"

namespace gpumat::transpose::cpu {
namespace {

/// The bytes between the start of the line that an address lies in and the address.
[[maybe_unused]] std::int64_t past_line(const std::byte* at) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) % kLineBytes);
}

/// Prefetches every line of a row.
void prefetch_row(const std::byte* row, std::int64_t bytes) {
    for (std::int64_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(row + at, 0, 2);
    __builtin_prefetch(row + bytes - 1, 0, 2);
}

}  // namespace

/// Streaming stores wait for memory in the processor's queue of stores, in order, and hold up any other store
/// behind them: what transposes a tile meanwhile gets less far ahead with each. So nothing of this, nor of
/// the loops below, is kept in memory; it is worked out anew for each batch of runs.
class Requests::Cursor {
  public:
    Cursor(const Requests& requests, std::int64_t begin)
        : a_run_(requests.a_run_), across_(requests.across_), stride_(requests.rows_.stride) {
        const std::int64_t done = std::min(begin * a_run_, requests.count_);
        left_ = requests.count_ - done;
        // A division of 32 bits: one of 64 takes several times as long on some processors.
        const auto row = static_cast<std::uint32_t>(done) / static_cast<std::uint32_t>(across_);
        part_ = done - row * across_;
        row_ = requests.rows_.first + row * stride_;
        last_ = requests.rows_.bytes - kPieceBytes;
        heads_ = requests.rows_.heads;
    }

    /// Prefetches what belongs to the next run.
    void prefetch() {
        for (std::int64_t i = 0; i < a_run_ && left_ > 0; ++i, --left_) {
            const std::byte* at = row_ + std::min(part_ * kPieceBytes, last_);
            __builtin_prefetch(at + kLineBytes - 1, 0, 2);
            __builtin_prefetch(at + kPieceBytes - 1, 0, 2);
            if (heads_) __builtin_prefetch(at, 0, 2);
            if (++part_ < across_) continue;
            part_ = 0;
            row_ += stride_;
        }
    }

  private:
    std::int64_t a_run_;
    std::int64_t across_;
    std::int64_t stride_;
    std::int64_t left_;     ///< pieces
    std::int64_t part_;     ///< of its row, the next piece
    const std::byte* row_;  ///< of the next piece
    std::int64_t last_;     ///< where the last piece of a row begins
    bool heads_;
};

class Requests::WholePieces {
  public:
    WholePieces(const Requests& requests, std::int64_t begin) : across_(requests.across_) {
        const auto row = static_cast<std::uint32_t>(begin) / static_cast<std::uint32_t>(across_);
        left_ = across_ - (begin - row * across_);
        at_ = requests.rows_.first + row * requests.rows_.stride + (across_ - left_) * kPieceBytes;
        jump_ = requests.rows_.stride - across_ * kPieceBytes;
        heads_ = requests.rows_.heads;
    }

    void prefetch() {
        __builtin_prefetch(at_ + kLineBytes - 1, 0, 2);
        __builtin_prefetch(at_ + kPieceBytes - 1, 0, 2);
        if (heads_) __builtin_prefetch(at_, 0, 2);
        at_ += kPieceBytes;
        if (--left_ > 0) return;
        at_ += jump_;
        left_ = across_;
    }

  private:
    std::int64_t across_;
    std::int64_t left_;
    const std::byte* at_;
    std::int64_t jump_;
    bool heads_;
};

Requests::Requests(const Rows& rows, std::int64_t runs) : rows_(rows) {
    if (runs == 0 || rows.bytes < kPieceBytes) return;
    across_ = (rows.bytes + kPieceBytes - 1) / kPieceBytes;
    count_ = rows.count * across_;
    a_run_ = (count_ + runs - 1) / runs;
    whole_pieces_ = count_ == runs && rows.bytes % kPieceBytes == 0;
}

void Requests::finish() const {
    if (a_run_ > 0) return;
    for (std::int64_t row = 0; row < rows_.count; ++row)
        prefetch_row(rows_.first + row * rows_.stride, rows_.bytes);
}

namespace {

void write_plain(const Runs& runs, const Requests& requests, std::int64_t begin, std::int64_t end) {
    Requests::Cursor cursor(requests, begin);
    for (std::int64_t run = begin; run < end; ++run) {
        cursor.prefetch();
        std::memcpy(runs.to + run * runs.to_stride, runs.from + run * runs.from_stride,
                    static_cast<std::size_t>(runs.bytes));
    }
}

#ifdef __x86_64__

/// Writes what a first run has of a line that begins before it, and returns how much that is.
std::int64_t store_head(const std::byte* from, std::byte* to, std::int64_t bytes) {
    const std::int64_t head = std::min(bytes, kLineBytes - past_line(to));
    std::memcpy(to, from, static_cast<std::size_t>(head));
    return head;
}

/// Writes what a last run has of a line that ends after it.
void store_tail(const std::byte* from, std::byte* to, std::int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// Writes a last run that ends in the line in which it begins, and before it what was kept of the line.
void store_short(const std::byte* from, const std::byte* kept, std::byte* to, std::int64_t bytes) {
    const std::int64_t past = past_line(to);
    std::memcpy(to - past, kept, static_cast<std::size_t>(past));
    store_tail(from, to, bytes);
}

// ---- What follows is compiled for each width of registers, of kBytes ----

template <int kBytes>
using Register = Vector<std::int8_t, kBytes>;

/// Stores a register past the caches. The compiler's vectors have no such store.
GPUMAT_AVX2 inline void stream(std::byte* to, const Register<32>& x) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)x);
}
GPUMAT_AVX512 inline void stream(std::byte* to, const Register<64>& x) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)x);
}

template <int kBytes>
GPUMAT_INLINE void stream_line(std::byte* to, const std::byte* from) {
    for (int at = 0; at < kLineBytes; at += kBytes) {
        Register<kBytes> x;
        std::memcpy(&x, from + at, kBytes);
        stream(to + at, x);
    }
}

template <int kBytes>
GPUMAT_INLINE void keep_line(std::byte* kept, const std::byte* from) {
    for (int at = 0; at < kLineBytes; at += kBytes) {
        Register<kBytes> x;
        std::memcpy(&x, from + at, kBytes);
        std::memcpy(kept + at, &x, kBytes);
    }
}

/// Two lines, of 0 and of -1: the line that begins `past` bytes before the second masks all but `past` bytes.
alignas(64) constexpr auto kMasks = [] {
    std::array<std::int8_t, 2 * kLineBytes> masks{};
    for (std::size_t i = kLineBytes; i < masks.size(); ++i) masks[i] = -1;
    return masks;
}();

/// Streams the line that begins with `past` kept bytes and ends with the first ones of a run.
template <int kBytes>
GPUMAT_INLINE void stream_joined(const std::byte* kept, const std::byte* from, std::byte* to,
                                 std::int64_t past) {
    Register<kBytes> line[kLineBytes / kBytes];
    for (int at = 0; at < kLineBytes; at += kBytes) {
        Register<kBytes> before;
        Register<kBytes> after;
        Register<kBytes> mask;
        std::memcpy(&before, kept + at, kBytes);
        std::memcpy(&after, from - past + at, kBytes);
        std::memcpy(&mask, kMasks.data() + kLineBytes - past + at, kBytes);
        line[at / kBytes] = mask < 0 ? after : before;
    }
    for (int at = 0; at < kLineBytes; at += kBytes) stream(to - past + at, line[at / kBytes]);
}

/// Writes any run.
template <int kBytes>
GPUMAT_INLINE void stream_run(const std::byte* from, std::byte* kept, std::byte* to, std::int64_t bytes,
                              bool first, bool last) {
    const std::int64_t past = past_line(to);
    std::int64_t done = 0;
    if (past != 0 && first) {
        done = store_head(from, to, bytes);
    } else if (past != 0) {
        if (past + bytes < kLineBytes) return store_short(from, kept, to, bytes);
        stream_joined<kBytes>(kept, from, to, past);
        done = kLineBytes - past;
    }
    for (; done + kLineBytes <= bytes; done += kLineBytes) stream_line<kBytes>(to + done, from + done);
    if (last) return store_tail(from + done, to + done, bytes - done);
    if (past != 0) keep_line<kBytes>(kept, from + done);
}

template <int kBytes>
GPUMAT_INLINE void write_any(const Runs& runs, const Requests& requests, std::int64_t begin,
                             std::int64_t end) {
    Requests::Cursor cursor(requests, begin);
    for (std::int64_t run = begin; run < end; ++run) {
        cursor.prefetch();
        stream_run<kBytes>(runs.from + run * runs.from_stride, runs.kept + run * kLineBytes,
                           runs.to + run * runs.to_stride, runs.bytes, runs.first, runs.last);
    }
}

/// Runs of two lines, with a piece each: cache-line aligned ones, or others that are neither the first nor
/// the last. What was kept for one of those that begins on a line is not used.
template <int kBytes, bool kAligned>
GPUMAT_INLINE void write_pairs(const Runs& runs, const Requests& requests, std::int64_t begin,
                               std::int64_t end) {
    Requests::WholePieces pieces(requests, begin);
    const std::int64_t from_stride = runs.from_stride;
    const std::int64_t to_stride = runs.to_stride;
    const std::byte* from = runs.from + begin * from_stride;
    std::byte* to = runs.to + begin * to_stride;
    std::byte* kept = runs.kept + begin * kLineBytes;
    for (std::int64_t left = end - begin; left > 0; --left, from += from_stride, to += to_stride) {
        pieces.prefetch();
        if constexpr (kAligned) {
            stream_line<kBytes>(to, from);
            stream_line<kBytes>(to + kLineBytes, from + kLineBytes);
        } else {
            const std::int64_t past = past_line(to);
            stream_joined<kBytes>(kept, from, to, past);
            stream_line<kBytes>(to - past + kLineBytes, from - past + kLineBytes);
            keep_line<kBytes>(kept, from - past + 2 * kLineBytes);
            kept += kLineBytes;
        }
    }
}

template <Write kWrite>
GPUMAT_AVX2 void in_avx2(const Runs& runs, const Requests& requests, std::int64_t begin, std::int64_t end) {
    kWrite(runs, requests, begin, end);
}
template <Write kWrite>
GPUMAT_AVX512 void in_avx512(const Runs& runs, const Requests& requests, std::int64_t begin,
                             std::int64_t end) {
    kWrite(runs, requests, begin, end);
}

#endif

}  // namespace

Write write_for([[maybe_unused]] VectorWidth width, [[maybe_unused]] const Runs& runs,
                [[maybe_unused]] const Requests& requests) {
#ifdef __x86_64__
    const bool pairs = runs.bytes == 2 * kLineBytes && requests.whole_pieces();
    const bool on = pairs && past_line(runs.to) == 0 && runs.to_stride % kLineBytes == 0;
    const bool off = pairs && !runs.first && !runs.last;
    if (width == VectorWidth::avx512) {
        return on    ? in_avx512<write_pairs<64, true>>
               : off ? in_avx512<write_pairs<64, false>>
                     : in_avx512<write_any<64>>;
    }
    if (width == VectorWidth::avx2) {
        return on    ? in_avx2<write_pairs<32, true>>
               : off ? in_avx2<write_pairs<32, false>>
                     : in_avx2<write_any<32>>;
    }
#endif
    return write_plain;
}

void finish_streaming() {
#ifdef __x86_64__
    _mm_sfence();
#endif
}

}  // namespace gpumat::transpose::cpu
