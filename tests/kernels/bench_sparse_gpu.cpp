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

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    const Shape shape{std::atoll(argv[1]), std::atoll(argv[2])};
    const Type type = *type_from_name(argv[4]);
    const bool power_law = argc > 5 && std::string_view(argv[5]) == "power";
    const auto gpu = Gpu::open(0);
    const Device device{.kind = DeviceKind::gpu, .threads = 1, .gpu = gpu.get()};
    const Csr in = random_matrix(shape, std::atoll(argv[3]), type, power_law);
    const Problem problem{.operation = &kTranspose,
                          .type = type,
                          .m = shape.rows,
                          .n = shape.cols,
                          .structure = {.inputs = {Storage::csr}, .result = Storage::csr},
                          .entries = {in.entries()}};
    std::printf("%s, %lld entries of %s%s on %s\n", to_string(shape).c_str(),
                static_cast<long long>(in.entries()), argv[4], power_law ? ", power law" : "",
                gpu->info().name.c_str());
    const SparseOnGpu from(*gpu, in.view(), true);
    const DeviceMemory cache = gpu->allocate(4 * gpu->info().l2_bytes);
    for (const Level& level : transpose::gpu::sparse::levels()) {
        Csr out(shape.transposed(), type, in.entries());
        const SparseOnGpu to(*gpu, out.view(), false);
        const Operands operands{.a = from.operand(), .c = to.operand()};
        const Reasons reasons = unsupported_reasons(level, problem, operands, device);
        if (!reasons.empty()) {
            std::printf("%-8s %s\n", std::string(level.name).c_str(), reasons.front().c_str());
            continue;
        }
        const Launch launch = prepare_launch(level, problem, operands, device);
        launch.run(gpu->stream());
        gpu->synchronize();
        to.download(out.view());
        const Operands host{.a = operand_of(in.view()), .c = operand_of(out.view())};
        const Verification found = transpose::verify_sparse(problem, host, {.threads = kThreads});
        const double ms = median_ms(*gpu, launch, cache);
        std::printf("%-8s %8.3f ms %8.1f GB/s  %s %s\n", std::string(level.name).c_str(), ms,
                    problem.bytes() / ms / 1e6, found.verdict.c_str(), found.note.c_str());
    }
    return 0;
}
