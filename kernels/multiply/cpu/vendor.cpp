// multiply, CPU level `vendor`: OpenBLAS, loaded at run time, so that gpumat starts without it.
//
// What one would call instead of any level of ours: packed panels, kernels in assembly for each processor,
// and all threads. D is copied to C first, since BLAS takes both in one place.
//
// Constraints: f32, f64, c64 and c128; extents below 2³¹, for its integers have 32 bits.
//
// Source: the C interface to BLAS, and OpenBLAS's openblas_set_num_threads.
#include <dlfcn.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>

#include "core/forking.hpp"
#include "kernels/multiply/arithmetic.hpp"
#include "kernels/multiply/cpu/levels.hpp"

namespace gpumat::multiply::cpu {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";

// The values of CBLAS_ORDER and CBLAS_TRANSPOSE.
constexpr int kRowMajor = 101;
constexpr int kAsStored = 111;
constexpr int kTransposed = 112;

/// cblas_sgemm and cblas_dgemm take α and β as numbers, cblas_cgemm and cblas_zgemm as pointers.
template <class T>
struct Gemm {
    using Scalar = T;
    static Scalar pass(const T& value) { return value; }
};
template <class R>
struct Gemm<std::complex<R>> {
    using Scalar = const void*;
    static Scalar pass(const std::complex<R>& value) { return &value; }
};
template <class T>
using GemmFunction = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                              typename Gemm<T>::Scalar alpha, const void* a, int lda, const void* b, int ldb,
                              typename Gemm<T>::Scalar beta, void* c, int ldc);

/// OpenBLAS as loaded, or why it could not be. It stays loaded: its threads would not survive otherwise.
struct OpenBlas {
    void* sgemm = nullptr;
    void* dgemm = nullptr;
    void* cgemm = nullptr;
    void* zgemm = nullptr;
    void (*set_threads)(int) = nullptr;
    std::string version;  ///< "OpenBLAS 0.3.21"
    std::string core;     ///< the processor whose kernels it chose
    std::string why_not;
};

OpenBlas load() {
    OpenBlas blas;
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* reason = dlerror();
        blas.why_not = "OpenBLAS could not be loaded: " + std::string(reason == nullptr ? kLibrary : reason);
        return blas;
    }
    blas.sgemm = dlsym(library, "cblas_sgemm");
    blas.dgemm = dlsym(library, "cblas_dgemm");
    blas.cgemm = dlsym(library, "cblas_cgemm");
    blas.zgemm = dlsym(library, "cblas_zgemm");
    blas.set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
    if (blas.sgemm == nullptr || blas.dgemm == nullptr || blas.cgemm == nullptr || blas.zgemm == nullptr ||
        blas.set_threads == nullptr) {
        blas.why_not = std::string(kLibrary) + " lacks cblas_?gemm or openblas_set_num_threads";
    }
    if (auto* name = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_corename"))) {
        blas.core = name();
    }
    if (auto* config = reinterpret_cast<const char* (*)()>(dlsym(library, "openblas_get_config"))) {
        const std::string text = config();  // with how it was built behind it
        blas.version = text.substr(0, text.find(' ', text.find(' ') + 1));
    }
    return blas;
}

const OpenBlas& open_blas() {
    static const OpenBlas kBlas = load();
    return kBlas;
}

template <class T>
GemmFunction<T> gemm_of(const OpenBlas& blas) {
    void* found = nullptr;
    if constexpr (std::is_same_v<T, float>) found = blas.sgemm;
    if constexpr (std::is_same_v<T, double>) found = blas.dgemm;
    if constexpr (std::is_same_v<T, std::complex<float>>) found = blas.cgemm;
    if constexpr (std::is_same_v<T, std::complex<double>>) found = blas.zgemm;
    return reinterpret_cast<GemmFunction<T>>(found);
}

/// BLAS wants a leading dimension of at least 1, also of a matrix without columns.
int leading(const Operand& operand) {
    return static_cast<int>(std::max<std::int64_t>(1, operand.pitch));
}

template <class T>
void multiply(const Problem& p, const Operands& operands, int threads) {
    if (p.m == 0 || p.n == 0) return;
    const bool add = !p.beta.is_zero(p.type);
    if (add) {
        for (std::int64_t row = 0; row < p.m; ++row) {
            std::memcpy(operands.c.as<T>() + row * operands.c.pitch,
                        operands.d.as<T>() + row * operands.d.pitch,
                        static_cast<std::size_t>(p.n) * sizeof(T));
        }
    }
    const OpenBlas& blas = open_blas();
    const auto alpha = scalar_as<T>(p.alpha);
    const auto beta = scalar_as<T>(p.beta);
    const std::shared_lock no_fork(forking);
    blas.set_threads(threads);
    gemm_of<T>(blas)(kRowMajor, p.transpose_a ? kTransposed : kAsStored,
                     p.transpose_b ? kTransposed : kAsStored, static_cast<int>(p.m), static_cast<int>(p.n),
                     static_cast<int>(p.k), Gemm<T>::pass(alpha), operands.a.data, leading(operands.a),
                     operands.b.data, leading(operands.b), Gemm<T>::pass(beta), operands.c.data,
                     leading(operands.c));
}

}  // namespace

Reasons vendor_unsupported(const Problem& problem, const Operands& operands, const Device&) {
    Reasons reasons;
    if (const std::string& why_not = open_blas().why_not; !why_not.empty()) reasons.push_back(why_not);
    if (std::max({problem.m, problem.n, problem.k, operands.a.pitch, operands.b.pitch, operands.c.pitch}) >
        std::numeric_limits<int>::max()) {
        reasons.emplace_back("OpenBLAS counts rows and columns with 32 bits");
    }
    return reasons;
}

Launch prepare_vendor(const Problem& problem, const Operands& operands, const Device& device) {
    Launch launch{.level = "vendor",
                  .run = {},
                  .details = {{"library", kLibrary},
                              {"library version", open_blas().version},
                              {"kernels for", open_blas().core}}};
    visit_multiply_type(problem.type, [&]<class T>(TypeTag<T>) {
        if constexpr (std::is_floating_point_v<T> || kIsComplex<T>) {
            launch.run = [problem, operands, threads = device.threads](Stream) {
                multiply<T>(problem, operands, threads);
            };
        }
    });
    return launch;
}

}  // namespace gpumat::multiply::cpu
