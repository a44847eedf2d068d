#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/common/vector.hpp"
#include "kernels/multiply/cpu/sparse/columns.hpp"
#include "kernels/multiply/cpu/sparse/tiled.hpp"

// The loops of `tiled`, written once for every type and width of vectors. All of it is inlined into the
// functions of a unit, and so compiled in that unit's instructions.

namespace gpumat::multiply::cpu::sparse {

/// A vector of so many numbers, or one number.
template <class S, int kCols>
struct LineOf {
    using Type = Vector<S, kCols>;
};
template <class S>
struct LineOf<S, 1> {
    using Type = S;
};

/// Sums of neighbouring columns in a vector of so many bytes.
template <class T, int kBytes>
struct Lanes {
    using S = Sum<T>;
    static constexpr int kCols = kBytes / static_cast<int>(sizeof(S));
    static constexpr int kVectors = 1;
    using Line = typename LineOf<S, kCols>::Type;

    static GPUMAT_INLINE void add(S factor, const T* from, Line* sums) {
        Line line;
        if constexpr (sizeof(T) == sizeof(S)) {
            std::memcpy(&line, from, sizeof line);
        } else {
            S wide[kCols];
            for (int j = 0; j < kCols; ++j) wide[j] = static_cast<S>(from[j]);
            std::memcpy(&line, wide, sizeof line);
        }
        *sums += factor * line;
    }
    static GPUMAT_INLINE void store(const Line* sums, S* to) { std::memcpy(to, sums, sizeof *sums); }
};

/// Complex ones in two: both parts of the elements times the real parts of factors, and times the imaginary
/// ones.
template <class R, int kBytes>
struct Lanes<std::complex<R>, kBytes> {
    using S = std::complex<R>;
    static constexpr int kCols = kBytes / static_cast<int>(sizeof(S));
    static constexpr int kVectors = 2;
    using Line = Vector<R, 2 * kCols>;

    static GPUMAT_INLINE void add(S factor, const S* from, Line* sums) {
        Line line;
        std::memcpy(&line, from, sizeof line);
        sums[0] += factor.real() * line;
        sums[1] += factor.imag() * line;
    }
    static GPUMAT_INLINE void store(const Line* sums, S* to) {
        R of_real[2 * kCols];
        R of_imag[2 * kCols];
        std::memcpy(of_real, sums, sizeof of_real);
        std::memcpy(of_imag, sums + 1, sizeof of_imag);
        for (int j = 0; j < kCols; ++j)
            to[j] = {of_real[2 * j] - of_imag[2 * j + 1], of_real[2 * j + 1] + of_imag[2 * j]};
    }
};

template <class Isa, class T>
class Stripes {
  public:
    GPUMAT_INLINE Stripes(const TiledWork& work, void* part_sums)
        : p_(work.problem),
          ahead_(work.ahead),
          streams_(work.streams),
          columns_(work.operands.a),
          values_(work.operands.a.as<T>()),
          entries_(work.operands.a.entries),
          b_(work.operands.b.as<T>()),
          ldb_(work.operands.b.pitch),
          finish_(p_, work.operands),
          c_(work.operands.c.as<Result<T>>()),
          ldc_(work.operands.c.pitch),
          part_(static_cast<Sum<T>*>(part_sums)) {}

    /// Row i, or a part of it, of entries [first, last).
    GPUMAT_INLINE void row(std::int64_t i, std::int64_t first, std::int64_t last) const {
        std::int64_t j = 0;
        while (j + kMost <= p_.n) j = stripe<Isa::kBytes, kVectors>(i, first, last, j);
        if (j + kMost / 2 <= p_.n) j = stripe<Isa::kBytes, kVectors / 2>(i, first, last, j);
        if (j + kMost / 4 <= p_.n) j = stripe<Isa::kBytes, kVectors / 4>(i, first, last, j);
        if (j + kMost / 8 <= p_.n) j = stripe<Isa::kBytes, 1>(i, first, last, j);
        rest<Isa::kBytes / 2>(i, first, last, j);
    }

