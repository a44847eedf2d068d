#include "kernels/common/vector_width.hpp"

#include <array>

namespace gpumat {

VectorWidth widest_vectors() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        return VectorWidth::avx512;
    }
    // Whatever has these two converts f16 as well.
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return VectorWidth::avx2;
#endif
    return VectorWidth::plain;
}

std::span<const Parameter> vector_parameters() {
    static constexpr auto kWidths = std::to_array<std::string_view>({"auto", "plain", "avx2", "avx512"});
    static constexpr std::array kParameters = {Parameter{
        .name = "vector",
        .help = "vector instructions: avx512, avx2 (with FMA), plain code, or auto for the widest that the "
                "processor has",
        .choices = kWidths,
        .fallback = "auto",
        .tunable = true}};
    return kParameters;
}

VectorWidth vector_width(const Problem& problem) {
    const std::string_view asked = parameter_choice(vector_parameters(), problem, "vector");
    if (asked == "avx512") return VectorWidth::avx512;
    if (asked == "avx2") return VectorWidth::avx2;
    return asked == "plain" ? VectorWidth::plain : widest_vectors();
}

Reasons vector_reasons(const Problem& problem, Reasons others) {
    const VectorWidth asked = vector_width(problem);
    if (asked > widest_vectors()) others.push_back("this processor has no " + std::string(name_of(asked)));
    return others;
}

std::string_view name_of(VectorWidth width) {
    if (width == VectorWidth::avx512) return "AVX-512";
    return width == VectorWidth::avx2 ? "AVX2" : "plain";
}

}  // namespace gpumat
