#include "tests/verification/products.hpp"
#include "kernels/multiply/operation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/parallel.hpp"
#include "kernels/check/elements.hpp"

namespace gpumat::verification {
namespace {

constexpr std::array kData = {Data::normal,    Data::uniform,  Data::graded,   Data::positive,
                              Data::dominant,  Data::integers, Data::constant, Data::alternating,
                              Data::repeated,  Data::sparse,   Data::mixed,    Data::lost,
                              Data::cancelling};

/// Numbers at random, much faster than the standard library's.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}

    std::uint64_t bits() {  // splitmix64 (Steele, Lea and Flood 2014)
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    /// A sum of four uniform numbers, scaled to a variance of 1: near enough to a normal one.
    double normal() {
        const std::uint64_t x = bits();
        double sum = 0;
        for (int part = 0; part < 4; ++part) sum += static_cast<double>((x >> (16 * part)) & 0xffffU);
        return (sum * 0x1p-16 - 2) * 1.7320508075688772;
    }

  private:
    std::uint64_t state_;
};

/// One real number of op(A), which is `left`, or op(B).
double draw(Data data, bool left, std::int64_t k, Random& random) {
    switch (data) {
        case Data::uniform:
            return 2 * random.unit() - 1;
        case Data::positive:
            return random.unit();
        case Data::integers:
            return static_cast<double>(random.bits() % 17) - 8;
        case Data::constant:
            return 0.1;
        case Data::alternating:
            return left ? (k % 2 == 0 ? 0.1 : -0.1) : 0.3;
        case Data::repeated:
            return random.unit();
        case Data::sparse:
            return random.bits() % 10 == 0 ? random.normal() : 0;
        case Data::mixed:
            return std::ldexp(random.normal(), static_cast<int>(random.bits() % 41) - 20);
        case Data::lost:
            return !left ? 1 : k == 0 ? 0x1p24 : random.unit();
        default:
            return random.normal();
    }
}

/// Halves end at 65504: large numbers are kept small in them.
double fitting(Type type, double value) {
    return type == Type::f16 ? std::clamp(value, -16.0, 16.0) : value;
}

/// Numbers of their own for each row of op(A) and op(B), so that rows are filled at the same time.
Random of_row(std::uint64_t seed, bool left, std::int64_t row) {
    Random mixed(seed ^ (static_cast<std::uint64_t>(row) * 2 + (left ? 1 : 0)) * 0xd1342543de82ef95U);
    return Random(mixed.bits());
}

void fill_left_row(Product& product, Data data, std::int64_t i, Random random) {
    const Problem& p = product.problem;
    const double scale = data == Data::graded ? std::pow(10.0, std::round(12 * random.unit()) - 6) : 1;
    const auto large = static_cast<std::int64_t>(random.unit() * static_cast<double>(p.k));
    std::complex<double> before = 0;
    for (std::int64_t k = 0; k < p.k; ++k) {
        const double factor = data == Data::dominant && k == large ? 1e6 : scale;
        const auto part = [&] { return fitting(p.type, factor * draw(data, true, k, random)); };
        std::complex<double> value = part();
        if (is_complex(p.type)) value.imag(part());
        if (data == Data::cancelling && k % 2 == 1) value = -before * (1 + 1e-3 * random.unit());
        before = value;
        set(product.a, at_a(p, i, k), value);
    }
}

void fill_right_row(Product& product, Data data, std::int64_t k, Random random) {
    const Problem& p = product.problem;
    std::complex<double> value = 0;
    for (std::int64_t j = 0; j < p.n; ++j) {
        if (data != Data::repeated || j == 0) {
            value = draw(data, false, k, random);
            if (is_complex(p.type)) value.imag(draw(data, false, k, random));
        }
        set(product.b, at_b(p, k, j), value);
    }
}

/// Calls `row(i)` for each row on all threads.
template <class Row>
void for_rows(std::int64_t rows, std::int64_t elements, const Row& row) {
    const int threads = elements < 100000 ? 1 : hardware_threads();
    parallel_for(rows, 16, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) row(i);
    });
}

DeviceMemory upload(Gpu& gpu, const Matrix& matrix) {
    DeviceMemory memory = gpu.allocate(matrix.bytes());
    gpu.upload(memory.data(), matrix.data(), matrix.bytes());
    return memory;
}

}  // namespace

std::span<const Data> all_data() {
    return kData;
}

std::string_view name_of(Data data) {
    constexpr std::array<std::string_view, kData.size()> kNames = {
        "normal",      "uniform",  "graded", "positive", "dominant", "integers",  "constant",
        "alternating", "repeated", "sparse", "mixed",    "lost",     "cancelling"};
    return kNames[static_cast<std::size_t>(data)];
}

