#include "kernels/transpose/cpu/streaming.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/common/intrinsics.hpp"

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
        // Of 32 bits: a division of 64 takes several times as long on some processors.
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

GPUMAT_AVX512 inline __m512i load_line(const std::byte* from) {
    return _mm512_loadu_si512(from);
}

GPUMAT_AVX512 inline void stream_line(std::byte* to, __m512i line) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
}

/// The line that begins with `past` kept bytes and ends with the first ones of a run.
GPUMAT_AVX512 inline __m512i joined_avx512(const std::byte* kept, const std::byte* from, std::int64_t past) {
    return _mm512_mask_loadu_epi8(_mm512_load_si512(kept), ~std::uint64_t{0} << past, from - past);
}

/// Writes any run.
GPUMAT_AVX512 void stream_avx512(const std::byte* from, std::byte* kept, std::byte* to, std::int64_t bytes,
                                 bool first, bool last) {
    const std::int64_t past = past_line(to);
    std::int64_t done = 0;
    if (past != 0 && first) {
        done = store_head(from, to, bytes);
    } else if (past != 0) {
        if (past + bytes < kLineBytes) return store_short(from, kept, to, bytes);
        stream_line(to - past, joined_avx512(kept, from, past));
        done = kLineBytes - past;
    }
    for (; done + kLineBytes <= bytes; done += kLineBytes) stream_line(to + done, load_line(from + done));
    if (last) return store_tail(from + done, to + done, bytes - done);
    if (past != 0) _mm512_store_si512(kept, load_line(from + done));
}

GPUMAT_AVX512 void write_any_avx512(const Runs& runs, const Requests& requests, std::int64_t begin,
                                    std::int64_t end) {
    Requests::Cursor cursor(requests, begin);
    for (std::int64_t run = begin; run < end; ++run) {
        cursor.prefetch();
        stream_avx512(runs.from + run * runs.from_stride, runs.kept + run * kLineBytes,
                      runs.to + run * runs.to_stride, runs.bytes, runs.first, runs.last);
    }
}

/// Cache-line aligned runs of two lines, with a piece each.
GPUMAT_AVX512 void write_aligned_avx512(const Runs& runs, const Requests& requests, std::int64_t begin,
                                        std::int64_t end) {
    Requests::WholePieces pieces(requests, begin);
    const std::int64_t from_stride = runs.from_stride;
    const std::int64_t to_stride = runs.to_stride;
    const std::byte* from = runs.from + begin * from_stride;
    std::byte* to = runs.to + begin * to_stride;
    for (std::int64_t left = end - begin; left > 0; --left, from += from_stride, to += to_stride) {
        pieces.prefetch();
        stream_line(to, load_line(from));
        stream_line(to + kLineBytes, load_line(from + kLineBytes));
    }
}

/// The same where runs are not cache-line aligned, neither the first runs nor the last. What was kept for a
/// run that begins on a line is not used.
GPUMAT_AVX512 void write_unaligned_avx512(const Runs& runs, const Requests& requests, std::int64_t begin,
                                          std::int64_t end) {
    Requests::WholePieces pieces(requests, begin);
    const std::int64_t from_stride = runs.from_stride;
    const std::int64_t to_stride = runs.to_stride;
    const std::byte* from = runs.from + begin * from_stride;
    std::byte* to = runs.to + begin * to_stride;
    std::byte* kept = runs.kept + begin * kLineBytes;
    for (std::int64_t left = end - begin; left > 0;
         --left, from += from_stride, to += to_stride, kept += kLineBytes) {
        pieces.prefetch();
        const std::int64_t past = past_line(to);
        std::byte* line = to - past;
        const std::byte* part = from - past;
        stream_line(line, joined_avx512(kept, from, past));
        stream_line(line + kLineBytes, load_line(part + kLineBytes));
        _mm512_store_si512(kept, load_line(part + 2 * kLineBytes));
    }
}

/// Two lines, of 0 and of -1: the line that begins `past` bytes before the second masks all but `past` bytes.
alignas(64) constexpr auto kMasks = [] {
    std::array<std::int8_t, 2 * kLineBytes> masks{};
    for (std::size_t i = kLineBytes; i < masks.size(); ++i) masks[i] = -1;
    return masks;
}();

constexpr std::int64_t kHalfBytes = kLineBytes / 2;

GPUMAT_AVX2 inline __m256i load_half(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

GPUMAT_AVX2 inline void stream_half(std::byte* to, __m256i half) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), half);
}

GPUMAT_AVX2 inline void stream_line(std::byte* to, const std::byte* from) {
    stream_half(to, load_half(from));
    stream_half(to + kHalfBytes, load_half(from + kHalfBytes));
}

/// Half of the line that begins with `past` kept bytes and ends with the first ones of a run; the pointers
/// are to the first half or the second.
GPUMAT_AVX2 inline __m256i joined_avx2(const std::byte* kept, const std::byte* from,
                                       const std::int8_t* mask) {
    return _mm256_blendv_epi8(load_half(kept), load_half(from), load_half(mask));
}

