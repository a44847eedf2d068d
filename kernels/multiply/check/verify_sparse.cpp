#include "kernels/multiply/check/verify_sparse.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "core/numbers/whole.hpp"
#include "core/parallel.hpp"
#include "kernels/multiply/check/sparse_rows.hpp"
#include "kernels/transpose/cpu/sparse/levels.hpp"
#include "kernels/transpose/operation.hpp"

namespace gpumat::multiply {
namespace {

/// Products and elements of a dense C up to which a check without a mode is a full one.
constexpr std::int64_t kFullWork = std::int64_t{1} << 24;
/// Rows that Freivalds' check computes again, and the most products of one that it does so with.
constexpr std::int64_t kRandomRows = 256;
constexpr std::int64_t kHeaviestRows = 16;
constexpr std::int64_t kMostProducts = std::int64_t{1} << 21;
/// Columns of X. Integers: odd numbers in the first one, any in the others, so that a single wrong element of
/// a row is always found. Floating point: ±1.
constexpr std::size_t kRounds = 8;
/// Rows of X that are kept: those of more are made when they are needed.
constexpr std::int64_t kMostKeptRows = 1 << 16;
constexpr std::int64_t kRowsAtOnce = 256;

/// A number that looks random (splitmix64, Steele, Lea and Flood 2014).
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
    std::uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
}

/// The operands with compressed rows that are stored transposed transposed by the serial rung.
class Untransposed {
  public:
    Untransposed(const Problem& p, const Operands& operands) : problem_(p), operands_(operands) {
        if (p.k == 0) return;
        if (p.transpose_a && operands.a.storage == Storage::csr) {
            transpose(operands_.a, a_);
            problem_.transpose_a = false;
        }
        if (p.transpose_b && operands.b.storage == Storage::csr) {
            transpose(operands_.b, b_);
            problem_.transpose_b = false;
        }
    }

    [[nodiscard]] const Problem& problem() const { return problem_; }
    [[nodiscard]] const Operands& operands() const { return operands_; }

  private:
    void transpose(Operand& operand, Csr& memory) const {
        Problem transposing{
            .operation = &kTranspose, .type = problem_.type, .m = operand.rows, .n = operand.cols};
        transposing.structure = {{Storage::csr}, Storage::csr};
        transposing.entries.front() = transposing.result_entries = operand.entries;
        memory = Csr({operand.cols, operand.rows}, problem_.type, operand.entries, "verification");
        transpose::cpu::sparse::prepare_serial(transposing, {.a = operand, .c = operand_of(memory.view())},
                                               {})
            .run({});
        operand = operand_of(std::as_const(memory).view());
    }

    Problem problem_;
    Operands operands_;
    Csr a_;
    Csr b_;
};

CsrView view_of_result(const Operand& c, Type type) {
    return {.type = type,
            .shape = {c.rows, c.cols},
            .entries = c.entries,
            .pointers = c.pointers,
            .columns = static_cast<const std::byte*>(c.columns),
            .values = c.as<std::byte>()};
}

/// What sums of products are made of in Freivalds' check.
template <class T>
using Checked = std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                   std::conditional_t<kIsComplex<T>, std::complex<double>, double>>;

template <class T>
Checked<T> checked(const T& value) {
    if constexpr (kIsComplex<T>)
        return as_complex(value);
    else
        return static_cast<Checked<T>>(value);
}

template <class T>
class SparseProductCheck {
  public:
    SparseProductCheck(const Problem& p, const Operands& operands, const VerifyOptions& how)
        : p_(p),
          operands_(operands),
          how_(how),
          rounding_(how.rounding.value_or(Rounding::of(p))),
          rows_(p, operands),
          products_(static_cast<std::size_t>(p.m)) {}

