#include "kernels/common/cublas.hpp"

#include "kernels/common/vendor_library.hpp"

namespace gpumat::cublas {

#ifndef GPUMAT_HAS_CUBLAS_HEADER

std::string why_missing() {
    return "this build of gpumat was made without the header of cuBLAS";
}

#else

namespace {

const VendorLibrary& library() {
    static const VendorLibrary kLibrary("cuBLAS", "GPUMAT_CUBLAS", {"libcublas.so.13", "libcublas.so.12"});
    return kLibrary;
}

}  // namespace

std::string why_missing() {
    return library().why_missing();
}

void* symbol(const char* name) {
    return library().symbol(name);
}

void check(cublasStatus_t status, const char* call) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const auto code = status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::memory : ErrorCode::device;
    throw Error(code, std::string(call) + ": " + GPUMAT_CUBLAS_FUNCTION(cublasGetStatusString)(status));
}

Handle::Handle() {
    check(GPUMAT_CUBLAS_FUNCTION(cublasCreate_v2)(&handle_), "cublasCreate");
}

cublasHandle_t Handle::on(cudaStream_t stream) {
    if (stream != stream_)
        check(GPUMAT_CUBLAS_FUNCTION(cublasSetStream_v2)(handle_, stream), "cublasSetStream");
    stream_ = stream;
    return handle_;
}

Handle::~Handle() {
    GPUMAT_CUBLAS_FUNCTION(cublasDestroy_v2)(handle_);
}

#endif

}  // namespace gpumat::cublas
