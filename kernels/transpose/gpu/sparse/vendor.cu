// transpose of sparse matrices, GPU level `vendor`: cusparseCsr2cscEx2, what one would call instead.
//
// The library has pointers and indices of 32 bits; the pointers are converted before and after, which is
// counted as part of the run. Values are moved as a type of their size. It refuses some 2^31 entries.
#include "kernels/common/cusparse.hpp"
#include "kernels/transpose/gpu/sparse/entries.cuh"
#include "kernels/transpose/gpu/sparse/levels.hpp"

namespace gpumat::transpose::gpu::sparse {

Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = in_place_unsupported(problem, operands, device);
    if (std::string why = cusparse::why_missing(); !why.empty()) reasons.push_back(std::move(why));
    constexpr std::int64_t kMostEntries = (std::int64_t{1} << 31) - 129;
    if (problem.entries.front() > kMostEntries)
        reasons.push_back("cuSPARSE takes up to " + std::to_string(kMostEntries) +
                          " entries, and there are " + std::to_string(problem.entries.front()));
    if (!has_short_indices({problem.m, problem.n})) reasons.emplace_back("cuSPARSE takes indices of 32 bits");
    return reasons;
}

#ifdef GPUMAT_HAS_CUSPARSE_HEADER
namespace {

constexpr int kThreads = 256;

template <class To, class From>
__global__ void convert_kernel(To* to, const From* from, std::int64_t count) {
    const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
    for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
        to[i] = static_cast<To>(from[i]);
}

template <class To, class From>
void convert(To* to, const From* from, std::int64_t count, cudaStream_t stream) {
    convert_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(to, from, count);
    GPUMAT_CUDA(cudaGetLastError());
}

/// A type of the library whose values have that size.
cudaDataType value_type(Type type) {
    switch (size_of(type)) {
        case 1:
            return CUDA_R_8I;
        case 2:
            return CUDA_R_16F;
        case 4:
            return CUDA_R_32F;
        case 8:
            return CUDA_R_64F;
        default:
            return CUDA_C_64F;
    }
}

}  // namespace

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.entries.front() == 0) return no_entries("vendor", operands);
    const auto handle = std::make_shared<cusparse::Handle>();
    const auto work = std::make_shared<Workspace>(*device.gpu);
    const auto rows = static_cast<int>(problem.m);
    const auto cols = static_cast<int>(problem.n);
    const auto entries = static_cast<int>(problem.entries.front());
    int* const in = work->take<int>(problem.m + 1);
    int* const out = work->take<int>(problem.n + 1);
    const auto* const columns = static_cast<const int*>(operands.a.columns);
    auto* const result = static_cast<int*>(operands.c.columns);
    const cudaDataType type = value_type(problem.type);
    std::size_t bytes = 0;
    cusparse::check(
        GPUMAT_CUSPARSE_FUNCTION(cusparseCsr2cscEx2_bufferSize)(
            handle->get(), rows, cols, entries, operands.a.data, in, columns, operands.c.data, out, result,
            type, CUSPARSE_ACTION_NUMERIC, CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG_DEFAULT, &bytes),
        "cusparseCsr2cscEx2_bufferSize");
    auto* const buffer = work->take<std::byte>(static_cast<std::int64_t>(bytes));
    const auto transpose = GPUMAT_CUSPARSE_FUNCTION(cusparseCsr2cscEx2);
    return {.level = "vendor",
            .run =
                [=, m = problem.m, n = problem.n](Stream to) {
                    cudaStream_t const stream = cuda_stream(to);
                    convert(in, operands.a.pointers, m + 1, stream);
                    cusparse::check(
                        transpose(handle->on(stream), rows, cols, entries, operands.a.data, in, columns,
                                  operands.c.data, out, result, type, CUSPARSE_ACTION_NUMERIC,
                                  CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_CSR2CSC_ALG_DEFAULT, buffer),
                        "cusparseCsr2cscEx2");
                    convert(operands.c.pointers, out, n + 1, stream);
                    (void)work;
                },
            .workspace_bytes = work->bytes()};
}

#else

Launch prepare_vendor(const Problem&, const Operands&, const Device&) {
    throw Error(ErrorCode::unsupported, cusparse::why_missing());
}

#endif

}  // namespace gpumat::transpose::gpu::sparse