    Verification run() {
        count_products();
        if (auto fault = structure_fault_of_result()) return failed("full", *fault);
        const std::int64_t elements = p_.structure.result == Storage::dense ? p_.m * p_.n : 0;
        const bool full = how_.mode == VerifyMode::full ||
                          (how_.mode == VerifyMode::automatic && total_ + elements <= kFullWork);
        std::vector<std::int64_t> rows(static_cast<std::size_t>(full ? p_.m : 0));
        if (full)
            std::iota(rows.begin(), rows.end(), 0);
        else
            rows = rows_to_compute();
        const char* const mode = full ? "full" : "freivalds";
        Findings found;
        if (const auto fault = compute_again(rows, found)) return failed(mode, *fault);
        Verification result = verification_of(mode, found);
        result.rows_recomputed = static_cast<std::int64_t>(rows.size());
        return result;
    }

  private:
    static Verification failed(const char* mode, const std::string& note) {
        Verification result;
        result.mode = mode;
        result.verdict = "failed";
        result.note = note;
        return result;
    }

    /// A stored result may be of a program that leaves out zeros, or keeps others.
    [[nodiscard]] bool any_zeros() const { return !how_.rounding; }

    void count_products() {
        std::atomic<std::int64_t> total = 0;
        parallel_for(p_.m, kRowsAtOnce, how_.threads, [&](std::int64_t begin, std::int64_t end) {
            std::int64_t some = 0;
            for (std::int64_t i = begin; i < end; ++i)
                some += products_[static_cast<std::size_t>(i)] = rows_.products(i);
            total += some;
        });
        total_ = total;
    }

    [[nodiscard]] std::optional<std::string> structure_fault_of_result() const {
        if (!rows_.c.is_sparse()) return {};
        const Operand c = operands_.c;
        if (c.rows != p_.m || c.cols != p_.n)
            return "the result is " + to_string(Shape{c.rows, c.cols}) + ", expected " +
                   to_string(Shape{p_.m, p_.n});
        if (auto fault = structure_fault(view_of_result(c, result_type(p_)), how_.threads))
            return "the structure of the result: " + *fault;
        for (std::int64_t i = 0; i < p_.m; ++i) {
            const std::int64_t most = products_[static_cast<std::size_t>(i)] + rows_.d.count(i);
            if (!any_zeros() && rows_.c.count(i) > most)
                return "row " + std::to_string(i) + " of the result has " + std::to_string(rows_.c.count(i)) +
                       " entries, expected at most " + std::to_string(most) + ", its products";
        }
        return {};
    }

    /// The first fault in the structure of these rows.
    std::optional<std::string> compute_again(const std::vector<std::int64_t>& rows, Findings& all) const {
        std::mutex mutex;
        std::int64_t first = std::numeric_limits<std::int64_t>::max();
        std::optional<std::string> fault;
        constexpr std::int64_t kAtOnce = 16;
        parallel_for(std::ssize(rows), kAtOnce, how_.threads, [&](std::int64_t begin, std::int64_t end) {
            SparseRowCheck<T> check(p_, rows_, rounding_, how_.tolerance, any_zeros());
            Findings found;
            for (std::int64_t at = begin; at < end; ++at) {
                const std::int64_t row = rows[static_cast<std::size_t>(at)];
                auto wrong = check.check(row, found);
                if (!wrong) continue;
                const std::lock_guard lock(mutex);
                if (row < first) {
                    first = row;
                    fault = std::move(wrong);
                }
            }
            const std::lock_guard lock(mutex);
            all.merge(found);
        });
        return fault;
    }

    /// Rows that Freivalds' check cannot let pass, some at random and those with the most products.
    std::vector<std::int64_t> rows_to_compute() {
        std::set<std::int64_t> rows;
        for (const std::int64_t row : suspects()) rows.insert(row);
        const auto is_small = [&](std::int64_t row) {
            return products_[static_cast<std::size_t>(row)] <= kMostProducts;
        };
        for (std::uint64_t n = 0; n < static_cast<std::uint64_t>(kRandomRows) && p_.m > 0; ++n) {
            const auto row =
                static_cast<std::int64_t>(random_bits(~how_.seed, n) % static_cast<std::uint64_t>(p_.m));
            if (is_small(row)) rows.insert(row);
        }
        std::vector<std::int64_t> heaviest(static_cast<std::size_t>(p_.m));
        std::iota(heaviest.begin(), heaviest.end(), 0);
        std::erase_if(heaviest, [&](std::int64_t row) { return !is_small(row); });
        const auto count = std::min<std::int64_t>(kHeaviestRows, std::ssize(heaviest));
        std::partial_sort(
            heaviest.begin(), heaviest.begin() + count, heaviest.end(), [&](std::int64_t x, std::int64_t y) {
                return products_[static_cast<std::size_t>(x)] > products_[static_cast<std::size_t>(y)];
            });
        rows.insert(heaviest.begin(), heaviest.begin() + count);
        return {rows.begin(), rows.end()};
    }

