// transpose baseline `vendor`: C = 1·Aᵀ + 0·B through cuBLAS geam.
//
// cuBLAS is column-major: the row-major m×n input is its n×m matrix with leading dimension n, and its
// transpose, m×n with leading dimension m, is our n×m output. The result is arithmetic, 1·a, so a NaN need
// not keep its bits.
#include <cuda_runtime.h>

#include <array>
#include <memory>

#include "kernels/common/cublas.hpp"
#include "kernels/device/cuda_stream.cuh"
#include "kernels/transpose/gpu/baselines.hpp"

namespace gpumat::transpose::gpu {

Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device& device) {
    Reasons reasons = baseline_reasons(problem, operands, device);
    if (const std::string why = cublas::why_missing(); !why.empty()) reasons.push_back(why);
    return reasons;
}

#ifdef GPUMAT_HAS_CUBLAS_HEADER

namespace {

template <class T, class Geam>
Launch launch(const Problem& problem, const Operands& operands, Geam geam, T one, T zero) {
    const auto handle = std::make_shared<cublas::Handle>();
    const auto* a = operands.a.as<T>();
    auto* c = operands.c.as<T>();
    return {.level = "vendor",
            .run = [=, m = problem.m, n = problem.n, lda = operands.a.pitch,
                    ldc = operands.c.pitch](Stream stream) {
                if (m == 0 || n == 0) return;
                cublas::check(geam(handle->on(cuda_stream(stream)), CUBLAS_OP_T, CUBLAS_OP_N, m, n, &one, a,
                                   lda, &zero, c, ldc, c, ldc),
                              "cublasGeam");
            }};
}

}  // namespace

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device&) {
    switch (problem.type) {
        case Type::f32:
            return launch<float>(problem, operands, GPUMAT_CUBLAS_FUNCTION(cublasSgeam_64), 1.0F, 0.0F);
        case Type::f64:
            return launch<double>(problem, operands, GPUMAT_CUBLAS_FUNCTION(cublasDgeam_64), 1.0, 0.0);
        case Type::c64:
            return launch<cuComplex>(problem, operands, GPUMAT_CUBLAS_FUNCTION(cublasCgeam_64), {1.0F, 0.0F},
                                     {0.0F, 0.0F});
        default:  // c128, the last of the types that the level lists
            return launch<cuDoubleComplex>(problem, operands, GPUMAT_CUBLAS_FUNCTION(cublasZgeam_64),
                                           {1.0, 0.0}, {0.0, 0.0});
    }
}

#else

Launch prepare_vendor(const Problem&, const Operands&, const Device&) {
    throw Error(ErrorCode::unsupported, cublas::why_missing());
}

#endif

}  // namespace gpumat::transpose::gpu
