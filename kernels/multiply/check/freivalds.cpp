#include "kernels/multiply/check/freivalds.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/check/elements.hpp"

namespace gpumat {
namespace {

constexpr std::int64_t kRounds = kFreivaldsRounds;
constexpr std::int64_t kBlockRows = 32;
constexpr std::int64_t kRowsAhead = 4;
constexpr std::int64_t kBlockCols = 128;  // 16 KiB of X, and 32 KiB of the matrix in double

/// Eight doubles, in as many registers as they take.
typedef double Lanes __attribute__((vector_size(64)));  // NOLINT: `using` drops the attribute
constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kRoundLanes = kRounds / kLanes;
static_assert(kRoundLanes * kLanes == kRounds);

/// A block of rows in double, kBlockCols apart, those beyond the last column 0.
using Block = std::array<double, kBlockRows * kBlockCols>;

/// sums(i, r) += Σ values(i, j)·x(j, r), kRows rows at once, which share the loads of x.
template <std::int64_t kRows>
[[gnu::always_inline]] inline void add_rows(std::int64_t cols, const double* values, const double* x,
                                            double* sums) {
    std::array<Lanes, kRows * kRoundLanes> local{};
    for (std::int64_t j = 0; j < cols; ++j) {
        for (std::int64_t part = 0; part < kRoundLanes; ++part) {
            Lanes factors;
            std::memcpy(&factors, x + j * kRounds + part * kLanes, sizeof factors);
            for (std::int64_t i = 0; i < kRows; ++i)
                local[static_cast<std::size_t>(i * kRoundLanes + part)] +=
                    values[i * kBlockCols + j] * factors;
        }
    }
    for (std::int64_t at = 0; at < kRows * kRoundLanes; ++at) {
        Lanes sum;
        std::memcpy(&sum, sums + at * kLanes, sizeof sum);
        sum += local[static_cast<std::size_t>(at)];
        std::memcpy(sums + at * kLanes, &sum, sizeof sum);
    }
}

template <std::int64_t kRows>
[[gnu::always_inline]] inline void add_block(std::int64_t rows, std::int64_t cols, const double* values,
                                             const double* x, double* sums) {
    std::int64_t i = 0;
    for (; i + kRows <= rows; i += kRows)
        add_rows<kRows>(cols, values + i * kBlockCols, x, sums + i * kRounds);
    for (; i < rows; ++i) add_rows<1>(cols, values + i * kBlockCols, x, sums + i * kRounds);
}

/// totals(i) += Σ values(i, j)²·weights(j), kRows rows at once, which share the loads of the weights; both
/// are padded with zeros to whole lanes.
template <std::int64_t kRows>
[[gnu::always_inline]] inline void add_squares_of_rows(std::int64_t cols, const double* values,
                                                       const double* weights, double* totals) {
    std::array<Lanes, kRows> sums{};
    for (std::int64_t j = 0; j < cols; j += kLanes) {
        Lanes weight;
        std::memcpy(&weight, weights + j, sizeof weight);
        for (std::int64_t i = 0; i < kRows; ++i) {
            Lanes value;
            std::memcpy(&value, values + i * kBlockCols + j, sizeof value);
            sums[static_cast<std::size_t>(i)] += value * value * weight;
        }
    }
    for (std::int64_t i = 0; i < kRows; ++i) {
        double total = 0;
        for (std::int64_t lane = 0; lane < kLanes; ++lane) total += sums[static_cast<std::size_t>(i)][lane];
        totals[i] += total;
    }
}

template <std::int64_t kRows>
[[gnu::always_inline]] inline void add_squares(std::int64_t rows, std::int64_t cols, const double* values,
                                               const double* weights, double* totals) {
    std::int64_t i = 0;
    for (; i + kRows <= rows; i += kRows)
        add_squares_of_rows<kRows>(cols, values + i * kBlockCols, weights, totals + i);
    for (; i < rows; ++i) add_squares_of_rows<1>(cols, values + i * kBlockCols, weights, totals + i);
}

/// Part of each element, a block of rows and columns; read along memory.
template <class T, class Convert>
void load_block(const RowsOf& matrix, std::int64_t row, std::int64_t rows, std::int64_t col,
                std::int64_t cols, const Convert& convert, Block& block) {
    const T* from = static_cast<const T*>(matrix.data) + row * matrix.row_step + col * matrix.col_step;
    const std::int64_t whole = round_up(cols, kLanes);
    if (matrix.col_step == 1) {
        for (std::int64_t i = 0; i < rows; ++i) {
            double* to = block.data() + i * kBlockCols;
            const T* elements = from + i * matrix.row_step;
            if (i + kRowsAhead < rows) prefetch_row(elements + kRowsAhead * matrix.row_step, cols);
            for (std::int64_t j = 0; j < cols; ++j) to[j] = convert(elements[j]);
        }
    } else {
        for (std::int64_t j = 0; j < cols; ++j) {
            for (std::int64_t i = 0; i < rows; ++i)
                block[static_cast<std::size_t>(i * kBlockCols + j)] =
                    convert(from[i * matrix.row_step + j * matrix.col_step]);
        }
    }
    for (std::int64_t i = 0; i < rows && whole > cols; ++i)
        std::fill(block.data() + i * kBlockCols + cols, block.data() + i * kBlockCols + whole, 0.0);
}

/// The products of one block of rows with all of X, so many of its rows at once.
template <class T, std::int64_t kRowsAtOnce>
class BlockOfRows {
  public:
    BlockOfRows(const RowsOf& matrix, const SignProducts& x, Squares squares, std::int64_t row,
                std::int64_t rows)
        : matrix_(matrix), x_(x), squares_(squares), row_(row), rows_(rows) {}