    using Number = Checked<T>;
    using Sums = std::array<Number, kRounds>;

    /// Row j of X. Rounds have bits of their own: no round follows from another.
    [[nodiscard]] Sums random_row(std::int64_t j) const {
        const std::uint64_t bits = random_bits(how_.seed, static_cast<std::uint64_t>(j));
        Sums x;
        for (std::size_t r = 0; r < kRounds; ++r) {
            const std::uint64_t own = std::rotl(bits, static_cast<int>(8 * r));
            if constexpr (std::is_integral_v<T>)
                x[r] = r == 0 ? own | 1 : own;
            else
                x[r] = (own & 1) == 0 ? 1.0 : -1.0;
        }
        return x;
    }
    [[nodiscard]] Sums x_of(std::int64_t j) const {
        return x_.empty() ? random_row(j) : x_[static_cast<std::size_t>(j)];
    }

    static void add(Sums& to, const Number& factor, const Sums& x) {
        for (std::size_t r = 0; r < kRounds; ++r) to[r] = multiply_add(factor, x[r], to[r]);
    }

    /// Rows whose C·x differs from what it should be by more than their own terms allow, or is not finite.
    [[nodiscard]] std::vector<std::int64_t> suspects() {
        if (p_.n <= kMostKeptRows) {
            std::vector<Sums> kept(static_cast<std::size_t>(p_.n));
            for (std::int64_t j = 0; j < p_.n; ++j) kept[static_cast<std::size_t>(j)] = random_row(j);
            x_ = std::move(kept);
        }
        std::vector<Sums> b_x(static_cast<std::size_t>(p_.k));
        std::vector<double> b_moduli(static_cast<std::size_t>(std::is_integral_v<T> ? 0 : p_.k));
        parallel_for(p_.k, kRowsAtOnce, how_.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end; ++k) {
                Sums sums{};
                double moduli = 0;
                rows_.b.for_each(k, [&](std::int64_t j, const T& value) {
                    add(sums, checked(value), x_of(j));
                    if constexpr (!std::is_integral_v<T>) moduli += sum_of_moduli(as_complex(value));
                });
                b_x[static_cast<std::size_t>(k)] = sums;
                if constexpr (!std::is_integral_v<T>) b_moduli[static_cast<std::size_t>(k)] = moduli;
            }
        });
        std::vector<std::int64_t> found;
        std::mutex mutex;
        parallel_for(p_.m, kRowsAtOnce, how_.threads, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                if (is_right(i, b_x, b_moduli)) continue;
                const std::lock_guard lock(mutex);
                found.push_back(i);
            }
        });
        return found;
    }

    [[nodiscard]] bool is_right(std::int64_t i, const std::vector<Sums>& b_x,
                                const std::vector<double>& b_moduli) const {
        Sums c_x{};
        rows_.c.for_each(
            i, [&](std::int64_t j, const Result<T>& value) { add(c_x, checked_result(value), x_of(j)); });
        Sums a_b_x{};
        double moduli = 0;
        std::int64_t longest = 0;
        rows_.a.for_each(i, [&](std::int64_t k, const T& value) {
            add(a_b_x, checked(value), b_x[static_cast<std::size_t>(k)]);
            longest = std::max(longest, rows_.b.count(k));
            if constexpr (!std::is_integral_v<T>)
                moduli += sum_of_moduli(as_complex(value)) * b_moduli[static_cast<std::size_t>(k)];
        });
        Sums d_x{};
        double d_moduli = 0;
        rows_.d.for_each(i, [&](std::int64_t j, const Result<T>& value) {
            add(d_x, checked_result(value), x_of(j));
            d_moduli += sum_of_moduli(as_complex(value));
        });
        if constexpr (std::is_integral_v<T>) {
            const int unused_bits = 64 - 8 * static_cast<int>(size_of(result_type(p_)));
            for (std::size_t r = 0; r < kRounds; ++r) {
                const std::uint64_t right = static_cast<std::uint64_t>(p_.alpha.integer) * a_b_x[r] +
                                            static_cast<std::uint64_t>(p_.beta.integer) * d_x[r];
                if ((c_x[r] - right) << unused_bits != 0) return false;
            }
            return true;
        } else {
            const ReferenceScalars scalars(p_);
            const double terms =
                sum_of_moduli(scalars.alpha) * moduli + sum_of_moduli(scalars.beta) * d_moduli;
            const double allowed = allowance(i, terms, longest);
            for (std::size_t r = 0; r < kRounds; ++r) {
                const std::complex<double> right = scalars.alpha * std::complex<double>(a_b_x[r]) +
                                                   scalars.beta * std::complex<double>(d_x[r]);
                const std::complex<double> rest = std::complex<double>(c_x[r]) - right;
                if (!(std::max(std::abs(rest.real()), std::abs(rest.imag())) <= allowed)) return false;
            }
            return true;
        }
    }

    static Checked<T> checked_result(const Result<T>& value) {
        if constexpr (std::is_integral_v<T>)
            return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
        else
            return checked(value);
    }

    /// What the level's errors in all elements of the row and those of this check, which has so long sums in
    /// double, may come to.
    [[nodiscard]] double allowance(std::int64_t i, double terms, std::int64_t longest) const {
        Problem own = p_;
        own.k = rows_.a.count(i);
        const ErrorBound bound(own, rounding_, how_.tolerance);
        ReferencePart all;
        all.terms = terms;
        all.value = {terms, 0};
        const auto elements = static_cast<double>(rows_.c.count(i));
        const double level = bound.worst(all) + elements * bound.worst({});
        const double steps = 2 * static_cast<double>(own.k + longest + rows_.c.count(i) + 8);
        return level + steps * std::numeric_limits<double>::epsilon() * (terms + level);
    }

    const Problem& p_;
    const Operands& operands_;
    const VerifyOptions& how_;
    Rounding rounding_;
    ProductRows<T> rows_;
    std::vector<std::int64_t> products_;
    std::int64_t total_ = 0;
    std::vector<Sums> x_;  // empty where it would have too many rows
};

}  // namespace

