#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/sparse/csr.hpp"
#include "kernels/check/elements.hpp"
#include "kernels/check/findings.hpp"
#include "kernels/multiply/check/element_check.hpp"
#include "kernels/multiply/cpu/sparse/columns.hpp"

// Rows of a product of sparse matrices, computed again.

namespace gpumat::multiply {

/// The elements of a matrix row by row: all of one that is dense, the entries of compressed rows.
template <class T>
class RowsOf {
  public:
    RowsOf() = default;
    RowsOf(const Operand& matrix, bool transposed)
        : data_(matrix.as<T>()),
          pointers_(matrix.pointers),
          columns_(matrix),
          row_(transposed ? 1 : matrix.pitch),
          step_(transposed ? matrix.pitch : 1),
          cols_(transposed ? matrix.rows : matrix.cols),
          sparse_(matrix.storage == Storage::csr) {}

    [[nodiscard]] bool is_sparse() const { return sparse_; }
    [[nodiscard]] std::int64_t count(std::int64_t i) const {
        if (data_ == nullptr && !sparse_) return 0;
        return sparse_ ? pointers_[i + 1] - pointers_[i] : cols_;
    }

    /// Calls `visit(column, value)` for each of row i, in their order.
    template <class Visit>
    void for_each(std::int64_t i, const Visit& visit) const {
        for_each_within(i, 0, cols_, visit);
    }

    /// The same of the columns from `begin` up to `end`.
    template <class Visit>
    void for_each_within(std::int64_t i, std::int64_t begin, std::int64_t end, const Visit& visit) const {
        if (sparse_) {
            const std::int64_t last = place_of(i, end);
            for (std::int64_t at = place_of(i, begin); at < last; ++at) visit(columns_[at], data_[at]);
        } else if (data_ != nullptr) {
            for (std::int64_t j = begin; j < end; ++j) visit(j, data_[i * row_ + j * step_]);
        }
    }
    [[nodiscard]] std::int64_t count_within(std::int64_t i, std::int64_t begin, std::int64_t end) const {
        if (sparse_) return place_of(i, end) - place_of(i, begin);
        return data_ == nullptr ? 0 : end - begin;
    }

  private:
    /// Of the first entry of row i from that column on.
    [[nodiscard]] std::int64_t place_of(std::int64_t i, std::int64_t col) const {
        std::int64_t first = pointers_[i];
        std::int64_t last = pointers_[i + 1];
        if (col <= 0) return first;
        if (col >= cols_) return last;
        while (first < last) {
            const std::int64_t middle = first + (last - first) / 2;
            if (columns_[middle] < col)
                first = middle + 1;
            else
                last = middle;
        }
        return first;
    }

    const T* data_ = nullptr;
    const std::int64_t* pointers_ = nullptr;
    cpu::sparse::Columns<false> columns_{{}};
    std::int64_t row_ = 0;
    std::int64_t step_ = 1;
    std::int64_t cols_ = 0;
    bool sparse_ = false;
};

/// The operands of a product, none of compressed rows stored transposed. What is not read has no elements.
template <class T>
struct ProductRows {
    RowsOf<T> a;
    RowsOf<T> b;
    RowsOf<Result<T>> c;
    RowsOf<Result<T>> d;

    ProductRows(const Problem& p, const Operands& operands)
        : a(p.k == 0 ? RowsOf<T>() : RowsOf<T>(operands.a, p.transpose_a)),
          b(operands.b, p.transpose_b),
          c(operands.c, false),
          d(p.beta.is_zero(p.type) ? RowsOf<Result<T>>() : RowsOf<Result<T>>(operands.d, false)) {}

    [[nodiscard]] std::int64_t products(std::int64_t i) const {
        std::int64_t count = 0;
        a.for_each(i, [&](std::int64_t k, const T&) { count += b.count(k); });
        return count;
    }
};

/// What tells how a real sum leaves the range of its type.
struct RealSums {
    double plain = 0;      ///< Σ in double
    double up = 0;         ///< Σ of the finite terms above 0, and
    double down = 0;       ///< below 0, without sign
    bool special = false;  ///< a factor is infinite or NaN

