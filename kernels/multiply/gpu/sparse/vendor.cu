// sparse × dense, GPU level `vendor`: cusparseSpMM, what one would call instead, by its algorithm for dense
// matrices of rows.
//
// The pointers are converted to the library's 32 bits before, which is counted as part of the run, as is the
// copy of D to C where there is one. In f16 and bf16 it rounds parts of long rows before it adds them, so it
// is not taken for these. It gives zeros, and says nothing, where B has more than 1,048,560 columns.
#include <cstring>
#include <memory>

#include "kernels/common/copy_rows.cuh"
#include "kernels/common/cusparse.hpp"
#include "kernels/multiply/gpu/sparse/entries.cuh"
#include "kernels/multiply/gpu/sparse/levels.hpp"

namespace gpumat::multiply::gpu::sparse {

Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = plain_unsupported(problem, operands, device);
    if (std::string why = cusparse::why_missing(); !why.empty()) reasons.push_back(std::move(why));
    constexpr std::int64_t kMostEntries = (std::int64_t{1} << 31) - 129;
    if (problem.entries.front() > kMostEntries)
        reasons.push_back("cuSPARSE takes up to " + std::to_string(kMostEntries) + " entries");
    constexpr std::int64_t kMostColumns = 1'048'560;
    if (problem.n > kMostColumns)
        reasons.push_back("cuSPARSE is wrong beyond " + std::to_string(kMostColumns) + " columns");
    if (!has_short_indices({problem.m, problem.k})) reasons.emplace_back("cuSPARSE takes indices of 32 bits");
    if (problem.transpose_b) reasons.emplace_back("it takes B as it is stored");
    return reasons;
}

#ifdef GPUMAT_HAS_CUSPARSE_HEADER
namespace {

constexpr int kThreads = 256;

__global__ void shorten_kernel(int* to, const std::int64_t* from, std::int64_t count) {
    const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
    for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride)
        to[i] = static_cast<int>(from[i]);
}

cudaDataType library_type(Type type) {
    switch (type) {
        case Type::f32:
            return CUDA_R_32F;
        case Type::f64:
            return CUDA_R_64F;
        case Type::c64:
            return CUDA_C_32F;
        default:  // c128, the last of the types that the level lists
            return CUDA_C_64F;
    }
}

/// The descriptions of the matrices, and what the call needs.
class Call {
  public:
    Call(const Problem& p, const Operands& operands, const Device& device)
        : p_(p),
          operands_(operands),
          type_(library_type(p.type)),
          pointers_(device.gpu->allocate(static_cast<std::size_t>(p.m + 1) * sizeof(int))) {
        visit_sparse(p, [&]<class T, class I>(TypeTag<T>, TypeTag<I>) {
            const Sum<T> alpha = scalar_as<Sum<T>>(p.alpha);
            const Sum<T> beta = scalar_as<Sum<T>>(p.beta);
            std::memcpy(alpha_, &alpha, sizeof alpha);
            std::memcpy(beta_, &beta, sizeof beta);
        });
        cusparse::check(GPUMAT_CUSPARSE_FUNCTION(cusparseCreateCsr)(
                            &a_, p.m, p.k, p.entries.front(), pointers_.data(),
                            const_cast<void*>(operands.a.columns), const_cast<void*>(operands.a.data),
                            CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, type_),
                        "cusparseCreateCsr");
        b_ = dense(p.k, p.n, operands.b.pitch, const_cast<void*>(operands.b.data));
        c_ = dense(p.m, p.n, operands.c.pitch, operands.c.data);
        shorten(nullptr);  // the library may look at the pointers
        std::size_t bytes = 0;
        cusparse::check(GPUMAT_CUSPARSE_FUNCTION(cusparseSpMM_bufferSize)(handle_.get(), kAsStored, kAsStored,
                                                                          alpha_, a_, b_, beta_, c_, type_,
                                                                          CUSPARSE_SPMM_CSR_ALG2, &bytes),
                        "cusparseSpMM_bufferSize");
        buffer_ = device.gpu->allocate(std::max<std::size_t>(bytes, 1));
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
        GPUMAT_CUSPARSE_FUNCTION(cusparseDestroySpMat)(a_);
        GPUMAT_CUSPARSE_FUNCTION(cusparseDestroyDnMat)(b_);
        GPUMAT_CUSPARSE_FUNCTION(cusparseDestroyDnMat)(c_);
    }

    [[nodiscard]] std::uint64_t bytes() const { return pointers_.bytes() + buffer_.bytes(); }

    void run(cudaStream_t stream) {
        shorten(stream);
        if (!p_.beta.is_zero(p_.type)) {
            const std::size_t size = size_of(p_.type);
            copy_rows(operands_.c.data, static_cast<std::size_t>(operands_.c.pitch) * size, operands_.d.data,
                      static_cast<std::size_t>(operands_.d.pitch) * size,
                      static_cast<std::size_t>(p_.n) * size, static_cast<std::size_t>(p_.m), stream);
        }
        cusparse::check(
            GPUMAT_CUSPARSE_FUNCTION(cusparseSpMM)(handle_.on(stream), kAsStored, kAsStored, alpha_, a_, b_,
                                                   beta_, c_, type_, CUSPARSE_SPMM_CSR_ALG2, buffer_.data()),
            "cusparseSpMM");
    }

  private:
    static constexpr auto kAsStored = CUSPARSE_OPERATION_NON_TRANSPOSE;

    void shorten(cudaStream_t stream) {
        shorten_kernel<<<blocks_of(p_.m + 1, kThreads), kThreads, 0, stream>>>(
            static_cast<int*>(pointers_.data()), operands_.a.pointers, p_.m + 1);
        GPUMAT_CUDA(cudaGetLastError());
    }

    [[nodiscard]] cusparseDnMatDescr_t dense(std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                                             void* data) const {
        cusparseDnMatDescr_t matrix = nullptr;
        cusparse::check(GPUMAT_CUSPARSE_FUNCTION(cusparseCreateDnMat)(&matrix, rows, cols, pitch, data, type_,
                                                                      CUSPARSE_ORDER_ROW),
                        "cusparseCreateDnMat");
        return matrix;
    }

    Problem p_;
    Operands operands_;
    cudaDataType type_;
    cusparse::Handle handle_;
    DeviceMemory pointers_;
    DeviceMemory buffer_;
    cusparseSpMatDescr_t a_ = nullptr;
    cusparseDnMatDescr_t b_ = nullptr;
    cusparseDnMatDescr_t c_ = nullptr;
    alignas(16) std::byte alpha_[16] = {};
    alignas(16) std::byte beta_[16] = {};
};

}  // namespace

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device) {
    if (problem.m == 0 || problem.n == 0) return {.level = "vendor", .run = [](Stream) {}};
    const auto call = std::make_shared<Call>(problem, operands, device);
    return {.level = "vendor",
            .run = [call](Stream stream) { call->run(cuda_stream(stream)); },
            .workspace_bytes = call->bytes()};
}

#else

Launch prepare_vendor(const Problem&, const Operands&, const Device&) {
    throw Error(ErrorCode::unsupported, cusparse::why_missing());
}

#endif

}  // namespace gpumat::multiply::gpu::sparse