Operands Product::operands() {
    return contiguous_operands(
        problem, {a.data(), b.data(), problem.beta.is_zero(problem.type) ? nullptr : d.data(), c.data()});
}

Product make_product(const Wanted& wanted) {
    Product product;
    Problem& p = product.problem;
    p.operation = &kMultiply;
    p.type = wanted.type;
    p.m = wanted.m;
    p.n = wanted.n;
    p.k = wanted.k;
    p.transpose_a = p.transpose_b = wanted.transposed;
    if (wanted.scaled) {
        p.alpha = {{0.75, is_complex(p.type) ? 0.5 : 0.0}, 3};
        p.beta = {{-1.5, is_complex(p.type) ? 0.25 : 0.0}, -7};
    }
    product.a = Matrix(wanted.transposed ? Shape{p.k, p.m} : Shape{p.m, p.k}, p.type);
    product.b = Matrix(wanted.transposed ? Shape{p.n, p.k} : Shape{p.k, p.n}, p.type);
    product.c = Matrix({p.m, p.n}, p.type);
    const Data data = is_integer(p.type) ? Data::integers : wanted.data;
    for_rows(p.m, p.m * p.k,
             [&](std::int64_t i) { fill_left_row(product, data, i, of_row(wanted.seed, true, i)); });
    for_rows(p.k, p.k * p.n, [&](std::int64_t k) {
        // The same numbers twice, which A takes with opposite signs.
        const std::int64_t drawn = data == Data::cancelling ? k / 2 : k;
        fill_right_row(product, data, k, of_row(wanted.seed, false, drawn));
    });
    if (!wanted.scaled) return product;
    // D on the scale of the product.
    product.d = Matrix({p.m, p.n}, p.type);
    const double scale = std::max(1.0, std::round(std::sqrt(static_cast<double>(p.k))));
    for_rows(p.m, p.m * p.n, [&](std::int64_t i) {
        Random random = of_row(~wanted.seed, true, i);
        for (std::int64_t j = 0; j < p.n; ++j)
            set(product.d, i * p.n + j, scale * std::round(64 * random.normal()) / 64);
    });
    return product;
}

void compute(Product& product, const Level& level, const Device& device) {
    std::memset(product.c.data(), 0xff, product.c.bytes());
    if (device.kind == DeviceKind::cpu) {
        prepare_launch(level, product.problem, product.operands(), device).run({});
        return;
    }
    Gpu& gpu = *device.gpu;
    const DeviceMemory a = upload(gpu, product.a);
    const DeviceMemory b = upload(gpu, product.b);
    const DeviceMemory d = upload(gpu, product.d);
    const DeviceMemory c = upload(gpu, product.c);
    const Launch launch = prepare_launch(
        level, product.problem,
        contiguous_operands(product.problem, {a.data(), b.data(), d.data(), c.data()}), device);
    gpu.time_ms(launch.run);
    gpu.synchronize();
    gpu.download(product.c.data(), c.data(), c.bytes());
}

std::complex<double> get(const Matrix& matrix, std::int64_t at) {
    return visit_type(matrix.type(), [&]<class T>(TypeTag<T>) { return as_complex(matrix.as<T>()[at]); });
}

void set(Matrix& matrix, std::int64_t at, std::complex<double> value) {
    visit_type(matrix.type(), [&]<class T>(TypeTag<T>) {
        if constexpr (kIsComplex<T>) {
            using Part = typename T::value_type;
            matrix.as<T>()[at] = {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
        } else if constexpr (std::is_integral_v<T>) {
            matrix.as<T>()[at] = static_cast<T>(static_cast<std::int64_t>(std::round(value.real())));
        } else {
            matrix.as<T>()[at] = static_cast<T>(value.real());
        }
    });
}

std::int64_t at_a(const Problem& problem, std::int64_t i, std::int64_t k) {
    return problem.transpose_a ? k * problem.m + i : i * problem.k + k;
}

std::int64_t at_b(const Problem& problem, std::int64_t k, std::int64_t j) {
    return problem.transpose_b ? j * problem.k + k : k * problem.n + j;
}

std::complex<double> number(const Scalar& scalar, Type type) {
    return is_integer(type) ? static_cast<double>(scalar.integer) : scalar.value;
}

Matrix copy_of(const Matrix& matrix) {
    Matrix copy(matrix.shape(), matrix.type());
    if (matrix.bytes() > 0) std::memcpy(copy.data(), matrix.data(), matrix.bytes());
    return copy;
}

}  // namespace gpumat::verification
