// Measures the levels of the GPU that transpose sparse matrices, beside cuSPARSE: the median of some runs
// with a cold cache, after one that is verified. Usage: bench_sparse_gpu ROWS COLUMNS ENTRIES TYPE [power]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/numbers/type.hpp"
#include "core/parallel.hpp"
#include "kernels/multiply/gpu/sparse/levels.hpp"
#include "kernels/multiply/operation.hpp"
#include "kernels/transpose/check/verify_sparse.hpp"
#include "kernels/transpose/gpu/sparse/levels.hpp"
#include "kernels/transpose/operation.hpp"
#include "tests/kernels/sparse_on_gpu.hpp"

using namespace gpumat;

namespace {

constexpr int kThreads = 16;
constexpr int kRuns = 9;

/// Random bits, the same for the same number.
std::uint64_t bits_at(std::uint64_t number) {
    number += 0x9e3779b97f4a7c15;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
    return number ^ number >> 31;
}

/// Rows of as many entries each, or with lengths and columns of a power law.
Csr random_matrix(const Shape& shape, std::int64_t entries, Type type, bool power_law) {
    std::vector<std::int64_t> pointers(static_cast<std::size_t>(shape.rows) + 1);
    const auto rows = static_cast<double>(shape.rows);
    for (std::int64_t row = 0; row <= shape.rows; ++row) {
        const double share = static_cast<double>(row) / rows;
        const auto end =
            static_cast<std::int64_t>(static_cast<double>(entries) * (power_law ? std::sqrt(share) : share));
        pointers[static_cast<std::size_t>(row)] =
            row == 0 ? 0 : std::min(end, pointers[static_cast<std::size_t>(row) - 1] + shape.cols);
    }
    Csr matrix(shape, type, pointers.back());
    const MutableCsrView to = matrix.view();
    std::copy(pointers.begin(), pointers.end(), to.pointers);
    parallel_for(shape.rows, 256, kThreads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t count = to.pointers[row + 1] - to.pointers[row];
            std::int64_t before = -1;
            for (std::int64_t n = 0; n < count; ++n) {
                const std::int64_t at = to.pointers[row] + n;
                const double unit =
                    static_cast<double>(bits_at(static_cast<std::uint64_t>(at)) >> 11) * 0x1p-53;
                const double part = (static_cast<double>(n) + unit) / static_cast<double>(count);
                const double share = power_law ? part * part * part : part;
                const auto column = static_cast<std::int64_t>(share * static_cast<double>(shape.cols));
                before = std::min(std::max(before + 1, column), shape.cols - count + n);
                to.columns_as<std::int32_t>()[at] = static_cast<std::int32_t>(before);
                const std::uint64_t value = bits_at(~static_cast<std::uint64_t>(at));
                for (std::size_t byte = 0; byte < size_of(type); byte += sizeof value)
                    std::memcpy(to.values + static_cast<std::size_t>(at) * size_of(type) + byte, &value,
                                std::min(sizeof value, size_of(type) - byte));
            }
        }
    });
    return matrix;
}

double median_ms(Gpu& gpu, const Launch& launch, const DeviceMemory& cache) {
    std::array<double, kRuns> samples{};
    for (double& sample : samples) {
        gpu.fill(cache.data(), 1, cache.bytes());
        gpu.synchronize();
        sample = gpu.time_ms(launch.run);
    }
    std::sort(samples.begin(), samples.end());
    return samples[kRuns / 2];
}

/// What every line ends with.
void print(const Level& level, double ms, double bytes, const std::string& found) {
    std::printf("%-8s %8.3f ms %8.1f GB/s  %s\n", std::string(level.name).c_str(), ms, bytes / ms / 1e6,
                found.c_str());
}

/// Whether the level takes the problem; prints why not.
bool can_run(const Level& level, const Problem& problem, const Operands& operands, const Device& device) {
    const Reasons reasons = unsupported_reasons(level, problem, operands, device);
    if (!reasons.empty()) std::printf("%-8s %s\n", std::string(level.name).c_str(), reasons.front().c_str());
    return reasons.empty();
}