  private:
    static constexpr int kVectors = 8;
    static constexpr std::int64_t kMost = Lanes<T, Isa::kBytes>::kCols * kVectors;
    static constexpr std::int64_t kLineBytes = 64;

    /// Less than a whole vector.
    template <int kBytes>
    GPUMAT_INLINE void rest(std::int64_t i, std::int64_t first, std::int64_t last, std::int64_t j) const {
        if constexpr (kBytes >= static_cast<int>(sizeof(Sum<T>))) {
            if (j + Lanes<T, kBytes>::kCols <= p_.n) j = stripe<kBytes, 1>(i, first, last, j);
            rest<kBytes / 2>(i, first, last, j);
        }
    }

    /// The columns from j on that so many vectors hold; gives the one after them.
    template <int kBytes, int kCount>
    GPUMAT_INLINE std::int64_t stripe(std::int64_t i, std::int64_t first, std::int64_t last,
                                      std::int64_t j) const {
        using Some = Lanes<T, kBytes>;
        constexpr std::int64_t kCols = Some::kCols * kCount;
        typename Some::Line sums[kCount * Some::kVectors] = {};
        const T* const b = b_ + j;
        for (std::int64_t at = first; at < last; ++at) {
            if (at + ahead_ < entries_) {
                const auto* const soon = reinterpret_cast<const char*>(b + columns_[at + ahead_] * ldb_);
#pragma GCC unroll 8
                for (std::size_t byte = 0; byte < static_cast<std::size_t>(kCols) * sizeof(T);
                     byte += kLineBytes)
                    __builtin_prefetch(soon + byte);
            }
            const auto factor = static_cast<Sum<T>>(values_[at]);
            const T* const line = b + columns_[at] * ldb_;
#pragma GCC unroll 8
            for (int v = 0; v < kCount; ++v)
                Some::add(factor, line + v * Some::kCols, sums + v * Some::kVectors);
        }
        alignas(kLineBytes) Sum<T> row[kCols];
#pragma GCC unroll 8
        for (int v = 0; v < kCount; ++v) Some::store(sums + v * Some::kVectors, row + v * Some::kCols);
        put<kCols>(row, i, j);
        return j + kCols;
    }

    template <std::int64_t kCols>
    GPUMAT_INLINE void put(const Sum<T>* row, std::int64_t i, std::int64_t j) const {
        if (part_ != nullptr) {
            std::memcpy(static_cast<void*>(part_ + j), row, kCols * sizeof(Sum<T>));
            return;
        }
        Result<T>* const to = c_ + i * ldc_ + j;
        if constexpr (kCols * sizeof(Result<T>) % kLineBytes == 0) {
            if (streams_) {
                alignas(kLineBytes) Result<T> done[kCols];
                for (std::int64_t col = 0; col < kCols; ++col) done[col] = finish_(row[col], i, j + col);
                return Isa::stream(done, to, sizeof done);
            }
        }
        for (std::int64_t col = 0; col < kCols; ++col) to[col] = finish_(row[col], i, j + col);
    }

    const Problem& p_;
    std::int64_t ahead_;
    bool streams_;
    Columns<false> columns_;
    const T* values_;
    std::int64_t entries_;
    const T* b_;
    std::int64_t ldb_;
    Epilogue<T> finish_;
    Result<T>* c_;
    std::int64_t ldc_;
    Sum<T>* part_;
};

template <class Isa, class T>
GPUMAT_INLINE void multiply_piece(const TiledWork& work, const Piece& piece, void* part_sums) {
    const Stripes<Isa, T> stripes(work, part_sums);
    if (piece.part >= 0) return stripes.row(piece.begin, piece.first, piece.last);
    const std::int64_t* const pointers = work.operands.a.pointers;
    for (std::int64_t i = piece.begin; i < piece.end; ++i) stripes.row(i, pointers[i], pointers[i + 1]);
    Isa::finish();
}

}  // namespace gpumat::multiply::cpu::sparse
