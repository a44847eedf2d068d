#pragma once

#include <string>

#include "core/error.hpp"

// cuBLAS is loaded at run time, so that one binary starts where it is missing. Its header gives the
// prototypes at build time; a toolkit without it builds a gpumat that says so.
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#define GPUMAT_HAS_CUBLAS_HEADER
#endif

namespace gpumat::cublas {

/// Why cuBLAS cannot be used here, empty where it can. The first call looks for the library: the file that
/// the environment variable GPUMAT_CUBLAS names, else libcublas.so.13 and .12 where the loader and the
/// toolkit's usual folder have them.
std::string why_missing();

#ifdef GPUMAT_HAS_CUBLAS_HEADER

/// The address of the library's function. Throws Error{unsupported} where the library or the function is
/// missing.
void* symbol(const char* name);

/// The library's function, typed by its prototype. `function` is the linker's name: cublasCreate_v2, not
/// cublasCreate, which the header makes a macro.
#define GPUMAT_CUBLAS_FUNCTION(function) \
    reinterpret_cast<decltype(&::function)>(::gpumat::cublas::symbol(#function))

/// Throws Error{device} (Error{memory} for a failed allocation) naming `call` where `status` is not success.
void check(cublasStatus_t status, const char* call);

/// A cuBLAS context, ended with the object. Creating one takes milliseconds and device memory.
class Handle {
  public:
    Handle();
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    [[nodiscard]] cublasHandle_t get() const { return handle_; }
    /// The context, for calls that work on that stream.
    [[nodiscard]] cublasHandle_t on(cudaStream_t stream);

  private:
    cublasHandle_t handle_ = nullptr;
    cudaStream_t stream_ = nullptr;
};

#endif

}  // namespace gpumat::cublas