void bench_transposes(const Csr& in, const SparseOnGpu& from, const Device& device,
                      const DeviceMemory& cache) {
    Gpu& gpu = *device.gpu;
    const Problem problem{.operation = &kTranspose,
                          .type = in.type(),
                          .m = in.shape().rows,
                          .n = in.shape().cols,
                          .structure = {.inputs = {Storage::csr}, .result = Storage::csr},
                          .entries = {in.entries()}};
    for (const Level& level : transpose::gpu::sparse::levels()) {
        Csr out(in.shape().transposed(), in.type(), in.entries());
        const SparseOnGpu to(gpu, out.view(), false);
        const Operands operands{.a = from.operand(), .c = to.operand()};
        if (!can_run(level, problem, operands, device)) continue;
        const Launch launch = prepare_launch(level, problem, operands, device);
        launch.run(gpu.stream());
        gpu.synchronize();
        to.download(out.view());
        const Operands host{.a = operand_of(in.view()), .c = operand_of(out.view())};
        const Verification found = transpose::verify_sparse(problem, host, {.threads = kThreads});
        print(level, median_ms(gpu, launch, cache), problem.bytes(), found.verdict + " " + found.note);
    }
}

/// Times a dense matrix of f32, all of whose elements are 1, as those of A are made to be: the sum of C is
/// known.
void bench_products(const Csr& in, const SparseOnGpu& from, std::int64_t n, const Device& device,
                    const DeviceMemory& cache) {
    Gpu& gpu = *device.gpu;
    const auto bytes_of = [&](std::int64_t rows) {
        return static_cast<std::size_t>(rows * n) * sizeof(float);
    };
    const DeviceMemory b = gpu.allocate(bytes_of(in.shape().cols));
    const DeviceMemory c = gpu.allocate(bytes_of(in.shape().rows));
    std::vector<float> ones(static_cast<std::size_t>(std::max(in.shape().cols * n, in.entries())), 1);
    gpu.upload(b.data(), ones.data(), b.bytes());
    gpu.upload(from.operand().data, ones.data(), static_cast<std::size_t>(in.entries()) * sizeof(float));
    const Problem problem{.operation = &kMultiply,
                          .type = Type::f32,
                          .m = in.shape().rows,
                          .n = n,
                          .k = in.shape().cols,
                          .structure = {.inputs = {Storage::csr}},
                          .entries = {in.entries()}};
    const Operands operands{.a = from.operand(),
                            .b = {.data = b.data(), .rows = problem.k, .cols = n, .pitch = n},
                            .c = {.data = c.data(), .rows = problem.m, .cols = n, .pitch = n}};
    const double gathered = static_cast<double>(in.entries()) * (static_cast<double>(n) * sizeof(float) + 8) +
                            static_cast<double>(c.bytes());
    for (const Level& level : multiply::gpu::sparse::levels()) {
        gpu.fill(c.data(), 0xff, c.bytes());
        if (!can_run(level, problem, operands, device)) continue;
        const Launch launch = prepare_launch(level, problem, operands, device);
        launch.run(gpu.stream());
        gpu.synchronize();
        std::vector<float> result(c.bytes() / sizeof(float));
        gpu.download(result.data(), c.data(), c.bytes());
        double sum = 0;
        for (const float element : result) sum += element;
        const bool right = sum == static_cast<double>(in.entries()) * static_cast<double>(n);
        print(level, median_ms(gpu, launch, cache), gathered, right ? "right" : "WRONG");
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    const Shape shape{std::atoll(argv[1]), std::atoll(argv[2])};
    const Type type = *type_from_name(argv[4]);
    const bool power_law = argc > 5 && std::string_view(argv[5]) == "power";
    const std::int64_t n = argc > 6 ? std::atoll(argv[6]) : 0;
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .threads = 1, .gpu = gpu.get()};
    const Csr in = random_matrix(shape, std::atoll(argv[3]), type, power_law);
    std::printf("%s, %lld entries of %s, %s, %lld columns, on %s\n", to_string(shape).c_str(),
                static_cast<long long>(in.entries()), argv[4], power_law ? "power law" : "uniform",
                static_cast<long long>(n), gpu->info().name.c_str());
    const SparseOnGpu from(*gpu, in.view(), true);
    const DeviceMemory cache = gpu->allocate(4 * gpu->info().l2_bytes);
    if (n == 0) {
        bench_transposes(in, from, device, cache);
    } else {
        bench_products(in, from, n, device, cache);
    }
    return 0;
}
