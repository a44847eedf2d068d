#pragma once

#include <string>

#include "core/error.hpp"

// cuSPARSE is loaded at run time, as cuBLAS is: kernels/common/cublas.hpp.
#if __has_include(<cusparse.h>)
#include <cusparse.h>
#define GPUMAT_HAS_CUSPARSE_HEADER
#endif

namespace gpumat::cusparse {

/// Why cuSPARSE cannot be used here, empty where it can. The environment variable GPUMAT_CUSPARSE can name
/// the file.
std::string why_missing();

#ifdef GPUMAT_HAS_CUSPARSE_HEADER

/// The address of the library's function. Throws Error{unsupported}.
void* symbol(const char* name);

/// The library's function, typed by its prototype.
#define GPUMAT_CUSPARSE_FUNCTION(function) \
    reinterpret_cast<decltype(&::function)>(::gpumat::cusparse::symbol(#function))

/// Throws Error{device} (Error{memory} for a failed allocation) naming `call` where `status` is not success.
void check(cusparseStatus_t status, const char* call);

/// A cuSPARSE context, ended with the object.
class Handle {
  public:
    Handle();
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    [[nodiscard]] cusparseHandle_t get() const { return handle_; }
    /// The context, for calls that work on that stream.
    [[nodiscard]] cusparseHandle_t on(cudaStream_t stream);

  private:
    cusparseHandle_t handle_ = nullptr;
};

#endif

}  // namespace gpumat::cusparse
