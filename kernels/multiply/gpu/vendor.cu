// multiply, GPU level `vendor`: cuBLAS, what a user would call instead of this ladder.
//
// The library is loaded when the level is asked for. Row-major C = A·B is column-major Cᵀ = Bᵀ·Aᵀ, so the
// operands change places and nothing is copied; for β ≠ 0, D is copied to C first, which is counted as part
// of the run. f32 uses the library's default mode, which converts nothing for the tensor cores, or what
// --compute asks for; the 16-bit floats add up in f32, also where the library splits a sum. Of integers it
// multiplies i8 into i32.
#include <algorithm>
#include <memory>

#include "kernels/common/copy_rows.cuh"
#include "kernels/common/cublas.hpp"
#include "kernels/multiply/gpu/arithmetic.cuh"
#include "kernels/multiply/gpu/levels.hpp"
#include "kernels/multiply/gpu/tiles.cuh"
#include "kernels/multiply/operation.hpp"

namespace gpumat::multiply::gpu {

Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device&) {
    Reasons reasons = result_reasons(problem);
    if (std::string why = cublas::why_missing(); !why.empty()) reasons.push_back(std::move(why));
    const std::int64_t all = problem.m | problem.n | problem.k | operands.a.pitch | operands.b.pitch;
    if (problem.type == Type::i8 && all % 4 != 0)
        reasons.emplace_back("cuBLAS multiplies i8 only where all extents are multiples of 4");
    return reasons;
}

#ifdef GPUMAT_HAS_CUBLAS_HEADER
namespace {

/// The library's types for an element and for its sums.
template <class T>
struct CublasType;
template <>
struct CublasType<std::int8_t> {
    static constexpr auto kElement = CUDA_R_8I;
    static constexpr auto kCompute = CUBLAS_COMPUTE_32I;
};
template <>
struct CublasType<__half> {
    static constexpr auto kElement = CUDA_R_16F;
    static constexpr auto kCompute = CUBLAS_COMPUTE_32F;
};
template <>
struct CublasType<__nv_bfloat16> {
    static constexpr auto kElement = CUDA_R_16BF;
    static constexpr auto kCompute = CUBLAS_COMPUTE_32F;
};
template <>
struct CublasType<float> {
    static constexpr auto kElement = CUDA_R_32F;
    static constexpr auto kCompute = CUBLAS_COMPUTE_32F;
};
template <>
struct CublasType<double> {
    static constexpr auto kElement = CUDA_R_64F;
    static constexpr auto kCompute = CUBLAS_COMPUTE_64F;
};
template <>
struct CublasType<Complex<float>> {
    static constexpr auto kElement = CUDA_C_32F;
    static constexpr auto kCompute = CUBLAS_COMPUTE_32F;
};
template <>
struct CublasType<Complex<double>> {
    static constexpr auto kElement = CUDA_C_64F;
    static constexpr auto kCompute = CUBLAS_COMPUTE_64F;
};

/// What the library computes in where less than the type's own precision is asked for.
template <class T>
cublasComputeType_t compute_type(Factors factors) {
    switch (factors) {
        case Factors::own:
            return CublasType<T>::kCompute;
        case Factors::tf32:
            return CUBLAS_COMPUTE_32F_FAST_TF32;
        case Factors::bf16:
            return CUBLAS_COMPUTE_32F_FAST_16BF;
        case Factors::f16:
            return CUBLAS_COMPUTE_32F_FAST_16F;
    }
    __builtin_unreachable();
}

template <class T>
Launch prepare(const Problem& p, const Operands& operands) {
    if (p.m == 0 || p.n == 0) return {.level = "vendor", .run = [](Stream) {}};
    const auto handle = std::make_shared<cublas::Handle>();
    cublas::check(
        GPUMAT_CUBLAS_FUNCTION(cublasSetMathMode)(
            handle->get(), static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                     CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
        "cublasSetMathMode");
    const auto gemm = GPUMAT_CUBLAS_FUNCTION(cublasGemmEx_64);
    const cublasComputeType_t compute = compute_type<T>(factors_of(p));
    using Scale = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, Sum<T>>;
    const auto alpha = scalar_as<Scale>(p.alpha);
    const auto beta = scalar_as<Scale>(p.beta);
    const bool reads_d = !p.beta.is_zero(p.type);
    // A leading dimension is at least 1, also of an operand without elements.
    const auto leading = [](const Operand& operand) { return std::max<std::int64_t>(operand.pitch, 1); };
    const std::int64_t lda = leading(operands.a);
    const std::int64_t ldb = leading(operands.b);
    const std::int64_t ldc = leading(operands.c);
    const std::int64_t ldd = leading(operands.d);
    return {.level = "vendor",
            .run =
                [=](Stream to) {
                    cudaStream_t const stream = cuda_stream(to);
                    if (reads_d) {
                        copy_rows(operands.c.data, ldc * sizeof(T), operands.d.data, ldd * sizeof(T),
                                  p.n * sizeof(T), p.m, stream);
                    }
                    constexpr auto kElement = CublasType<T>::kElement;
                    constexpr auto kResult = std::is_same_v<T, std::int8_t> ? CUDA_R_32I : kElement;
                    cublas::check(gemm(handle->on(stream), p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                                       p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, p.n, p.m, p.k, &alpha,
                                       operands.b.data, kElement, ldb, operands.a.data, kElement, lda, &beta,
                                       operands.c.data, kResult, ldc, compute, CUBLAS_GEMM_DEFAULT),
                                  "cublasGemmEx_64");
                },
            .details = {}};
}

}  // namespace

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device&) {
    if (problem.type == Type::i8) return prepare<std::int8_t>(problem, operands);
    return visit_device_type(problem.type, [&]<class T>(TypeTag<T>) -> Launch {
        if constexpr (std::is_integral_v<T>) {
            __builtin_unreachable();  // the table's type list refuses integers first
        } else {
            return prepare<T>(problem, operands);
        }
    });
}

#else

// vendor_unsupported has given the reason before.
Launch prepare_vendor(const Problem&, const Operands&, const Device&) {
    throw Error(ErrorCode::unsupported, cublas::why_missing());
}

#endif

}  // namespace gpumat::multiply::gpu