    void add(double factor, double x) {
        const double term = factor * x;
        plain += term;
        if (!std::isfinite(factor) || !std::isfinite(x))
            special = true;
        else
            (term > 0 ? up : down) += std::abs(term);
    }
    /// α · these, without what has been seen to be special.
    void scale(double alpha) {
        plain *= alpha;
        up *= std::abs(alpha);
        down *= std::abs(alpha);
        if (alpha < 0) std::swap(up, down);
    }
};

/// An element of C as it should be.
struct ExpectedElement {
    std::int64_t col = 0;
    std::int64_t terms = 0;  ///< products
    Twofold re;              ///< of op(A)·op(B)
    Twofold im;
    double re_moduli = 0;  ///< Σ of the moduli of the products that the part has
    double im_moduli = 0;
    RealSums sums;              ///< of a real element
    std::uint64_t integer = 0;  ///< of integers, modulo 2^64
    double estimate = 0;        ///< of integers, in double
    std::complex<double> d = 0;
    std::uint64_t integer_d = 0;
};

/// The sum of the moduli of both parts, which is that of a real number.
inline double sum_of_moduli(std::complex<double> value) {
    return std::abs(value.real()) + std::abs(value.imag());
}

/// Computes rows of C again, and compares them: so many columns at a time that little memory is taken.
template <class T>
class SparseRowCheck {
  public:
    /// With `any_zeros`, entries that are zero may be there or not.
    SparseRowCheck(const Problem& p, const ProductRows<T>& rows, const Rounding& rounding,
                   std::optional<double> tolerance, bool any_zeros)
        : p_(p),
          rows_(rows),
          rounding_(rounding),
          tolerance_(tolerance),
          any_zeros_(any_zeros),
          scalars_(p) {}

    /// What is wrong with the structure of row i, in words; else its elements are noted.
    std::optional<std::string> check(std::int64_t i, Findings& found) {
        return check_within(i, 0, p_.n, found);
    }

  private:
    /// Products, or elements of a dense result, that are held at a time.
    static constexpr std::int64_t kTogether = 1 << 12;

    std::optional<std::string> check_within(std::int64_t i, std::int64_t begin, std::int64_t end,
                                            Findings& found) {
        if (end - begin > 1 && held_for(i, begin, end) > kTogether) {
            const std::int64_t middle = begin + (end - begin) / 2;
            auto fault = check_within(i, begin, middle, found);
            return fault ? fault : check_within(i, middle, end, found);
        }
        expect(i, begin, end);
        std::size_t at = 0;
        std::optional<std::string> fault;
        const auto miss_until = [&](std::int64_t col) {
            for (; at < row_.size() && row_[at].col < col && !fault; ++at) {
                if (any_zeros_)
                    judge(row_[at], Result<T>{}, i, found);
                else
                    fault = "row " + std::to_string(i) + " of the result has no entry in column " +
                            std::to_string(row_[at].col) + ", for which there are products or an entry of D";
            }
        };
        rows_.c.for_each_within(i, begin, end, [&](std::int64_t col, const Result<T>& computed) {
            miss_until(col);
            if (fault) return;
            if (at < row_.size() && row_[at].col == col)
                judge(row_[at++], computed, i, found);
            else if (any_zeros_)
                judge({.col = col}, computed, i, found);
            else
                fault = "row " + std::to_string(i) + " of the result has an entry in column " +
                        std::to_string(col) + ", for which there are no products";
        });
        miss_until(end);
        return fault;
    }

    [[nodiscard]] std::int64_t held_for(std::int64_t i, std::int64_t begin, std::int64_t end) const {
        if (!rows_.c.is_sparse()) return end - begin;
        std::int64_t count = rows_.d.count_within(i, begin, end);
        rows_.a.for_each(i, [&](std::int64_t k, const T&) { count += rows_.b.count_within(k, begin, end); });
        return count;
    }

    void expect(std::int64_t i, std::int64_t begin, std::int64_t end) {
        row_.clear();
        if (rows_.c.is_sparse())
            expect_entries(i, begin, end);
        else
            expect_all(i, begin, end);
    }

    /// Calls `take(column, a, b)` for each product of the row.
    template <class Take>
    void for_each_product(std::int64_t i, std::int64_t begin, std::int64_t end, const Take& take) const {
        rows_.a.for_each(i, [&](std::int64_t k, const T& a) {
            rows_.b.for_each_within(k, begin, end, [&](std::int64_t j, const T& b) { take(j, a, b); });
        });
    }

    void expect_all(std::int64_t i, std::int64_t begin, std::int64_t end) {
        row_.resize(static_cast<std::size_t>(end - begin));
        for (std::int64_t j = begin; j < end; ++j) row_[static_cast<std::size_t>(j - begin)].col = j;
        for_each_product(i, begin, end, [&](std::int64_t j, const T& a, const T& b) {
            add(row_[static_cast<std::size_t>(j - begin)], a, b);
        });
        rows_.d.for_each_within(i, begin, end, [&](std::int64_t j, const Result<T>& d) {
            add_d(row_[static_cast<std::size_t>(j - begin)], d);
        });
    }

