#include "kernels/common/cusparse.hpp"

#include "kernels/common/vendor_library.hpp"

namespace gpumat::cusparse {

#ifndef GPUMAT_HAS_CUSPARSE_HEADER

std::string why_missing() {
    return "this build of gpumat was made without the header of cuSPARSE";
}

#else

namespace {

const VendorLibrary& library() {
    static const VendorLibrary kLibrary("cuSPARSE", "GPUMAT_CUSPARSE", {"libcusparse.so.12"});
    return kLibrary;
}

}  // namespace

std::string why_missing() {
    return library().why_missing();
}

void* symbol(const char* name) {
    return library().symbol(name);
}

void check(cusparseStatus_t status, const char* call) {
    if (status == CUSPARSE_STATUS_SUCCESS) return;
    const bool full =
        status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES;
    throw Error(full ? ErrorCode::memory : ErrorCode::device,
                std::string(call) + ": " + GPUMAT_CUSPARSE_FUNCTION(cusparseGetErrorString)(status));
}

Handle::Handle() {
    check(GPUMAT_CUSPARSE_FUNCTION(cusparseCreate)(&handle_), "cusparseCreate");
}

cusparseHandle_t Handle::on(cudaStream_t stream) {
    check(GPUMAT_CUSPARSE_FUNCTION(cusparseSetStream)(handle_, stream), "cusparseSetStream");
    return handle_;
}

Handle::~Handle() {
    GPUMAT_CUSPARSE_FUNCTION(cusparseDestroy)(handle_);
}

#endif

}  // namespace gpumat::cusparse
