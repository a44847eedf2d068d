// Checks that several processes make together, each of the rows that it has.
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/check/check.hpp"
#include "kernels/operation.hpp"
#include "kernels/reduce/operation.hpp"
#include "kernels/registry.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/catch.hpp"

using namespace gpumat;

namespace {

/// Rows of a matrix in memory, as the process that has them reads them: `step` at a time.
class StoredRows final : public StoredMatrix {
  public:
    StoredRows(const Matrix& matrix, std::int64_t begin, std::int64_t end, std::int64_t step)
        : matrix_(matrix), begin_(begin), end_(end), step_(step) {}
    explicit StoredRows(const Matrix& matrix) : StoredRows(matrix, 0, matrix.shape().rows, 20) {}

    [[nodiscard]] Shape shape() const override { return matrix_.shape(); }
    [[nodiscard]] Type type() const override { return matrix_.type(); }
    [[nodiscard]] Shape grain() const override { return {1, 1}; }
    [[nodiscard]] bool comes_once() const override { return false; }
    [[nodiscard]] std::uint64_t least_for_blocks() const override { return 0; }
    void read(const Block&, const MutableMatrixView& into) override {
        std::memcpy(into.data, matrix_.view().data, matrix_.bytes());
    }
    void read_in_blocks(std::uint64_t, const TakeBlock& take) override {
        const MatrixView all = matrix_.view();
        for (std::int64_t row = begin_; row < end_; row += step_) {
            const Block block{row, 0, std::min(step_, end_ - row), all.shape.cols};
            const auto skipped = static_cast<std::size_t>(row * all.ld) * size_of(all.type);
            take(block, {all.type, block.shape(), all.ld, all.data + skipped});
        }
    }

  private:
    const Matrix& matrix_;
    std::int64_t begin_;
    std::int64_t end_;
    std::int64_t step_;
};

Matrix random_bits(const Shape& shape, Type type) {
    Matrix matrix(shape, type);
    std::mt19937_64 random(4);
    for (std::size_t i = 0; i < matrix.bytes(); ++i) matrix.data()[i] = static_cast<std::byte>(random());
    return matrix;
}

/// What the first level of the CPU makes of it.
Matrix result_of(const Problem& problem, const Matrix& input) {
    static const Registry kRegistry = Registry::standard();
    Matrix result(problem.operation->result(problem), result_type(problem));
    const Level& level = *kRegistry.find(*problem.operation, DeviceKind::cpu, "1");
    const Device device{.kind = DeviceKind::cpu};
    prepare_launch(level, problem, contiguous_operands(problem, {.a = input.view().data, .c = result.data()}),
                   device)
        .run({});
    return result;
}

/// Two processes check a reduction, one after the other; what the first says is heard by the second.
std::string verdict_of_two(const Problem& problem, const Matrix& input, const Matrix& result) {
    const std::int64_t middle = problem.m / 3;
    const auto check = [&](std::int64_t begin, std::int64_t end, const auto& gather) {
        StoredRows own(input, begin, end, end - begin);
        const bool by_rows = result.shape().rows == problem.m;
        StoredRows results(result, by_rows ? begin : 0, by_rows ? end : 1, end - begin);
        return kReduce.check->in_blocks(problem, {.inputs = {&own}, .result = results, .gather = gather},
                                        {.threads = 2}, 0);
    };
    std::vector<std::byte> first;
    check(0, middle,
          [&](std::span<const std::byte> own, const TakeBytes&) { first.assign(own.begin(), own.end()); });
    return check(middle, problem.m,
                 [&](std::span<const std::byte> own, const TakeBytes& take) {
                     take(first);
                     take(own);
                 })
        .value()
        .verdict;
}

}  // namespace

TEST_CASE("transposes that several processes have are compared by sums of hashes") {
    for (const Type type : all_types()) {
        const Shape shape{37, 1030};  // more columns than are hashed at once
        const Problem problem{.operation = &kTranspose, .type = type, .m = shape.rows, .n = shape.cols};
        const Matrix in = random_bits(shape, type);
        Matrix out = result_of(problem, in);
        StoredRows input(in);
        StoredRows result(out);
        // As if another process had as much: what is added to the halves of the sums passes 32 bits.
        const auto add_up = [](std::span<double> sums) {
            for (double& sum : sums) sum += 0x1p32 - 1;
        };
        const auto verdict = [&] {
            const StoredMatrices stored{.inputs = {&input}, .result = result, .add_up = add_up};
            return kTranspose.check->in_blocks(problem, stored, {.threads = 2}, 0).value().verdict;
        };
        INFO(name_of(type));
        CHECK(verdict() == "passed");
        const std::size_t size = size_of(type);
        out.data()[5 * size] ^= std::byte{1};
        CHECK(verdict() == "failed");
        out.data()[5 * size] ^= std::byte{1};
        std::byte* const first = out.data();
        while (std::memcmp(first, first + size, size) == 0) first[0] ^= std::byte{1};
        std::swap_ranges(first, first + size, first + size);
        CHECK(verdict() == "failed");
    }
}

TEST_CASE("reductions of rows that several processes have are judged as those of one") {
    for (const Type type : {Type::i16, Type::u64, Type::bf16, Type::f32, Type::f64, Type::c128}) {
        Matrix input = random_bits({40, 9}, type);
        if (type ==
            Type::f64) {  // so large and so small that a sum of squares is scaled, in one process each
            for (std::size_t i = 0; i < 360; ++i) input.as<double>()[i] = static_cast<double>(i) - 100;
            input.as<double>()[0] = std::numeric_limits<double>::max();
            input.as<double>()[359] = std::numeric_limits<double>::max();
            input.as<double>()[9 * 20 + 4] = 1e-300;
        }
        for (const char* op : {"sum", "min", "max", "absmax", "norm", "mean", "nan-count"}) {
            for (const char* axis : {"all", "rows", "columns"}) {
                Problem problem{.operation = &kReduce, .type = type, .m = 40, .n = 9};
                problem.choices = {{"op", op}, {"axis", axis}};
                if (!reduce::reduction_reasons(problem).empty()) continue;
                Matrix result = result_of(problem, input);
                INFO(name_of(type) << " " << op << " " << axis);
                CHECK(verdict_of_two(problem, input, result) == "passed");
                std::byte* const last = result.data() + result.bytes() - size_of(result.type());
                last[size_of(result.type()) - 1] ^= std::byte{0x40};
                const bool was_nan = type == Type::bf16 || is_complex(type) || type == Type::f32;
                if (!was_nan || std::string(op) == "nan-count")
                    CHECK(verdict_of_two(problem, input, result) == "failed");
            }
        }
    }
}