    void expect_entries(std::int64_t i, std::int64_t begin, std::int64_t end) {
        products_.clear();
        const bool one_column = end - begin == 1;  // which any number of products may meet
        for_each_product(i, begin, end, [&](std::int64_t j, const T& a, const T& b) {
            if (!one_column) return products_.push_back({j, a, b});
            if (row_.empty()) row_.push_back({.col = j});
            add(row_.back(), a, b);
        });
        std::stable_sort(products_.begin(), products_.end(),
                         [](const auto& x, const auto& y) { return x.col < y.col; });
        for (const Product& product : products_) {
            if (row_.empty() || row_.back().col != product.col) row_.push_back({.col = product.col});
            add(row_.back(), product.a, product.b);
        }
        const std::size_t own = row_.size();
        rows_.d.for_each_within(i, begin, end, [&](std::int64_t j, const Result<T>& d) {
            const auto last = row_.begin() + static_cast<std::ptrdiff_t>(own);
            const auto place = std::lower_bound(row_.begin(), last, j,
                                                [](const auto& x, std::int64_t col) { return x.col < col; });
            const bool there = place != last && place->col == j;
            if (there) return add_d(*place, d);
            row_.push_back({.col = j});
            add_d(row_.back(), d);
        });
        std::sort(row_.begin(), row_.end(), [](const auto& x, const auto& y) { return x.col < y.col; });
    }

    static void add(ExpectedElement& to, const T& a, const T& b) {
        ++to.terms;
        if constexpr (std::is_integral_v<T>) {
            to.integer += static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b);
            to.estimate += static_cast<double>(a) * static_cast<double>(b);
        } else {
            const auto x = as_complex(a);
            const auto y = as_complex(b);
            to.re.add_product(x.real(), y.real());
            if constexpr (kIsComplex<T>) {
                to.re.add_product(-x.imag(), y.imag());
                to.im.add_product(x.real(), y.imag());
                to.im.add_product(x.imag(), y.real());
            }
            to.re_moduli += std::abs(x.real() * y.real()) + std::abs(x.imag() * y.imag());
            to.im_moduli += std::abs(x.real() * y.imag()) + std::abs(x.imag() * y.real());
            to.sums.add(x.real(), y.real());
        }
    }

    static void add_d(ExpectedElement& to, const Result<T>& d) {
        if constexpr (std::is_integral_v<T>) to.integer_d = static_cast<std::uint64_t>(d);
        to.d = as_complex(d);
    }

    void judge(const ExpectedElement& element, const Result<T>& computed, std::int64_t i,
               Findings& found) const {
        if constexpr (std::is_integral_v<T>)
            judge_integer(element, computed, i, found);
        else
            judge_floating(element, computed, i, found);
    }

    void judge_integer(const ExpectedElement& element, const Result<T>& computed, std::int64_t i,
                       Findings& found) const {
        const auto value = static_cast<std::uint64_t>(p_.alpha.integer) * element.integer +
                           static_cast<std::uint64_t>(p_.beta.integer) * element.integer_d;
        visit_type(result_type(p_), [&]<class C>(TypeTag<C>) {
            if constexpr (std::is_integral_v<C>) {
                const auto expected = static_cast<C>(value);
                const auto stored = static_cast<C>(computed);
                const double exact = static_cast<double>(p_.alpha.integer) * element.estimate +
                                     static_cast<double>(p_.beta.integer) * element.d.real();
                const double half_range =
                    std::ldexp(0.5, std::numeric_limits<std::make_unsigned_t<C>>::digits);
                if (std::abs(exact - static_cast<double>(expected)) > half_range) ++found.wrapped;
                Outcome outcome = right_or_wrong(stored == expected, {});
                if (stored != expected)
                    outcome.error = std::abs(static_cast<double>(stored) - static_cast<double>(expected));
                found.note(outcome, i, element.col,
                           [&] { return std::pair(std::to_string(stored), std::to_string(expected)); });
            }
        });
    }

