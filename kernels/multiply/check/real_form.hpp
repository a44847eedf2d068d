#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/check/elements.hpp"

namespace gpumat {

/// The most rows and columns of a tile of C that is computed in one go.
inline constexpr std::int64_t kTileRows = 32;
inline constexpr std::int64_t kTileCols = 256;

/// Which rows and columns of C a tile covers.
struct TilePlace {
    std::span<const std::int64_t> rows;  ///< at most kTileRows
    std::int64_t col = 0;
    std::int64_t cols = 0;  ///< at most kTileCols
};

enum class Part { re, im };

/// One part of op(A)·op(B) as a product of real matrices. A real element is a sum of K products, a part of a
/// complex one of 2K: ar·br − ai·bi, or ar·bi + ai·br, for each k in turn.
template <class T>
class RealForm {
  public:
    RealForm(const Problem& problem, const Operands& operands, Part part)
        : a_(operand_a<T>(problem, operands)),
          b_(operand_b<T>(problem, operands)),
          steps_(problem.k * kProducts),
          part_(part) {}

    /// Products in an element.
    [[nodiscard]] std::int64_t steps() const { return steps_; }

    /// Copies the factors of products [step, step + count): those of A row by row, `a_ld` apart, those of B
    /// kTileCols apart. `step` and `count` are even for complex types.
    template <class To>
    void pack(const TilePlace& place, std::int64_t step, std::int64_t count, std::int64_t a_ld, To* to_a,
              To* to_b) const {
        const std::int64_t k = step / kProducts;
        for (std::size_t i = 0; i < place.rows.size(); ++i) {
            To* to = to_a + static_cast<std::int64_t>(i) * a_ld;
            for (std::int64_t s = 0; s < count / kProducts; ++s) {
                const T& value = a_(place.rows[i], k + s);
                if constexpr (kIsComplex<T>) {
                    to[2 * s] = static_cast<To>(value.real());
                    to[2 * s + 1] = static_cast<To>(part_ == Part::re ? -value.imag() : value.imag());
                } else {
                    to[s] = static_cast<To>(value);
                }
            }
        }
        for (std::int64_t s = 0; s < count / kProducts; ++s) {
            To* to = to_b + s * kProducts * kTileCols;
            if (b_.col_step == 1 && k + s + kRowsAhead < steps_ / kProducts)
                prefetch_row(&b_(k + s + kRowsAhead, place.col), place.cols);
            for (std::int64_t j = 0; j < place.cols; ++j) {
                const T& value = b_(k + s, place.col + j);
                if constexpr (kIsComplex<T>) {
                    to[j] = static_cast<To>(part_ == Part::re ? value.real() : value.imag());
                    to[j + kTileCols] = static_cast<To>(part_ == Part::re ? value.imag() : value.real());
                } else {
                    to[j] = static_cast<To>(value);
                }
            }
        }
    }

  private:
    static constexpr std::int64_t kRowsAhead = 4;
    static constexpr std::int64_t kProducts = kIsComplex<T> ? 2 : 1;

    Strided<T> a_;
    Strided<T> b_;
    std::int64_t steps_;
    Part part_;
};

}  // namespace gpumat
