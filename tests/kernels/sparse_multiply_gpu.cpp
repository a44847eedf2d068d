// Every GPU level that multiplies a sparse A by a dense B, against plain code. All numbers are small and
// whole, so that every sum is exact. GPUMAT_SMALL_SHAPES=1 leaves out the large ones, for the slow memory and
// race checkers.
#include <complex>
#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/gpu/sparse/levels.hpp"
#include "kernels/multiply/operation.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/sparse_cases.hpp"
#include "tests/kernels/sparse_on_gpu.hpp"

using namespace gpumat;
using namespace gpumat::sparse_cases;

namespace {

using Number = std::complex<double>;

Gpu& gpu() {
    static const std::unique_ptr<Gpu> kGpu = Gpu::open(0);
    return *kGpu;
}

Device device() {
    return {.kind = DeviceKind::gpu, .threads = 1, .gpu = &gpu()};
}

template <class T>
T element_of(const Number& number) {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Number>) {
        return static_cast<T>(number);
    } else if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::int64_t>(number.real()));
    } else {
        return static_cast<T>(number.real());
    }
}

template <class T>
Number number_of(const T& element) {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Number>) {
        return element;
    } else {
        return static_cast<double>(element);
    }
}

/// A whole number from −3 to 3, of complex types both parts.
Number number_at(std::int64_t at, Type type) {
    const auto part = [](std::int64_t n) { return static_cast<double>((n * 2654435761 >> 7) % 7 - 3); };
    return {part(at), is_complex(type) ? part(at + 12345) : 0};
}

/// A dense matrix of these numbers in the memory of the GPU.
template <class T>
class DenseOnGpu {
  public:
    DenseOnGpu(const Shape& shape, const std::vector<T>& elements)
        : shape_(shape), memory_(gpu().allocate(std::max<std::size_t>(elements.size(), 1) * sizeof(T))) {
        gpu().upload(memory_.data(), elements.data(), elements.size() * sizeof(T));
    }
    [[nodiscard]] MutableOperand operand() const {
        return {.data = memory_.data(), .rows = shape_.rows, .cols = shape_.cols, .pitch = shape_.cols};
    }

  private:
    Shape shape_;
    DeviceMemory memory_;
};

template <class T>
std::vector<T> elements_of(std::int64_t count, Type type, std::int64_t seed) {
    std::vector<T> elements(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
        elements[static_cast<std::size_t>(i)] = element_of<T>(number_at(i + seed, type));
    return elements;
}

struct Scales {
    double alpha;
    double beta;
};

/// C as it should be.
template <class T>
std::vector<T> expected_of(const Case& one, Type type, std::int64_t n, const Scales& scales,
                           bool transposed) {
    std::vector<Number> sums(static_cast<std::size_t>(one.shape.rows * n));
    const std::int64_t k = one.shape.cols;
    for (std::size_t e = 0; e < one.places.size(); ++e) {
        const Number a = number_at(static_cast<std::int64_t>(e), type);
        const auto [row, column] = one.places[e];
        for (std::int64_t j = 0; j < n; ++j)
            sums[static_cast<std::size_t>(row * n + j)] +=
                a * number_at((transposed ? j * k + column : column * n + j) + 1, type);
    }
    std::vector<T> c(sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
        c[i] = element_of<T>(scales.alpha * sums[i] +
                             scales.beta * number_at(static_cast<std::int64_t>(i) + 2, type));
    return c;
}

template <class T>
void check_levels(const Case& one, Type type, std::int64_t n, const Scales& scales, bool transposed) {
    const auto entries = static_cast<std::int64_t>(one.places.size());
    Csr a = matrix_of(one.shape, one.places, type);
    const std::vector<T> values = elements_of<T>(entries, type, 0);
    std::copy(values.begin(), values.end(), a.view().values_as<T>());
    const SparseOnGpu a_there(gpu(), a.view(), true);
    const Shape b_shape = transposed ? Shape{n, one.shape.cols} : Shape{one.shape.cols, n};
    const DenseOnGpu<T> b_there(b_shape, elements_of<T>(one.shape.cols * n, type, 1));
    const Shape c_shape{one.shape.rows, n};
    const DenseOnGpu<T> d_there(c_shape, elements_of<T>(one.shape.rows * n, type, 2));
    Problem problem{.operation = &kMultiply, .type = type, .m = one.shape.rows, .n = n, .k = one.shape.cols};
    problem.structure = {.inputs = {Storage::csr}};
    problem.entries = {entries};
    problem.transpose_b = transposed;
    problem.alpha = Scalar::of(static_cast<std::int64_t>(scales.alpha));
    problem.beta = Scalar::of(static_cast<std::int64_t>(scales.beta));
    const std::vector<T> expected = expected_of<T>(one, type, n, scales, transposed);
    for (const Level& level : multiply::gpu::sparse::levels()) {
        INFO(one.name << ", " << name_of(type) << ", n = " << n << ", " << level.name);
        std::vector<T> c(expected.size());
        std::memset(static_cast<void*>(c.data()), 0xff, c.size() * sizeof(T));
        const DenseOnGpu<T> c_there(c_shape, c);
        Operands operands{.a = a_there.operand(), .b = b_there.operand(), .c = c_there.operand()};
        if (scales.beta != 0) operands.d = d_there.operand();
        if (!unsupported_reasons(level, problem, operands, device()).empty()) {
            REQUIRE(level.role == Role::vendor);
            continue;
        }
        const Launch launch = prepare_launch(level, problem, operands, device());
        for (int run = 0; run < 2; ++run) launch.run(gpu().stream());
        gpu().synchronize();
        gpu().download(c.data(), c_there.operand().data, c.size() * sizeof(T));
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < c.size(); ++i) wrong += number_of(c[i]) == number_of(expected[i]) ? 0 : 1;
        CHECK(wrong == 0);
    }
}

/// A row that goes through more shares than a thread adds up alone, between short ones and empty ones.
Case long_row_among_others() {
    const Shape shape = {400, 9'000};
    Places places;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
        const std::int64_t count = row == 200 ? 8'500 : row % 3 * 2;
        for (std::int64_t column = 0; column < count; ++column) places.emplace_back(row, column + row % 7);
    }
    return {"a long row among others", shape, places};
}

}  // namespace

TEST_CASE("every level of the GPU multiplies a sparse matrix by a dense one") {
    const bool only_small = std::getenv("GPUMAT_SMALL_SHAPES") != nullptr;
    std::vector<Case> all = cases();
    all.push_back(long_row_among_others());
    for (const Case& one : all) {
        if (only_small && one.places.size() > 10'000) continue;
        for (const std::int64_t n : {0, 1, 3, 4, 8, 12, 24, 64, 130, 300}) {
            if (std::max(one.shape.rows, one.shape.cols) * n > 3'000'000) continue;
            if (only_small && n != 3 && n != 8 && n != 64) continue;
            for (const Type type :
                 {Type::f32, Type::f64, Type::c64, Type::c128, Type::f16, Type::bf16, Type::i32, Type::u64}) {
                if (only_small && type != Type::f32 && type != Type::c128) continue;
                multiply::visit_multiply_type(type, [&]<class T>(TypeTag<T>) {
                    check_levels<T>(one, type, n, {1, 0}, false);
                    if (n == 24) check_levels<T>(one, type, n, {2, -1}, false);
                    if (n == 3) check_levels<T>(one, type, n, {1, 0}, true);
                });
            }
        }
    }
}