    void run(SignProducts& result) {
        for (std::int64_t col = 0; col < matrix_.cols; col += kBlockCols)
            add_columns(col, std::min(kBlockCols, matrix_.cols - col));
        const std::int64_t count = rows_ * kRounds;
        std::copy_n(re_.begin(), count, result.re.begin() + row_ * kRounds);
        if constexpr (kIsComplex<T>) std::copy_n(im_.begin(), count, result.im.begin() + row_ * kRounds);
        if (squares_ != Squares::none) std::copy_n(total_.begin(), rows_, result.squares.begin() + row_);
    }

  private:
    void add_columns(std::int64_t col, std::int64_t cols) {
        const double* x_re = x_.re.data() + col * kRounds;
        const double* x_im = x_.im.empty() ? nullptr : x_.im.data() + col * kRounds;
        std::fill_n(weights_.begin(), kBlockCols, 0.0);
        for (std::int64_t j = 0; j < cols; ++j) {
            weights_[static_cast<std::size_t>(j)] =
                squares_ == Squares::weighted ? x_.squares[static_cast<std::size_t>(col + j)] : 1.0;
        }
        if constexpr (kIsComplex<T>) {
            load_block<T>(
                matrix_, row_, rows_, col, cols, [](const T& v) { return static_cast<double>(v.real()); },
                block_);
            add(cols, x_re, re_);
            if (x_im != nullptr) add(cols, x_im, im_);
            square(cols);
            load_block<T>(
                matrix_, row_, rows_, col, cols, [](const T& v) { return static_cast<double>(v.imag()); },
                block_);
            add(cols, x_re, im_);
            square(cols);
            if (x_im == nullptr) return;
            for (double& value : block_) value = -value;
            add(cols, x_im, re_);
        } else {
            load_block<T>(
                matrix_, row_, rows_, col, cols, [](const T& v) { return static_cast<double>(v); }, block_);
            add(cols, x_re, re_);
            square(cols);
        }
    }

    void add(std::int64_t cols, const double* x, std::array<double, kBlockRows * kRounds>& sums) const {
        add_block<kRowsAtOnce>(rows_, cols, block_.data(), x, sums.data());
    }

    void square(std::int64_t cols) {
        if (squares_ != Squares::none)
            add_squares<kRowsAtOnce>(rows_, cols, block_.data(), weights_.data(), total_.data());
    }

    const RowsOf& matrix_;
    const SignProducts& x_;
    Squares squares_;
    std::int64_t row_;
    std::int64_t rows_;
    Block block_{};
    std::array<double, kBlockCols> weights_{};
    std::array<double, kBlockRows * kRounds> re_{};
    std::array<double, kBlockRows * kRounds> im_{};
    std::array<double, kBlockRows> total_{};
};

// The same for any processor and for those with wider registers, chosen at run time.
using AddBlock = void (*)(const RowsOf&, const SignProducts&, Squares, std::int64_t, std::int64_t,
                          SignProducts&);

template <class T>
void add_block_portable(const RowsOf& matrix, const SignProducts& x, Squares squares, std::int64_t row,
                        std::int64_t rows, SignProducts& result) {
    BlockOfRows<T, 1>(matrix, x, squares, row, rows).run(result);
}
#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2,fma"), gnu::flatten]] void add_block_avx2(const RowsOf& matrix, const SignProducts& x,
                                                              Squares squares, std::int64_t row,
                                                              std::int64_t rows, SignProducts& result) {
    BlockOfRows<T, 2>(matrix, x, squares, row, rows).run(result);
}
template <class T>
[[gnu::target("avx512f,avx512dq,avx512vl,fma"), gnu::flatten]] void add_block_avx512(
    const RowsOf& matrix, const SignProducts& x, Squares squares, std::int64_t row, std::int64_t rows,
    SignProducts& result) {
    BlockOfRows<T, 4>(matrix, x, squares, row, rows).run(result);
}
#endif

template <class T>
AddBlock fastest_add_block() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return add_block_avx512<T>;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return add_block_avx2<T>;
#endif
    return add_block_portable<T>;
}

