#include "kernels/common/vector_width.hpp"

#include <array>

namespace gpumat {

VectorWidth widest_vectors() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return VectorWidth::avx512;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return VectorWidth::avx2;
#endif
    return VectorWidth::plain;
}

std::span<const Parameter> vector_parameters() {
    static constexpr std::array kWidths = {0, 64, 256, 512};
    static constexpr std::array kParameters = {Parameter{
        .name = "vector",
        .help = "bits of the vector registers: 512 (AVX-512), 256 (AVX2), 64 (plain code), or 0 for "
                "the widest that the processor has",
        .choices = kWidths,
        .fallback = 0,
        .tunable = true}};
    return kParameters;
}

VectorWidth vector_width(const Problem& problem) {
    const int asked = parameter_value(vector_parameters(), problem, "vector");
    return asked == 0 ? widest_vectors() : static_cast<VectorWidth>(asked);
}

Reasons vector_reasons(const Problem& problem) {
    const VectorWidth asked = vector_width(problem);
    if (asked <= widest_vectors()) return {};
    return {"this processor has no " + std::string(name_of(asked))};
}

std::string_view name_of(VectorWidth width) {
    if (width == VectorWidth::avx512) return "AVX-512";
    return width == VectorWidth::avx2 ? "AVX2" : "plain";
}

}  // namespace gpumat
