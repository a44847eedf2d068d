#include "kernels/common/cublas.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

namespace gpumat::cublas {

#ifndef GPUMAT_HAS_CUBLAS_HEADER

std::string why_missing() {
    return "this build of gpumat was made without the header of cuBLAS";
}

#else

namespace {

struct Library {
    void* address = nullptr;
    std::string why_missing;
};

Library open_library() {
    if (const char* file = std::getenv("GPUMAT_CUBLAS"); file != nullptr) {
        void* address = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (address != nullptr) return {address, {}};
        return {nullptr, std::string("the file that GPUMAT_CUBLAS names cannot be loaded: ") + dlerror()};
    }
    constexpr std::array kFiles = {"libcublas.so.13", "libcublas.so.12",
                                   "/usr/local/cuda/lib64/libcublas.so.13",
                                   "/usr/local/cuda/lib64/libcublas.so.12"};
    for (const char* file : kFiles) {
        if (void* address = dlopen(file, RTLD_NOW | RTLD_LOCAL); address != nullptr) return {address, {}};
    }
    return {nullptr,
            "cuBLAS is not installed (neither libcublas.so.13 nor libcublas.so.12 can be loaded; "
            "GPUMAT_CUBLAS can name the file)"};
}

/// Stays loaded to the end: cuBLAS does not survive being unloaded while the device is in use.
const Library& library() {
    static const Library kLibrary = open_library();
    return kLibrary;
}

}  // namespace

std::string why_missing() {
    return library().why_missing;
}

void* symbol(const char* name) {
    if (library().address == nullptr) throw Error(ErrorCode::unsupported, library().why_missing);
    void* address = dlsym(library().address, name);
    if (address == nullptr)
        throw Error(ErrorCode::unsupported, "the cuBLAS found here has no function " + std::string(name));
    return address;
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