/// sums(r) += Σ values(j)·x(j, r), small integers modulo 2^32, which vectors multiply faster.
template <class T>
void add_integers(const T* values, std::int64_t step, std::int64_t cols, const std::uint64_t* x,
                  std::uint64_t* sums) {
    using Number = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
    std::array<Number, static_cast<std::size_t>(kRounds)> local{};
    for (std::int64_t j = 0; j < cols; ++j) {
        const auto value = static_cast<Number>(values[j * step]);
        for (std::int64_t r = 0; r < kRounds; ++r)
            local[static_cast<std::size_t>(r)] += value * static_cast<Number>(x[j * kRounds + r]);
    }
    for (std::int64_t r = 0; r < kRounds; ++r) sums[r] += local[static_cast<std::size_t>(r)];
}

}  // namespace

SignProducts random_signs(std::int64_t rows, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    SignProducts x(rows, false);
    for (std::int64_t j = 0; j < rows; ++j) {
        const std::uint64_t bits = random();
        for (std::int64_t r = 0; r < kRounds; ++r)
            x.re[static_cast<std::size_t>(j * kRounds + r)] = ((bits >> r) & 1U) != 0 ? 1.0 : -1.0;
    }
    return x;
}

RowsOf rows_of_a(const Problem& p, const Operands& operands, std::int64_t first, std::int64_t count) {
    const std::int64_t pitch = operands.a.pitch;
    const std::int64_t row_step = p.transpose_a ? 1 : pitch;
    const auto* data = static_cast<const std::byte*>(operands.a.data);
    if (p.k > 0) data += static_cast<std::size_t>(first * row_step) * size_of(p.type);
    return {p.type, data, count, p.k, row_step, p.transpose_a ? pitch : 1};
}

RowsOf rows_of_b(const Problem& p, const Operands& operands) {
    const std::int64_t pitch = operands.b.pitch;
    return {p.type, operands.b.data, p.k, p.n, p.transpose_b ? 1 : pitch, p.transpose_b ? pitch : 1};
}

RowsOf rows_of_panel(Type type, const Operand& panel) {
    return {type, panel.data, panel.rows, panel.cols, panel.pitch, 1};
}

namespace {

/// So few that every thread has some of a panel of few rows.
std::int64_t rows_of_pieces(std::int64_t rows, int threads) {
    constexpr std::int64_t kRowsAtOnce = 4;
    const std::int64_t each = ceil_div<std::int64_t>(rows, std::max(1, threads));
    return std::min(kBlockRows, round_up(each, kRowsAtOnce));
}

}  // namespace

SignProducts times(const RowsOf& matrix, const SignProducts& x, Squares squares, int threads) {
    SignProducts result(matrix.rows, is_complex(matrix.type));
    if (squares != Squares::none) result.squares.resize(static_cast<std::size_t>(matrix.rows));
    visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        if constexpr (!std::is_integral_v<T>) {
            const AddBlock add_block = fastest_add_block<T>();
            parallel_for(matrix.rows, rows_of_pieces(matrix.rows, threads), threads,
                         [&](std::int64_t begin, std::int64_t end) {
                             add_block(matrix, x, squares, begin, end - begin, result);
                         });
        }
    });
    return result;
}

IntegerProducts random_integers(std::int64_t rows, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    IntegerProducts x(static_cast<std::size_t>(rows * kRounds));
    for (std::size_t at = 0; at < x.size(); ++at) {
        x[at] = random();
        if (at % kRounds == 0) x[at] |= 1U;
    }
    return x;
}

IntegerProducts times(const RowsOf& matrix, const IntegerProducts& x, int threads) {
    IntegerProducts result(static_cast<std::size_t>(matrix.rows * kRounds));
    visit_type(matrix.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_integral_v<T>) {
            const auto* data = static_cast<const T*>(matrix.data);
            parallel_for(matrix.rows, kBlockRows, threads, [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t col = 0; col < matrix.cols; col += kBlockCols) {
                    const std::int64_t cols = std::min(kBlockCols, matrix.cols - col);
                    for (std::int64_t i = begin; i < end; ++i) {
                        add_integers(data + i * matrix.row_step + col * matrix.col_step, matrix.col_step,
                                     cols, x.data() + col * kRounds, result.data() + i * kRounds);
                    }
                }
            });
        }
    });
    return result;
}

}  // namespace gpumat
