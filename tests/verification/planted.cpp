#include "tests/verification/planted.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/check/elements.hpp"

namespace gpumat::verification {
namespace {

using Random = std::mt19937_64;

std::int64_t below(std::int64_t count, Random& random) {
    return count <= 0 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
}

std::byte* element(Product& x, std::int64_t row, std::int64_t col) {
    return x.c.data() + static_cast<std::size_t>(row * x.problem.n + col) * size_of(x.problem.type);
}

template <class Change>
Planted one_element(std::string_view name, Change change, bool for_integers = true) {
    return {name,
            [change](Product& x, Random& random) {
                const std::int64_t at = below(x.problem.m * x.problem.n, random);
                set(x.c, at, change(get(x.c, at)));
            },
            for_integers};
}

/// Flips one bit in the exponent or the upper half of the mantissa; any bit of an integer.
void flip_bit(Product& x, Random& random) {
    std::byte* bytes = element(x, below(x.problem.m, random), below(x.problem.n, random));
    const auto in = [&](int lowest, int highest) {
        return lowest + static_cast<int>(below(highest - lowest + 1, random));
    };
    int bit = 0;
    switch (x.problem.type) {
        case Type::f16:
            bit = in(5, 14);
            break;
        case Type::bf16:
            bit = in(3, 14);
            break;
        case Type::f32:
        case Type::c64:
            bit = in(12, 30);
            break;
        case Type::f64:
        case Type::c128:
            bit = in(26, 62);
            break;
        default:
            bit = in(0, static_cast<int>(size_of(x.problem.type)) * 8 - 1);
    }
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
}

/// C(i, j) −= α·A(i, k)·B(k, j) for rows and columns in ranges.
void leave_out(Product& x, std::int64_t k, std::int64_t row, std::int64_t rows, std::int64_t col,
               std::int64_t cols) {
    const Problem& p = x.problem;
    const auto alpha = number(p.alpha, p.type);
    std::vector<std::complex<double>> b(static_cast<std::size_t>(cols));
    for (std::int64_t j = 0; j < cols; ++j) b[static_cast<std::size_t>(j)] = get(x.b, at_b(p, k, col + j));
    for (std::int64_t i = row; i < row + rows; ++i) {
        const auto a = alpha * get(x.a, at_a(p, i, k));
        for (std::int64_t j = 0; j < cols; ++j) {
            const std::int64_t at = i * p.n + col + j;
            set(x.c, at, get(x.c, at) - a * b[static_cast<std::size_t>(j)]);
        }
    }
}

struct Tile {
    std::int64_t row;
    std::int64_t col;
    std::int64_t rows;
    std::int64_t cols;
};

Tile random_tile(const Product& x, std::int64_t size, Random& random) {
    const std::int64_t rows = std::min(size, x.problem.m);
    const std::int64_t cols = std::min(size, x.problem.n);
    return {below(x.problem.m / rows, random) * rows, below(x.problem.n / cols, random) * cols, rows, cols};
}

void clear(Product& x, const Tile& tile) {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        std::memset(element(x, tile.row + i, tile.col), 0,
                    static_cast<std::size_t>(tile.cols) * size_of(x.problem.type));
    }
}

void exchange(Product& x, const Tile& one, const Tile& other) {
    const std::size_t bytes = static_cast<std::size_t>(one.cols) * size_of(x.problem.type);
    for (std::int64_t i = 0; i < one.rows; ++i) {
        std::byte* row = element(x, one.row + i, one.col);
        std::swap_ranges(row, row + bytes, element(x, other.row + i, other.col));
    }
}

void exchange_tiles(Product& x, std::int64_t size, Random& random) {
    const Tile one = random_tile(x, size, random);
    Tile other = random_tile(x, size, random);
    if (other.row == one.row && other.col == one.col) {
        if (x.problem.n > one.cols) {
            other.col = one.col > 0 ? 0 : one.cols;
        } else {
            other.row = one.row > 0 ? 0 : one.rows;
        }
    }
    exchange(x, one, other);
}

/// Every row of the tile gets the one above it.
void shift_tile(Product& x, std::int64_t size, Random& random) {
    const Tile tile = random_tile(x, size, random);
    const std::size_t bytes = static_cast<std::size_t>(tile.cols) * size_of(x.problem.type);
    for (std::int64_t i = tile.rows - 1; i > 0; --i)
        std::memcpy(element(x, tile.row + i, tile.col), element(x, tile.row + i - 1, tile.col), bytes);
}

void without_alpha(Product& x, Random&) {
    const Problem& p = x.problem;
    if (p.alpha.is_one(p.type)) return;
    const auto [alpha, beta] = std::pair(number(p.alpha, p.type), number(p.beta, p.type));
    for (std::int64_t at = 0; at < p.m * p.n; ++at) {
        const auto added = p.beta.is_zero(p.type) ? 0.0 : beta * get(x.d, at);
        set(x.c, at, (get(x.c, at) - added) / alpha + added);
    }
}

void without_beta(Product& x, Random&) {
    const Problem& p = x.problem;
    if (p.beta.is_zero(p.type)) return;
    const auto beta = number(p.beta, p.type);
    for (std::int64_t at = 0; at < p.m * p.n; ++at)
        set(x.c, at, get(x.c, at) - (beta - 1.0) * get(x.d, at));  // β taken for 1
}

/// The result of other rows of A.
void stale(Product& x, Random& random) {
    const std::size_t row = static_cast<std::size_t>(x.problem.n) * size_of(x.problem.type);
    const auto by = static_cast<std::size_t>(1 + below(x.problem.m - 1, random));
    std::rotate(x.c.data(), x.c.data() + by * row, x.c.data() + x.c.bytes());
}

/// The last eighth of k is added twice.
void split_twice(Product& x, Random&) {
    const Problem& p = x.problem;
    Product part;
    part.problem = p;
    part.problem.transpose_a = part.problem.transpose_b = false;
    part.problem.beta = Scalar::of(0);
    const std::int64_t depth = part.problem.k = std::max<std::int64_t>(1, p.k / 8);
    part.a = Matrix({p.m, depth}, p.type);
    part.b = Matrix({depth, p.n}, p.type);
    part.c = Matrix({p.m, p.n}, p.type);
    visit_type(p.type, [&]<class T>(TypeTag<T>) {
        for (std::int64_t i = 0; i < p.m; ++i) {
            for (std::int64_t k = 0; k < depth; ++k)
                part.a.as<T>()[i * depth + k] = x.a.as<T>()[at_a(p, i, p.k - depth + k)];
        }
        for (std::int64_t k = 0; k < depth; ++k) {
            for (std::int64_t j = 0; j < p.n; ++j)
                part.b.as<T>()[k * p.n + j] = x.b.as<T>()[at_b(p, p.k - depth + k, j)];
        }
    });
    const Device device{.kind = DeviceKind::cpu, .threads = 2};
    const auto registry = Registry::standard();
    compute(part, *registry.choose(part.problem, device).level, device);
    for (std::int64_t at = 0; at < p.m * p.n; ++at) set(x.c, at, get(x.c, at) + get(part.c, at));
}

std::vector<Planted> make_list() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    using Value = std::complex<double>;
    return {
        one_element(
            "element changed by 1/1000", [](Value v) { return 1.001 * v; }, false),
        one_element("element set to 0", [](Value) { return Value(0); }),
        one_element("element's sign changed", [](Value v) { return -v; }),
        one_element("element x10", [](Value v) { return 10.0 * v; }),
        one_element("element x1000", [](Value v) { return 1000.0 * v; }),
        one_element(
            "element NaN", [](Value) { return Value(kNaN); }, false),
        one_element(
            "element infinite", [](Value) { return Value(kInf); }, false),
        {"one upper bit flipped", flip_bit},
        {"term of k missing in an element",
         [](Product& x, Random& random) {
             const Problem& p = x.problem;
             leave_out(x, below(p.k, random), below(p.m, random), 1, below(p.n, random), 1);
         }},
        {"term of k missing in a row",
         [](Product& x, Random& random) {
             const Problem& p = x.problem;
             leave_out(x, below(p.k, random), below(p.m, random), 1, 0, p.n);
         }},
        {"term of k missing everywhere",
         [](Product& x, Random& random) {
             leave_out(x, below(x.problem.k, random), 0, x.problem.m, 0, x.problem.n);
         }},
        {"last term of k missing everywhere",
         [](Product& x, Random&) { leave_out(x, x.problem.k - 1, 0, x.problem.m, 0, x.problem.n); }},
        {"32x32 tile zero", [](Product& x, Random& random) { clear(x, random_tile(x, 32, random)); }},
        {"128x128 tile zero", [](Product& x, Random& random) { clear(x, random_tile(x, 128, random)); }},
        {"32x32 tiles exchanged", [](Product& x, Random& random) { exchange_tiles(x, 32, random); }},
        {"128x128 tiles exchanged", [](Product& x, Random& random) { exchange_tiles(x, 128, random); }},
        {"32x32 tile shifted by a row", [](Product& x, Random& random) { shift_tile(x, 32, random); }},
        {"128x128 tile shifted by a row", [](Product& x, Random& random) { shift_tile(x, 128, random); }},
        {"adjacent rows exchanged",
         [](Product& x, Random& random) {
             const std::int64_t row = below(x.problem.m - 1, random);
             exchange(x, {row, 0, 1, x.problem.n}, {row + 1, 0, 1, x.problem.n});
         }},
        {"adjacent columns exchanged",
         [](Product& x, Random& random) {
             const std::int64_t col = below(x.problem.n - 1, random);
             exchange(x, {0, col, x.problem.m, 1}, {0, col + 1, x.problem.m, 1});
         }},
        {"row zero",
         [](Product& x, Random& random) {
             clear(x, {below(x.problem.m, random), 0, 1, x.problem.n});
         }},
        {"column zero",
         [](Product& x, Random& random) {
             clear(x, {0, below(x.problem.n, random), x.problem.m, 1});
         }},
        {"all but the first and last row zero",
         [](Product& x, Random&) {
             clear(x, {1, 0, x.problem.m - 2, x.problem.n});
         }},
        {"alpha left out", without_alpha},
        {"beta left out", without_beta},
        {"stale result", stale},
        {"a split of k counted twice", split_twice},
    };
}

}  // namespace

std::span<const Planted> planted_errors() {
    static const std::vector<Planted> errors = make_list();
    return errors;
}

}  // namespace gpumat::verification