Verification verify_sparse_product(const Problem& asked, const Operands& given, const VerifyOptions& how) {
    if (how.mode == VerifyMode::none) return {};
    const Problem problem = as_read(asked);
    const Untransposed plain(problem, given);
    Verification found;
    visit_multiply_type(problem.type, [&]<class T>(TypeTag<T>) {
        found = SparseProductCheck<T>(plain.problem(), plain.operands(), how).run();
    });
    return found;
}

std::uint64_t sparse_product_check_bytes(const Problem& p, VerifyMode mode) {
    if (mode == VerifyMode::none) return 0;
    const auto bytes_of = [](std::int64_t count, std::size_t each) {
        constexpr double kMost = 0x1p62;
        return static_cast<std::uint64_t>(
            std::min(kMost, static_cast<double>(count) * static_cast<double>(each)));
    };
    constexpr std::size_t kSums = kRounds * sizeof(std::complex<double>);
    std::uint64_t bytes =
        saturating_add(bytes_of(std::min(p.n, kMostKeptRows), kSums), bytes_of(p.k, kSums + sizeof(double)));
    bytes = saturating_add(bytes, bytes_of(p.m, 2 * sizeof(std::int64_t)));
    const auto transposed = [&](bool is, std::size_t role, const Shape& shape) {
        if (is && p.structure.inputs.at(role) == Storage::csr)
            bytes = saturating_add(bytes, csr_bytes(shape, p.type, p.entries.at(role)));
    };
    transposed(p.transpose_a, 0, {p.m, p.k});
    transposed(p.transpose_b, 1, {p.k, p.n});
    return bytes;
}

}  // namespace gpumat::multiply