    void judge_floating(const ExpectedElement& element, const Result<T>& stored, std::int64_t i,
                        Findings& found) const {
        Problem own = p_;
        own.k = element.terms;
        const ErrorBound bound(own, rounding_, tolerance_);
        const auto [alpha, beta] = std::pair(scalars_.alpha, scalars_.beta);
        ReferencePart re;
        ReferencePart im;
        add_scaled(alpha.real(), element.re, re.value);
        add_scaled(-alpha.imag(), element.im, re.value);
        add_scaled(alpha.real(), element.im, im.value);
        add_scaled(alpha.imag(), element.re, im.value);
        re.value.add_product(beta.real(), element.d.real());
        re.value.add_product(-beta.imag(), element.d.imag());
        im.value.add_product(beta.real(), element.d.imag());
        im.value.add_product(beta.imag(), element.d.real());
        re.terms = std::abs(alpha.real()) * element.re_moduli + std::abs(alpha.imag()) * element.im_moduli +
                   std::abs(beta.real() * element.d.real()) + std::abs(beta.imag() * element.d.imag());
        im.terms = std::abs(alpha.real()) * element.im_moduli + std::abs(alpha.imag()) * element.re_moduli +
                   std::abs(beta.real() * element.d.imag()) + std::abs(beta.imag() * element.d.real());
        const std::complex<double> computed = as_complex(stored);
        std::complex<double> expected = {re.value.value(), im.value.value()};
        Outcome outcome;
        if constexpr (kIsComplex<T>) {
            const double reach = re.terms + im.terms;  // an infinite part times a factor's part of 0 is NaN
            outcome = judge_part(re, computed.real(), reach, bound);
            const Outcome other = judge_part(im, computed.imag(), reach, bound);
            if (other.ratio > outcome.ratio) outcome = other;
        } else {
            RealSums sums = element.sums;
            sums.scale(alpha.real());
            if (beta.real() != 0) sums.add(beta.real(), element.d.real());
            outcome = judge_real(re, sums, computed.real(), bound);
            if (sums.special) expected = sums.plain;
        }
        found.note(outcome, i, element.col, [&] {
            return std::pair(element_text(computed, p_.type), element_text(expected, p_.type));
        });
    }

    static void add_scaled(double factor, const Twofold& sum, Twofold& to) {
        if (factor == 0) return;
        to.add_product(factor, sum.high);
        to.add_product(factor, sum.low);
    }

    /// A real element: what infinities and NaN of the factors give has no order of addition. Sums of finite
    /// terms may pass the range of the type in the direction in which they reach so far.
    [[nodiscard]] static Outcome judge_real(const ReferencePart& part, const RealSums& sums, double computed,
                                            const ErrorBound& bound) {
        const bool up = bound.may_overflow(sums.up);
        const bool down = bound.may_overflow(sums.down);
        if (sums.special) {
            const bool overflows = std::isnan(computed) && (up || down);
            return right_or_wrong(overflows || same_special(computed, sums.plain), {});
        }
        const double value = part.value.value();
        if (std::isnan(computed)) return right_or_wrong(up && down, {});
        if (std::isinf(computed)) {
            const bool reaches =
                std::copysign(1.0, computed) * value + bound.worst(part) >= bound.overflows_from();
            return right_or_wrong((computed > 0 ? up : down) || reaches, {});
        }
        return judge_part(part, computed, part.terms, bound);
    }

    /// An infinity or NaN is right where the reference is none that double can hold, and where sums may pass
    /// the range of the type.
    [[nodiscard]] static Outcome judge_part(const ReferencePart& part, double computed, double reach,
                                            const ErrorBound& bound) {
        const double value = part.value.value();
        const double worst = bound.worst(part);
        if (std::isfinite(computed) && std::isfinite(value) && std::isfinite(worst)) {
            const double error = distance(computed, part.value);
            const double ratio = ratio_of(error, worst);
            return {.ratio = ratio, .error = error, .tolerance = worst, .worst_ratio = ratio, .expected = {}};
        }
        if (std::isfinite(computed)) return right_or_wrong(!std::isfinite(worst) && std::isfinite(value), {});
        const bool right = !std::isfinite(value) || bound.may_overflow(reach) ||
                           std::abs(value) + worst >= bound.overflows_from();
        return right_or_wrong(right, {});
    }

    struct Product {
        std::int64_t col;
        T a;
        T b;
    };

    const Problem& p_;
    const ProductRows<T>& rows_;
    Rounding rounding_;
    std::optional<double> tolerance_;
    bool any_zeros_;
    ReferenceScalars scalars_;
    std::vector<ExpectedElement> row_;
    std::vector<Product> products_;
};

}  // namespace gpumat::multiply