/// Writes the line that begins with `past` kept bytes and ends with the first ones of a run.
GPUMAT_AVX2 inline void stream_joined_avx2(const std::byte* kept, const std::byte* from, std::byte* to,
                                           std::int64_t past) {
    const std::int8_t* mask = kMasks.data() + kLineBytes - past;
    const __m256i low = joined_avx2(kept, from - past, mask);
    const __m256i high = joined_avx2(kept + kHalfBytes, from - past + kHalfBytes, mask + kHalfBytes);
    stream_half(to - past, low);
    stream_half(to - past + kHalfBytes, high);
}

/// Keeps a line.
GPUMAT_AVX2 inline void keep_avx2(std::byte* kept, const std::byte* from) {
    const __m256i low = load_half(from);
    const __m256i high = load_half(from + kHalfBytes);
    _mm256_store_si256(reinterpret_cast<__m256i*>(kept), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(kept + kHalfBytes), high);
}

/// Writes any run.
GPUMAT_AVX2 void stream_avx2(const std::byte* from, std::byte* kept, std::byte* to, std::int64_t bytes,
                             bool first, bool last) {
    const std::int64_t past = past_line(to);
    std::int64_t done = 0;
    if (past != 0 && first) {
        done = store_head(from, to, bytes);
    } else if (past != 0) {
        if (past + bytes < kLineBytes) return store_short(from, kept, to, bytes);
        stream_joined_avx2(kept, from, to, past);
        done = kLineBytes - past;
    }
    for (; done + kLineBytes <= bytes; done += kLineBytes) stream_line(to + done, from + done);
    if (last) return store_tail(from + done, to + done, bytes - done);
    if (past != 0) keep_avx2(kept, from + done);
}

GPUMAT_AVX2 void write_any_avx2(const Runs& runs, const Requests& requests, std::int64_t begin,
                                std::int64_t end) {
    Requests::Cursor cursor(requests, begin);
    for (std::int64_t run = begin; run < end; ++run) {
        cursor.prefetch();
        stream_avx2(runs.from + run * runs.from_stride, runs.kept + run * kLineBytes,
                    runs.to + run * runs.to_stride, runs.bytes, runs.first, runs.last);
    }
}

/// Cache-line aligned runs of two lines, with a piece each.
GPUMAT_AVX2 void write_aligned_avx2(const Runs& runs, const Requests& requests, std::int64_t begin,
                                    std::int64_t end) {
    Requests::WholePieces pieces(requests, begin);
    const std::int64_t from_stride = runs.from_stride;
    const std::int64_t to_stride = runs.to_stride;
    const std::byte* from = runs.from + begin * from_stride;
    std::byte* to = runs.to + begin * to_stride;
    for (std::int64_t left = end - begin; left > 0; --left, from += from_stride, to += to_stride) {
        pieces.prefetch();
        stream_line(to, from);
        stream_line(to + kLineBytes, from + kLineBytes);
    }
}

/// The same where runs are not cache-line aligned, neither the first runs nor the last.
GPUMAT_AVX2 void write_unaligned_avx2(const Runs& runs, const Requests& requests, std::int64_t begin,
                                      std::int64_t end) {
    Requests::WholePieces pieces(requests, begin);
    const std::int64_t from_stride = runs.from_stride;
    const std::int64_t to_stride = runs.to_stride;
    const std::byte* from = runs.from + begin * from_stride;
    std::byte* to = runs.to + begin * to_stride;
    std::byte* kept = runs.kept + begin * kLineBytes;
    for (std::int64_t left = end - begin; left > 0;
         --left, from += from_stride, to += to_stride, kept += kLineBytes) {
        pieces.prefetch();
        const std::int64_t past = past_line(to);
        stream_joined_avx2(kept, from, to, past);
        stream_line(to - past + kLineBytes, from - past + kLineBytes);
        keep_avx2(kept, from - past + 2 * kLineBytes);
    }
}

#endif

}  // namespace

Write write_for([[maybe_unused]] VectorWidth width, [[maybe_unused]] const Runs& runs,
                [[maybe_unused]] const Requests& requests) {
#ifdef __x86_64__
    const bool whole = runs.bytes == 2 * kLineBytes && requests.whole_pieces();
    const bool on = whole && past_line(runs.to) == 0 && runs.to_stride % kLineBytes == 0;
    const bool off = whole && !runs.first && !runs.last;
    if (width == VectorWidth::avx512)
        return on ? write_aligned_avx512 : off ? write_unaligned_avx512 : write_any_avx512;
    if (width == VectorWidth::avx2)
        return on ? write_aligned_avx2 : off ? write_unaligned_avx2 : write_any_avx2;
#endif
    return write_plain;
}

void finish_streaming() {
#ifdef __x86_64__
    _mm_sfence();
#endif
}

}  // namespace gpumat::transpose::cpu
